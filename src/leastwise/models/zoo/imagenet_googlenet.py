"""GoogLeNet (Szegedy et al., CVPR 2015) with BatchNorm for ImageNet, torchvision's names.

Torchvision re-centres its input inside the network (`transform_input`) when it loads its published weights. Here the
Classifier owns the normalisation: mean (.5, .5, .5) and std (.5, .5, .5) give those weights what they expect.
As there, the "5x5" branch is a 3x3 convolution.

Departures: the logits of the two auxiliary classifiers are never computed; no dropout before the last layer, because
its draws would come from a global generator and a continued run could not repeat them.
"""

from torch import nn

from leastwise.core.types import Shape
from leastwise.models.zoo.googlenet import A3, A4, A5, B3, B4, B5, C4, D4, E4, Parallel, Widths
from leastwise.models.zoo.layers import Maps, chain, check_side, he_normal, pool_then

UNUSED = ("aux1.", "aux2.")


class Passed(nn.Module):
    """Layers of training that this package never runs: x goes by. They are there for the files that hold them.

    All weights are 0, so that a network loaded from a file without them is always the same network.
    """

    def __init__(self, **layers: nn.Module) -> None:
        super().__init__()
        for name, layer in layers.items():
            self.add_module(name, layer)
        for parameter in self.parameters():
            nn.init.zeros_(parameter)

    def forward(self, x: Maps) -> Maps:
        return x


def unit(
    inputs: int, outputs: int, kernel: int | tuple[int, int], *, stride: int = 1, padding: int | str = 0
) -> nn.Module:
    weights = nn.Conv2d(inputs, outputs, kernel, stride, padding, bias=False)
    return he_normal(chain(conv=weights, bn=nn.BatchNorm2d(outputs, eps=0.001), relu=nn.ReLU()))


def inception(inputs: int, widths: Widths) -> nn.Module:
    one, reduce3, three, reduce5, five, pool = widths
    return Parallel(
        {
            "branch1": unit(inputs, one, 1),
            "branch2": nn.Sequential(unit(inputs, reduce3, 1), unit(reduce3, three, 3, padding=1)),
            "branch3": nn.Sequential(unit(inputs, reduce5, 1), unit(reduce5, five, 3, padding=1)),
            "branch4": nn.Sequential(nn.MaxPool2d(3, 1, padding=1), unit(inputs, pool, 1)),
        }
    )


def auxiliary(inputs: int, k: int) -> nn.Module:
    return Passed(conv=unit(inputs, 128, 1), fc1=nn.Linear(2048, 1024), fc2=nn.Linear(1024, k))


def googlenet_imagenet(shape: Shape, k: int) -> nn.Module:
    check_side("googlenet-imagenet", shape, 15)
    return chain(
        conv1=unit(shape[0], 64, 7, stride=2, padding=3),
        maxpool1=nn.MaxPool2d(3, 2, ceil_mode=True),
        conv2=unit(64, 64, 1),
        conv3=unit(64, 192, 3, padding=1),
        maxpool2=nn.MaxPool2d(3, 2, ceil_mode=True),
        inception3a=inception(192, A3),
        inception3b=inception(256, B3),
        maxpool3=nn.MaxPool2d(3, 2, ceil_mode=True),
        inception4a=inception(480, A4),
        aux1=auxiliary(512, k),
        inception4b=inception(512, B4),
        inception4c=inception(512, C4),
        inception4d=inception(512, D4),
        aux2=auxiliary(528, k),
        inception4e=inception(528, E4),
        maxpool4=nn.MaxPool2d(2, 2, ceil_mode=True),
        inception5a=inception(832, A5),
        inception5b=inception(832, B5),
        **pool_then(fc=nn.Linear(1024, k)),
    )
