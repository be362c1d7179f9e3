"""An API server that knows one answer, and writes down the bearer token it was asked with. One that is in the file beside it,
of the same name with `.refused`, is refused."""

import http.server
import pathlib
import ssl
import sys

port, certificate, key, bearer = sys.argv[1:]


class Handler(http.server.BaseHTTPRequestHandler):
    def do_GET(self):
        token = self.headers.get("Authorization", "").removeprefix("Bearer ")
        pathlib.Path(bearer).write_text(token)
        refused = pathlib.Path(f"{bearer}.refused")
        self.send_response(401 if refused.exists() and refused.read_text() == token else 200)
        self.send_header("Content-Length", "2")
        self.end_headers()
        self.wfile.write(b"ok")

    def log_message(self, *_):
        pass


server = http.server.ThreadingHTTPServer(("127.0.0.1", int(port)), Handler)
context = ssl.SSLContext(ssl.PROTOCOL_TLS_SERVER)
context.load_cert_chain(certificate, key)
server.socket = context.wrap_socket(server.socket, server_side=True)
server.serve_forever()
