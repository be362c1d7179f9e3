"""OpenID Connect client without protection, to show that the attacks on logins work.

    naive.py ISSUER CLIENT-ID PORT

Listens on 127.0.0.1 only, redirects every client to the authorization URL and accepts the first callback. Prints `READY`, then
`LOGGED-IN USER` or, after an invalid callback, `ENDED`.
"""

import base64
import hashlib
import http.server
import json
import secrets
import sys
import urllib.parse
import urllib.request

issuer, client_id, port = sys.argv[1], sys.argv[2], int(sys.argv[3])
state, verifier = secrets.token_hex(8), secrets.token_urlsafe(48)
challenge = base64.urlsafe_b64encode(hashlib.sha256(verifier.encode()).digest()).rstrip(b"=").decode()
redirect = f"http://localhost:{port}"


class Handler(http.server.BaseHTTPRequestHandler):
    def log_message(self, *_):
        pass

    def do_GET(self):
        query = dict(urllib.parse.parse_qsl(urllib.parse.urlsplit(self.path).query))
        if not query:
            if self.path != "/":
                self.send_error(404)
                return
            self.send_response(302)
            self.send_header("Location", f"{issuer}/authorize?" + urllib.parse.urlencode({
                "response_type": "code", "client_id": client_id, "redirect_uri": redirect, "state": state,
                "scope": "openid", "code_challenge": challenge, "code_challenge_method": "S256",
            }))
            self.end_headers()
            return
        self.server.outcome = "ENDED"
        if query.get("state") == state and "code" in query:
            form = {"grant_type": "authorization_code", "client_id": client_id, "code": query["code"],
                    "redirect_uri": redirect, "code_verifier": verifier}
            with urllib.request.urlopen(f"{issuer}/token", urllib.parse.urlencode(form).encode()) as response:
                claims = json.load(response)["id_token"].split(".")[1]
            claims = json.loads(base64.urlsafe_b64decode(claims + "=" * (-len(claims) % 4)))
            self.server.outcome = f"LOGGED-IN {claims['sub']}"
        self.send_response(200)
        self.send_header("Content-Length", "0")
        self.end_headers()


server = http.server.HTTPServer(("127.0.0.1", port), Handler)
server.outcome = None
print("READY", flush=True)
while server.outcome is None:
    server.handle_request()
print(server.outcome, flush=True)
