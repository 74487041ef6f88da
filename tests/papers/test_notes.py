"""What the images behind a result have to say travels from the run to the page: a declared part is named there."""

import html
import json
from pathlib import Path

from leastwise.core.files import write_json
from leastwise.jobs.folder import RUN
from leastwise.jobs.images import ImageSet
from leastwise.papers.cost import count_images
from leastwise.papers.page import describe_basis, write_page
from leastwise.papers.recipes import Measured, Trained
from leastwise.papers.registry import EXHIBITS, PAPERS, keep_roles, list_recipes
from leastwise.papers.reproduce import do_work, list_work
from leastwise.papers.scales import scale
from leastwise.papers.stored import PaperStore
from tests.papers.results_made_up import found

SAID = "tiny-imagenet/train is a declared part: 80 of 500 images of each class (the first ones)"
NET = Trained(ImageSet("fashion-mini", per_class=4), "convnet", epochs=1, batch_size=10, augment="none", scale="smoke")


def test_notes_of_a_training_are_read_with_whatever_was_measured_on_it(tmp_path: Path) -> None:
    store = PaperStore(tmp_path, "smoke")
    audit = Measured(NET, NET.data, scale="smoke")
    assert do_work(list_work([audit], store), store) == {}
    assert not any("part" in note for one in (audit, NET) for note in store.read_result(one).notes)
    run = store.folder(NET) / RUN
    write_json(run, json.loads(run.read_text()) | {"notes": [SAID]})
    assert store.read_result(audit).notes == store.read_result(NET).notes == (SAID,)


def test_the_page_of_a_paper_says_that_its_networks_saw_a_part(tmp_path: Path) -> None:
    exhibit = EXHIBITS["benz2021/fig5"]
    recipes, _ = list_recipes(keep_roles((exhibit,), ("tiny-imagenet resnet18", "tiny-imagenet resnet50")), "lite")
    for notes in ((), (SAID,)):
        results = {recipe: found(recipe)._replace(notes=notes) for recipe in recipes}
        write_page(PAPERS["benz2021"], (exhibit,), "lite", results=results, failed={}, folder=tmp_path)
        assert html.unescape((tmp_path / "index.html").read_text()).count(f"{SAID}.") == len(notes)


def test_lite_trains_tiny_imagenet_on_eighty_images_of_each_class_and_says_so() -> None:
    exhibit = EXHIBITS["benz2021/fig5"]
    trained = exhibit.trainings("lite")
    assert {(net.data, net.epochs) for net in trained} == {(ImageSet("tiny-imagenet", per_class=80), 8)}
    assert {net.arch for net in trained} == {"small", "convnet"}
    assert count_images(trained[0].data, "train") == 16_000
    assert "trained on 80 images of each class of tiny-imagenet" in describe_basis(exhibit, "lite")
    (tested,) = scale("lite")(exhibit.needs["tiny-imagenet resnet18"])
    assert isinstance(tested, Measured) and tested.data == ImageSet("tiny-imagenet")
