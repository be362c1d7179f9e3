"""An HTTPS server that wants a client certificate in a whole handshake for each request, and answers with its name.

mutual.py CERTIFICATE KEY CLIENT_CA PORT_FILE
"""

import http.server
import os
import ssl
import sys


class Handler(http.server.BaseHTTPRequestHandler):
    def do_GET(self):
        subject = dict(pair for part in self.connection.getpeercert()["subject"] for pair in part)
        text = subject["commonName"] + "\n"
        self.send_response(200)
        self.send_header("Content-Type", "text/plain")
        self.send_header("Content-Length", str(len(text)))
        self.end_headers()
        self.wfile.write(text.encode())


certificate, key, clients, port = sys.argv[1:]
context = ssl.SSLContext(ssl.PROTOCOL_TLS_SERVER)
context.load_cert_chain(certificate, key)
context.load_verify_locations(clients)
context.verify_mode = ssl.CERT_REQUIRED
# Nothing that a session could be taken up again with.
context.num_tickets = 0
context.options |= ssl.OP_NO_TICKET
server = http.server.ThreadingHTTPServer(("127.0.0.1", 0), Handler)
server.socket = context.wrap_socket(server.socket, server_side=True)
with open(port + ".new", "w") as file:
    file.write(str(server.server_address[1]))
os.rename(port + ".new", port)
server.serve_forever()
