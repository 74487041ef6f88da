"""State dicts in whatever they were wrapped when they were saved; what does not fit is counted and explained."""

from collections.abc import Callable
from pathlib import Path

import pytest
import torch

from leastwise.models.classifier import Classifier, wrap
from leastwise.models.load.dispatch import load_model
from leastwise.models.load.guess import find_fitting
from leastwise.models.load.state_dict import list_views
from leastwise.models.zoo.registry import ARCHITECTURES, build
from tests.conftest import SHAPE, K
from tests.models.linear_network import MEAN, NAMES, STD, Batch

State = dict[str, torch.Tensor]


@pytest.fixture
def small() -> Classifier:
    return build("small", SHAPE, K, seed=4)


def saved(content: object, folder: Path) -> str:
    torch.save(content, folder / "w.pth")
    return str(folder / "w.pth")


def under(prefix: str, state: State) -> State:
    return {prefix + name: value for name, value in state.items()}


PREFIXES = [
    "_orig_mod.",
    "module._orig_mod.",
    "_orig_mod.module.model.",
    "net.model.",
    "1.module.",
    "wrapper.backbone.",
]


@pytest.mark.parametrize("prefix", PREFIXES)
def test_wrappers_around_a_network_are_taken_off(prefix: str, small: Classifier, tmp_path: Path) -> None:
    path = saved(under(prefix, small.net.state_dict()), tmp_path)
    model = load_model(path, SHAPE, NAMES, arch="small")
    assert model.digest() == small.digest()
    # A bare DataParallel or torch.compile does nothing to images; any other wrapper may have normalised them.
    silent = prefix.replace("module.", "").replace("_orig_mod.", "") == ""
    assert model.notes == () if silent else "if that wrapper normalised the images" in model.notes[0]
    assert load_model(path, SHAPE, NAMES, arch="small", mean=MEAN, std=STD).notes == ()


def test_wrappers_around_parts_of_a_network_are_taken_off(small: Classifier, tmp_path: Path) -> None:
    state = {f"{n.split('.')[0]}._orig_mod.{n.split('.', 1)[1]}": v for n, v in small.net.state_dict().items()}
    assert load_model(saved(state, tmp_path), SHAPE, NAMES, arch="small").digest() == small.digest()


def attacker_model(state: State) -> State:
    """What the robustness library saves: the network twice, and its normaliser twice."""
    mean, std = torch.tensor(MEAN).view(3, 1, 1), torch.tensor(STD).view(3, 1, 1)
    return {
        "module.normalizer.new_mean": mean,
        "module.normalizer.new_std": std,
        **under("module.model.", state),
        "module.attacker.normalize.new_mean": mean,
        "module.attacker.normalize.new_std": std,
        **under("module.attacker.model.", state),
    }


def test_a_robustness_checkpoint_brings_its_normalisation(small: Classifier, tmp_path: Path, batch: Batch) -> None:
    state = small.net.state_dict()
    path = saved({"model": attacker_model(state), "optimizer": {"state": {}}, "epoch": 3}, tmp_path)
    model = load_model(path, SHAPE, NAMES, arch="small")
    expected = wrap(small.net, K, mean=MEAN, std=STD).eval()(batch[0])
    assert (model.mean, model.std) == (MEAN, STD) and torch.equal(model.eval()(batch[0]), expected)
    assert model.notes[0].startswith("mean 0.25, 0.5, 0.125 and std 0.5, 0.25, 0.75 were saved beside the network")
    assert f"{len(state)} entries of" in model.notes[1] and "outside 'module.model.' were left out" in model.notes[1]
    theirs = load_model(path, SHAPE, NAMES, arch="small", mean=(0.0, 0.0, 0.0), std=(1.0, 1.0, 1.0))
    assert theirs.mean == (0.0, 0.0, 0.0)


def test_a_sequential_behind_a_normalising_layer(small: Classifier, tmp_path: Path) -> None:
    state = {"0.mean": torch.tensor(MEAN), "0.std": torch.tensor(STD), **under("1.", small.net.state_dict())}
    model = load_model(saved(state, tmp_path), SHAPE, NAMES, arch="small")
    assert (model.mean, model.std) == (MEAN, STD)
    odd = {**state, "0.mean": torch.tensor([110.0, 120.0, 130.0])}  # not the mean of pixels in [0, 1]
    notes = load_model(saved(odd, tmp_path), SHAPE, NAMES, arch="small").notes
    assert "give --mean and --std" in notes[0] and "2 entries" in notes[1] and "0.mean, 0.std" in notes[1]


