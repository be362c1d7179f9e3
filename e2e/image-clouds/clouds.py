"""HTTP proxy that terminates TLS for every host name and replies in place of the clouds; requests for AWS go to moto.

    clouds.py DIR MOTO-PORT

Writes its port to DIR/port, its CA certificate to DIR/ca.crt, and for each request a line to DIR/requests: host, method and path.
Requests without CONNECT are for the metadata services of nodes.
"""

import base64
import datetime
import http.client
import http.server
import json
import pathlib
import ssl
import sys
import threading
import time
import urllib.parse

from cryptography import x509
from cryptography.hazmat.primitives import hashes, serialization
from cryptography.hazmat.primitives.asymmetric import ec

POD_TOKEN = "eyJhbGciOiJSUzI1NiJ9.eyJzdWIiOiJzeXN0ZW06c2VydmljZWFjY291bnQ6bnM6cG9kIn0.c2lnbmF0dXJl"

here, moto = pathlib.Path(sys.argv[1]), int(sys.argv[2])
lock = threading.Lock()


class Authority:
    """Certificate authority that issues one certificate per host."""

    def __init__(self):
        self.key = ec.generate_private_key(ec.SECP256R1())
        self.name = x509.Name([x509.NameAttribute(x509.NameOID.COMMON_NAME, "clouds")])
        self.certificate = self.sign(self.name, self.key, x509.BasicConstraints(True, None))
        (here / "ca.crt").write_bytes(self.certificate.public_bytes(serialization.Encoding.PEM))
        self.contexts = {}

    def sign(self, subject, key, *extensions):
        now = datetime.datetime.now(datetime.timezone.utc)
        builder = x509.CertificateBuilder(self.name, subject, key.public_key(), x509.random_serial_number())
        builder = builder.not_valid_before(now - datetime.timedelta(hours=1)).not_valid_after(now + datetime.timedelta(days=1))
        for extension in extensions:
            builder = builder.add_extension(extension, critical=isinstance(extension, x509.BasicConstraints))
        return builder.sign(self.key, hashes.SHA256())

    def context(self, host):
        with lock:
            if host not in self.contexts:
                key = ec.generate_private_key(ec.SECP256R1())
                name = x509.Name([x509.NameAttribute(x509.NameOID.COMMON_NAME, "host")])
                names = x509.SubjectAlternativeName([x509.DNSName(host)])
                certificate = self.sign(name, key, x509.BasicConstraints(False, None), names)
                path = here / f"{host}.pem"
                private = key.private_bytes(
                    serialization.Encoding.PEM, serialization.PrivateFormat.PKCS8, serialization.NoEncryption()
                )
                path.write_bytes(private + certificate.public_bytes(serialization.Encoding.PEM))
                context = ssl.SSLContext(ssl.PROTOCOL_TLS_SERVER)
                context.load_cert_chain(path)
                self.contexts[host] = context
            return self.contexts[host]


authority = Authority()


def jwt(**claims):
    part = lambda value: base64.urlsafe_b64encode(json.dumps(value).encode()).rstrip(b"=").decode()
    return f'{part({"alg": "none"})}.{part(claims)}.{part("signature")}'


# The access token that ACR registries accept.
ENTRA = jwt(aud="https://containerregistry.azure.net", exp=int(time.time()) + 3600)


class Clouds(http.server.BaseHTTPRequestHandler):
    protocol_version = "HTTP/1.1"
    host = "metadata"

    def log_message(self, *_):
        pass

    def do_CONNECT(self):
        host = self.path.rsplit(":", 1)[0]
        self.send_response(200)
        self.end_headers()
        try:
            self.connection = authority.context(host).wrap_socket(self.connection, server_side=True)
        except OSError:
            self.close_connection = True
            return
        self.host = host
        self.rfile, self.wfile = self.connection.makefile("rb"), self.connection.makefile("wb")
        self.close_connection = False

    def do_GET(self):
        body = self.rfile.read(int(self.headers.get("Content-Length") or 0))
        path = self.path.split("?")[0]
        with lock, open(here / "requests", "a") as log:
            print(self.host, self.command, path, file=log)
        self.respond(path, body, {k: v[0] for k, v in urllib.parse.parse_qs(body.decode(errors="replace")).items()})
        self.wfile.flush()

    do_POST = do_PUT = do_GET

    def respond(self, path, body, form):
        if self.host == "metadata":
            if path == "/computeMetadata/v1/instance/service-accounts/default/token" and self.headers["Metadata-Flavor"] == "Google":
                self.reply(200, {"access_token": "ya29.node", "expires_in": 3000, "token_type": "Bearer"})
            elif path == "/metadata/identity/oauth2/token" and self.headers["Metadata"] == "true":
                self.reply(200, {"access_token": ENTRA, "expires_in": "3600"})
            else:
                self.reply(404, {})
        elif self.host.startswith("api.ecr-public"):
            token = base64.b64encode(b"AWS:public-password").decode()
            data = {"authorizationToken": token, "expiresAt": time.time() + 43200}
            self.reply(200, {"authorizationData": data}) if self.headers["Authorization"] else self.reply(403, {})
        elif self.host == "login.microsoftonline.com":
            valid = form.get("client_assertion") == POD_TOKEN and path == "/pod-tenant/oauth2/v2.0/token"
            self.reply(200, {"access_token": ENTRA, "expires_in": 3600}) if valid else self.reply(400, {"error": "invalid_grant"})
        elif self.host == "sts.googleapis.com":
            if form.get("subject_token") == POD_TOKEN and form["audience"].startswith("identitynamespace:acme.svc.id.goog:"):
                self.reply(200, {"access_token": "ya29.pod", "expires_in": 3600})
            else:
                self.reply(400, {"error": "invalid_grant"})
        elif "azurecr" in self.host:
            self.registry(path, form)
        else:
            self.moto(body)

    def registry(self, path, form):
        """An ACR registry: challenge and token exchange. The challenge of a `hijacked…` host names another host."""
        realm = "evil.azurecr.io" if self.host.startswith("hijacked") else self.host
        if path == "/v2/":
            challenge = f'Bearer realm="https://{realm}/oauth2/token",service="{self.host}"'
            self.reply(401, {"errors": [{"code": "UNAUTHORIZED"}]}, {"Www-Authenticate": challenge})
        elif path == "/oauth2/exchange" and form["access_token"] == ENTRA and form["service"] == self.host:
            tenant = form.get("tenant", "")
            self.reply(200, {"refresh_token": jwt(tenant=tenant, iss=self.host, exp=int(time.time()) + 3 * 3600)})
        else:
            self.reply(401, {"errors": [{"code": "UNAUTHORIZED"}]})

    def moto(self, body):
        connection = http.client.HTTPConnection("127.0.0.1", moto)
        connection.request(self.command, self.path, body, dict(self.headers))
        response = connection.getresponse()
        self.reply(response.status, response.read(), {"Content-Type": response.headers["Content-Type"] or "text/plain"})

    def reply(self, status, body, headers=None):
        body = body if isinstance(body, bytes) else json.dumps(body).encode()
        self.send_response(status)
        for name, value in ({"Content-Type": "application/json"} | (headers or {})).items():
            self.send_header(name, value)
        self.send_header("Content-Length", str(len(body)))
        self.end_headers()
        self.wfile.write(body)


server = http.server.ThreadingHTTPServer(("127.0.0.1", 0), Clouds)
server.daemon_threads = True
(here / "requests").touch()
(here / "port.new").write_text(str(server.server_port))
(here / "port.new").rename(here / "port")
server.serve_forever()
