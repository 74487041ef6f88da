"""What a lift found, in the terminal."""

from collections.abc import Iterator, Mapping
from typing import Any

from leastwise.core.text import percent, points

AIMS = {"worst": "the worst class", "cvar10": "the mean of the lowest tenth of the classes", "gap": "minus the gap"}


def lift_lines(told: Mapping[str, Any]) -> Iterator[str]:
    """What was tried, what was chosen and why, and what became of it on test images."""
    aim = AIMS[told["aim"]]
    yield f"tried on {told['validation_images']:,} validation images, average and {aim} under attack in %:"
    width = max(len(one["name"] or "as it is") for one in told["tried"])
    for one in told["tried"]:
        marks = [
            "chosen" if one["name"] == told["chosen"] and one["name"] else "",
            "nobody beats it in both" if one["name"] in told["pareto"] else "",
            "given up early" if one["dropped"] else "",
        ]
        said = ", ".join(filter(None, marks))
        cells = f"{percent(one['average']):>5} {percent(one['score']):>6}"
        yield f"  {one['name'] or 'as it is':{width}}  {cells}  {one['seconds']:5.0f} s  {said}".rstrip()
    for name, why in told["left_out"].items():
        yield f"  {name} was left out: {why}"
    yield verdict_sentence(told)
    if "test" in told:
        yield from class_lines(told["test"])
    if "verified" in told:
        yield verified_sentence(told["verified"])


def verdict_sentence(told: Mapping[str, Any]) -> str:
    """The answer in one sentence."""
    aim = AIMS[told["aim"]]
    limit = f"{100 * told['give_up']:g} point{'' if told['give_up'] == 0.01 else 's'} of the average"
    if told["outcome"] == "nothing to lift":
        return "nothing to lift: on the validation images the classes cannot be told apart, so the network stays"
    if "test" not in told:
        return f"not lifted: nothing that was tried does better within {limit}; more --budget or --give-up may help"
    test = told["test"]
    lift, average = test["lift"], test["average"]
    change = f"{aim} changes by {points(lift['value'])} [{points(lift['low'])}, {points(lift['high'])}] points"
    change += f" and the average by {points(average['value'])} [{points(average['low'])}, {points(average['high'])}]"
    end = f"{told['outcome']}: {told['chosen']}; on {test['images']:,} test images, looked at once, {change}"
    if told["outcome"] == "undecided" and test["images_needed"]:
        end += f"; about {test['images_needed']:,} images of each class would decide"
    return end


def class_lines(test: Mapping[str, Any]) -> Iterator[str]:
    """Each class before and after, with the interval of its change, which holds for all classes together."""
    width = max(len(row["class"]) for row in test["classes"])
    for row in test["classes"]:
        if row["n"]:
            span = f"[{points(row['low'])}, {points(row['high'])}]"
            cells = f"{percent(row['before']):>5} → {percent(row['after']):>5}"
            yield f"  {row['class']:{width}}  {cells}  {points(row['change']):>6} {span}"


def verified_sentence(told: Mapping[str, Any]) -> str:
    """What is left of the lift under a stronger attack."""
    lift, seen = told["lift"], told["on_the_same_images"]
    kept = "the lift stays" if told["confirmed"] else "the lift vanishes, so it is none"
    return (
        f"verified by {told['attack']} on {told['images']:,} test images: {points(lift['value'])} points where the "
        f"attack of the search sees {points(seen['value'])}: {kept}"
    )
