"""Whole trainings as one piece of work each, here or on the workers of a cluster."""

import json
import time
import uuid
from collections.abc import Callable, Iterator, Sequence
from functools import partial
from pathlib import Path
from tempfile import TemporaryDirectory
from typing import NamedTuple

from leastwise.core.files import check_writable, lock_folder, write_atomic
from leastwise.core.text import one_line
from leastwise.jobs.executor import Hands, Local
from leastwise.jobs.folder import RECIPE, RUN, Task, Watch, claimed, make_room
from leastwise.jobs.job import Train
from leastwise.jobs.train import training_data, training_task
from leastwise.training.loop import StepProgress
from leastwise.training.resume import FILES

SEEN = ".leastwise.seen."  # a file that a worker finds if it sees the same storage


class Errand(NamedTuple):
    """A training that can be done anywhere: functions of module level with their recipes, and nothing large."""

    make: Callable[[Path], Task]  # its task, somewhere under the folder given
    seen: Callable[[], str]  # the digest of its data, as whoever calls it would read them
    data: str  # the same, as seen here
    root: Path  # the folder to be given here
    folder: Path  # where results belong, under the root
    reads: tuple[Path, ...] = ()  # files under the root
    replaces: bool = False  # whether results of another recipe or version make room

    def run(self, root: Path, watch: Watch = lambda event: None) -> Task:
        done = self.make(root)
        done.run(watch, fresh=self.replaces and claimed(done.folder) not in (None, done.claim))
        return done


class Brought(NamedTuple):
    """What a worker sends back: files by name, the result last; none if it wrote them where they belong."""

    files: dict[str, bytes]
    seconds: float


class Ended(NamedTuple):
    errand: Errand
    seconds: float
    failed: str  # why, or nothing


Watching = Callable[[Errand], Watch]


def training_errand(job: Train, folder: Path, device: str = "cpu", threads: int = 0) -> Errand:
    make, seen = partial(task_in, job, device, threads), partial(data_seen, job)
    return Errand(make, seen, seen(), folder.absolute(), folder.absolute())  # workers are elsewhere


def task_in(job: Train, device: str, threads: int, folder: Path) -> Task:
    return training_task(job, folder, device, threads)


def data_seen(job: Train) -> str:
    return training_data(job).digest()


def train_all(errands: Sequence[Errand], hands: Hands, watching: Watching) -> Iterator[Errand]:
    """Those that are done, as they come to an end; what is finished already is not done again."""
    if isinstance(hands, Local):
        for errand in errands:
            errand.run(errand.root, watching(errand))
            yield errand
        return
    finished = [errand for errand in errands if errand.make(errand.root).finished]
    yield from finished
    for ended in side_by_side((errand for errand in errands if errand not in finished), hands):
        if ended.failed:
            raise ValueError(f"the training in {ended.errand.folder} could not be done: {ended.failed}")
        yield ended.errand


def side_by_side(errands: Iterator[Errand | None], hands: Hands) -> Iterator[Ended]:
    """On the workers of a cluster; None means that the next errand is known only after another one ended."""
    marks: dict[Path, Path] = {}

    def marked() -> Iterator[tuple[Errand, Path] | None]:
        for errand in errands:
            if errand is None:
                yield None
                continue
            if errand.root not in marks:
                check_writable(errand.root)
                marks[errand.root] = errand.root / f"{SEEN}{uuid.uuid4().hex}"
                write_atomic(marks[errand.root], b"")
            yield errand, marks[errand.root]

    try:
        for errand, answer in hands.trainings(marked()):
            yield Ended(errand, 0.0, answer) if isinstance(answer, str) else taken(errand, answer)
    finally:
        for mark in marks.values():
            mark.unlink(missing_ok=True)


def taken(errand: Errand, brought: Brought) -> Ended:
    """Put what a worker sent where it belongs."""
    try:
        if brought.files:
            claim, folder = json.loads(brought.files.pop(RECIPE)), errand.folder
            with lock_folder(folder):
                make_room(folder, claim, fresh=errand.replaces and claimed(folder) not in (None, claim))
                for name, content in brought.files.items():
                    write_atomic(folder / name, content)
    except (OSError, ValueError) as error:
        return Ended(errand, brought.seconds, one_line(error))
    return Ended(errand, brought.seconds, "")


def do_apart(errand: Errand, mark: Path, read: dict[str, bytes]) -> Brought:
    """On a worker: in the folder itself where it is shared, so that a later worker goes on; else in one of its own."""
    begun = time.monotonic()
    if errand.seen() != errand.data:
        raise ValueError("a worker does not see the same data: put it on storage that all workers share")
    if mark.exists():
        errand.run(errand.root, while_wanted(mark))
        return Brought({}, time.monotonic() - begun)
    with TemporaryDirectory() as place:
        for name, content in read.items():
            write_atomic(Path(place) / name, content)
        done = errand.run(Path(place))
        names = [name for name in (RECIPE, *FILES, RUN) if (done.folder / name).is_file()]
        files = {name: (done.folder / name).read_bytes() for name in names if name != done.result}
        files[done.result] = (done.folder / done.result).read_bytes()
        return Brought(files, time.monotonic() - begun)


def while_wanted(mark: Path) -> Watch:
    """A cancelled task cannot be stopped from outside; it would hold its folder against whoever comes next."""

    def look(event: object) -> None:
        if isinstance(event, StepProgress) and not mark.exists():
            raise RuntimeError("nobody waits for this training any more")

    return look
