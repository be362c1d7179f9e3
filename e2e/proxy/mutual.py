"""HTTPS server that requires a client certificate in a full handshake for each request.

    mutual.py CERTIFICATE KEY CLIENT-CA PORT-FILE [TLS-VERSION]

The response is the common name of the client certificate and the TLS version. Uses the port in PORT-FILE if the file exists,
otherwise writes a free port to it. `/401` replies with 401, `/count` with the number of those replies. `/hold` never replies and
creates HOLD_FILE when a request arrives. TLS-VERSION, for example TLSv1_2, is the highest version.
"""

import http.server
import os
import ssl
import sys

rejected = 0


class Handler(http.server.BaseHTTPRequestHandler):
    def do_GET(self):
        global rejected
        subject = dict(pair for part in self.connection.getpeercert()["subject"] for pair in part)
        code, text = 200, f"{subject['commonName']} {self.connection.version()}"
        if self.path == "/401":
            rejected += 1
            code, text = 401, "no"
        elif self.path == "/count":
            text = str(rejected)
        elif self.path == "/hold":
            open(os.environ["HOLD_FILE"], "w").close()
            self.rfile.read(1)
            return
        self.send_response(code)
        self.send_header("Content-Type", "text/plain")
        self.send_header("Content-Length", str(len(text) + 1))
        self.end_headers()
        self.wfile.write(text.encode() + b"\n")


certificate, key, clients, port, *version = sys.argv[1:]
context = ssl.SSLContext(ssl.PROTOCOL_TLS_SERVER)
context.load_cert_chain(certificate, key)
context.load_verify_locations(clients)
context.verify_mode = ssl.CERT_REQUIRED
if version:
    context.maximum_version = ssl.TLSVersion[version[0]]
# Without session tickets no session can be resumed.
context.num_tickets = 0
context.options |= ssl.OP_NO_TICKET
wanted = int(open(port).read()) if os.path.exists(port) else 0
server = http.server.ThreadingHTTPServer(("127.0.0.1", wanted), Handler)
server.socket = context.wrap_socket(server.socket, server_side=True)
with open(port + ".new", "w") as file:
    file.write(str(server.server_address[1]))
os.rename(port + ".new", port)
server.serve_forever()
