"""Runs a command in a pseudo-terminal and types a secret at its prompt.

    typist.py SECRET PROMPT COMMAND…

SECRET and a line feed are typed once PROMPT is part of the output. Prints the output of the command. Exits with the exit code of
the command, or with 1 if the prompt did not appear.
"""

import os
import pty
import sys

secret, prompt, command = sys.argv[1], sys.argv[2].encode(), sys.argv[3:]
pid, terminal = pty.fork()
if pid == 0:
    os.execvp(command[0], command)
output, typed = b"", False
while True:
    try:
        part = os.read(terminal, 4096)
    except OSError:
        break
    if not part:
        break
    output += part
    if not typed and prompt in output:
        os.write(terminal, secret.encode() + b"\n")
        typed = True
sys.stdout.buffer.write(output)
sys.exit(os.waitstatus_to_exitcode(os.waitpid(pid, 0)[1]) if typed else 1)
