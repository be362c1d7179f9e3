"""Kills clients and their proxies with SIGKILL at random times under load. No write may arrive twice, no read that can be
retried may fail, and no process may be left.

    storm.py [SEED]

CREDLET is the path of a built `credlet`. A read may fail only if its proxy was killed twice meanwhile (it is retried once), during
the response, or during the start of the proxy, which is a failure of the plugin. A write may fail if its proxy was killed; it must
not arrive twice.
"""

import collections
import glob
import http.server
import itertools
import os
import random
import re
import shutil
import signal
import ssl
import subprocess
import sys
import tempfile
import threading
import time

CREDLET = os.path.abspath(os.environ["CREDLET"])
SEED = int(sys.argv[1]) if len(sys.argv) > 1 else random.SystemRandom().randrange(1 << 32)
# The proxy is a daemon that all clients share, or the plugin process itself. The kubeconfigs have the same names.
STYLES = ["daemon", "foreground"]
KILLS, CLIENTS, COLD, LINGER, AT_ONCE = 100, 3, 20, 2, 2
# Far more than any step takes: a process that reaches it hangs.
TIMEOUT = 60
# Message of a plugin whose proxy was killed before it listened, and of a client whose plugin was killed.
CUT = re.compile("it exited without a message|^error: [^ ]* was killed by SIGKILL")
# Message of a client whose response had begun.
BEGUN = re.compile("error reading a body")
# Errors of the server's threads when the peer of a connection is killed. They are not reported.
GONE = (ConnectionError, ssl.SSLError, TimeoutError)


class Upstream(http.server.ThreadingHTTPServer):
    """Server that requires a client certificate, counts each posted number, and replies after a short delay."""

    daemon_threads = True
    request_queue_size = 128

    def __init__(self, certificate, key, clients):
        super().__init__(("127.0.0.1", 0), Handler)
        context = ssl.SSLContext(ssl.PROTOCOL_TLS_SERVER)
        context.load_cert_chain(certificate, key)
        context.load_verify_locations(clients)
        context.verify_mode = ssl.CERT_REQUIRED
        # The handshake runs in the thread of the connection.
        self.socket = context.wrap_socket(self.socket, server_side=True, do_handshake_on_connect=False)
        self.seen, self.reads = collections.Counter(), 0
        self.lock, self.random = threading.Lock(), random.Random(SEED + 1)
        self.held = threading.Event()
        threading.Thread(target=self.serve_forever, daemon=True).start()

    def handle_error(self, request, client_address):
        if not isinstance(sys.exc_info()[1], GONE):
            super().handle_error(request, client_address)


class Handler(http.server.BaseHTTPRequestHandler):
    protocol_version = "HTTP/1.1"
    disable_nagle_algorithm = True

    def do_GET(self):
        with self.server.lock:
            self.server.reads += 1
        if not self.is_held():
            self.reply(200)

    def do_POST(self):
        body = self.rfile.read(int(self.headers["Content-Length"]))
        number = int(re.search(rb"number-(\d+)", body)[1])
        with self.server.lock:
            self.server.seen[number] += 1
        if not self.is_held():
            self.reply(201)

    def is_held(self):
        """Whether this is the first request for /hold. It gets no response; return when its client has disconnected."""
        if self.path != "/hold" or self.server.held.is_set():
            return False
        self.server.held.set()
        self.rfile.read(1)
        return True

    def reply(self, code):
        with self.server.lock:
            pause = self.server.random.uniform(0, 0.1)
        time.sleep(pause)
        self.send_response(code)
        self.send_header("Content-Type", "application/json")
        self.send_header("Content-Length", "2")
        self.end_headers()
        self.wfile.write(b"{}")

    def log_message(self, *_):
        pass


def certificates(work):
    """Create a CA, a server certificate and a client certificate."""

    def openssl(name, *more):
        key = ["-newkey", "ec", "-pkeyopt", "ec_paramgen_curve:P-256", "-nodes", "-keyout", f"{work}/{name}.key"]
        command = ["openssl", "req", "-x509", *key, "-days", "2", "-subj", f"/CN={name}", "-out", f"{work}/{name}.crt"]
        subprocess.run([*command, *more], check=True, capture_output=True)

    openssl("ca")
    by_ca = ["-CA", f"{work}/ca.crt", "-CAkey", f"{work}/ca.key", "-addext", "basicConstraints=critical,CA:FALSE"]
    openssl("server", *by_ca, "-addext", "subjectAltName=IP:127.0.0.1", "-addext", "extendedKeyUsage=serverAuth")
    openssl("client", *by_ca, "-addext", "extendedKeyUsage=clientAuth")


