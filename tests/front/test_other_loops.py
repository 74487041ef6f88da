"""Lightning and the Trainer of Hugging Face with a step: their files say what epochs.jsonl says."""

import csv
import json
import re
import subprocess
import sys
from pathlib import Path
from typing import Any

import pytest
import torch
from torch import nn
from torch.utils.data import DataLoader, Dataset

import leastwise as lw
from leastwise.data.dataset import Dataset as LabelledImages
from leastwise.data.loading import load
from leastwise.front.trainer import trainer_type
from leastwise.models.zoo.registry import build
from leastwise.training.recipe import SGD
from leastwise.training.schedules import OneCycle
from tests.forked_commands import leastwise

EPOCHS, BATCH, IMAGES = 2, 20, 120
TRAIN = "train trades --fair cfa --model convnet --steps 1 --eps 0.1 --epochs 2 --batch-size 20 --per-class 12 --seed 3"


@pytest.fixture(scope="module")
def lines(tmp_path_factory: pytest.TempPathFactory) -> list[dict[str, Any]]:
    """What `leastwise train` saw in every epoch, with the images, order, schedule and optimiser of the tests below."""
    folder = tmp_path_factory.mktemp("train")
    done = leastwise(*TRAIN.split(), "--valid-per-class", "0", "--best-by", "last", "--out", "t", cwd=folder)
    assert done.returncode == 0, done.stderr
    return [json.loads(line) for line in (folder / "t" / "epochs.jsonl").read_text().splitlines()]


def begin() -> tuple[LabelledImages, nn.Module, lw.MethodStep]:
    data = load("fashion-mini", "train").take(12)
    net = build("convnet", data.shape, data.k, seed=3)
    return data, net, lw.TRADES(eps=0.1, steps=1, policy=lw.CFA(), classes=data, seed=3)


def rate(done: int) -> float:
    return OneCycle(0.2).rate((done + 1) / (EPOCHS * IMAGES / BATCH + 1))


class Rows(Dataset):
    """The images as dictionaries or tuples, with ids as noise has them."""

    def __init__(self, data: LabelledImages) -> None:
        self.batch = data.batch(torch.arange(len(data)).numpy())

    def __len__(self) -> int:
        return len(self.batch.y)

    def __getitem__(self, place: int) -> tuple[torch.Tensor, ...]:
        return tuple(part[place] for part in self.batch)


def check_against(lines: list[dict[str, Any]], values: list[dict[str, float]], names: tuple[str, ...]) -> None:
    """Every curve of the training side, epoch by epoch."""
    assert len(values) == len(lines) == EPOCHS
    for line, found in zip(lines, values, strict=True):
        assert found["loss"] == pytest.approx(line["loss"], rel=1e-6)
        for kind in ("clean", "attacked"):
            each = [c / n for c, n in zip(line[kind]["correct"], line[kind]["n"], strict=True)]
            assert [found[f"train {kind}/{name}"] for name in names] == pytest.approx(each)
            assert found[f"train {kind}/worst"] == pytest.approx(min(each))
            assert found[f"train {kind}/spread"] == pytest.approx(max(each) - min(each))
            assert found[f"train {kind}/average"] == pytest.approx(sum(line[kind]["correct"]) / IMAGES)


@pytest.mark.slow
@pytest.mark.filterwarnings("ignore")  # of Lightning, of loaders without workers and of devices
def test_lightning_logs_and_saves_what_leastwise_train_saw(lines: list[dict[str, Any]], tmp_path: Path) -> None:
    pl = pytest.importorskip("lightning.pytorch")
    from lightning.pytorch.loggers import CSVLogger

    data, net, step = begin()

    class Robust(pl.LightningModule):
        def __init__(self) -> None:
            super().__init__()
            self.net = net

        def training_step(self, batch: Any, place: int) -> torch.Tensor:
            for group in self.optimizers().param_groups:
                group["lr"] = rate(self.global_step)
            return step(self.net, *batch)

        def configure_optimizers(self) -> torch.optim.Optimizer:
            return SGD().make(self.net, 0.0)

    def trainer(epochs: int) -> Any:
        return pl.Trainer(
            max_epochs=epochs, accelerator="cpu", logger=CSVLogger(tmp_path, name="", version="v"), log_every_n_steps=1,
            callbacks=[callback], enable_progress_bar=False, enable_model_summary=False,
        )  # fmt: skip

    callback = lw.ClassMeterCallback(step)
    loader = DataLoader(Rows(data), batch_size=BATCH, sampler=step.sampler(data.labels, data.ids))
    run, module = trainer(EPOCHS), Robust()
    run.fit(module, loader)
    rows = list(csv.DictReader((tmp_path / "v" / "metrics.csv").open()))
    values = [{n: float(v) for n, v in row.items() if v} for row in rows if row.get("loss")]
    check_against(lines, values, step.names)

    run.save_checkpoint(tmp_path / "last.ckpt")
    held = torch.load(tmp_path / "last.ckpt", weights_only=True)["callbacks"]
    _, _, other = begin()
    other.load_state_dict(next(one for name, one in held.items() if "ClassMeter" in name))
    assert other.finished == 2 and torch.equal(other.states[0]["radius"], step.states[0]["radius"])
    assert other.meter.rows() == step.meter.rows()


