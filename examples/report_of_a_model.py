"""From a network to a page that can be sent: audit at several radii, verdict of a gate, one HTML file."""

from pathlib import Path

from leastwise import audit, data, report
from leastwise.attacks import Threat, named_all, over_radii
from leastwise.balls import Linf
from leastwise.models import build
from leastwise.report.results import from_evidence
from leastwise.statistics import decide, parse
from leastwise.train import Training, fit


def main() -> None:
    network = build("small", shape=(1, 28, 28), k=10, seed=0)
    for _ in fit(network, data.load("fashion-mini/train").take(100), Training(epochs=3)):
        pass
    threat = Threat(Linf(0.02), step=0.005)
    names = over_radii("clean,pgd10", ["0.005", "0.01", "0.02"], threat)
    found = audit.audit(network, data.load("fashion-mini/test").take(50), named_all(names, threat))
    for verdict in decide([parse("worst(pgd10[0.01]) >= 0.05")], from_evidence(found), {}):
        print(verdict.term.text, "->", verdict.outcome.value, f"[{verdict.low:.3f}, {verdict.high:.3f}]")
    page = Path("report.html")
    page.write_text(report.page([report.Audited("small network", found)]))
    print(page, f"{page.stat().st_size / 1e6:.2f} MB")


if __name__ == "__main__":
    main()
