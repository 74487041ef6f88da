"""An audit that is killed goes on where it was, and ends with the same bytes."""

import os
import signal
import sqlite3
import time
from multiprocessing.process import BaseProcess
from pathlib import Path

import numpy as np
import pytest
import torch
from safetensors.torch import load_file

from leastwise.attacks.base import Clean
from leastwise.attacks.goals import CE
from leastwise.attacks.pgd import PGD
from leastwise.attacks.threats import Linf
from leastwise.audit.auditor import make_auditor
from leastwise.audit.evidence import EVIDENCE_FILE, load_evidence
from leastwise.data.dataset import Dataset
from leastwise.data.loading import load
from leastwise.jobs.audit_task import AuditTask
from leastwise.jobs.events import Planned, Step
from leastwise.jobs.folder import IMAGES, SHARDS
from leastwise.jobs.shards import LEDGER, open_ledger, piece_name
from leastwise.models.classifier import Classifier
from leastwise.models.load.checkpoint import save_checkpoint
from leastwise.models.zoo.registry import build
from leastwise.report.summary import summarise
from tests.conftest import SHAPE, K
from tests.forked_commands import begin_leastwise

CONDITIONS = (("clean", Clean()), ("pgd5", PGD(Linf(0.1), CE(), step=0.03, steps=5, keep="fooled")))
KILLS = 12


@pytest.fixture
def model() -> Classifier:
    return build("convnet", SHAPE, K, seed=3)


def task(model: Classifier, data: Dataset, folder: Path, budget: float | None = None) -> AuditTask:
    return AuditTask(make_auditor(model, data, CONDITIONS, batch_size=4, shard=7), data, folder, budget=budget)


def test_pieces_are_read_back_only_as_they_were_committed(tmp_path: Path) -> None:
    with open_ledger(tmp_path) as done:
        assert done.read("a") is None
        done.commit("a", b"first", 1.5)
        done.commit("b", b"second", 0.5)
    with open_ledger(tmp_path) as done:
        assert done.read("a") == b"first" and done.seconds("a") == 1.5
        (tmp_path / "a").write_bytes(b"First")
        (tmp_path / "b").unlink()
        assert done.read("a") is None and done.read("b") is None
        done.commit("a", b"again", 1.0)
        assert done.read("a") == b"again"
        with pytest.raises(ValueError, match=f"process {os.getpid()} on .* is working in"), open_ledger(tmp_path):
            pass


@pytest.mark.parametrize("damage", [b"no ledger at all", b""])
def test_a_damaged_ledger_begins_anew(damage: bytes, tmp_path: Path) -> None:
    with open_ledger(tmp_path) as done:
        done.commit("a", b"first", 1.0)
    (tmp_path / LEDGER).write_bytes(damage)
    with open_ledger(tmp_path) as done:
        assert done.read("a") is None
        done.commit("a", b"again", 1.0)
    with sqlite3.connect(tmp_path / LEDGER) as lines:
        assert lines.execute("select count(*) from pieces").fetchone() == (1,)


class Cut(Exception):
    pass


@pytest.mark.parametrize("after", [1, 5, 9])
def test_an_interrupted_audit_attacks_only_what_is_left(
    after: int, model: Classifier, unbalanced: Dataset, tmp_path: Path
) -> None:
    whole = task(model, unbalanced, tmp_path / "whole").run().read_bytes()
    seen: list[Step] = []

    def cut(event: object) -> None:
        if isinstance(event, Step):
            seen.append(event)
            if len(seen) == after:
                raise Cut

    with pytest.raises(Cut):
        task(model, unbalanced, tmp_path / "cut").run(cut)
    assert not (tmp_path / "cut" / EVIDENCE_FILE).exists()
    later: list[Step] = []
    again = task(model, unbalanced, tmp_path / "cut")
    again.run(lambda event: later.append(event) if isinstance(event, Step) else None)
    assert (tmp_path / "cut" / EVIDENCE_FILE).read_bytes() == whole and again.finished
    assert len(later) <= len(seen) + 20 and later[-1].fraction == 1 and not (tmp_path / "cut" / SHARDS).exists()
    if after == 9:
        assert later[0].fraction > seen[0].fraction  # what was committed was not done again


