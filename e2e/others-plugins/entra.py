"""Microsoft Entra ID as far as an application needs it to log in: one tenant, its description, and its token endpoint.

What it is asked goes into a file, one line of JSON each; what it gives is a JWT that says who asked for what.
"""

import base64
import http.server
import json
import ssl
import sys
import time
import urllib.parse

port, certificate, key, asked = sys.argv[1:]
base = f"https://127.0.0.1:{port}"


def part(value):
    return base64.urlsafe_b64encode(json.dumps(value).encode()).rstrip(b"=").decode()


def token(form):
    claims = {"aud": form.get("scope"), "appid": form.get("client_id"), "exp": int(time.time()) + 3600}
    return f"{part({'alg': 'none', 'typ': 'JWT'})}.{part(claims)}.{part(len(asked))}"


class Handler(http.server.BaseHTTPRequestHandler):
    protocol_version = "HTTP/1.1"

    def do_GET(self):
        tenant = self.path.split("/")[1]
        if self.path.split("?")[0] != f"/{tenant}/v2.0/.well-known/openid-configuration":
            return self.answer(404, {"error": "nobody knows this"})
        self.answer(200, {
            "issuer": f"{base}/{tenant}/v2.0",
            "authorization_endpoint": f"{base}/{tenant}/oauth2/v2.0/authorize",
            "token_endpoint": f"{base}/{tenant}/oauth2/v2.0/token",
        })

    def do_POST(self):
        length = int(self.headers["Content-Length"])
        form = dict(urllib.parse.parse_qsl(self.rfile.read(length).decode()))
        with open(asked, "a") as file:
            file.write(json.dumps({"path": self.path, **form}) + "\n")
        if form.get("client_secret") == "wrong":
            return self.answer(401, {"error": "invalid_client", "error_description": "AADSTS7000215: Invalid client secret provided."})
        self.answer(200, {"token_type": "Bearer", "expires_in": 3600, "ext_expires_in": 3600, "access_token": token(form)})

    def answer(self, status, body):
        body = json.dumps(body).encode()
        self.send_response(status)
        self.send_header("Content-Type", "application/json")
        self.send_header("Content-Length", str(len(body)))
        self.end_headers()
        self.wfile.write(body)

    def log_message(self, *_):
        pass


server = http.server.ThreadingHTTPServer(("127.0.0.1", int(port)), Handler)
context = ssl.SSLContext(ssl.PROTOCOL_TLS_SERVER)
context.load_cert_chain(certificate, key)
server.socket = context.wrap_socket(server.socket, server_side=True)
server.serve_forever()
