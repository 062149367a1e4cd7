"""A small tree under a keeper, for tests: a service that detaches a grandchild the way a supervisor does.

Usage: python -m tests.portal.kept_tree FOLDER       writes the ids of its processes to FOLDER/pids, one a line
"""

import os
import signal
import sys
import time
from pathlib import Path

from portal.processes import end_descendants, run_kept
from portal.services import Service, Watch

DETACHED = """
import os, sys, time, signal
if os.fork() == 0:
    os.setsid()
    if os.fork() == 0:
        signal.signal(signal.SIGTERM, signal.SIG_IGN)
        os.environ.clear()
        print(os.getpid(), file=open(sys.argv[1], "a"), flush=True)
        time.sleep(1000)
    os._exit(0)
print(os.getpid(), file=open(sys.argv[1], "a"), flush=True)
time.sleep(1000)
"""


def work(folder: Path) -> int:
    class Ended(Exception):
        pass

    def end(*_: object) -> None:
        raise Ended

    signal.signal(signal.SIGTERM, end)
    watch = Watch(print)
    pids = folder / "pids"
    pids.write_text(f"{os.getpid()}\n")
    try:
        watch.add(Service("one", [sys.executable, "-c", DETACHED, str(pids)], os.environ, folder / "one.log", folder))
        while True:
            watch.look()
            time.sleep(0.05)
    except Ended:
        return 7
    finally:
        watch.stop(2)
        end_descendants(0.5)


if __name__ == "__main__":
    sys.exit(run_kept(lambda: work(Path(sys.argv[1])), grace_seconds=0.5))
