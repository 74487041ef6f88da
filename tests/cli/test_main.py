"""The command line as a user meets it: a process, its words and its exit code."""

import json
import os
import signal
import subprocess
import sys
import time
from pathlib import Path

import numpy as np
import pytest
import torch

from leastwise.audit.evidence import load_evidence
from leastwise.cli.main import main
from leastwise.cli.verbs import VERBS
from leastwise.data.loading import load as fashion
from leastwise.models.load.checkpoint import load_checkpoint, save_checkpoint
from leastwise.models.zoo.registry import build
from tests.forked_commands import leastwise


def started(*arguments: str) -> subprocess.CompletedProcess[str]:
    """With a start of its own, as from a shell."""
    command = [sys.executable, "-m", "leastwise", *arguments]
    return subprocess.run(command, env=os.environ | {"COLUMNS": "100"}, capture_output=True, text=True, timeout=60)


@pytest.fixture(scope="module")
def checkpoint(tmp_path_factory: pytest.TempPathFactory) -> Path:
    path = tmp_path_factory.mktemp("model") / "model.pt"
    names = fashion("fashion-mini").names
    save_checkpoint(path, build("convnet", (1, 28, 28), 10, seed=1), (1, 28, 28), names=names)
    return path


def test_help_is_immediate_and_lists_the_verbs() -> None:
    took = []
    for _ in range(3):
        begun = time.perf_counter()
        shown = started("--help")
        took.append(time.perf_counter() - begun)
    assert shown.returncode == 0 and all(verb in shown.stdout for verb in ("demo", "audit", "train", "list"))
    assert min(took) < 0.3
    assert started().stdout == shown.stdout
    assert started("--version").stdout.startswith("leastwise 0.")


@pytest.mark.parametrize("verb", VERBS)
def test_help_of_a_verb_does_not_import_torch(verb: str) -> None:
    call = f"main(['{verb}', '--help'])"
    code = f"import sys; from leastwise.cli.main import main\ntry: {call}\nfinally: print('torch' in sys.modules)"
    shown = subprocess.run([sys.executable, "-c", code], capture_output=True, text=True, timeout=60)
    assert shown.returncode == 0 and shown.stdout.splitlines()[-1] == "False"
    assert f"usage: leastwise {verb}" in shown.stdout


