"""Count what a reader meets on four walks through the code: `make walks`.

A walk follows one command and counts the functions of `leastwise` that it calls on the main thread: in how many files
they lie (the templates of a page are files too), how many they are, and how many are on the stack at most.
Code that runs while a module is imported does not count, nor do lambdas and comprehensions as steps of depth.

Measured in this way, version 0.1 has what a reader had counted by hand for it (an audit 56 files and depth 19, a
training 46 and 21, a shard over dask 56 and 17), but for the exhibit: it has 55 files when it is only drawn, where the
reader counted 97.
"""

import json
import os
import shutil
import subprocess
import sys
import tempfile
from collections.abc import Callable
from dataclasses import dataclass, field
from pathlib import Path
from types import CodeType, FrameType
from typing import Any

ROOT = Path(__file__).resolve().parent.parent
PACKAGE = str(ROOT / "src" / "leastwise") + os.sep
RUNS_A_FUNCTION = 1  # the flag CO_OPTIMIZED: bodies of modules and classes are without it
MODEL = """
import torch
def build():
    torch.manual_seed(0)
    return torch.nn.Sequential(torch.nn.Flatten(), torch.nn.Linear(784, 10))
"""
AUDIT = ("audit", "mine.py:build", "--data", "fashion-mini", "--per-class", "5", "--out", "out")
COMMANDS = {
    "audit": (*AUDIT, "--attack", "clean,pgd20,tpgd20"),
    "train": ("train", "pgd-at", "--per-class", "20", "--epochs", "1", "--out", "out"),
    "exhibit": ("reproduce", "tian2021/table3", "--scale", "lite", "--draw"),
    "dask": (*AUDIT, "--attack", "pgd20", "--engine", "dask", "--workers", "1"),
}
RESULTS = {
    "audit": "out/summary.json",
    "train": "out/model.pt",
    "exhibit": "results/lite/pages/tian2021/index.html",
    "dask": "out/summary.json",
}
LIMITS = {"audit_modules": 40, "audit_depth": 14, "train_wrappers": 3, "exhibit_modules": 60, "dask_modules": 40}


@dataclass
class Walk:
    """The functions met so far, and the deepest stack of them."""

    functions: set[tuple[str, str]] = field(default_factory=set)
    deepest: list[str] = field(default_factory=list)
    wrappers: list[str] = field(default_factory=list)
    importing: int = 0
    depth: int = 0

    def watch(self, frame: FrameType, event: str, _: Any) -> None:
        """Note a call or a return; `sys.setprofile` calls this."""
        code = frame.f_code
        if not is_ours(code):
            return
        if not code.co_flags & RUNS_A_FUNCTION:
            self.importing += {"call": 1, "return": -1}.get(event, 0)
        elif not self.importing and event == "call":
            self.functions.add((module_of(code), code.co_qualname))
            self.depth += has_name(code)
            if self.depth > len(self.deepest):
                self.deepest = stack(frame)
        elif not self.importing and event == "return":
            self.depth -= has_name(code)

    def end_at_first_step(self, *_: Any) -> None:
        """Note who stands between the verb and the training loop, at the first step of an optimiser."""
        if self.wrappers:
            return
        sys.setprofile(None)
        names = [one.rpartition(":")[2] for one in stack(sys._getframe())]
        self.wrappers = names[names.index("Train.run") : names.index("fit") + 1]

    def summary(self) -> dict[str, Any]:
        modules = sorted({module for module, _ in self.functions})
        return {
            "modules": modules,
            "functions": len(self.functions),
            "deepest": self.deepest,
            "wrappers": self.wrappers[1:-1],
        }


def is_ours(code: CodeType) -> bool:
    return code.co_filename.startswith(PACKAGE)


def module_of(code: CodeType) -> str:
    return code.co_filename[len(PACKAGE) :]


def has_name(code: CodeType) -> bool:
    return not code.co_name.startswith("<")


def stack(frame: FrameType | None) -> list[str]:
    """The named functions of this package from the outermost to this frame, as file:function."""
    found = []
    while frame:
        if is_ours(frame.f_code) and has_name(frame.f_code) and frame.f_code.co_flags & RUNS_A_FUNCTION:
            found.append(f"{module_of(frame.f_code)}:{frame.f_code.co_qualname}")
        frame = frame.f_back
    return found[::-1]


def take(name: str) -> Walk:
    """Run one command in this process and folder, and watch it."""
    from torch.optim.optimizer import register_optimizer_step_pre_hook

    from leastwise.cli.main import main

    Path("mine.py").write_text(MODEL)
    if name == "exhibit":
        shutil.copytree(ROOT / "results" / "lite", "results/lite", ignore=shutil.ignore_patterns("pages"))
    walk = Walk()
    if name == "train":
        register_optimizer_step_pre_hook(walk.end_at_first_step)
    sys.setprofile(walk.watch)
    try:
        code = main(COMMANDS[name])
    finally:
        sys.setprofile(None)
    if code or not Path(RESULTS[name]).exists():
        raise SystemExit(f"`leastwise {' '.join(COMMANDS[name])}` ended with {code} and made no {RESULTS[name]}")
    return walk


def take_alone(name: str) -> dict[str, Any]:
    """The same in a process and a folder of its own, so that no walk finds what another one has imported."""
    environment = os.environ | {"PYTHONPATH": str(ROOT / "src"), "OMP_NUM_THREADS": "1"}
    with tempfile.TemporaryDirectory() as folder:
        command = [sys.executable, str(Path(__file__).resolve()), name]
        done = subprocess.run(command, cwd=folder, env=environment, capture_output=True, text=True)
    if done.returncode:
        raise SystemExit(f"the walk {name} failed:\n{done.stdout}{done.stderr}")
    found: dict[str, Any] = json.loads(done.stdout.splitlines()[-1])
    return found


def numbers(walks: dict[str, dict[str, Any]]) -> dict[str, int]:
    return {
        "audit_modules": len(walks["audit"]["modules"]),
        "audit_depth": len(walks["audit"]["deepest"]),
        "train_wrappers": len(walks["train"]["wrappers"]),
        "exhibit_modules": len(walks["exhibit"]["modules"]),
        "dask_modules": len(walks["dask"]["modules"]),
    }


def take_all(say: Callable[[str], None] = print) -> dict[str, int]:
    """Every walk, told about in lines; the numbers that have limits."""
    walks = {}
    for name in COMMANDS:
        walk = walks[name] = take_alone(name)
        say(f"{name}: leastwise {' '.join(COMMANDS[name])}")
        say(f"  {len(walk['modules'])} modules, {walk['functions']} functions, depth {len(walk['deepest'])}")
        say(f"  modules: {' '.join(walk['modules'])}")
        say(f"  deepest: {' > '.join(walk['deepest'])}")
        if name == "train":
            say(f"  between the verb and the loop: {' > '.join(walk['wrappers']) or 'nothing'}")
    found = numbers(walks)
    for key, value in found.items():
        say(f"{key:16} {value:3} (at most {LIMITS[key]}){'' if value <= LIMITS[key] else ': too many'}")
    return found


if __name__ == "__main__":
    if len(sys.argv) > 1:
        print(json.dumps(take(sys.argv[1]).summary()))
    else:
        print(json.dumps({"bench": "walks"} | take_all()))
