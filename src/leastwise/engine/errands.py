"""Whole trainings as one piece of work each, here or on the workers of a cluster."""

import uuid
from collections.abc import Callable, Iterator, Sequence
from pathlib import Path
from tempfile import TemporaryDirectory
from typing import NamedTuple

from leastwise import train as trains
from leastwise.engine.hands import Hands, Local
from leastwise.engine.tasks import RUN, Watch
from leastwise.engine.trainings import training_task
from leastwise.plan import Train
from leastwise.store import check_writable, locked, write_atomic

SEEN = ".leastwise.seen."  # a file that a worker finds if it sees the same storage


class Errand(NamedTuple):
    """A training and the folder it belongs in."""

    job: Train
    folder: Path
    device: str = "cpu"
    threads: int = 0


class Trained(NamedTuple):
    """Files by name; none if the worker wrote them where they belong."""

    files: dict[str, bytes]


Watching = Callable[[Errand], Watch]


def train_all(errands: Sequence[Errand], hands: Hands, watching: Watching) -> Iterator[Errand]:
    """Those that are done, as they come to an end; what is finished already is not done again."""
    if isinstance(hands, Local):
        for errand in errands:
            training_task(*errand).run(watching(errand))
            yield errand
        return
    from leastwise.engine.cluster import Cluster

    assert isinstance(hands, Cluster)
    errands = [errand._replace(folder=errand.folder.absolute()) for errand in errands]  # workers are elsewhere
    tasks = {errand: training_task(*errand) for errand in errands}
    yield from (errand for errand, task in tasks.items() if task.finished)
    open_ones = [errand for errand, task in tasks.items() if not task.finished]
    marks = {errand: errand.folder / f"{SEEN}{uuid.uuid4().hex}" for errand in open_ones}
    try:
        for errand, mark in marks.items():
            check_writable(errand.folder)
            write_atomic(mark, b"")
        for errand, trained in hands.trainings([(e, marks[e], tasks[e].claim["data"]) for e in open_ones]):
            if trained.files:
                with locked(errand.folder):
                    tasks[errand].make_room(fresh=False)
                    for name in sorted(trained.files, key=lambda name: name == trains.MODEL):  # the model last
                        write_atomic(errand.folder / name, trained.files[name])
            yield errand
    finally:
        for mark in marks.values():
            mark.unlink(missing_ok=True)


def train_apart(errand: Errand, mark: Path, data: str) -> Trained:
    """On a worker: in the folder itself where it is shared, so that a later worker goes on; else in one of its own."""
    if mark.exists():
        done = training_task(*errand)
        check_data(done.claim["data"], data)
        done.run()
        return Trained({})
    with TemporaryDirectory() as place:
        done = training_task(errand.job, Path(place), errand.device, errand.threads)
        check_data(done.claim["data"], data)
        done.run()
        names = [name for name in (*trains.FILES, RUN) if (Path(place) / name).is_file()]
        return Trained({name: (Path(place) / name).read_bytes() for name in names})


def check_data(seen: str, wanted: str) -> None:
    if seen != wanted:
        raise ValueError("a worker does not see the same data: put it on storage that all workers share")
