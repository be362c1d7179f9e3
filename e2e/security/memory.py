"""Searches the memory (/proc/PID/mem) and the environment of another process for secrets.

    memory.py PID SECRET…

Prints `found N in BYTES` or `denied`. Secrets are in hexadecimal, so that they are not found in command lines.
"""

import re
import sys

pid, needles = sys.argv[1], [bytes.fromhex(needle) for needle in sys.argv[2:]]
found = looked = 0
try:
    with open(f"/proc/{pid}/environ", "rb") as environ:
        data = environ.read()
        found += sum(data.count(needle) for needle in needles)
    with open(f"/proc/{pid}/maps") as maps, open(f"/proc/{pid}/mem", "rb", 0) as memory:
        for line in maps:
            area = re.match(r"([0-9a-f]+)-([0-9a-f]+) (r)", line)
            if area is None or "[v" in line:
                continue
            start, end = int(area[1], 16), int(area[2], 16)
            try:
                memory.seek(start)
                data = memory.read(end - start)
            except (OSError, OverflowError, ValueError):
                continue
            looked += len(data)
            found += sum(data.count(needle) for needle in needles)
except PermissionError:
    print("denied")
    sys.exit(0)
print("found", found, "in", looked)
