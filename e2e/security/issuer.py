"""OpenID Connect issuer on 127.0.0.1 with users that are already logged in, by a session cookie.

    issuer.py PORT KEY

KEY is an RSA key in PEM. `/session?user=NAME` sets the cookie. Any path before the well-known suffix is a separate issuer, like a
tenant. Prints a JSON object for each authorization and each token.
"""

import base64
import hashlib
import http.server
import json
import secrets
import subprocess
import sys
import threading
import time
import urllib.parse

port, key = int(sys.argv[1]), sys.argv[2]
base = f"http://127.0.0.1:{port}"
modulus = subprocess.run(["openssl", "rsa", "-in", key, "-noout", "-modulus"], capture_output=True, text=True, check=True)
modulus = bytes.fromhex(modulus.stdout.strip().split("=")[1])
codes, refresh_tokens, devices = {}, {}, {}
lock = threading.Lock()


def b64(data):
    return base64.urlsafe_b64encode(data).rstrip(b"=").decode()


def log(**event):
    with lock:
        print(json.dumps(event), flush=True)


def jwt(claims):
    head = b64(json.dumps({"alg": "RS256", "kid": "k", "typ": "JWT"}).encode())
    text = f"{head}.{b64(json.dumps(claims).encode())}"
    signed = subprocess.run(["openssl", "dgst", "-sha256", "-sign", key], input=text.encode(), capture_output=True, check=True)
    return f"{text}.{b64(signed.stdout)}"


class Handler(http.server.BaseHTTPRequestHandler):
    protocol_version = "HTTP/1.1"

    def log_message(self, *_):
        pass

    def reply(self, status, body=b"", **headers):
        self.send_response(status)
        for name, value in headers.items():
            self.send_header(name.replace("_", "-"), value)
        self.send_header("Content-Length", str(len(body)))
        self.end_headers()
        self.wfile.write(body)

    def json(self, status, value):
        self.reply(status, json.dumps(value).encode(), Content_Type="application/json")

    def page(self, text, **headers):
        self.reply(200, f"<!doctype html><title>issuer</title><p>{text}".encode(), Content_Type="text/html", **headers)

    def user(self):
        cookies = urllib.parse.parse_qs(self.headers.get("Cookie", "").replace("; ", "&"))
        return cookies.get("user", [None])[0]

    def do_GET(self):
        url = urllib.parse.urlsplit(self.path)
        query = {name: values[0] for name, values in urllib.parse.parse_qs(url.query).items()}
        well_known = "/.well-known/openid-configuration"
        if url.path.endswith(well_known):
            issuer = base + url.path.removesuffix(well_known)
            self.json(200, {
                "issuer": issuer, "authorization_endpoint": f"{issuer}/authorize", "token_endpoint": f"{issuer}/token",
                "jwks_uri": f"{base}/jwks", "device_authorization_endpoint": f"{issuer}/device_authorization",
                "revocation_endpoint": f"{base}/revoke", "response_types_supported": ["code"],
                "subject_types_supported": ["public"], "id_token_signing_alg_values_supported": ["RS256"],
                "code_challenge_methods_supported": ["S256"], "token_endpoint_auth_methods_supported": ["none"],
            })
        elif url.path == "/jwks":
            keys = [{"kty": "RSA", "alg": "RS256", "use": "sig", "kid": "k", "n": b64(modulus), "e": "AQAB"}]
            self.json(200, {"keys": keys})
        elif url.path == "/session":
            self.page(f"logged in as {query['user']}", Set_Cookie=f"user={query['user']}; Path=/; Max-Age=3600")
        elif url.path.endswith("/authorize"):
            user = self.user()
            log(event="authorize", user=user, redirect=query["redirect_uri"], state=query.get("state"))
            if user is None:
                return self.page("please log in")
            code = secrets.token_hex(16)
            issuer = base + url.path.removesuffix("/authorize")
            codes[code] = (user, issuer, query)
            back = {"code": code} | ({"state": query["state"]} if "state" in query else {})
            self.reply(302, Location=f"{query['redirect_uri']}?{urllib.parse.urlencode(back)}")
        elif url.path == "/activate":
            user, code = self.user(), query.get("user_code")
            log(event="activate", user=user, user_code=code)
            for device in devices.values():
                if device["user_code"] == code and user:
                    device["user"] = user
            self.page(f"thank you, {user}")
        else:
            self.reply(404)

    def do_POST(self):
        body = self.rfile.read(int(self.headers.get("Content-Length", 0))).decode()
        form = {name: values[0] for name, values in urllib.parse.parse_qs(body).items()}
        path = urllib.parse.urlsplit(self.path).path
        if path == "/revoke":
            refresh_tokens.pop(form.get("token"), None)
            log(event="revoke")
            self.json(200, {})
        elif path.endswith("/device_authorization"):
            code = secrets.token_hex(8)
            user_code = f"WXYZ-{secrets.token_hex(3).upper()}"
            issuer = base + path.removesuffix("/device_authorization")
            devices[code] = {"user_code": user_code, "user": None, "issuer": issuer, "client_id": form["client_id"]}
            log(event="device", user_code=user_code)
            self.json(200, {
                "device_code": code, "user_code": user_code, "expires_in": 60, "interval": 1,
                "verification_uri": f"{base}/activate",
                "verification_uri_complete": f"{base}/activate?user_code={user_code}",
            })
        elif path.endswith("/token"):
            self.token(form)
        else:
            self.reply(404)

    def token(self, form):
        grant, nonce, problem = form["grant_type"], None, "invalid_grant"
        user = issuer = None
        if grant == "authorization_code" and form.get("code") in codes:
            user, issuer, query = codes.pop(form["code"])
            challenge = b64(hashlib.sha256(form.get("code_verifier", "").encode()).digest())
            nonce = query.get("nonce")
            if query.get("code_challenge", challenge) != challenge or query["redirect_uri"] != form.get("redirect_uri"):
                user = None
        elif grant == "refresh_token" and form.get("refresh_token") in refresh_tokens:
            user, issuer = refresh_tokens[form["refresh_token"]]
        elif grant.endswith("device_code") and form.get("device_code") in devices:
            device = devices[form["device_code"]]
            user, issuer, problem = device["user"], device["issuer"], "authorization_pending"
        if user is None:
            return self.json(400, {"error": problem})
        now = int(time.time())
        claims = {
            "iss": issuer, "aud": form.get("client_id"), "sub": user, "email": f"{user}@example.test", "iat": now, "nbf": now,
            "exp": now + 3600, "jti": secrets.token_hex(8),
        }
        if nonce:
            claims["nonce"] = nonce
        token = jwt(claims)
        refresh = f"refresh-of-{user}-{secrets.token_hex(8)}"
        refresh_tokens[refresh] = (user, issuer)
        log(event="token", grant=grant, user=user)
        self.json(200, {
            "token_type": "Bearer", "expires_in": 3600, "access_token": token, "id_token": token, "refresh_token": refresh,
            "scope": "openid",
        })


class Server(http.server.ThreadingHTTPServer):
    daemon_threads = True
    request_queue_size = 64


server = Server(("127.0.0.1", port), Handler)
log(event="ready")
server.serve_forever()
