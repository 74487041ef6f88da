"""The figures of Benz et al. on how alike networks are: deviations and cosines of architectures and trainings."""

from collections.abc import Sequence

from leastwise.papers.drawing.figures import draw_similarity
from leastwise.papers.drawing.inputs import (
    DrawingInput,
    ExhibitDrawing,
    OurCells,
    find_audits,
    join_drawings,
    value_or_reason,
)
from leastwise.papers.drawing.values import pair_cosine


def compute_cosine(inputs: DrawingInput, roles: Sequence[str], least: bool = True) -> OurCells:
    """The smallest or the mean cosine of two of the networks, in a row without a name."""
    audits, _ = find_audits(inputs, roles)
    if len(audits) < 2:
        reasons = dict.fromkeys(inputs.why(role, ("clean",)) for role in roles if role not in audits)
        return {("", "cosine"): f"{len(audits)} of {len(roles)} networks ({'; '.join(reasons)})"}
    return {("", "cosine"): value_or_reason(lambda: pair_cosine(tuple(audits.values()), least))}


SMALLEST = "All pairs: the smallest cosine of two of the networks that are there."


def roles_beginning(inputs: DrawingInput, word: str) -> list[str]:
    """The roles whose first word it is."""
    return [role for role in inputs.roles if role.startswith(f"{word} ")]


def label_row(row: str, found: OurCells) -> OurCells:
    """The same cells in a row of this name."""
    return {(row, column): value for (_, column), value in found.items()}


def fig3(inputs: DrawingInput) -> ExhibitDrawing:
    """How alike architectures are on MNIST and on SVHN."""
    mnist, svhn = roles_beginning(inputs, "mnist"), roles_beginning(inputs, "svhn")
    ours = label_row("MNIST ConvNet-LeNet", compute_cosine(inputs, mnist))
    ours |= label_row("SVHN mean of pairs", compute_cosine(inputs, svhn, least=False))
    return draw_similarity(inputs, mnist, "MNIST") + draw_similarity(inputs, svhn, "SVHN") + ExhibitDrawing(ours=ours)


def fig4(inputs: DrawingInput) -> ExhibitDrawing:
    """How alike architectures are on CIFAR-10 and on CIFAR-100."""
    made = []
    for data, title in (("cifar10", "CIFAR-10"), ("cifar100", "CIFAR-100")):
        roles = roles_beginning(inputs, data)
        made.append(
            draw_similarity(inputs, roles, title)
            + ExhibitDrawing(ours=label_row(f"{title} all pairs", compute_cosine(inputs, roles)))
        )
    return join_drawings(made) + ExhibitDrawing(notes=(SMALLEST,))


def fig5(inputs: DrawingInput) -> ExhibitDrawing:
    """How alike architectures are on Tiny-ImageNet and on ImageNet."""
    tiny, full = roles_beginning(inputs, "tiny-imagenet"), roles_beginning(inputs, "standard")
    two = [role for role in full if "wide-resnet50" in role or "resnext50" in role]
    ours = label_row("ImageNet all pairs", compute_cosine(inputs, full))
    ours |= label_row("ImageNet Wide-ResNet-ResNeXt", compute_cosine(inputs, two))
    return (
        draw_similarity(inputs, tiny, "Tiny-ImageNet")
        + draw_similarity(inputs, full, "ImageNet")
        + ExhibitDrawing(ours=ours, notes=(SMALLEST,))
    )


def fig6(inputs: DrawingInput) -> ExhibitDrawing:
    """How alike trainings with other optimisers, weight decays and schedules are."""
    ours = label_row("all pairs", compute_cosine(inputs, inputs.roles))
    return draw_similarity(inputs, inputs.roles, "CIFAR-10") + ExhibitDrawing(ours=ours, notes=(SMALLEST,))
