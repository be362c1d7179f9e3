"""Fake API server for kubectl: replies to every GET request with the bearer token of the request.

    api.py PORT KEY CERTIFICATE

Prints `ready` when it serves. The response is {"token": TOKEN}; the token is empty if there is none.
"""

import sys

import json_server

port, key, certificate = sys.argv[1:]


class Handler(json_server.Handler):
    def do_GET(self):
        self.reply(200, {"token": self.headers.get("Authorization", "").replace("Bearer ", "", 1)})


json_server.serve(port, Handler, certificate, key)