@pytest.mark.slow
@pytest.mark.filterwarnings("ignore")
def test_the_trainer_of_hugging_face_logs_and_saves_what_leastwise_train_saw(
    lines: list[dict[str, Any]], tmp_path: Path
) -> None:
    pytest.importorskip("accelerate")
    from transformers import TrainingArguments

    data, net, step = begin()
    rows = [{"pixel_values": x, "labels": int(y), "ids": int(i)} for x, y, i in Rows(data)]

    def trainer(step: lw.MethodStep, net: nn.Module, folder: str, epochs: int = EPOCHS) -> Any:
        optimiser = SGD().make(net, 1.0)
        arguments = TrainingArguments(
            str(tmp_path / folder), num_train_epochs=epochs, per_device_train_batch_size=BATCH, max_grad_norm=0.0,
            report_to="none", use_cpu=True, save_strategy="epoch", logging_strategy="no", disable_tqdm=True,
        )  # fmt: skip
        schedule = torch.optim.lr_scheduler.LambdaLR(optimiser, rate)
        return lw.StepTrainer(
            step, labels=data.labels, ids=data.ids, model=net, args=arguments, train_dataset=rows,
            optimizers=(optimiser, schedule),
        )  # fmt: skip

    whole = trainer(step, net, "a")
    whole.train()
    state = json.loads((tmp_path / "a" / "checkpoint-12" / "trainer_state.json").read_text())
    check_against(lines, [one for one in state["log_history"] if "train clean/worst" in one], step.names)

    _, first_net, first = begin()
    trainer(first, first_net, "b", 1).train()
    _, again_net, again = begin()
    trainer(again, again_net, "b").train(resume_from_checkpoint=str(tmp_path / "b" / "checkpoint-6"))
    assert again.meter.rows() == step.meter.rows()
    assert all(torch.equal(a, b) for a, b in zip(again_net.parameters(), net.parameters(), strict=True))


@pytest.mark.parametrize("missing", [("lightning", "lightning.pytorch", "pytorch_lightning"), ("accelerate",)])
def test_a_library_that_is_not_installed_is_one_sentence(
    missing: tuple[str, ...], monkeypatch: pytest.MonkeyPatch
) -> None:
    for name in missing:
        monkeypatch.setitem(sys.modules, name, None)
    trainer_type.cache_clear()  # of a test before this one
    step = lw.STANDARD(classes=3)
    extra = "lightning" if len(missing) > 1 else "trainer"
    with pytest.raises(ModuleNotFoundError, match=rf"is not installed.*: pip install 'leastwise\[{extra}\]'"):
        lw.ClassMeterCallback(step) if extra == "lightning" else lw.StepTrainer(step)


GUIDE = Path(__file__).parents[2] / "docs" / "guide"
SHOWN = [
    (page, code)
    for page in ("own-loop", "trackers")
    for code in re.findall(r"^```py\n(.*?)^```", (GUIDE / f"{page}.md").read_text("utf-8"), re.M | re.S)
    if "import leastwise" in code
]


@pytest.mark.slow
@pytest.mark.parametrize("number", range(len(SHOWN)))
def test_what_the_guide_shows_of_other_libraries_runs(number: int, tmp_path: Path) -> None:
    for module in ("lightning", "accelerate", "tensorboard", "mlflow"):
        pytest.importorskip(module)
    done = subprocess.run([sys.executable, "-c", SHOWN[number][1]], cwd=tmp_path, capture_output=True, text=True)
    assert done.returncode == 0, done.stderr