def test_entries_that_are_no_tensors_do_not_hide_the_weights(small: Classifier, tmp_path: Path) -> None:
    state = small.net.state_dict()
    for content in ({"state_dict": {**state, "_extra_state": None}}, {**state, "epoch": 3}):
        torch.save(content, tmp_path / "w.pt")
        model = load_model(str(tmp_path / "w.pt"), SHAPE, NAMES, arch="small")
        assert all(torch.equal(value, state[name]) for name, value in model.net.state_dict().items())
    torch.save({f"number{i}": i for i in range(60)}, tmp_path / "w.pt")
    with pytest.raises(ValueError, match=r"holds 0 state dicts among number0, number1, number2 …: save"):
        load_model(str(tmp_path / "w.pt"), SHAPE, NAMES, arch="small")


def test_networks_with_a_trap_come_with_a_note(tmp_path: Path) -> None:
    """The two layouts have the same names and compute different functions."""
    net = build("preact-resnet18-fast", (3, 32, 32), K).net
    torch.save(net.state_dict(), tmp_path / "w.pt")
    kinds = ("preact-resnet18-nobn", "preact-resnet18-fast")
    models = [load_model(str(tmp_path / "w.pt"), (3, 32, 32), NAMES, arch=arch).eval() for arch in kinds]
    x = torch.rand(2, 3, 32, 32)
    assert torch.equal(models[1](x), net.eval()(x)) and not torch.allclose(models[0](x), models[1](x), atol=1e-3)
    assert "preact-resnet18-fast" in models[0].notes[-1] and "preact-resnet18-nobn" in models[1].notes[-1]


def test_the_weights_among_several_are_chosen_by_name_and_said(small: Classifier, tmp_path: Path) -> None:
    ours, others = small.net.state_dict(), build("small", SHAPE, K, seed=5).net.state_dict()
    path = saved({"ema": others, "model": ours, "state_dict_ema": others, "rng": {"cpu": torch.zeros(3)}}, tmp_path)
    model = load_model(path, SHAPE, NAMES, arch="small")
    assert model.digest() == small.digest()
    assert model.notes == (f"{path} holds several sets of weights: model is used, not ema, state_dict_ema, rng",)


@pytest.mark.parametrize("how", [lambda s: {"net": {"state_dict": s}, "acc": 93.1}, lambda s: {"state_dict": [s]}])
def test_weights_are_found_inside_entries(how: Callable[[State], object], small: Classifier, tmp_path: Path) -> None:
    assert (
        load_model(saved(how(small.net.state_dict()), tmp_path), SHAPE, NAMES, arch="small").digest() == small.digest()
    )


def test_old_checkpoints_have_no_batch_counters(small: Classifier, tmp_path: Path) -> None:
    state = {n: v for n, v in small.net.state_dict().items() if not n.endswith("num_batches_tracked")}
    assert len(state) < len(small.net.state_dict())
    assert load_model(saved(state, tmp_path), SHAPE, NAMES, arch="small").digest() == small.digest()


def test_unused_layers_that_a_file_lacks_do_not_change_the_digest(tmp_path: Path) -> None:
    """GoogLeNet's auxiliary classifiers: their random weights must be the same in every process."""
    shape = (3, 32, 32)
    state = build("googlenet-imagenet", shape, K, seed=1).net.state_dict()
    path = saved({n: v for n, v in state.items() if not n.startswith("aux")}, tmp_path)
    before = torch.random.get_rng_state()
    digests = set()
    for seed in (1, 2):
        torch.manual_seed(seed)
        digests.add(load_model(path, shape, NAMES, arch="googlenet-imagenet").digest())
    torch.random.set_rng_state(before)
    assert len(digests) == 1


