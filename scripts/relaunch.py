"""python scripts/relaunch.py N COMMAND …: run a command, and start it again when it fails, up to N times.

For trainings by torchrun: a rank that dies takes the others with it, and the next start goes on behind the last
snapshot. Exit codes 2 (bad input) and 130 (Ctrl-C) are final, and so is a command that fails three times in a row
within a minute each: torchrun tells bad input by 1, as anything else.
"""

import os
import signal
import subprocess
import sys
import time
from collections.abc import Sequence
from contextlib import suppress

FINAL = (0, 2, 130)
QUICK, QUICK_FAILURES = 60.0, 3  # seconds, and how often in a row
PAUSE = 2.0  # seconds, for ports and processes to be given back


def relaunched(most: int, command: Sequence[str], pause: float = PAUSE) -> int:
    """The last exit code."""
    quick, code = 0, 0
    for attempt in range(most + 1):
        if attempt:
            print(f"relaunch: exit code {code}; start {attempt + 1} of at most {most + 1}", file=sys.stderr, flush=True)
            time.sleep(pause)
        begun = time.monotonic()
        code = run(command)
        quick = quick + 1 if time.monotonic() - begun < QUICK else 0
        if code in FINAL or quick == QUICK_FAILURES:
            return code
    return code


def run(command: Sequence[str]) -> int:
    """Once; nobody is left of it afterwards."""
    process = subprocess.Popen(command, start_new_session=True)
    try:
        return process.wait()
    except KeyboardInterrupt:
        os.killpg(process.pid, signal.SIGTERM)
        process.wait()
        return 130
    finally:
        with suppress(ProcessLookupError):
            os.killpg(process.pid, signal.SIGKILL)


def main() -> int:
    if len(sys.argv) < 3 or not sys.argv[1].isdigit():
        print(__doc__, file=sys.stderr)
        return 2
    return relaunched(int(sys.argv[1]), sys.argv[2:])


if __name__ == "__main__":
    sys.exit(main())
