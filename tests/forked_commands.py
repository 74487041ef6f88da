"""Commands in processes of their own, forked from one that has everything imported: 0.1 s each instead of 3 s.

What a start itself does (help without torch, Ctrl-C, pipes that close) is tested with real starts in `test_cli`.
"""

import multiprocessing
import os
import subprocess
import sys
import tempfile
import traceback
from collections.abc import Callable, Mapping, Sequence
from multiprocessing.process import BaseProcess
from pathlib import Path

SERVER = multiprocessing.get_context("forkserver")
SERVER.set_forkserver_preload(["tests.fork_server_imports"])
ONE_THREAD = {"OMP_NUM_THREADS": "1"}


def leastwise(*arguments: str, cwd: Path | None = None, **variables: str) -> subprocess.CompletedProcess[str]:
    """The command line as a user meets it: its words and its exit code."""
    return forked(command_line, list(arguments), cwd, {"COLUMNS": "100"} | variables)


def python(code: str, cwd: Path | None = None) -> subprocess.CompletedProcess[str]:
    return forked(run_code, [code], cwd, {})


def forked(
    target: Callable[[Sequence[str]], int],
    arguments: list[str],
    cwd: Path | None,
    variables: Mapping[str, str],
    seconds: float = 300,
) -> subprocess.CompletedProcess[str]:
    with tempfile.TemporaryDirectory() as folder:
        process = begin(target, arguments, cwd or Path.cwd(), Path(folder), variables)
        process.join(seconds)
        if process.is_alive():
            process.kill()
            process.join()
            raise subprocess.TimeoutExpired(arguments, seconds)
        assert process.exitcode is not None
        out, err = ((Path(folder) / name).read_text() for name in ("out", "err"))
        return subprocess.CompletedProcess(arguments, process.exitcode, out, err)


def begin_leastwise(*arguments: str, cwd: Path) -> BaseProcess:
    """The command line while it works: it can be killed. Its words are in the files out and err of `cwd`."""
    return begin(command_line, list(arguments), cwd, cwd, {})


def begin(
    target: Callable[[Sequence[str]], int],
    arguments: list[str],
    cwd: Path,
    words: Path,
    variables: Mapping[str, str],
) -> BaseProcess:
    environment = dict(os.environ) | ONE_THREAD | variables
    given = (target, arguments, cwd, environment, words / "out", words / "err")
    process = SERVER.Process(target=child, args=given)
    process.start()
    return process


def child(
    target: Callable[[Sequence[str]], int],
    arguments: list[str],
    cwd: Path,
    environment: dict[str, str],
    out: Path,
    err: Path,
) -> None:
    os.chdir(cwd)
    os.environ.clear()
    os.environ.update(environment)
    for number, path in ((1, out), (2, err)):
        os.dup2(os.open(path, os.O_WRONLY | os.O_CREAT), number)
    sys.stdout, sys.stderr = (open(number, "w", encoding="utf-8") for number in (1, 2))  # noqa: PTH123, SIM115
    sys.argv = ["leastwise", *arguments]
    try:
        code = target(arguments)
    except SystemExit as stop:
        code = stop.code if isinstance(stop.code, int) else int(stop.code is not None)
    except BaseException:
        traceback.print_exc()
        code = 1
    sys.stdout.flush()
    sys.stderr.flush()
    os._exit(code)


def command_line(arguments: Sequence[str]) -> int:
    from leastwise.cli.main import main

    return main(arguments)


def run_code(arguments: Sequence[str]) -> int:
    sys.path.insert(0, "")
    exec(compile(arguments[0], "<example>", "exec"), {"__name__": "__main__"})
    return 0
