"""Runs a command in a terminal of its own, types a secret when a question is shown, and prints what was shown.

typist.py SECRET QUESTION COMMAND…
"""

import os
import pty
import sys

secret, question, command = sys.argv[1], sys.argv[2].encode(), sys.argv[3:]
pid, terminal = pty.fork()
if pid == 0:
    os.execvp(command[0], command)
shown, typed = b"", False
while True:
    try:
        part = os.read(terminal, 4096)
    except OSError:
        break
    if not part:
        break
    shown += part
    if not typed and question in shown:
        os.write(terminal, secret.encode() + b"\n")
        typed = True
sys.stdout.buffer.write(shown)
sys.exit(os.waitstatus_to_exitcode(os.waitpid(pid, 0)[1]) if typed else 1)
