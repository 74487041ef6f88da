"""What attacks read of a model that gives less than logits."""

from leastwise.attacks.base import Attack


def refuse_without_logits(conditions: tuple[tuple[str, Attack], ...]) -> None:
    """Refuse attacks that read logits, for a model that names classes alone."""
    reading = [name for name, attack in conditions if attack.logits]
    if reading:
        raise ValueError(
            f"the model names classes and gives no logits, which {', '.join(reading)} would read: use attacks on "
            "predicted classes, such as hsj or corners, or return logits"
        )
