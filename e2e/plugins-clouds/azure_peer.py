"""Fake Azure and CI endpoints beside Entra ID: ID tokens of a CI job, the instance metadata service (IMDS), the Arc agent.

    azure_peer.py PORT SERVER-ID CI-KEY

SERVER-ID is the application for which IMDS issues tokens. CI-KEY is the private key (PEM, RSA) that signs the ID tokens of
the CI; entra.mjs trusts its public key. Prints `ready` when it serves.
"""

import base64
import json
import sys
import time

from cryptography.hazmat.primitives import hashes, serialization
from cryptography.hazmat.primitives.asymmetric import padding

import json_server

port, server_id, key_file = sys.argv[1:]
with open(key_file, "rb") as file:
    ci_key = serialization.load_pem_private_key(file.read(), None)


def encode(data):
    return base64.urlsafe_b64encode(data).rstrip(b"=").decode()


def jwt(claims):
    signed = ".".join(encode(json.dumps(part).encode()) for part in ({"alg": "RS256", "typ": "JWT"}, claims))
    return f"{signed}.{encode(ci_key.sign(signed.encode(), padding.PKCS1v15(), hashes.SHA256()))}"


def token(access_token, **members):
    """Return a token response of IMDS and the Arc agent. Its numbers are strings, as in Azure."""
    expires_on = str(int(time.time()) + 86399)
    return {"access_token": access_token, "expires_in": "86399", "expires_on": expires_on, "token_type": "Bearer", **members}


class Handler(json_server.Handler):
    def do_GET(self):
        path, query = self.url()
        if path == "/ci/token":
            self.ci_token(query)
        elif path == "/metadata/identity/oauth2/token":
            self.metadata(query)
        elif path == "/arc":
            self.arc(query)
        else:
            self.reply(400, {"error": "invalid_request"})

    def ci_token(self, query):
        if self.headers.get("Authorization") != "bearer opens-the-ci":
            return self.reply(401, {})
        now = int(time.time())
        claims = {"iss": f"http://127.0.0.1:{port}/ci", "sub": "repo:acme/app", "iat": now, "exp": now + 300}
        self.reply(200, {"value": jwt({**claims, "aud": query.get("audience")})})

    def metadata(self, query):
        if self.headers.get("Metadata") != "true" or query.get("resource") != server_id:
            return self.reply(400, {"error": "invalid_request"})
        self.reply(200, token(f"of-the-machine-{query.get('client_id', 'itself')}", resource=server_id))

    def arc(self, query):
        if self.headers.get("Metadata") != "true" or query.get("api-version") != "2020-06-01":
            return self.reply(400, {})
        # The agent stores this key in a file that only its group can read.
        if self.headers.get("Authorization") != "Basic key-of-the-agent":
            challenge = "Basic realm=/var/opt/azcmagent/tokens/e2e.key"
            return self.reply(401, {}, {"WWW-Authenticate": challenge})
        self.reply(200, token(f"of-arc-for-{query.get('resource')}"))


json_server.serve(port, Handler)
