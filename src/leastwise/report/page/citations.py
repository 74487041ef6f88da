"""The literature behind a page: BibTeX of exactly what its conditions and statistics used."""

from collections.abc import Iterable
from dataclasses import dataclass

from leastwise.attacks.naming import AttackName
from leastwise.attacks.registry import find_name


@dataclass(frozen=True)
class CitedWork:
    """A publication; `link` is where a reader finds it."""

    key: str
    kind: str  # BibTeX entry type
    authors: str
    title: str
    place: str
    year: int
    link: str

    @property
    def short(self) -> str:
        names = [name.split(",")[0].strip() for name in self.authors.split(" and ")]
        who = names[0] if len(names) == 1 else " & ".join(names) if len(names) == 2 else f"{names[0]} et al."
        return f"{who} {self.year}"

    @property
    def bibtex(self) -> str:
        where = "journal" if self.kind == "article" else "booktitle"
        rows = {"author": self.authors, "title": f"{{{self.title}}}", where: self.place, "year": str(self.year)}
        body = ",\n".join(f"  {name} = {{{escape_bibtex(value)}}}" for name, value in rows.items())
        return f"@{self.kind}{{{self.key},\n{body},\n  url = {{{self.link}}}\n}}"


def escape_bibtex(value: str) -> str:
    """Text that BibTeX takes as it is."""
    return value.replace("&", r"\&").replace("%", r"\%")


def arxiv_link(number: str) -> str:
    """The address of a paper on arXiv."""
    return f"https://arxiv.org/abs/{number}"


