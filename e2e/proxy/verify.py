"""HTTPS server that verifies the SigV4 signature of each request with botocore.

    verify.py CERTIFICATE KEY PORT-FILE

AWS_SECRET is the secret key, AWS_TOKEN the session token. Writes its port to PORT-FILE. The response is
`good SIGNED-HEADERS [unsigned]`, or what is wrong with the signature.
"""

import datetime
import hashlib
import http.server
import os
import re
import ssl
import sys
import urllib.parse
from unittest import mock

from botocore.auth import SigV4Auth
from botocore.awsrequest import AWSRequest
from botocore.credentials import Credentials

SECRET, TOKEN = os.environ["AWS_SECRET"], os.environ["AWS_TOKEN"]


class Received(SigV4Auth):
    """botocore's signer, restricted to the headers that the client has signed."""

    def __init__(self, signed, *args):
        super().__init__(*args)
        self.signed = signed

    def headers_to_sign(self, request):
        headers = http.client.HTTPMessage()
        for name, value in sorted(self.received):
            if name in self.signed:
                headers[name] = value
        return headers

    def payload(self, request):
        return self.digest


class Handler(http.server.BaseHTTPRequestHandler):
    protocol_version = "HTTP/1.1"

    def answer(self):
        body = self.body()
        text = self.verdict(body) + "\n"
        self.send_response(200)
        self.send_header("Content-Type", "text/plain")
        self.send_header("Content-Length", str(len(text.encode())))
        self.end_headers()
        self.wfile.write(text.encode())

    def body(self):
        if self.headers.get("Transfer-Encoding") != "chunked":
            return self.rfile.read(int(self.headers.get("Content-Length", 0)))
        parts = []
        while size := int(self.rfile.readline(), 16):
            parts.append(self.rfile.read(size))
            self.rfile.readline()
        self.rfile.readline()
        return b"".join(parts)

    def verdict(self, body):
        given = self.headers.get("Authorization", "")
        found = re.fullmatch(
            r"AWS4-HMAC-SHA256 Credential=([^/]+)/(\d{8})/([^/]+)/([^/]+)/aws4_request, "
            r"SignedHeaders=([^,]+), Signature=([0-9a-f]{64})",
            given,
        )
        if not found:
            return "no signature"
        key, _, region, service, signed, signature = found.groups()
        if self.headers["X-Amz-Security-Token"] != TOKEN:
            return "another session token"
        digest = self.headers["X-Amz-Content-Sha256"]
        if digest not in ("UNSIGNED-PAYLOAD", hashlib.sha256(body).hexdigest()):
            return "another body"
        # The decoded query, which botocore encodes in its canonical form.
        path, _, query = self.path.partition("?")
        pairs = urllib.parse.parse_qsl(query, keep_blank_values=True)
        then = datetime.datetime.strptime(self.headers["X-Amz-Date"], "%Y%m%dT%H%M%SZ")
        request = AWSRequest(method=self.command, url=f"https://{self.headers['Host']}{path}")
        request.context["timestamp"] = self.headers["X-Amz-Date"]
        signer = Received(signed.split(";"), Credentials(key, SECRET, TOKEN), service, region)
        signer.digest = digest
        signer.received = [(name.lower(), value) for name, value in self.headers.items()]
        quote = lambda text: urllib.parse.quote(text, safe="-_.~")
        canonical = "&".join(f"{name}={value}" for name, value in sorted((quote(a), quote(b)) for a, b in pairs))
        with mock.patch("botocore.auth.get_current_datetime", return_value=then), mock.patch.object(
            signer, "canonical_query_string", return_value=canonical
        ):
            text = signer.canonical_request(request)
            theirs = signer.signature(signer.string_to_sign(request, text), request)
        if theirs != signature:
            print("canonical request:", text, flush=True)
            return f"another signature, over {signed}"
        return f"good {signed}" + (" unsigned" if digest == "UNSIGNED-PAYLOAD" else "")

    do_GET = do_POST = do_PUT = do_PATCH = do_DELETE = answer


server = http.server.ThreadingHTTPServer(("127.0.0.1", 0), Handler)
context = ssl.SSLContext(ssl.PROTOCOL_TLS_SERVER)
context.load_cert_chain(sys.argv[1], sys.argv[2])
server.socket = context.wrap_socket(server.socket, server_side=True)
with open(sys.argv[3] + ".new", "w") as file:
    file.write(str(server.server_address[1]))
os.rename(sys.argv[3] + ".new", sys.argv[3])
server.serve_forever()