BAD = {
    "unknown verb": (["audti", "x"], "there is no verb 'audti': did you mean audit?"),
    "unknown word": (
        ["banana"],
        f"'banana': choose {', '.join(VERBS)}",
    ),
    "no model": (["audit"], "MODEL"),
    "unknown option": (["audit", "MODEL", "--epps", "1"], "did you mean --eps?"),
    "bad choice": (["audit", "MODEL", "--norm", "l3"], "invalid choice 'l3'"),
    "bad integer": (["audit", "MODEL", "--seed", "x"], "'x'"),
    "missing model": (["audit", "gone.pt"], "there is no model 'gone.pt'"),
    "missing file": (["audit", "gone.py:build"], "there is no file 'gone.py'"),
    "unknown data": (["audit", "MODEL", "--data", "cifar-9"], "there is no data set or file 'cifar-9'"),
    "unknown split": (["audit", "MODEL", "--data", "fashion-mini/dev"], "has no split 'dev'"),
    "unknown attack": (["audit", "MODEL", "--attack", "clean,pgdx"], "there is no attack 'pgdx'"),
    "repeated attack": (["audit", "MODEL", "--attack", "pgd2,pgd2"], "named more than once"),
    "severity": (["audit", "MODEL", "--attack", "fog:6"], "there is no attack 'fog:6'"),
    "target": (["audit", "MODEL", "--attack", "pgd3-to-10"], "there is no class 10 to go to: choose 0 to 9"),
    "norm of an attack": (["audit", "MODEL", "--attack", "cwl2"], "cwl2 measures distance in L2: give --norm l2"),
    "norm of autoattack": (["audit", "MODEL", "--attack", "autoattack", "--norm", "l1"], "linf and l2, but saw l1"),
    "surrogate": (["audit", "MODEL", "--attack", "transfer:gone.pt"], "there is no model 'gone.pt'"),
    "no attack": (["audit", "MODEL", "--attack", ""], "no attack was named"),
    "eps of words": (
        ["audit", "MODEL", "--eps", "banana"],
        "eps must be a number such as 0.1 or 8/255, but saw 'banana'",
    ),
    "eps over zero": (["audit", "MODEL", "--eps", "8/0"], "but saw '8/0'"),
    "negative eps": (["audit", "MODEL", "--eps", "-1"], "eps must be a finite number, zero or more"),
    "eps not a number": (["audit", "MODEL", "--eps", "nan"], "eps must be a finite number"),
    "eps in 255ths": (["audit", "MODEL", "--eps", "8"], "write 8/255"),
    "negative step": (["audit", "MODEL", "--step", "-0.1"], "the step must be zero or more"),
    "mean of a checkpoint": (["audit", "MODEL", "--mean", "0.5"], "carries its own normalisation"),
    "mean without std": (["train", "standard", "--mean", "0.5"], "one number per channel each, but saw 1 and 0"),
    "mean of three": (
        ["train", "standard", "--mean", "0.5,0.5,0.5", "--std", "1,1,1"],
        "mean and std have 3 channels, but the images have 1",
    ),
    "rate": (["train", "standard", "--rate", "-1"], "the learning rate must be positive"),
    "per class": (["train", "standard", "--per-class", "-1"], "images per class must be 1 or more"),
    "no device": (["audit", "MODEL", "--device", "meta"], "the device 'meta' cannot be used"),
    "no accelerator": (["audit", "MODEL", "--device", "mps"], "(this torch was built without it, or this machine has"),
    "a folder as model": (["audit", "."], "there is no model '.'"),
    "steps": (["train", "pgd-at", "--steps", "-1"], "number of steps, zero or more"),
    "negative batch size": (["audit", "MODEL", "--batch-size", "-1"], "the batch size must be 1 or more"),
    "device": (["audit", "MODEL", "--device", "warp9"], "the device 'warp9' cannot be used"),
    "unknown architecture": (["train", "standard", "--model", "resnet1"], "there is no architecture 'resnet1'"),
    "unknown method": (["train", "magic"], "there is no training method 'magic'"),
    "no epochs": (["train", "standard", "--epochs", "0"], "epochs and batch size must be 1 or more"),
    "unknown data verb": (["data", "ftch", "mnist"], "ftch"),
    "no data verb": (["data"], "expected one of {list, fetch, verify, sheet, masks}"),
    "unknown set": (["data", "fetch", "cifar11"], "there is no data set 'cifar11': did you mean cifar10?"),
    "set inside the package": (["data", "fetch", "fashion-mini"], "inside the package: there is nothing to fetch"),
    "no such source": (["data", "fetch", "svhn", "--source", "npm", "--data-dir", "d"], "svhn has no source 'npm'"),
    "data not here": (["audit", "MODEL", "--data", "svhn/test", "--data-dir", "d"], "svhn is not on this machine"),
    "arrays have a size": (["audit", "MODEL", "--size", "64"], "images of one size"),
    "groups missing": (["audit", "MODEL", "--groups", "gone.txt"], "gone.txt"),
    "no such image": (["data", "sheet", "--image", "2000"], "there is no image 2000"),
    "trust needed": (["audit", "x.pt2"], "there is no model 'x.pt2'"),
    "unknown kind": (["list", "bananas"], "invalid choice 'bananas'"),
}


@pytest.mark.parametrize("case", BAD)
def test_a_mistake_gets_one_sentence_and_exit_code_2(
    case: str, checkpoint: Path, tmp_path: Path, capsys: pytest.CaptureFixture[str], monkeypatch: pytest.MonkeyPatch
) -> None:
    arguments, message = BAD[case]
    monkeypatch.chdir(tmp_path)
    code = main([str(checkpoint) if a == "MODEL" else a for a in arguments])
    said = capsys.readouterr().err.splitlines()
    assert code == 2 and len(said) == 1 and said[0].startswith("leastwise: ") and message in said[0]
    assert list(tmp_path.iterdir()) == []


