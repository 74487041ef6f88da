"""What the papers claim, in words, in a number, and as a test that any evidence can be put to."""

from leastwise.papers.claims.agreement import (
    confusions_are_mutual_and_near,
    convergence_predicts,
    profiles_agree,
    robust_agree_more,
    same_hard_groups,
    similarity_predicts_error,
)
from leastwise.papers.claims.attacks import (
    backgrounds_drive_adversarial_confusion,
    class_is_lifted,
    confidence_is_smoother,
    gains_on_weak_classes,
    homing_is_common_and_pairwise,
    temperature_gains_where_smooth,
)
from leastwise.papers.claims.base import Claim
from leastwise.papers.claims.features import (
    allows_a_larger_weight,
    entropy_is_higher,
    similarity_rises,
    similarity_rises_and_variance_falls,
    smoothing_lowers,
    worst_class_rises,
)
from leastwise.papers.claims.spread import (
    average_for_spread,
    classes_differ,
    fair_weights_narrow,
    few_classes_carry_the_drop,
    radius_trends,
    spread_widens,
    weakest_class_changes,
)

BENZ, TIAN, AHN, TRADEOFF = "benz2021", "tian2021", "ahn", "tradeoff2022"

CLAIMS: dict[str, Claim] = {
    claim.id: claim
    for claim in (
        Claim(
            "C1",
            (BENZ, TIAN),
            "Classes differ even where the data are balanced.",
            "deviation over classes without sampling noise; test of equal accuracy",
            (classes_differ,),
        ),
        Claim(
            "C2",
            (BENZ, TIAN),
            "Adversarial training widens the spread of the classes.",
            "differences of de-biased CV and of MCD: robust or natural after, natural before",
            (spread_widens,),
        ),
        Claim(
            "C3",
            (BENZ,),
            "Architectures, optimisers and kinds of features find the same classes hard.",
            "cosines of deviations, permutation null",
            (profiles_agree,),
        ),
        Claim(
            "C4",
            (BENZ,),
            "Standard and adversarial training find the same classes hard.",
            "cosine of deviations, permutation null",
            (profiles_agree,),
        ),
        Claim(
            "C5",
            (BENZ,),
            "Robust networks agree more than standard ones.",
            "difference of mean cosines",
            (robust_agree_more,),
        ),
        Claim(
            "C6",
            (BENZ, TIAN),
            "Confusion is mutual and stays inside superclasses.",
            "correlation of the confusions with their mirror image; share inside against chance",
            (confusions_are_mutual_and_near,),
        ),
        Claim(
            "C7",
            (TIAN,),
            "Stronger white-box attacks gain mostly on weak classes.",
            "slope of (FGSM − PGD) on class robustness",
            (gains_on_weak_classes,),
        ),
        Claim(
            "C8",
            (TIAN,),
            "Query attacks beat transfer mostly on weak classes.",
            "slope of (transfer − NAttack) on class robustness",
            (gains_on_weak_classes,),
        ),
        Claim(
            "C9",
            (TIAN,),
            "Temperature-PGD is stronger than PGD, mostly where confidence is smooth.",
            "paired difference; rank correlation of its classes with CVC",
            (temperature_gains_where_smooth,),
        ),
        Claim(
            "C10",
            (TIAN,),
            "Confidence is smoother for animals than for vehicles.",
            "difference of mean CVC",
            (confidence_is_smoother,),
        ),
        Claim(
            "C11",
            (TIAN,),
            "Many misclassified images come home when their confound class is removed, and it is mostly one class.",
            "coming home against coming right without another class; share of the main confound class",
            (homing_is_common_and_pairwise,),
        ),
        Claim(
            "C12",
            (TIAN,),
            "A smaller beta for dog lifts cat.",
            "paired difference on cats",
            (class_is_lifted,),
        ),
        Claim(
            "C13",
            (TIAN,),
            "Backgrounds drive adversarial, not natural, confusion.",
            "share of confusions inside colour groups, attacked minus natural",
            (backgrounds_drive_adversarial_confusion,),
        ),
        Claim(
            "C14",
            (AHN,),
            "With the radius of training clean accuracy falls and the spread rises; robustness rises up to 8/255 only.",
            "slopes over the radius; robustness gained up to 8/255, and beyond",
            (radius_trends,),
        ),
        Claim(
            "C15",
            (AHN,),
            "FRL and CFA give average accuracy for a smaller spread.",
            "paired differences of average, worst class and deviation",
            (average_for_spread,),
        ),
        Claim(
            "C16",
            (AHN,),
            "Clean training convergence predicts the robustness of a class.",
            "rank correlation over classes",
            (convergence_predicts,),
        ),
        Claim(
            "C17",
            (AHN,),
            "Superclasses that are hard for one method are hard for all.",
            "Kendall's W over methods",
            (same_hard_groups,),
        ),
        Claim(
            "C18",
            (TRADEOFF,),
            "Adversarial training raises the similarity of classes, class by class, and lowers their variance.",
            "sign tests over classes",
            (similarity_rises_and_variance_falls, similarity_rises),
        ),
        Claim(
            "C19",
            (TRADEOFF,),
            "Similarity to cat in standard training predicts the error of telling cat apart in adversarial training.",
            "rank correlation over classes",
            (similarity_predicts_error,),
        ),
        Claim(
            "C20",
            (TRADEOFF,),
            "Label smoothing and maximum entropy lower similarity and variance and lift the worst class.",
            "sign tests over classes; paired difference of the worst class",
            (smoothing_lowers, worst_class_rises),
        ),
        Claim(
            "C21",
            (TRADEOFF,),
            "TRADES has a higher entropy than PGD-AT, and maximum entropy allows a larger lambda.",
            "difference of mean entropy; difference of the most robust lambdas",
            (entropy_is_higher, allows_a_larger_weight),
        ),
        Claim(
            "C22",
            (TRADEOFF,),
            "Two classes carry almost half of the fall of accuracy.",
            "share of bird and cat with a bootstrap interval",
            (few_classes_carry_the_drop,),
        ),
        Claim(
            "C23",
            (BENZ,),
            "Fair weights narrow the spread at a small cost on average.",
            "paired differences of deviation and average",
            (fair_weights_narrow,),
        ),
        Claim(
            "C24",
            (BENZ,),
            "Under corruptions another class is the weakest.",
            "probability that the worst class is another",
            (weakest_class_changes,),
        ),
    )
}
