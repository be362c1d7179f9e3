"""HTTP server on 127.0.0.1 that replies in JSON, for the Python peers of the suites.

Import it with the folder of this file in PYTHONPATH, which `e2e/lib.sh` sets. Subclass `Handler`, define `do_GET` and `do_POST`, call `serve`.
"""

import http.server
import json
import ssl
import urllib.parse


class Handler(http.server.BaseHTTPRequestHandler):
    """Request handler that writes nothing to stderr and keeps connections open."""

    protocol_version = "HTTP/1.1"

    def body(self):
        """Return the request body as text; empty if there is none."""
        return self.rfile.read(int(self.headers.get("Content-Length") or 0)).decode()

    def url(self):
        """Return the request path without the query, and the query as a dict (the last value of each name)."""
        parts = urllib.parse.urlsplit(self.path)
        return parts.path, dict(urllib.parse.parse_qsl(parts.query, keep_blank_values=True))

    def reply(self, status, body, headers=None):
        """Send a response. A `str` body is sent as it is, anything else as JSON; `headers` is a dict of further headers."""
        body = (body if isinstance(body, str) else json.dumps(body)).encode()
        self.send_response(status)
        for name, value in {"Content-Type": "application/json", **(headers or {})}.items():
            self.send_header(name, value)
        self.send_header("Content-Length", str(len(body)))
        self.end_headers()
        self.wfile.write(body)

    def log_message(self, *_):
        pass


def serve(port, handler, certificate=None, key=None):
    """Serve requests with `handler` until the process ends. Prints `ready` once the port is open.

    With `certificate` and `key` (paths of PEM files) the server speaks TLS.
    """
    server = http.server.ThreadingHTTPServer(("127.0.0.1", int(port)), handler)
    if certificate:
        context = ssl.SSLContext(ssl.PROTOCOL_TLS_SERVER)
        context.load_cert_chain(certificate, key)
        server.socket = context.wrap_socket(server.socket, server_side=True)
    print("ready", flush=True)
    server.serve_forever()
