"""Other seeds of the same training: what tells a difference between methods from one between two runs of a method."""

from dataclasses import replace

from leastwise.papers.recipes import Measured, Recipe, Trained

SEEDS = (1, 2)  # beside the 0 of every declaration
# Ways of training that claims compare with each other, by method and fair policies, on the data that most of them use.
REPLICATED = {
    ("standard", ()),
    ("pgd-at", ()),
    ("trades", ()),
    ("me-at", ()),
    ("me-trades", ()),
}
DATA, ARCHS = "cifar10", ("resnet18", "resnet9", "small", "small-cnn", "wrn-34-10")
# On other data a few trainings tell how far seeds lie apart; that is the yardstick of all comparisons there.
YARDSTICKS = {("pgd-at", ()), ("trades", ())}
RADII = (8 / 255, 0.3)
# Under these only networks are compared with themselves, and images are the sample.
ONE_SEED = ("cwinf", "nattack", "transfer")
NOT_REPLICATED = (1.0, 9.0, 12.0, 18.0, 24.0)  # lambdas of which one seed is enough: they are points of a curve


def is_replicated(t: Trained) -> bool:
    """Whether claims want further seeds of a training."""
    plain = not t.data.change and t.arch in ARCHS and t.seed == 0 and t.source is None and "idbh" not in t.augment
    usual = t.threat is None or any(abs(t.threat.eps - eps) < 0.001 for eps in RADII)
    lam = t.options.get("beta")
    ordinary = t.optimiser == "sgd" and t.schedule in ("steps", "one-cycle") and t.weight_decay >= 1e-4
    return (
        plain
        and usual
        and ordinary
        and (t.method, t.fair) in (REPLICATED if t.data.name == DATA else YARDSTICKS)
        and not isinstance(lam, tuple)
        and lam not in NOT_REPLICATED
        and not (t.method == "trades" and lam == 15.0)
    )


def with_seed(recipe: Recipe, seed: int) -> Recipe:
    """The same of another seed. What is measured after every epoch is measured at the end only.

    Single images are shown of the declared seed: of others none are kept, and asking for them was never fulfilled.
    """
    if isinstance(recipe, Trained):
        return replace(recipe, seed=seed)
    assert isinstance(recipe.model, Trained), "others' networks have one seed"
    kept = tuple(one for one in recipe.keeps if one == "features")
    return replace(recipe, model=replace(recipe.model, seed=seed), each_epoch=False, keeps=kept)


def list_replicas(recipe: Recipe) -> tuple[Recipe, ...]:
    """The other seeds of a recipe; none where one is enough. A record of a training is not replicated."""
    if not isinstance(recipe, Measured) or not isinstance(recipe.model, Trained) or recipe.surrogate is not None:
        return ()
    if all(name.startswith(ONE_SEED) for name in recipe.conditions):
        return ()
    return tuple(with_seed(recipe, seed) for seed in SEEDS) if is_replicated(recipe.model) else ()
