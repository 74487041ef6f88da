"""Compare two revisions bit for bit on this machine: `make same-bits REV=main`.

Each revision runs its own twenty steps of every method (`python -m tests.training.golden`); losses and the digests of
the final weights must be equal. Runs that only one of them has are named and do not count.
"""

import json
import os
import subprocess
import sys
import tempfile
from pathlib import Path
from typing import Any

ROOT = Path(__file__).resolve().parent.parent


def outcome(tree: Path) -> dict[str, Any]:
    environment = os.environ | {"PYTHONPATH": str(tree / "src"), "OMP_NUM_THREADS": "1"}
    home = "training" if (tree / "tests" / "training").is_dir() else "objectives"  # where version 0.1 has it
    command = [sys.executable, "-m", f"tests.{home}.golden"]
    done = subprocess.run(command, cwd=tree, env=environment, capture_output=True, text=True)
    if done.returncode:
        raise SystemExit(f"the runs of {tree} failed:\n{done.stderr}")
    found: dict[str, Any] = json.loads(done.stdout)
    return found


def main(revision: str) -> int:
    git = ["git", "-C", str(ROOT), "worktree"]
    with tempfile.TemporaryDirectory() as place:
        tree = Path(place) / "tree"
        subprocess.run([*git, "add", "--quiet", "--detach", str(tree), revision], check=True)
        try:
            other, ours = outcome(tree), outcome(ROOT)
        finally:
            subprocess.run([*git, "remove", "--force", str(tree)], check=True)
    both = [name for name in ours if name in other]
    different = [name for name in both if ours[name] != other[name]]
    for name in different:
        pairs = zip(ours[name]["losses"], other[name]["losses"], strict=False)
        first = next((i for i, (a, b) in enumerate(pairs) if a != b), None)
        print(f"different: {name}, " + ("in the weights alone" if first is None else f"from step {first} on"))
    for name in sorted(set(ours) ^ set(other)):
        print(f"only {'here' if name in ours else f'in {revision}'}: {name}")
    print(f"{len(both) - len(different)} of {len(both)} runs have the same bits as {revision}")
    return 1 if different else 0


if __name__ == "__main__":
    if len(sys.argv) != 2:
        raise SystemExit("usage: python scripts/same_bits.py REVISION")
    sys.exit(main(sys.argv[1]))
