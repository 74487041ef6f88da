"""A store: a folder of finished jobs by key. Whatever lies below it is found, whichever verb made it.

A folder belongs to a job by the key in its claim. Nothing else is asked: neither the data nor the network has to be on
this machine to use a finished result, and a result of an older version counts as long as its job is the same.
"""

import re
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from functools import cache, cached_property
from itertools import product
from pathlib import Path

from leastwise.audit.evidence import EVIDENCE_FILE, PACKED_FILE
from leastwise.core.files import sha256, write_json
from leastwise.core.recipe import name_of_type, recipe_key
from leastwise.jobs.folder import CLAIM, SHARDS, is_same_major, job_key, read_claim
from leastwise.jobs.images import FEATURES, PICTURES
from leastwise.jobs.job import AuditJob, GivenNetwork, Job, ReleasedNetwork, TrainJob, needed_jobs
from leastwise.training.resume import EPOCHS, MODEL, NO_WEIGHTS, WEIGHTS

RESULTS = Path("results")  # where verbs put results unless told otherwise, and look for those of others
NETWORKS = "networks"  # the folder under the results for weights that others give away
ENDINGS = (".safetensors", ".pt", ".pth", ".tar")
KEY_SHOWN = 8
DEPTH = 4  # folders below the store in which results are looked for


@dataclass(eq=False)
class Store:
    """The results below a folder; new ones go to its shelf, or where `places` says. Others are found in `also` too."""

    root: Path
    shelf: str = ""
    places: Mapping[Job, Path] = field(default_factory=dict)
    also: tuple[Path, ...] = ()

    @property
    def home(self) -> Path:
        return self.root / self.shelf

    @cached_property
    def claimed(self) -> dict[str, list[Path]]:
        """Folders by the key of the job in their claim, as they were when somebody first asked."""
        found: dict[str, list[Path]] = {}
        for root, depth in product((self.root, *self.also), range(1, DEPTH + 1)):
            for path in sorted(root.glob("/".join(["*"] * depth + [CLAIM]))):
                claim = read_claim(path.parent)
                if claim is not None:
                    found.setdefault(job_key(claim), []).append(path.parent)
        return found

    def look_again(self) -> None:
        """Forget which folders there were: others have come."""
        self.__dict__.pop("claimed", None)

    def place(self, job: Job) -> Path:
        """Where a new result of a job goes."""
        if job in self.places:
            return self.places[job]
        kind = "trainings" if isinstance(job, TrainJob) else "audits"
        return self.home / kind / f"{describe_briefly(job)}-{recipe_key(job)[:KEY_SHOWN]}"

    def find(self, job: Job) -> Path | None:
        """The folder of the finished result of a job, if there is one."""
        networks = [] if isinstance(job, TrainJob) else [self.find_weights(need) for need in needed_jobs(job)]
        return self.find_key(recipe_key(job), list_extras(job), networks, first=self.place(job))

    def find_key(
        self, key: str, extras: Sequence[str], networks: Sequence[Path | None], *, first: Path | None = None
    ) -> Path | None:
        """The same, of a job that is known by its key, what is kept besides, and the weights that it was made with."""
        candidates = dict.fromkeys((*([] if first is None else [first]), *self.claimed.get(key, ())))
        known = [digest_file(file) for file in networks if file is not None]
        return next((one for one in candidates if is_finished(one, key, extras, networks=known)), None)

    def folder(self, job: Job) -> Path:
        """The folder of a job: where its result is, or where it will be."""
        return self.find(job) or self.place(job)

    def has(self, job: Job) -> bool:
        return self.find(job) is not None

    def has_begun(self, job: Job) -> bool:
        """Whether a job was begun and is not finished."""
        return not self.has(job) and read_claim(self.place(job)) is not None

    def digest_networks(self, job: AuditJob) -> list[str]:
        """The digests of the networks that an audit needs, as far as they are here."""
        files = [self.find_weights(need) for need in needed_jobs(job)]
        return [digest_file(file) for file in files if file is not None]

    def find_weights(self, model: TrainJob | ReleasedNetwork | GivenNetwork) -> Path | None:
        """The file with the weights of a network, if it is here."""
        if isinstance(model, TrainJob):
            folder = self.find(model)
            return None if folder is None else weights_in(folder)
        if isinstance(model, GivenNetwork):
            return None
        wanted = self.root / NETWORKS / model.weights
        files = (wanted.parent / f"{wanted.name}{ending}" for ending in ENDINGS)
        return next((file for file in files if file.is_file()), None)

    def version(self, job: Job) -> str:
        """The version of leastwise that made a finished result."""
        folder = self.find(job)
        return "" if folder is None else str((read_claim(folder) or {}).get("leastwise", ""))


def is_finished(folder: Path, key: str, extras: Sequence[str], *, networks: list[str]) -> bool:
    """Whether a folder holds the result of a job; an audit of a network that was trained anew since does not."""
    claim = read_claim(folder)
    if claim is None or job_key(claim) != key or not is_same_major(str(claim.get("leastwise", ""))):
        return False
    if claim["kind"] == "training":
        kept = weights_in(folder) is not None or (folder / NO_WEIGHTS).is_file()
        return kept and (folder / EPOCHS).is_file()
    if not any((folder / name).is_file() for name in (EVIDENCE_FILE, PACKED_FILE)) or (folder / SHARDS).exists():
        return False
    # Of several networks some may have let go of their weights: those that are here must be among the audited ones.
    return all((folder / name).is_file() for name in extras) and set(networks) <= set(claim.get("networks", networks))


def list_extras(job: Job) -> list[str]:
    """The files that an audit leaves besides its evidence."""
    if isinstance(job, TrainJob):
        return []
    return [name for name, wanted in ((FEATURES, job.features), (PICTURES, job.pictures)) if wanted]


def weights_in(folder: Path) -> Path | None:
    """The weights that a finished training left in its folder."""
    return next((folder / name for name in (WEIGHTS, MODEL) if (folder / name).is_file()), None)


def drop_weights(folder: Path) -> None:
    """Leave the record of a finished training and let its weights go; whoever needs them trains it again."""
    file = weights_in(folder)
    if file is not None:
        write_json(folder / NO_WEIGHTS, {"sha256": digest_file(file), "bytes": file.stat().st_size})
        file.unlink()


def describe_briefly(job: Job) -> str:
    """A few words that tell a reader of a folder's name what it is."""
    model = job if isinstance(job, TrainJob) else job.model
    if isinstance(model, GivenNetwork):
        words = ["given", model.digest[:KEY_SHOWN]]
    elif isinstance(model, ReleasedNetwork):
        words = ["released", model.weights]
    else:
        change = "-".join(map(str, model.data.change))
        parts = (model.training.objective, *model.training.policies)
        words = [model.data.name, change, model.arch, *(name_of_type(type(part)) for part in parts)]
    return re.sub(r"[^a-z0-9]+", "-", "-".join(word for word in words if word).lower()).strip("-")


def digest_file(file: Path) -> str:
    facts = file.stat()
    return digest_once(file, facts.st_ino, facts.st_size, facts.st_mtime_ns, facts.st_ctime_ns)


@cache
def digest_once(file: Path, *_facts: int) -> str:
    """The digest of a file as it was; a copy that keeps its size and date has another number or time of change."""
    return sha256(file.read_bytes())
