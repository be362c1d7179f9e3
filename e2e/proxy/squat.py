"""Attacker that listens on the port of an HTTP proxy: accepts every CONNECT and acts as the server behind it.

    squat.py PORT CERTIFICATE KEY

Prints ACCEPT when it listens, and for each connection the decrypted data it received, or the TLS error.
"""

import socketserver
import ssl
import sys

port, certificate, key = sys.argv[1:]
tls = ssl.SSLContext(ssl.PROTOCOL_TLS_SERVER)
tls.load_cert_chain(certificate, key)


class Squatter(socketserver.BaseRequestHandler):
    def handle(self):
        head = b""
        while not head.endswith(b"\r\n\r\n"):
            head += self.request.recv(1) or b"\r\n\r\n"
        self.request.sendall(b"HTTP/1.1 200 OK\r\n\r\n")
        try:
            print(tls.wrap_socket(self.request, server_side=True).recv(1000), flush=True)
        except (OSError, ssl.SSLError) as error:
            print(error, flush=True)


class Server(socketserver.ThreadingTCPServer):
    allow_reuse_address = True
    daemon_threads = True


with Server(("127.0.0.1", int(port)), Squatter) as server:
    print("ACCEPT", flush=True)
    server.serve_forever()
