"""Logs the user ada in at oidc-provider, in place of a browser: follows redirects, stores cookies, submits each form.

    login.py URL CA-FILE

URL is the authorization URL. Prints the status and the text of the last page. Exits with 1 if the last status is an error or
there are more than 30 steps.
"""

import http.client
import re
import ssl
import sys
import urllib.parse

url, ca_file = sys.argv[1:]
context = ssl.create_default_context(cafile=ca_file)
form = None
cookies_by_origin = {}

for _ in range(30):
    parts = urllib.parse.urlsplit(url)
    cookies = cookies_by_origin.setdefault((parts.scheme, parts.netloc), {})
    if parts.scheme == "https":
        connection = http.client.HTTPSConnection(parts.netloc, context=context, timeout=60)
    else:
        connection = http.client.HTTPConnection(parts.netloc, timeout=60)
    headers = {"Cookie": "; ".join(f"{name}={value}" for name, value in cookies.items())}
    if form is not None:
        headers["Content-Type"] = "application/x-www-form-urlencoded"
    target = (parts.path or "/") + (f"?{parts.query}" if parts.query else "")
    connection.request("GET" if form is None else "POST", target, body=form, headers=headers)
    response = connection.getresponse()
    page = response.read().decode()
    for cookie in response.headers.get_all("Set-Cookie") or []:
        name, _, value = cookie.split(";")[0].partition("=")
        if value:
            cookies[name] = value
        else:
            cookies.pop(name, None)
    location = response.headers["Location"]
    action = re.search(r'<form[^>]* action="([^"]+)"', page)
    if location is None and action is None:
        print(response.status, re.sub(r"<[^>]*>", " ", page).strip()[:200])
        sys.exit(0 if 200 <= response.status < 300 else 1)
    form = None
    if location is None:
        hidden = re.findall(r'<input type="hidden" name="([^"]+)" value="([^"]*)"', page)
        form = urllib.parse.urlencode({"login": "ada", "password": "any", **dict(hidden)})
    url = urllib.parse.urljoin(url, location or action.group(1))
sys.exit("more than 30 steps")