# Keyed by how the table of attacks names a paper, so that a new attack without an entry fails a test.
WORKS: dict[str, CitedWork] = {
    "Goodfellow et al. 2015": CitedWork(
        "goodfellow2015explaining",
        "inproceedings",
        "Goodfellow, Ian J. and Shlens, Jonathon and Szegedy, Christian",
        "Explaining and Harnessing Adversarial Examples",
        "International Conference on Learning Representations",
        2015,
        arxiv_link("1412.6572"),
    ),
    "Tian et al. 2021": CitedWork(
        "tian2021analysis",
        "inproceedings",
        "Tian, Qi and Kuang, Kun and Jiang, Kelu and Wu, Fei and Wang, Yisen",
        "Analysis and Applications of Class-wise Robustness in Adversarial Training",
        "ACM SIGKDD Conference on Knowledge Discovery and Data Mining",
        2021,
        arxiv_link("2105.14240"),
    ),
    "Tramèr et al. 2018": CitedWork(
        "tramer2018ensemble",
        "inproceedings",
        "Tramèr, Florian and Kurakin, Alexey and Papernot, Nicolas and Goodfellow, Ian and Boneh, Dan and "
        "McDaniel, Patrick",
        "Ensemble Adversarial Training: Attacks and Defenses",
        "International Conference on Learning Representations",
        2018,
        arxiv_link("1705.07204"),
    ),
    "Madry et al. 2018": CitedWork(
        "madry2018towards",
        "inproceedings",
        "Madry, Aleksander and Makelov, Aleksandar and Schmidt, Ludwig and Tsipras, Dimitris and Vladu, Adrian",
        "Towards Deep Learning Models Resistant to Adversarial Attacks",
        "International Conference on Learning Representations",
        2018,
        arxiv_link("1706.06083"),
    ),
    "Dong et al. 2018": CitedWork(
        "dong2018boosting",
        "inproceedings",
        "Dong, Yinpeng and Liao, Fangzhou and Pang, Tianyu and Su, Hang and Zhu, Jun and Hu, Xiaolin and Li, Jianguo",
        "Boosting Adversarial Attacks with Momentum",
        "IEEE Conference on Computer Vision and Pattern Recognition",
        2018,
        arxiv_link("1710.06081"),
    ),
    "Carlini & Wagner 2017": CitedWork(
        "carlini2017towards",
        "inproceedings",
        "Carlini, Nicholas and Wagner, David",
        "Towards Evaluating the Robustness of Neural Networks",
        "IEEE Symposium on Security and Privacy",
        2017,
        arxiv_link("1608.04644"),
    ),
    "Zhang et al. 2019": CitedWork(
        "zhang2019theoretically",
        "inproceedings",
        "Zhang, Hongyang and Yu, Yaodong and Jiao, Jiantao and Xing, Eric and El Ghaoui, Laurent and Jordan, Michael",
        "Theoretically Principled Trade-off between Robustness and Accuracy",
        "International Conference on Machine Learning",
        2019,
        arxiv_link("1901.08573"),
    ),
    "Zhang et al. 2020": CitedWork(
        "zhang2020attacks",
        "inproceedings",
        "Zhang, Jingfeng and Xu, Xilie and Han, Bo and Niu, Gang and Cui, Lizhen and Sugiyama, Masashi and "
        "Kankanhalli, Mohan",
        "Attacks Which Do Not Kill Training Make Adversarial Learning Stronger",
        "International Conference on Machine Learning",
        2020,
        arxiv_link("2002.11242"),
    ),
    "Croce & Hein 2020": CitedWork(
        "croce2020reliable",
        "inproceedings",
        "Croce, Francesco and Hein, Matthias",
        "Reliable Evaluation of Adversarial Robustness with an Ensemble of Diverse Parameter-free Attacks",
        "International Conference on Machine Learning",
        2020,
        arxiv_link("2003.01690"),
    ),
    "Croce & Hein 2020 (FAB)": CitedWork(
        "croce2020minimally",
        "inproceedings",
        "Croce, Francesco and Hein, Matthias",
        "Minimally Distorted Adversarial Examples with a Fast Adaptive Boundary Attack",
        "International Conference on Machine Learning",
        2020,
        arxiv_link("1907.02044"),
    ),
    "Gao et al. 2022": CitedWork(
        "gao2022fast",
        "inproceedings",
        "Gao, Ruize and Wang, Jiongxiao and Zhou, Kaiwen and Liu, Feng and Xie, Binghui and Niu, Gang and Han, Bo and "
        "Cheng, James",
        "Fast and Reliable Evaluation of Adversarial Robustness with Minimum-Margin Attack",
        "International Conference on Machine Learning",
        2022,
        arxiv_link("2206.07314"),
    ),
    "Melamed et al. 2024": CitedWork(
        "melamed2024malt",
        "inproceedings",
        "Melamed, Odelia and Yehudai, Gilad and Shamir, Adi",
        "MALT Powers Up Adversarial Attacks",
        "Advances in Neural Information Processing Systems",
        2024,
        arxiv_link("2407.02240"),
    ),
    "Xie et al. 2025": CitedWork(
        "xie2025towards",
        "inproceedings",
        "Xie, Yong and Zheng, Weijie and Huang, Hanxun and Ye, Guangnan and Ma, Xingjun",
        "Towards Million-Scale Adversarial Robustness Evaluation With Stronger Individual Attacks",
        "IEEE Conference on Computer Vision and Pattern Recognition",
        2025,
        arxiv_link("2411.15210"),
    ),
    "Andriushchenko et al. 2020": CitedWork(
        "andriushchenko2020square",
        "inproceedings",
        "Andriushchenko, Maksym and Croce, Francesco and Flammarion, Nicolas and Hein, Matthias",
        "Square Attack: a Query-efficient Black-box Adversarial Attack via Random Search",
        "European Conference on Computer Vision",
        2020,
        arxiv_link("1912.00049"),
    ),
    "Rony et al. 2019": CitedWork(
        "rony2019decoupling",
        "inproceedings",
        "Rony, Jérôme and Hafemann, Luiz G. and Oliveira, Luiz S. and Ben Ayed, Ismail and Sabourin, Robert and "
        "Granger, Eric",
        "Decoupling Direction and Norm for Efficient Gradient-Based L2 Adversarial Attacks and Defenses",
        "IEEE Conference on Computer Vision and Pattern Recognition",
        2019,
        arxiv_link("1811.09600"),
    ),
    "Pintor et al. 2021": CitedWork(
        "pintor2021fast",
        "inproceedings",
        "Pintor, Maura and Roli, Fabio and Brendel, Wieland and Biggio, Battista",
        "Fast Minimum-norm Adversarial Attacks through Adaptive Norm Constraints",
        "Advances in Neural Information Processing Systems",
        2021,
        arxiv_link("2102.12827"),
    ),
    "Chen et al. 2020": CitedWork(
        "chen2020hopskipjump",
        "inproceedings",
        "Chen, Jianbo and Jordan, Michael I. and Wainwright, Martin J.",
        "HopSkipJumpAttack: A Query-Efficient Decision-Based Attack",
        "IEEE Symposium on Security and Privacy",
        2020,
        arxiv_link("1904.02144"),
    ),
    "Li et al. 2019": CitedWork(
        "li2019nattack",
        "inproceedings",
        "Li, Yandong and Li, Lijun and Wang, Liqiang and Zhang, Tong and Gong, Boqing",
        "NATTACK: Learning the Distributions of Adversarial Examples for an Improved Black-Box Attack on Deep Neural "
        "Networks",
        "International Conference on Machine Learning",
        2019,
        arxiv_link("1905.00441"),
    ),
    "Hendrycks & Dietterich 2019": CitedWork(
        "hendrycks2019benchmarking",
        "inproceedings",
        "Hendrycks, Dan and Dietterich, Thomas",
        "Benchmarking Neural Network Robustness to Common Corruptions and Perturbations",
        "International Conference on Learning Representations",
        2019,
        arxiv_link("1903.12261"),
    ),
    "Benz et al. 2021": CitedWork(
        "benz2021robustness",
        "inproceedings",
        "Benz, Philipp and Zhang, Chaoning and Karjauv, Adil and Kweon, In So",
        "Robustness May Be at Odds with Fairness: An Empirical Study on Class-wise Accuracy",
        "NeurIPS 2020 Workshop on Pre-registration in Machine Learning, PMLR 148",
        2021,
        arxiv_link("2010.13365"),
    ),
    "Wilson 1927": CitedWork(
        "wilson1927probable",
        "article",
        "Wilson, Edwin B.",
        "Probable Inference, the Law of Succession, and Statistical Inference",
        "Journal of the American Statistical Association",
        1927,
        "https://doi.org/10.1080/01621459.1927.10502953",
    ),
    "McNemar 1947": CitedWork(
        "mcnemar1947note",
        "article",
        "McNemar, Quinn",
        "Note on the Sampling Error of the Difference between Correlated Proportions or Percentages",
        "Psychometrika",
        1947,
        "https://doi.org/10.1007/BF02295996",
    ),
    "Holm 1979": CitedWork(
        "holm1979simple",
        "article",
        "Holm, Sture",
        "A Simple Sequentially Rejective Multiple Test Procedure",
        "Scandinavian Journal of Statistics",
        1979,
        "https://www.jstor.org/stable/4615733",
    ),
    "Zou & Donner 2008": CitedWork(
        "zou2008construction",
        "article",
        "Zou, Guang Yong and Donner, Allan",
        "Construction of Confidence Limits about Effect Measures: A General Approach",
        "Statistics in Medicine",
        2008,
        "https://doi.org/10.1002/sim.3095",
    ),
}

ALWAYS = ("Wilson 1927", "Tian et al. 2021", "Benz et al. 2021")  # intervals; CV and MCD; deviations
COMPARING = ("McNemar 1947", "Holm 1979", "Zou & Donner 2008")


def find_row(condition: str) -> AttackName | None:
    """The row of the attack table, or nothing for a condition of the user's own."""
    try:
        return find_name(condition)[0]
    except ValueError:
        return None


def find_papers(paper: str) -> tuple[str, ...]:
    """The works that a `paper` cell of the attack table names."""
    return tuple(
        name for name in WORKS if name in paper and not any(o != name and name in o and o in paper for o in WORKS)
    )


def find_works(conditions: Iterable[str], comparing: bool) -> tuple[CitedWork, ...]:
    """What the page rests on, each once, in the order of the table above."""
    rows = [row for name in conditions if (row := find_row(name)) is not None]
    named = (
        {name for row in rows for name in find_papers(row.paper)}
        | set(ALWAYS)
        | (set(COMPARING) if comparing else set())
    )
    return tuple(work for name, work in WORKS.items() if name in named)


def make_bibtex(works: Iterable[CitedWork]) -> str:
    """The entries of several works as one file."""
    return "\n\n".join(work.bibtex for work in works) + "\n"