def kubeconfig(work, name, port, *more):
    # The proxy inherits CREDLET_E2E, by which ../run finds processes that are left behind.
    args = ["proxy", "file", "--env", "CREDLET_E2E", "--certificate", f"{work}/client.crt", "--key", f"{work}/client.key", *more]
    with open(f"{work}/{name}", "w") as file:
        file.write(f"""apiVersion: v1
kind: Config
current-context: c
contexts: [{{name: c, context: {{cluster: c, user: u}}}}]
clusters: [{{name: c, cluster: {{server: 'https://127.0.0.1:{port}', certificate-authority: '{work}/ca.crt'}}}}]
users:
- name: u
  user: {{exec: {{apiVersion: client.authentication.k8s.io/v1, command: '{CREDLET}', args: {args},
    interactiveMode: Never, provideClusterInfo: true}}}}
""")


class Proxies:
    """The proxy processes of this run, found in /proc."""

    def __init__(self, work):
        self.mark = f"{work}/client.crt".encode()
        # A killed process stays in /proc for a moment and is not killed twice.
        self.killed = set()

    def pids(self, style):
        return [pid for pid in map(int, filter(str.isdigit, os.listdir("/proc"))) if self.is_one(pid, style)]

    def is_one(self, pid, style):
        try:
            with open(f"/proc/{pid}/cmdline", "rb") as file:
                args = file.read().split(b"\0")
        except OSError:
            return False
        wanted = {"daemon": args[1:2] == [b"proxy-daemon"], "foreground": b"--foreground" in args}
        return self.mark in args and wanted[style]

    def kill(self, pid, style):
        """Kill a proxy. Return the process id of its client, "daemon" for the shared one, or `None` if it has exited."""
        try:
            handle = os.pidfd_open(pid)
        except OSError:
            return None
        try:
            # The process id may have been reused meanwhile; the pidfd refers to one process.
            if pid in self.killed or not self.is_one(pid, style):
                return None
            with open(f"/proc/{pid}/stat") as file:
                parent = int(file.read().rpartition(")")[2].split()[1])
            signal.pidfd_send_signal(handle, signal.SIGKILL)
            self.killed.add(pid)
            return style if style == "daemon" else parent
        except OSError:
            return None
        finally:
            os.close(handle)


class Client:
    """A credlet command in the background."""

    all = []

    def __init__(self, work, style, *args):
        self.style, self.killed, self.began, self.log = style, False, time.monotonic(), "it hangs"
        self.stderr = tempfile.TemporaryFile(dir=work)
        self.process = subprocess.Popen(
            [CREDLET, *args, "-v5", "--kubeconfig", f"{work}/{style}"],
            stdin=subprocess.DEVNULL, stdout=subprocess.DEVNULL, stderr=self.stderr,
        )
        Client.all.append(self)

    def end(self):
        """Wait for its exit. Return the exit code and its last error message; `log` has the whole output."""
        try:
            code = self.process.wait(TIMEOUT)
        except subprocess.TimeoutExpired:
            self.process.kill()
            return None, self.log
        finally:
            self.ended = time.monotonic()
        self.stderr.seek(0)
        with self.stderr:
            self.log = self.stderr.read().decode(errors="replace").strip()
        return code, self.log[max(self.log.rfind("error: "), 0):]


def write(number):
    return f'{{"a":"number-{number}"}}'


