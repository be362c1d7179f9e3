"""An HTTPS server that wants a client certificate in a whole handshake for each request, and answers with its name.

mutual.py CERTIFICATE KEY CLIENT_CA PORT_FILE [TLS_VERSION]

Its port is the one in the file, if there is one. `/401` is refused, `/count` tells how many were, and `/hold` gets no
answer; HOLD_FILE is made when somebody waits for it.
"""

import http.server
import os
import ssl
import sys

refused = 0


class Handler(http.server.BaseHTTPRequestHandler):
    def do_GET(self):
        global refused
        subject = dict(pair for part in self.connection.getpeercert()["subject"] for pair in part)
        code, text = 200, f"{subject['commonName']} {self.connection.version()}"
        if self.path == "/401":
            refused += 1
            code, text = 401, "no"
        elif self.path == "/count":
            text = str(refused)
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
# Nothing that a session could be taken up again with.
context.num_tickets = 0
context.options |= ssl.OP_NO_TICKET
wanted = int(open(port).read()) if os.path.exists(port) else 0
server = http.server.ThreadingHTTPServer(("127.0.0.1", wanted), Handler)
server.socket = context.wrap_socket(server.socket, server_side=True)
with open(port + ".new", "w") as file:
    file.write(str(server.server_address[1]))
os.rename(port + ".new", port)
server.serve_forever()
