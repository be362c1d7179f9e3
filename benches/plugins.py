"""Runs the plugins in turns and prints the table. Called by `plugins`.

    plugins.py ROUNDS SLOW-ROUNDS CREDLET-DIR GO-DIR PYTHON-BIN-DIR
"""

import base64
import http.server
import json
import os
import statistics
import sys
import threading
import time

rounds, slow, ours, go, python = int(sys.argv[1]), int(sys.argv[2]), *sys.argv[3:]


class Issuer(http.server.BaseHTTPRequestHandler):
    """Fake OIDC issuer: client credentials give a token that is valid for an hour."""

    def do_GET(self):
        endpoints = {name: f"{issuer}/{name}" for name in ("token_endpoint", "authorization_endpoint", "jwks_uri")}
        self.reply({"issuer": issuer, **endpoints, "keys": [], "id_token_signing_alg_values_supported": ["RS256"]})

    def do_POST(self):
        self.rfile.read(int(self.headers["Content-Length"]))
        claims = json.dumps({"iss": issuer, "sub": "robot", "aud": "robot", "exp": int(time.time()) + 3600}).encode()
        parts = (b'{"alg":"RS256"}', claims, b"x" * 256)
        token = ".".join(base64.urlsafe_b64encode(part).rstrip(b"=").decode() for part in parts)
        self.reply({"access_token": token, "token_type": "Bearer", "expires_in": 3600})

    def reply(self, body):
        body = json.dumps(body).encode()
        self.send_response(200)
        self.send_header("Content-Type", "application/json")
        self.send_header("Content-Length", str(len(body)))
        self.end_headers()
        self.wfile.write(body)

    def log_message(self, *_):
        pass


server = http.server.ThreadingHTTPServer(("127.0.0.1", 0), Issuer)
issuer = f"http://127.0.0.1:{server.server_port}"
threading.Thread(target=server.serve_forever, daemon=True).start()

cluster = ["--cluster-name", "demo", "--region", "us-east-1"]
login = ["get-token", "--oidc-issuer-url", issuer, "--oidc-client-id", "robot", "--oidc-client-secret", "secret"]
login += ["--grant-type", "client-credentials", "--oidc-use-access-token"]
eks, oidc = [f"{ours}/credlet-eks", "eks", "get-token", *cluster], [f"{ours}/credlet-oidc", *login]
authenticator = [f"{go}/aws-iam-authenticator", "token", "-i", "demo", "--region", "us-east-1"]
groups = {
    "an EKS token": [
        ("**credlet-eks**", rounds, eks),
        ("**credlet cache**, hit", rounds, [f"{ours}/credlet", "cache", "--", *eks]),
        ("aws-iam-authenticator 0.7.18", rounds, authenticator),
        ("`aws eks get-token` (awscli 1.46.2)", slow, [f"{python}/aws", "eks", "get-token", *cluster]),
    ],
    "a cached OIDC token": [
        ("**credlet-oidc**", rounds, oidc),
        ("**credlet cache**, hit", rounds, [f"{ours}/credlet", "cache", "--", *oidc]),
        ("kubelogin 1.36.3 (int128)", rounds, [f"{go}/kubelogin", *login]),
    ],
    "baseline": [("`/bin/true`", rounds, ["/bin/true"])],
}
sink = os.open(os.devnull, os.O_RDWR)
actions = [(os.POSIX_SPAWN_DUP2, sink, 1)]


def run(argv):
    start = time.perf_counter()
    pid = os.posix_spawn(argv[0], argv, os.environ, file_actions=actions)
    _, status, used = os.wait4(pid, 0)
    if status:
        sys.exit(f"{argv[0]} failed")
    return used.ru_utime + used.ru_stime, time.perf_counter() - start


arms = [(what, *arm, []) for what, group in groups.items() for arm in group]
# The cache takes the third call by one process for a rejected token and runs the plugin. The warm-up includes these calls.
for _ in range(4):
    for _, _, _, argv, _ in arms:
        run(argv)
# In turns, so that load on the machine affects all of them.
for number in range(rounds):
    for _, _, times, argv, taken in arms:
        if number < times:
            taken.append(run(argv))
print("| result | program | CPU | wall | CPU, relative to the first |")
print("|---|---|---:|---:|---:|")
first = {}
for what, name, _, _, taken in arms:
    cpu, wall = (statistics.median(each) for each in zip(*taken))
    ratio = cpu / first.setdefault(what, cpu) if what != "baseline" else cpu / first["an EKS token"]
    print(f"| {what} | {name} | {cpu * 1000:.1f} ms | {wall * 1000:.1f} ms | {ratio:.1f} |")
    if rounds > 3 and "awscli" in name and ratio < 100:
        sys.exit("credlet-eks uses more than 1/100 of the CPU time of awscli")