class Storm:
    def __init__(self, work, upstream, proxies, numbers):
        self.work, self.upstream, self.proxies = work, upstream, proxies
        self.random, self.lock = random.Random(SEED), threading.Lock()
        self.numbers, self.over = numbers, threading.Event()
        self.running, self.kills, self.done = set(), [], []

    def load(self, style, seed):
        """Commands, one after the other."""
        choice = random.Random(seed)
        while not self.over.is_set():
            number = next(self.numbers) if choice.random() < 0.5 else None
            args = ["get", "/read"] if number is None else ["request", "/write", "-d", write(number)]
            with self.lock:
                client = Client(self.work, style, *args)
                self.running.add(client)
            code, message = client.end()
            with self.lock:
                self.running.remove(client)
                self.done.append((client, number, code, message))

    def strike(self, client_next):
        """Kill a client or a proxy. Return whether there was one."""
        if client_next:
            with self.lock:
                client = self.random.choice(sorted(self.running, key=lambda one: one.began) or [None])
                # Not a client that has exited and waits to be counted.
                if client is None or client.process.poll() is not None:
                    return False
                client.process.kill()
                client.killed = True
                return True
        style = self.random.choice(STYLES)
        found, before = self.proxies.pids(style), time.monotonic()
        owner = self.proxies.kill(self.random.choice(found), style) if found else None
        if owner is not None:
            self.kills.append((owner, before, time.monotonic()))
        return owner is not None

    def hits(self, client):
        """Return how often a proxy of this client was killed while the client ran."""
        proxy = "daemon" if client.style == "daemon" else client.process.pid
        return sum(owner == proxy and a <= client.ended and b >= client.began for owner, a, b in self.kills)

    def rage(self):
        seeds = [self.random.random() for _ in range(2 * CLIENTS)]
        each = zip(STYLES * CLIENTS, seeds)
        threads = [threading.Thread(target=self.load, args=args, daemon=True) for args in each]
        for thread in threads:
            thread.start()
        # Equal numbers of clients and proxies, in random order.
        plan = [True, False] * (KILLS // 2)
        self.random.shuffle(plan)
        limit = time.monotonic() + 3 * TIMEOUT
        for client_next in plan:
            time.sleep(self.random.expovariate(1 / 0.25))
            while not self.strike(client_next):
                if time.monotonic() > limit:
                    fail("no process to kill")
                time.sleep(0.02)
        self.over.set()
        for thread in threads:
            thread.join()

    def judge(self):
        """Return the requests by outcome, and a list of errors."""
        wrong = [f"write {number} was received {times} times" for number, times in self.upstream.seen.items() if times > 1]
        counts = collections.Counter()
        for client, number, code, message in self.done:
            kind = "reads" if number is None else "writes"
            hits = self.hits(client)
            # A client that had exited when it was killed is judged as the others.
            if client.killed and code == -signal.SIGKILL:
                counts[f"{kind} of killed clients"] += 1
            elif code == 0:
                counts[f"{kind} that succeeded" + (" though a proxy was killed" if hits else "")] += 1
                if number is not None and self.upstream.seen[number] == 0:
                    wrong.append(f"write {number} reported success and was never received")
            elif hits == 0 or code is None:
                wrong.append(f"one of the {kind} failed though no proxy was killed ({client.style}): {client.log}")
            elif CUT.search(message):
                counts[f"{kind} whose proxy ({client.style}) was killed at its start"] += 1
            elif BEGUN.search(message):
                counts[f"{kind} whose proxy was killed during the response"] += 1
            elif number is not None:
                counts["writes lost with their proxy"] += 1
            elif hits > 1:
                counts["reads lost with two proxies"] += 1
            else:
                wrong.append(f"a read is lost ({client.style}): {client.log}")
        return counts, wrong


def fail(why):
    sys.exit(f"FAIL storm, seed {SEED}: {why}")


def eventually(what, true):
    limit = time.monotonic() + TIMEOUT
    while not true():
        if time.monotonic() > limit:
            fail(f"timed out: {what}")
        time.sleep(0.02)


def main(work, proxies):
    certificates(work)
    upstream = Upstream(f"{work}/server.crt", f"{work}/server.key", f"{work}/ca.crt")
    port = upstream.server_address[1]
    kubeconfig(work, "daemon", port, "--linger", f"{LINGER}s")
    kubeconfig(work, "foreground", port, "--foreground")
    numbers = itertools.count()
    none = {style: lambda style=style: not proxies.pids(style) for style in STYLES}

    # Many clients at the same time start without a daemon. The daemon serves all of them, however slow they are.
    kubeconfig(work, "cold", port)
    cold = [Client(work, "cold", "get", "/read") for _ in range(COLD)]
    daemons = set()
    while any(client.process.poll() is None for client in cold):
        daemons.update(proxies.pids("daemon"))
        time.sleep(0.01)
    daemons.update(proxies.pids("daemon"))
    for code, message in [client.end() for client in cold]:
        if code != 0:
            fail(f"one of {COLD} at once: {message}")
    if len(daemons) != 1:
        fail(f"{COLD} clients at once started {len(daemons)} daemons")
    print(f"{COLD} clients at once, 1 daemon")
    proxies.kill(*daemons, "daemon")
    eventually("the daemon has exited", none["daemon"])

    # A client is killed while it waits for a response.
    def waiting(style, *args):
        upstream.held.clear()
        client = Client(work, style, *args)
        eventually("the request arrives", upstream.held.is_set)
        return client

    def outlived(style):
        """Kill a waiting client and return after how many seconds its proxy exits."""
        client = waiting(style, "get", "/hold")
        before = time.monotonic()
        client.process.kill()
        eventually(f"the proxy ({style}) ends after its client", none[style])
        took = time.monotonic() - before
        client.end()
        print(f"client killed, proxy ({style}) exited after {took:.2f} s")
        return took

    if outlived("daemon") < LINGER:
        fail(f"the daemon should linger for {LINGER} s")
    # Three attempts, because the machine may be busy.
    if all(outlived("foreground") > AT_ONCE for _ in range(3)):
        fail(f"the plugin that is the proxy should end within {AT_ONCE} s")

    # A proxy is killed while its client waits for a response.
    for style in STYLES:
        for args, retried in [(["get", "/hold"], True), (["request", "/hold", "-d", write(next(numbers))], False)]:
            client = waiting(style, *args)
            if [proxies.kill(pid, style) for pid in proxies.pids(style)] not in [["daemon"], [client.process.pid]]:
                fail(f"one proxy ({style}) should be there")
            code, message = client.end()
            if (code == 0) != retried:
                fail(f"proxy ({style}) killed while {args} waits: {code}, {message}")
        print(f"proxy ({style}) killed: the read is retried, the write is not")

    storm = Storm(work, upstream, proxies, numbers)
    began = time.monotonic()
    storm.rage()
    took = time.monotonic() - began
    counts, wrong = storm.judge()
    daemons = sum(owner == "daemon" for owner, _, _ in storm.kills)
    print(
        f"{KILLS - len(storm.kills)} clients, {daemons} daemons and {len(storm.kills) - daemons} foreground proxies "
        f"killed in {took:.0f} s"
    )
    print(f"{len(upstream.seen)} writes and {upstream.reads} reads received by the server")
    for what, times in sorted(counts.items()):
        print(f"  {times:5} {what}")
    if wrong:
        fail("\n  ".join([f"{len(wrong)} errors", *wrong]))
    for style in none:
        eventually(f"no proxy ({style}) is left", none[style])
    print("no proxy left")

    # The next client removes the files of killed processes.
    code, message = Client(work, "foreground", "get", "/read").end()
    if code != 0:
        fail(f"after the storm: {message}")
    left = lambda: glob.glob(f"{work}/run/credlet/process-*") + glob.glob(f"{work}/run/credlet/client-*")
    eventually("nothing is left in the runtime directory", lambda: not left())


# SIGTERM also runs the clean-up below.
signal.signal(signal.SIGTERM, lambda *_: sys.exit("terminated"))
print(f"storm, seed {SEED}", flush=True)
work = tempfile.mkdtemp(prefix="storm-")
os.makedirs(f"{work}/run", 0o700)
os.makedirs(f"{work}/home", 0o700)
for name in list(os.environ):
    if re.match(r"(?i)https?_proxy$|no_proxy$|CLIENT_EXEC_PROXY$|XDG_|KUBECONFIG$", name):
        del os.environ[name]
os.environ.update(XDG_RUNTIME_DIR=f"{work}/run", HOME=f"{work}/home", KUBERC="off")
proxies = Proxies(work)
try:
    main(work, proxies)
finally:
    for client in Client.all:
        client.process.kill()
    for style in STYLES:
        for pid in proxies.pids(style):
            proxies.kill(pid, style)
    if os.environ.get("CREDLET_E2E_KEEP"):
        print(f"kept: {work}")
    else:
        shutil.rmtree(work, ignore_errors=True)
