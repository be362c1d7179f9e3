"""Fake Google endpoints that issue access tokens: metadata server, OAuth 2.0 token endpoint, STS and IAM credentials.

    google_peer.py PORT CERTIFICATE LOG

CERTIFICATE belongs to the key of the service account: the token endpoint verifies the signature of its assertion. Prints
`ready` when it serves. Appends a JSON object to LOG for each request: {"agent", "path", "fields"}, with the fields of the
form, of the JSON body or of the query.
"""

import base64
import datetime
import itertools
import json
import re
import sys
import threading
import time
import urllib.parse

from cryptography import x509
from cryptography.exceptions import InvalidSignature
from cryptography.hazmat.primitives import hashes
from cryptography.hazmat.primitives.asymmetric import padding

import json_server

port, certificate, log = sys.argv[1:]
with open(certificate, "rb") as file:
    public_key = x509.load_pem_x509_certificate(file.read()).public_key()
base = f"http://127.0.0.1:{port}"
numbers = itertools.count(1)
lock = threading.Lock()
SUBJECT_TOKEN = "eyJhbGciOiJSUzI1NiJ9.eyJzdWIiOiJzdWJqZWN0In0.c2lnbmF0dXJl"


def decode(text):
    return base64.urlsafe_b64decode(text + "=" * (-len(text) % 4))


def assertion_issuer(assertion):
    """Return the issuer of a JWT assertion (RFC 7523), or None if its signature or its claims are invalid."""
    try:
        header, claims, signature = assertion.split(".")
        public_key.verify(decode(signature), f"{header}.{claims}".encode(), padding.PKCS1v15(), hashes.SHA256())
    except (ValueError, InvalidSignature):
        return None
    claims = json.loads(decode(claims))
    now = time.time()
    # google-auth for Python signs for the default token endpoint, whatever token_uri of the key file is.
    audience = claims.get("aud") in (f"{base}/token", "https://oauth2.googleapis.com/token")
    issued, expires = claims.get("iat", float("inf")), claims.get("exp", 0)
    times = issued <= now + 5 and expires > now and expires - issued <= 3600
    return claims.get("iss") if audience and times else None


def token_exchange(fields):
    """Return the name for tokens of workload identity federation, or None if the request is not the expected one."""
    expected = fields.get("subject_token") == SUBJECT_TOKEN and fields.get("audience") == "//iam/pool"
    return "federated" if expected else None


# Each returns the name that the access token contains, or None to refuse the request.
GRANTS = {
    "urn:ietf:params:oauth:grant-type:jwt-bearer": lambda fields: assertion_issuer(fields.get("assertion", "")),
    "refresh_token": lambda fields: {"refresh-of-ada": "ada", "refresh-of-bob": "bob"}.get(fields.get("refresh_token")),
    "urn:ietf:params:oauth:grant-type:token-exchange": token_exchange,
}


def token(name):
    return {
        "access_token": f"ya29.{name}.{next(numbers)}",
        "expires_in": 3599,
        "token_type": "Bearer",
        "issued_token_type": "urn:ietf:params:oauth:token-type:access_token",
    }


class Handler(json_server.Handler):
    def reply(self, status, body):
        super().reply(status, body, {"Metadata-Flavor": "Google"})

    def do_GET(self):
        body = self.body()
        path, fields = self.url()
        if "json" in self.headers.get("Content-Type", ""):
            fields = json.loads(body)
        elif body:
            fields = dict(urllib.parse.parse_qsl(body, keep_blank_values=True))
        with lock, open(log, "a") as file:
            print(json.dumps({"agent": self.headers.get("User-Agent", ""), "path": path, "fields": fields}), file=file)
        if path.startswith("/computeMetadata/"):
            self.metadata(path)
        elif path in ("/token", "/sts"):
            name = GRANTS.get(fields.get("grant_type"), lambda _: None)(fields)
            self.reply(200, token(name)) if name else self.reply(400, {"error": "invalid_grant"})
        elif path.endswith(":generateAccessToken"):
            self.impersonate()
        else:
            self.reply(404, {})

    do_POST = do_GET

    def metadata(self, path):
        if self.headers.get("Metadata-Flavor") != "Google":
            self.reply(403, "Forbidden")
        elif path.endswith("/token"):
            self.reply(200, token("machine"))
        else:
            self.reply(200 if path.endswith("/email") else 404, "robot@p.iam.gserviceaccount.com")

    def impersonate(self):
        caller = re.match(r"Bearer ya29\.([^.]*)", self.headers.get("Authorization", ""))
        if not caller or not caller.group(1):
            return self.reply(403, {"error": {"status": "PERMISSION_DENIED"}})
        expiry = datetime.datetime.now(datetime.timezone.utc) + datetime.timedelta(hours=1)
        self.reply(200, {
            "accessToken": f"ya29.robot-by-{caller.group(1)}.{next(numbers)}",
            "expireTime": expiry.strftime("%Y-%m-%dT%H:%M:%S.000Z"),
        })


json_server.serve(port, Handler)
