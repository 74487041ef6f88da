"""VGG-16 with BatchNorm for ImageNet, torchvision's names.

Departure: no dropout between the linear layers in training, because its draws would come from a global generator and a
continued run could not repeat them. Identities keep the numbers in the names.
"""

from torch import nn

from leastwise.core.types import Shape
from leastwise.models.zoo.layers import chain, check_side, he_normal
from leastwise.models.zoo.vgg import VGG16, features


def vgg16_bn_imagenet(shape: Shape, k: int) -> nn.Module:
    check_side("vgg16-bn-imagenet", shape, 32)
    classifier = nn.Sequential(
        nn.Linear(512 * 7 * 7, 4096),
        nn.ReLU(),
        nn.Identity(),
        nn.Linear(4096, 4096),
        nn.ReLU(),
        nn.Identity(),
        nn.Linear(4096, k),
    )
    return he_normal(
        chain(
            features=features(shape[0], VGG16, ceil=False),
            avgpool=nn.AdaptiveAvgPool2d(7),
            flatten=nn.Flatten(),
            classifier=classifier,
        )
    )
