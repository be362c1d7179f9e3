"""Fake Microsoft Entra ID for applications: OpenID configuration, signing keys and token endpoint of any tenant.

    entra.py PORT CERTIFICATE KEY LOG

Speaks TLS. The token endpoint issues a signed JWT with the client id (`appid`) and the audience of the request; the client secret
`wrong` is rejected. Appends each token request to LOG, as a JSON object with `path` and the form fields.
"""

import base64
import json
import sys
import time
import urllib.parse

from cryptography.hazmat.primitives import hashes
from cryptography.hazmat.primitives.asymmetric import padding, rsa

import json_server

port, certificate, key, log = sys.argv[1:]
base = f"https://127.0.0.1:{port}"
signing = rsa.generate_private_key(public_exponent=65537, key_size=2048)


def encoded(data):
    return base64.urlsafe_b64encode(data).rstrip(b"=").decode()


def encoded_json(value):
    return encoded(json.dumps(value).encode())


def token(tenant, form):
    claims = {
        "iss": f"{base}/{tenant}/v2.0",
        "aud": form.get("scope", "").split("/")[0],
        "appid": form.get("client_id"),
        "exp": int(time.time()) + 3600,
    }
    text = f"{encoded_json({'alg': 'RS256', 'typ': 'JWT', 'kid': 'one'})}.{encoded_json(claims)}"
    return f"{text}.{encoded(signing.sign(text.encode(), padding.PKCS1v15(), hashes.SHA256()))}"


def public_key():
    numbers = signing.public_key().public_numbers()
    number = lambda value: encoded(value.to_bytes((value.bit_length() + 7) // 8, "big"))
    return {"kty": "RSA", "use": "sig", "alg": "RS256", "kid": "one", "n": number(numbers.n), "e": number(numbers.e)}


class Handler(json_server.Handler):
    def do_GET(self):
        tenant = self.path.split("/")[1]
        if self.path == f"/{tenant}/discovery/v2.0/keys":
            return self.reply(200, {"keys": [public_key()]})
        if self.path.split("?")[0] != f"/{tenant}/v2.0/.well-known/openid-configuration":
            return self.reply(404, {"error": "unknown path"})
        self.reply(200, {
            "issuer": f"{base}/{tenant}/v2.0",
            "authorization_endpoint": f"{base}/{tenant}/oauth2/v2.0/authorize",
            "token_endpoint": f"{base}/{tenant}/oauth2/v2.0/token",
            "jwks_uri": f"{base}/{tenant}/discovery/v2.0/keys",
        })

    def do_POST(self):
        form = dict(urllib.parse.parse_qsl(self.body()))
        with open(log, "a") as file:
            file.write(json.dumps({"path": self.path, **form}) + "\n")
        if form.get("client_secret") == "wrong":
            return self.reply(401, {"error": "invalid_client", "error_description": "AADSTS7000215: Invalid client secret provided."})
        self.reply(200, {"token_type": "Bearer", "expires_in": 3600, "ext_expires_in": 3600, "access_token": token(self.path.split("/")[1], form)})


json_server.serve(port, Handler, certificate, key)