def test_a_damaged_shard_is_found_and_done_again(model: Classifier, unbalanced: Dataset, tmp_path: Path) -> None:
    whole = task(model, unbalanced, tmp_path / "whole").run().read_bytes()
    place = tmp_path / "cut" / SHARDS / piece_name(0, 1)

    def cut(event: object) -> None:
        if place.exists() and isinstance(event, Step) and event.condition == "clean":
            raise Cut

    with pytest.raises(Cut):
        task(model, unbalanced, tmp_path / "cut").run(cut)
    damaged = bytearray(place.read_bytes())
    damaged[len(damaged) // 2] ^= 1
    place.write_bytes(bytes(damaged))
    fractions: list[float] = []
    task(model, unbalanced, tmp_path / "cut").run(
        lambda event: fractions.append(event.fraction) if isinstance(event, Step) else None
    )
    shards = -(-len(unbalanced) // 7)
    assert fractions[0] < 1 / shards  # the first shard's attack was done again
    assert (tmp_path / "cut" / EVIDENCE_FILE).read_bytes() == whole


def test_another_seed_never_meets_old_shards(model: Classifier, unbalanced: Dataset, tmp_path: Path) -> None:
    def cut(event: object) -> None:
        if isinstance(event, Step) and event.fraction > 0.5:
            raise Cut

    with pytest.raises(Cut):
        task(model, unbalanced, tmp_path).run(cut)
    other = AuditTask(make_auditor(model, unbalanced, CONDITIONS, seed=1, batch_size=4, shard=7), unbalanced, tmp_path)
    pieces = sorted(path.name for path in (tmp_path / SHARDS).iterdir())
    with pytest.raises(ValueError, match=r"holds another audit \(clean, pgd5\): choose .* or replace it with --fresh"):
        other.run()
    assert sorted(path.name for path in (tmp_path / SHARDS).iterdir()) == pieces
    first: list[float] = []
    other.run(lambda event: first.append(event.fraction) if isinstance(event, Step) else None, fresh=True)
    assert first[0] < 0.2
    auditor = make_auditor(model, unbalanced, CONDITIONS, seed=1, batch_size=4, shard=7)
    alone = AuditTask(auditor, unbalanced, None).attack()
    assert (tmp_path / EVIDENCE_FILE).read_bytes() == alone.to_bytes()


def test_a_time_budget_takes_whole_shards_and_says_what_it_left_out(
    model: Classifier, unbalanced: Dataset, tmp_path: Path
) -> None:
    plans: list[Planned] = []
    done = task(model, unbalanced, tmp_path, budget=1e-9)
    done.run(lambda event: plans.append(event) if isinstance(event, Planned) else None)
    found = load_evidence(tmp_path)
    assert [plan.fit for plan in plans] == [1] and len(found.ids) == 7
    assert any(f"7 of {len(unbalanced)} images" in warning for warning in found.warnings)
    positions = make_auditor(model, unbalanced, CONDITIONS, batch_size=4, shard=7).shards(unbalanced)[0]
    assert np.array_equal(found.ids, np.sort(unbalanced.ids[positions]))
    # Without the budget the rest is added, and the result is that of an audit without one.
    assert not task(model, unbalanced, tmp_path).finished
    whole = task(model, unbalanced, tmp_path).run().read_bytes()
    assert whole == task(model, unbalanced, tmp_path / "whole").run().read_bytes()


def test_kept_images_are_what_was_predicted_bit_by_bit(model: Classifier, unbalanced: Dataset, tmp_path: Path) -> None:
    whole = make_auditor(model, unbalanced, CONDITIONS, batch_size=4, shard=7, images=True)
    AuditTask(whole, unbalanced, tmp_path).run()
    found = load_evidence(tmp_path)
    model.eval()
    for number, (name, _) in enumerate(CONDITIONS):
        files = sorted((tmp_path / IMAGES).glob(f"*-{number:03}-*.safetensors"))
        parts = [load_file(file) for file in files]
        ids = torch.cat([part["ids"] for part in parts])
        images = torch.cat([part["images"] for part in parts])[ids.argsort()]
        assert np.array_equal(ids.sort().values.numpy(), found.ids)
        if name == "clean":
            assert torch.equal(images, unbalanced.batch(np.argsort(unbalanced.ids)).x)
        with torch.no_grad():
            predicted, rounded = model(images).argmax(1), model((255 * images).round() / 255).argmax(1)
        assert np.array_equal(predicted.numpy(), found.conditions[name].predicted)
        assert np.array_equal(rounded.numpy(), found.conditions[name].rounded)
        frame = summarise(found)["conditions"][name]
        right = found.conditions[name].rounded == found.labels
        assert frame["in_8_bits"]["correct"] == np.bincount(found.labels[right], minlength=K).tolist()
    plain = make_auditor(model, unbalanced, CONDITIONS, batch_size=4, shard=7)
    assert (
        whole.key != plain.key
        and "in_8_bits" not in summarise(AuditTask(plain, unbalanced, None).attack())["conditions"]["pgd5"]
    )


@pytest.mark.medium
def test_killed_at_random_moments_it_ends_with_the_same_bytes(tmp_path: Path) -> None:
    names = load("fashion-mini").names
    save_checkpoint(tmp_path / "model.pt", build("convnet", (1, 28, 28), 10, seed=1), (1, 28, 28), names=names)
    attacks = ["--attack", "clean,pgd20,apgd-ce", "--eps", "0.02"]
    command = ["audit", "model.pt", *attacks, "--per-class", "20", "--shard", "10"]

    def begin(out: str) -> BaseProcess:
        return begin_leastwise(*command, "--out", out, cwd=tmp_path)

    def ended(run: BaseProcess) -> int | None:
        run.join(300)
        return run.exitcode

    assert ended(begin("whole")) == 0
    rng, killed = np.random.default_rng(0), 0
    deadline = time.monotonic() + 240
    while killed < KILLS and time.monotonic() < deadline:
        run = begin("killed")
        pieces = len(list((tmp_path / "killed" / SHARDS).glob("*.safetensors")))
        while run.is_alive() and len(list((tmp_path / "killed" / SHARDS).glob("*.safetensors"))) <= pieces:
            time.sleep(0.002)
        time.sleep(float(rng.uniform(0, 0.05)))
        run.kill()
        killed += ended(run) == -signal.SIGKILL
    assert killed >= 10
    assert ended(begin("killed")) == 0
    assert (tmp_path / "killed" / EVIDENCE_FILE).read_bytes() == (tmp_path / "whole" / EVIDENCE_FILE).read_bytes()
