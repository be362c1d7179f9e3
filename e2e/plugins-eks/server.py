"""Fake API server for `kubectl get pods`, with TLS.

    server.py PORT CERTIFICATE KEY FILE

Writes the bearer token of each request to FILE. Replies with 401 if the token is the content of FILE.rejected.
"""

import http.server
import json
import pathlib
import ssl
import sys

port, certificate, key, bearer = sys.argv[1:]
PODS = {"name": "pods", "singularName": "pod", "namespaced": True, "kind": "Pod", "verbs": ["get", "list"]}
RESPONSES = {
    "/version": {"major": "1", "minor": "33", "gitVersion": "v1.33.0"},
    "/api": {"kind": "APIVersions", "versions": ["v1"]},
    "/apis": {"kind": "APIGroupList", "apiVersion": "v1", "groups": []},
    "/api/v1": {"kind": "APIResourceList", "groupVersion": "v1", "resources": [PODS]},
    "/api/v1/namespaces/default/pods": {"kind": "PodList", "apiVersion": "v1", "metadata": {}, "items": []},
}


class Handler(http.server.BaseHTTPRequestHandler):
    def do_GET(self):
        token = self.headers.get("Authorization", "").removeprefix("Bearer ")
        pathlib.Path(bearer).write_text(token)
        rejected = pathlib.Path(f"{bearer}.rejected")
        known = RESPONSES.get(self.path.partition("?")[0])
        body = json.dumps(known).encode() if known else b"ok"
        self.send_response(401 if rejected.exists() and rejected.read_text() == token else 200)
        self.send_header("Content-Type", "application/json" if known else "text/plain")
        self.send_header("Content-Length", str(len(body)))
        self.end_headers()
        self.wfile.write(body)

    def log_message(self, *_):
        pass


server = http.server.ThreadingHTTPServer(("127.0.0.1", int(port)), Handler)
context = ssl.SSLContext(ssl.PROTOCOL_TLS_SERVER)
context.load_cert_chain(certificate, key)
server.socket = context.wrap_socket(server.socket, server_side=True)
server.serve_forever()