def test_a_mistake_in_a_real_process_has_no_traceback(tmp_path: Path) -> None:
    shown = leastwise("audit", "gone.pt", "--eps", "banana", cwd=tmp_path)
    assert shown.returncode == 2 and shown.stdout == "" and "Traceback" not in shown.stderr
    assert len(shown.stderr.splitlines()) == 1


def test_audit_writes_evidence_and_summary_and_echoes_what_it_understood(checkpoint: Path, tmp_path: Path) -> None:
    arguments = ["audit", str(checkpoint), "--per-class", "3", "--attack", "clean,pgd2,tpgd2-grid", "--eps", "8/255"]
    shown = leastwise(*arguments, "--out", "out", cwd=tmp_path)
    assert shown.returncode == 0, shown.stderr
    assert "2 steps of 0.007843 on CE, Linf eps 0.03137, from a uniform start, any iterate counts" in shown.stdout
    assert "CE at 1/T = 50" in shown.stdout and "An attacker would pick" in shown.stdout
    summary = json.loads((tmp_path / "out" / "summary.json").read_text())
    assert list(summary["conditions"]) == ["clean", "pgd2", "tpgd2-grid"]
    assert summary["conditions"]["pgd2"]["n"] == [3] * 10
    evidence = load_evidence(tmp_path / "out")
    assert summary["key"] == evidence.key
    run = json.loads((tmp_path / "out" / "run.json").read_text())
    assert run["threads"] == 1
    recipe = json.loads((tmp_path / "out" / "recipe.json").read_text())
    assert recipe["key"] == evidence.key and recipe["recipe"]["conditions"][1][0] == "pgd2"
    reused = leastwise(*arguments, "--out", "out", cwd=tmp_path)
    assert reused.returncode == 0 and "done before, in out" in reused.stdout and "An attacker" in reused.stdout

    again = leastwise(*arguments, "--out", "again", cwd=tmp_path)
    assert again.returncode == 0
    one, two = ((tmp_path / name / "evidence.safetensors").read_bytes() for name in ("out", "again"))
    assert one == two
    other = leastwise(*arguments, "--out", "other", "--seed", "1", cwd=tmp_path)
    assert other.returncode == 0 and (tmp_path / "other" / "evidence.safetensors").read_bytes() != one


def test_conditions_of_every_kind_in_one_audit(checkpoint: Path, tmp_path: Path) -> None:
    names = ["clean", "mpgd2", "pgd2x2", "square:5", "fmn:3", f"transfer:{checkpoint}", "uniform:2", "fog:2"]
    arguments = ["audit", str(checkpoint), "--per-class", "2", "--attack", ",".join(names), "--eps", "0.2"]
    shown = leastwise(*arguments, "--out", "out", cwd=tmp_path)
    assert shown.returncode == 0, shown.stderr
    evidence = load_evidence(tmp_path / "out")
    assert list(evidence.conditions) == names
    # A transfer from the network itself is white-box PGD; fog knows no radius.
    assert evidence.tally(names[5]).correct.sum() <= evidence.tally("uniform:2").correct.sum()
    assert evidence.conditions["fog:2"].linf.max() > 0.2 and evidence.conditions["square:5"].linf.max() <= 0.2 + 1e-6
    assert evidence.conditions["square:5"].backwards == 0 < evidence.conditions["mpgd2"].backwards


