"""Two small convolutional networks for digits: LeNet-5 and the SmallCNN of TRADES."""

from torch import nn

from leastwise.core.types import Shape
from leastwise.models.zoo.layers import chain, check_side, he_normal


def lenet5(shape: Shape, k: int) -> nn.Module:
    """LeNet-5 (LeCun et al., 1998) as it is written today: ReLU and max pooling, every map connected to every map.

    As in the paper, 28-pixel digits are padded to 32 (here inside the first convolution).
    Names: `conv1`, `conv2`, `fc1`, `fc2`, `fc3`.
    """
    check_side("lenet5", shape, 12)
    channels, height, width = shape
    padding = 2 if min(height, width) < 32 else 0

    def after(side: int) -> int:
        return ((side + 2 * padding - 4) // 2 - 4) // 2

    return chain(
        conv1=nn.Conv2d(channels, 6, 5, padding=padding),
        relu1=nn.ReLU(),
        pool1=nn.MaxPool2d(2),
        conv2=nn.Conv2d(6, 16, 5),
        relu2=nn.ReLU(),
        pool2=nn.MaxPool2d(2),
        flatten=nn.Flatten(),
        fc1=nn.Linear(16 * after(height) * after(width), 120),
        relu3=nn.ReLU(),
        fc2=nn.Linear(120, 84),
        relu4=nn.ReLU(),
        fc3=nn.Linear(84, k),
    )


def small_cnn(shape: Shape, k: int) -> nn.Module:
    """SmallCNN of the TRADES code (Zhang et al., ICML 2019), after Carlini and Wagner's network for MNIST.

    Departures: no dropout of 0.5 after `fc1` in training, because its draws would come from a global generator and a
    continued run could not repeat them; `fc3` starts at torch's default and not at 0, where no attack has a gradient.
    """
    check_side("small-cnn", shape, 16)
    channels, height, width = shape

    def after(side: int) -> int:
        return ((side - 4) // 2 - 4) // 2

    extractor = chain(
        conv1=nn.Conv2d(channels, 32, 3),
        relu1=nn.ReLU(),
        conv2=nn.Conv2d(32, 32, 3),
        relu2=nn.ReLU(),
        maxpool1=nn.MaxPool2d(2),
        conv3=nn.Conv2d(32, 64, 3),
        relu3=nn.ReLU(),
        conv4=nn.Conv2d(64, 64, 3),
        relu4=nn.ReLU(),
        maxpool2=nn.MaxPool2d(2),
    )
    classifier = chain(
        fc1=nn.Linear(64 * after(height) * after(width), 200),
        relu1=nn.ReLU(),
        fc2=nn.Linear(200, 200),
        relu2=nn.ReLU(),
        fc3=nn.Linear(200, k),
    )
    return he_normal(chain(feature_extractor=extractor, flatten=nn.Flatten(), classifier=classifier), "fan_in")
