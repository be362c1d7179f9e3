"""Hostile server that logs all requests: an API server, a gateway, STS or a web site.

    server.py ADDRESS LOG REPLIES [CERTIFICATE KEY]

Prints `ready PORT`. Appends each request to LOG as a JSON object. TRACE and TRACK return the request, as some servers do. REPLIES is
a JSON file, read for each request, that maps a path to `status`, `body` and `headers`. AssumeRole of STS returns an access key that
contains the access key of the caller.
"""

import http.server
import json
import re
import ssl
import sys
import threading
import urllib.parse

address, log_file, replies_file, *tls = sys.argv[1:]
lock = threading.Lock()
STS = """<{0}Response><{0}Result><Credentials><AccessKeyId>{1}</AccessKeyId><SecretAccessKey>s</SecretAccessKey><SessionToken>t
</SessionToken><Expiration>2099-01-01T00:00:00Z</Expiration></Credentials><AssumedRoleUser><Arn>arn:aws:sts::1:assumed-role/r/s
</Arn></AssumedRoleUser></{0}Result></{0}Response>""".replace("\n", "")


class Handler(http.server.BaseHTTPRequestHandler):
    protocol_version = "HTTP/1.1"

    def log_message(self, *_):
        pass

    def handle_any(self):
        length = int(self.headers.get("Content-Length") or 0)
        if self.headers.get("Transfer-Encoding"):
            body = b""
            while size := int(self.rfile.readline().split(b";")[0], 16):
                body += self.rfile.read(size)
                self.rfile.readline()
            self.rfile.readline()
        else:
            body = self.rfile.read(length)
        body = body.decode("utf-8", "replace")
        with lock, open(log_file, "a") as log:
            log.write(json.dumps({"method": self.command, "path": self.path, "headers": self.headers.items(), "body": body}) + "\n")
        status, kind, reply, headers = 200, "application/json", '{"kind":"Status","apiVersion":"v1","status":"Success"}', {}
        path = urllib.parse.urlsplit(self.path).path
        with open(replies_file) as file:
            known = json.load(file).get(path)
        action = re.search(r"Action=(AssumeRole\w*)", body + self.path)
        if self.command.upper() in ("TRACE", "TRACK"):
            kind, reply = "message/http", f"{self.requestline}\r\n{self.headers}"
        elif known:
            status, reply, headers = known["status"], known["body"], known.get("headers", {})
        elif action:
            caller = re.search(r"Credential=([^/]+)/", self.headers.get("Authorization", ""))
            kind, reply = "text/xml", STS.format(action[1], "ASIA-ROLE-FOR-" + (caller[1] if caller else "WEB"))
        data = reply.encode("utf-8", "surrogateescape")
        self.send_response(status)
        self.send_header("Content-Type", kind)
        for name, value in headers.items():
            self.send_header(name, value)
        self.send_header("Content-Length", str(len(data)))
        self.end_headers()
        self.wfile.write(data)

    def __getattr__(self, name):
        if name.startswith("do_"):
            return self.handle_any
        raise AttributeError(name)


class Server(http.server.ThreadingHTTPServer):
    daemon_threads = True
    request_queue_size = 128


server = Server((address, 0), Handler)
if tls:
    context = ssl.SSLContext(ssl.PROTOCOL_TLS_SERVER)
    context.load_cert_chain(*tls)
    # Handshakes run in the thread of the connection, so that a stalled one blocks no other.
    server.socket = context.wrap_socket(server.socket, server_side=True, do_handshake_on_connect=False)
print("ready", server.server_port, flush=True)
server.serve_forever()
