"""Files that workers send back: only those that were asked for are written, under names that are known here."""

import json
import re
from pathlib import Path

from leastwise.core.files import lock_folder, write_atomic
from leastwise.core.recipe import recipe_key
from leastwise.jobs.folder import CLAIM, RUN, is_stale, make_room
from leastwise.jobs.train_task import TrainRequest
from leastwise.training.resume import FILES as TRAINING_FILES


def check_image_name(name: str, piece: str, *, wanted: bool) -> None:
    """Refuse a file of attacked images that does not belong to the piece that was asked for."""
    if not wanted or not re.fullmatch(rf"{re.escape(Path(piece).stem)}-[0-9]{{3,9}}\.safetensors", name):
        raise ValueError(f"a worker sent the file {name!r}, which nobody asked for with {piece}: is it yours?")


def place_files(request: TrainRequest, files: dict[str, bytes]) -> None:
    """Put what a worker sent where it belongs; nothing, if it wrote its files there itself."""
    if not files:
        return
    claim, folder = json.loads(files.pop(CLAIM, b"{}")), request.folder
    if not isinstance(claim, dict) or (claim.get("kind"), claim.get("key")) != ("training", recipe_key(request.job)):
        raise ValueError("a worker sent the results of another training: is it yours?")
    unknown = sorted(files.keys() - {*TRAINING_FILES, RUN})
    if unknown or request.result not in files:
        raise ValueError(f"a worker sent the files {', '.join(map(repr, sorted(files)))}, not those of a training")
    with lock_folder(folder):
        make_room(folder, claim, fresh=request.replaces and is_stale(folder, claim))
        for name, content in files.items():
            write_atomic(folder / name, content)