@pytest.mark.medium
def test_audit_of_a_users_own_function_and_data(tmp_path: Path) -> None:
    (tmp_path / "mine.py").write_text(
        "import torch\ndef build():\n    torch.manual_seed(0)\n"
        "    return torch.nn.Sequential(torch.nn.Flatten(), torch.nn.Linear(3 * 5 * 4, 3))\n"
    )
    rng = np.random.default_rng(0)
    images, labels = rng.integers(0, 256, (30, 3, 5, 4), dtype=np.uint8), np.arange(30) % 2
    np.savez(tmp_path / "set.npz", images=images, labels=labels, names=np.array(["cat", "dog", "unicorn"]))
    normalised = ["--mean", "0.5,0.5,0.5", "--std", "0.2,0.2,0.2"]
    shown = leastwise(
        "audit", "mine.py:build", "--data", "./set.npz", *normalised, "--attack", "clean,fgsm", cwd=tmp_path
    )
    assert shown.returncode == 0, shown.stderr
    assert "30 images of 3x5x4, 3 classes" in shown.stdout and "no images" in shown.stdout
    (folder,) = (tmp_path / "results").iterdir()
    assert folder.name == f"audit-{load_evidence(folder).key[:8]}"
    clean = json.loads((folder / "summary.json").read_text())["conditions"]["clean"]
    assert clean["n"] == [15, 15, 0] and clean["accuracy"][2] is None


@pytest.mark.medium
def test_train_writes_a_checkpoint_that_audit_takes(tmp_path: Path) -> None:
    arguments = ["train", "trades", "--per-class", "5", "--epochs", "2", "--steps", "1", "--eps", "0.1", "--out", "t"]
    shown = leastwise(*arguments, cwd=tmp_path)
    assert shown.returncode == 0, shown.stderr
    model = load_checkpoint(tmp_path / "t" / "model.pt")
    assert model.arch == "small" and model.k == 10
    shown = leastwise("audit", "t/model.pt", "--per-class", "2", "--attack", "clean", cwd=tmp_path)
    assert shown.returncode == 0, shown.stderr


@pytest.mark.medium
def test_ctrl_c_exits_130_cleanly_and_the_same_command_goes_on(tmp_path: Path) -> None:
    arguments = ["train", "pgd-at", "--per-class", "50", "--epochs", "8", "--steps", "1", "--out", "t"]
    process = subprocess.Popen(
        [sys.executable, "-m", "leastwise", *arguments],
        cwd=tmp_path,
        env=os.environ | {"OMP_NUM_THREADS": "1"},
        stdout=subprocess.PIPE,
        stderr=subprocess.PIPE,
        text=True,
    )
    deadline = time.monotonic() + 120
    while not (tmp_path / "t" / "epochs.jsonl").exists() and time.monotonic() < deadline:
        time.sleep(0.05)
    process.send_signal(signal.SIGINT)
    _, errors = process.communicate(timeout=60)
    assert process.returncode == 130 and "Traceback" not in errors and "interrupted" in errors
    assert {p.name for p in (tmp_path / "t").iterdir()} == {
        "best.pt",
        "epochs.jsonl",
        "manifest.json",
        "recipe.json",
        "resume.pt",
    }
    done = torch.load(tmp_path / "t" / "resume.pt", weights_only=True)["finished"]
    assert 1 <= done < 8
    again = leastwise(*arguments, cwd=tmp_path)
    assert again.returncode == 0 and f"epoch {done + 1}/8" in again.stdout and f"epoch {done}/8" not in again.stdout
    assert (tmp_path / "t" / "model.pt").is_file()


@pytest.mark.medium
def test_list_shows_every_name() -> None:
    shown = leastwise("list").stdout
    for word in ("tpgdN[@K]", "tpgdN-grid", "fashion-mini", "pgd-at", "trades", "small", "convnet"):
        assert word in shown
    only = leastwise("list", "models").stdout
    assert "small" in only and "pgdN" not in only


@pytest.mark.medium
def test_output_into_a_closed_pipe_is_not_an_error() -> None:
    command = f"{sys.executable} -m leastwise list | head -1; echo ${{PIPESTATUS[0]}}"
    shown = subprocess.run(["bash", "-c", command], capture_output=True, text=True, timeout=60)
    assert shown.stdout.splitlines()[-1] == "0" and "Traceback" not in shown.stderr


def test_an_unwritable_folder_is_one_sentence(
    checkpoint: Path, tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    (tmp_path / "file").touch()
    code = main(["audit", str(checkpoint), "--per-class", "1", "--attack", "clean", "--out", str(tmp_path / "file")])
    said = capsys.readouterr().err.splitlines()
    assert code == 2 and len(said) == 1 and str(tmp_path / "file") in said[0]
