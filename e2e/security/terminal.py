"""Runs a command as the foreground job of a pseudo-terminal, like a shell with job control.

    terminal.py STEP… -- COMMAND…

Steps: `wait=TEXT` waits until TEXT is shown, `send=TEXT` types it (with Python escapes), `stopped` waits until the job is suspended
or five seconds have passed, `running` continues it in the foreground, `pause` waits a second. While the job is suspended, the shell
reads the input. Prints the output of the terminal, then a line for each event: `stopped echo|noecho`, `running`, and finally
`exited N` or `signaled N`; `timed out after STEP` if a step takes more than 20 s.
"""

import codecs
import os
import pty
import select
import signal
import sys
import termios
import time

split = sys.argv.index("--")
steps, command = sys.argv[1:split], sys.argv[split + 1 :]
events_in, events_out = os.pipe()
orders_in, orders_out = os.pipe()
pid, terminal = pty.fork()
if pid == 0:
    # The shell: session leader that makes its job the foreground process group.
    for number in (signal.SIGTTOU, signal.SIGTTIN, signal.SIGTSTP, signal.SIGINT, signal.SIGQUIT):
        signal.signal(number, signal.SIG_IGN)
    job = os.fork()
    if job == 0:
        os.setpgid(0, 0)
        os.tcsetpgrp(0, os.getpid())
        for number in (signal.SIGTTOU, signal.SIGTTIN, signal.SIGTSTP, signal.SIGINT, signal.SIGQUIT, signal.SIGPIPE):
            signal.signal(number, signal.SIG_DFL)
        for fd in (events_in, events_out, orders_in, orders_out):
            os.close(fd)
        os.execvp(command[0], command)
    while True:
        _, status = os.waitpid(job, os.WUNTRACED)
        if os.WIFSTOPPED(status):
            state = termios.tcgetattr(0)
            os.tcsetpgrp(0, os.getpid())
            echo = "echo" if state[3] & termios.ECHO else "noecho"
            os.write(events_out, f"stopped {echo}\n".encode())
            while orders_in not in (ready := select.select([0, orders_in], [], [])[0]):
                os.read(0, 4096)
            os.read(orders_in, 1)
            os.tcsetpgrp(0, job)
            os.killpg(job, signal.SIGCONT)
            os.write(events_out, b"running\n")
        elif os.WIFSIGNALED(status):
            os.write(events_out, f"signaled {os.WTERMSIG(status)}\n".encode())
            os._exit(0)
        else:
            os.write(events_out, f"exited {os.WEXITSTATUS(status)}\n".encode())
            os._exit(0)
os.close(events_out)
shown, events = b"", b""
open_fds = [terminal, events_in]


def pump(done, step, limit=20, optional=False):
    global shown, events
    until = time.monotonic() + limit
    while not done() and open_fds:
        ready, _, _ = select.select(open_fds, [], [], max(0, until - time.monotonic()))
        if not ready and optional:
            return
        if not ready:
            sys.stdout.buffer.write(shown)
            print(f"\n{events.decode()}timed out after {step}")
            os.kill(pid, signal.SIGKILL)
            sys.exit(1)
        for fd in ready:
            try:
                part = os.read(fd, 4096)
            except OSError:
                part = b""
            if fd == terminal:
                shown += part
            else:
                events += part
            if not part:
                open_fds.remove(fd)


def ended():
    return any(line.startswith((b"exited", b"signaled")) for line in events.split(b"\n"))


for step in steps:
    name, _, text = step.partition("=")
    if name == "wait":
        pump(lambda: text.encode() in shown or ended(), step)
    elif name == "send":
        if not ended():
            os.write(terminal, codecs.decode(text, "unicode_escape").encode("latin-1"))
    elif name == "pause":
        pump(ended, step, limit=1, optional=True)
    elif name == "stopped":
        pump(lambda: b"stopped" in events or ended(), step, limit=5, optional=True)
    elif name == "running":
        if b"stopped" in events:
            os.write(orders_out, b"x")
            pump(lambda: b"running" in events or ended(), step)
pump(ended, "the end")
# The last output may not have arrived yet.
try:
    while select.select([terminal], [], [], 0.2)[0] and (part := os.read(terminal, 4096)):
        shown += part
except OSError:
    pass
sys.stdout.buffer.write(shown)
print()
print(events.decode(), end="")
