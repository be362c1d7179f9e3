"""Holds idle connections to a port.

    holder.py PORT NUMBER

A closed connection is replaced within half a second. Prints `READY` when all connections were started, then `OPEN N` every second.
"""

import select
import socket
import sys
import time

port, number = int(sys.argv[1]), int(sys.argv[2])
held = set()


def fill():
    while len(held) < number:
        one = socket.socket()
        one.setblocking(False)
        one.connect_ex(("127.0.0.1", port))
        held.add(one)


fill()
print("READY", flush=True)
reported = 0
while True:
    poll = select.poll()
    by_number = {one.fileno(): one for one in held}
    for descriptor in by_number:
        poll.register(descriptor, select.POLLIN | select.POLLHUP | select.POLLERR)
    for descriptor, _ in poll.poll(200):
        held.discard(by_number[descriptor])
        by_number[descriptor].close()
    time.sleep(0.5)
    fill()
    if time.monotonic() - reported > 1:
        reported = time.monotonic()
        print("OPEN", len(held), flush=True)
