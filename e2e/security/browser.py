"""Headless Chromium that opens each URL written to a FIFO.

    browser.py CHROMIUM PROFILE FIFO

It is controlled over --remote-debugging-pipe, which needs no port. SIGTERM stops both.
"""

import json
import os
import signal
import subprocess
import sys
import threading

chromium, profile, fifo = sys.argv[1:]
to_browser, ours_out = os.pipe()
ours_in, from_browser = os.pipe()


def pipes():
    # By way of higher descriptors, because one of the four pipe ends may be 3 or 4 already.
    a, b = os.dup(to_browser), os.dup(from_browser)
    high_a, high_b = 61, 62
    os.dup2(a, high_a)
    os.dup2(b, high_b)
    os.dup2(high_a, 3)
    os.dup2(high_b, 4)


browser = subprocess.Popen(
    [chromium, "--headless=new", "--no-sandbox", "--disable-gpu", "--disable-dev-shm-usage", "--no-first-run",
     "--disable-extensions", "--disable-background-networking", "--disable-component-update", "--disable-sync",
     "--disable-breakpad", "--no-proxy-server", "--mute-audio", f"--user-data-dir={profile}", "--remote-debugging-pipe",
     "about:blank"],
    preexec_fn=pipes, pass_fds=(3, 4), stdin=subprocess.DEVNULL, stdout=subprocess.DEVNULL, stderr=subprocess.DEVNULL)
os.close(to_browser)
os.close(from_browser)
numbers = iter(range(1, 1 << 30))
lock = threading.Lock()


def send(method, **params):
    with lock:
        os.write(ours_out, json.dumps({"id": next(numbers), "method": method, "params": params}).encode() + b"\0")


def listen():
    with os.fdopen(ours_in, "rb") as messages:
        rest = b""
        while part := messages.read1(65536):
            *whole, rest = (rest + part).split(b"\0")
            for message in map(json.loads, whole):
                if "error" in message:
                    print("error", message["error"], flush=True)
                elif "result" in message:
                    print("done", message["id"], flush=True)


def follow():
    while True:
        with open(fifo) as lines:
            for line in lines:
                print("open", line.strip(), flush=True)
                send("Target.createTarget", url=line.strip())


signal.pthread_sigmask(signal.SIG_BLOCK, {signal.SIGTERM})
send("Browser.getVersion")
threading.Thread(target=listen, daemon=True).start()
threading.Thread(target=follow, daemon=True).start()
signal.sigwait({signal.SIGTERM})
send("Browser.close")
try:
    browser.wait(10)
except subprocess.TimeoutExpired:
    browser.kill()
    browser.wait()
os._exit(0)