def test_what_does_not_fit_is_counted_and_what_fits_is_suggested(
    small: Classifier, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    few = {name: ARCHITECTURES[name] for name in ("convnet", "inception-v3", "resnet20", "small", "wrn-16-4")}
    monkeypatch.setattr("leastwise.models.load.guess.ARCHITECTURES", few)  # all of them take seconds
    state = small.net.state_dict()
    path = saved(under("module.model.", state), tmp_path)
    guessed = load_model(path, SHAPE, NAMES)
    assert guessed.arch == "small" and guessed.digest() == load_model(path, SHAPE, NAMES, arch="small").digest()
    assert guessed.notes[0].endswith("its weights fit small and no other that is known here (--arch: another)")
    wanted = build("convnet", SHAPE, K).net.state_dict()
    both = wanted.keys() & state.keys()
    counts = len(wanted.keys() - state.keys()), len(state.keys() - wanted.keys())
    other = sum(wanted[name].shape != state[name].shape for name in both)
    with pytest.raises(ValueError) as caught:
        load_model(path, SHAPE, NAMES, arch="convnet")
    assert f"({counts[0]} missing: " in str(caught.value) and f"; {counts[1]} unknown: " in str(caught.value)
    assert (f"; {other} of another shape: " in str(caught.value)) == (other > 0)
    assert str(caught.value).endswith("they fit small: use --arch small")
    with pytest.raises(ValueError, match=r"they fit small, which then has 5 outputs, but the data has 3 classes"):
        load_model(path, SHAPE, NAMES[:3])
    with pytest.raises(ValueError, match=r"w.pth has 5 outputs, but the data has 3 classes"):
        load_model(path, SHAPE, NAMES[:3], arch="small")
    path = saved({**state, "extra": torch.zeros(2)}, tmp_path)
    with pytest.raises(ValueError, match=r"do not fit small \(1 unknown: extra\): choose an --arch that fits"):
        load_model(path, SHAPE, NAMES, arch="small")


@pytest.mark.slow
@pytest.mark.parametrize(("arch", "fits"), [("resnet18", ["resnet18"]), ("preact-resnet18", ["preact-resnet18"])])
def test_all_architectures_are_searched(arch: str, fits: list[str]) -> None:
    state = build(arch, (3, 32, 32), K).net.state_dict()
    exact, other = find_fitting(list_views(under("module.", state)), (3, 32, 32), K)
    assert exact == fits and other == {}
    assert find_fitting(list_views(state), (3, 32, 32), 7) == ([], dict.fromkeys(fits, K))


@pytest.mark.medium
@pytest.mark.parametrize(
    ("name", "k", "arch"),
    [("akamaster_cifar10_resnet20.th", 10, "resnet20"), ("chenyaofo_cifar100_resnet20.pth", 100, "resnet20-b")],
)
def test_files_of_others_find_their_architecture(name: str, k: int, arch: str, test_data: Path) -> None:
    names, shape = list(map(str, range(k))), (3, 32, 32)
    guessed = load_model(test_data / "nets" / name, shape, names)
    assert guessed.arch == arch and f"its weights fit {arch} and no other" in guessed.notes[0]
    assert load_model(test_data / "nets" / name, shape, names, arch=arch).digest() == guessed.digest()
    alone = load_model(test_data / "nets" / name)
    assert (alone.k, alone.arch, alone.digest()) == (k, arch, guessed.digest())
    with pytest.raises(ValueError, match=f"has {k} outputs, but the data has 5 classes"):
        load_model(test_data / "nets" / name, shape, NAMES, arch=arch)


def test_other_things_that_are_not_there(tmp_path: Path) -> None:
    (tmp_path / "trained").mkdir()
    (tmp_path / "trained" / "model.pt").write_bytes(b"")
    (tmp_path / "empty").mkdir()
    for folder, file in (("begun", "resume.pt"), ("other", "best.pt")):
        (tmp_path / folder).mkdir()
        (tmp_path / folder / file).write_bytes(b"")
    (tmp_path / "m.onnx").write_bytes(b"")
    refusals = {
        "trained": r"trained/model.pt is not a checkpoint of plain weights",
        "begun": r"the training in .*begun is not finished, so it has no network yet",
        "other": r"is a folder without config.json: did you mean .*other/best.pt\?",
        "empty": "give a checkpoint file or a Hugging Face model's folder",
        "gone.onnx": "there is no model '.*gone.onnx'",
        "gone.pt2": "there is no model '.*gone.pt2'",
        "gone": "there is no model '.*gone'",
    }
    for name, message in refusals.items():
        with pytest.raises(ValueError, match=message):
            load_model(tmp_path / name, SHAPE, NAMES)
    with pytest.raises(ValueError, match="brings its own network: leave --arch out"):
        load_model(tmp_path / "m.onnx", SHAPE, NAMES, arch="small")
