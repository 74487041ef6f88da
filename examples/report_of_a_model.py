"""From a network to a page that can be sent: audit at several radii, verdict of a gate, one HTML file."""

from pathlib import Path

from leastwise.attacks import Linf, Threat, make_attacks, repeat_over_radii
from leastwise.data import load
from leastwise.jobs import audit
from leastwise.models import build
from leastwise.report import AuditedModel, from_evidence, make_page
from leastwise.statistics.gate.decide import decide
from leastwise.statistics.gate.language import parse_term
from leastwise.training import Training, fit


def main() -> None:
    network = build("small", shape=(1, 28, 28), k=10, seed=0)
    for _ in fit(network, load("fashion-mini/train").take(100), Training(epochs=3)):
        pass
    threat = Threat(Linf(0.02), step=0.005)
    names = repeat_over_radii("clean,pgd10", ["0.005", "0.01", "0.02"], threat)
    found = audit(network, load("fashion-mini/test").take(50), make_attacks(names, threat))
    for verdict in decide([parse_term("worst(pgd10[0.01]) >= 0.05")], from_evidence(found), {}):
        print(verdict.term.text, "->", verdict.outcome.value, f"[{verdict.low:.3f}, {verdict.high:.3f}]")
    file = Path("report.html")
    file.write_text(make_page([AuditedModel("small network", found)]))
    print(file, f"{file.stat().st_size / 1e6:.2f} MB")


if __name__ == "__main__":
    main()
