"""The papers' networks as PyTorch modules, written from their publications and not from our tables.

Submodules stand in the order in which they run, so that hooks see the layers as a table has them.
"""

import torch
from torch import nn


class Parallel(nn.ModuleList):
    """Branches on one input, joined along the channels."""

    def forward(self, x):
        return torch.cat([branch(x) for branch in self], 1)


class Residual(nn.Module):
    def __init__(self, branch: nn.Module, shortcut: nn.Module | None) -> None:
        super().__init__()
        self.branch, self.shortcut, self.relu = branch, shortcut, nn.ReLU(inplace=True)

    def forward(self, x):
        y = self.branch(x)
        return self.relu(y + (self.shortcut(x) if self.shortcut else x))


class Heads(nn.Module):
    """A trunk in parts, with auxiliary classifiers behind some of them."""

    def __init__(self, parts: list[nn.Module], heads: dict[int, nn.Module]) -> None:
        super().__init__()
        self.parts = nn.ModuleList(parts)
        self.heads = nn.ModuleDict({str(i): head for i, head in heads.items()})

    def forward(self, x):
        outputs = []
        for i, part in enumerate(self.parts):
            x = part(x)
            if str(i) in self.heads:
                outputs.append(self.heads[str(i)](x))
        return (*outputs, x)


def relu_conv(inputs: int, outputs: int, kernel, **options) -> nn.Sequential:
    return nn.Sequential(nn.Conv2d(inputs, outputs, kernel, **options), nn.ReLU(inplace=True))


def bn_conv(inputs: int, outputs: int, kernel, *, relu: bool = True, **options) -> nn.Sequential:
    layers = [nn.Conv2d(inputs, outputs, kernel, bias=False, **options), nn.BatchNorm2d(outputs)]
    return nn.Sequential(*layers, *([nn.ReLU(inplace=True)] if relu else []))


def _classifier(inputs: int, first: int, second: int, classes: int) -> list[nn.Module]:
    return [
        nn.Flatten(),
        nn.Linear(inputs, first),
        nn.ReLU(inplace=True),
        nn.Dropout(),
        nn.Linear(first, second),
        nn.ReLU(inplace=True),
        nn.Dropout(),
        nn.Linear(second, classes),
    ]


def alexnet(dataset: str) -> nn.Module:
    large = dataset == "imagenet"
    first = nn.Conv2d(3, 96, 11, stride=4) if large else nn.Conv2d(3, 96, 3, stride=2, padding=1)
    window = 3 if large else 2
    return nn.Sequential(
        first,
        nn.ReLU(inplace=True),
        nn.LocalResponseNorm(5),
        nn.MaxPool2d(window, 2),
        *relu_conv(96, 256, 5, padding=2, groups=2),
        nn.LocalResponseNorm(5),
        nn.MaxPool2d(window, 2),
        *relu_conv(256, 384, 3, padding=1),
        *relu_conv(384, 384, 3, padding=1, groups=2),
        *relu_conv(384, 256, 3, padding=1, groups=2),
        nn.MaxPool2d(window, 2),
        *_classifier(256 * (36 if large else 4), 4096, 4096, 1000 if large else 10),
    )


def overfeat(dataset: str) -> nn.Module:
    return nn.Sequential(
        *relu_conv(3, 96, 11, stride=4),
        nn.MaxPool2d(2, 2),
        *relu_conv(96, 256, 5),
        nn.MaxPool2d(2, 2),
        *relu_conv(256, 512, 3, padding=1),
        *relu_conv(512, 1024, 3, padding=1),
        *relu_conv(1024, 1024, 3, padding=1),
        nn.MaxPool2d(2, 2),
        *_classifier(1024 * 36, 3072, 4096, 1000),
    )


def nin(dataset: str) -> nn.Module:
    def block(inputs: int, channels: tuple[int, int, int], kernel: int, **options) -> list:
        first, second, third = channels
        return [
            *relu_conv(inputs, first, kernel, **options),
            *relu_conv(first, second, 1),
            *relu_conv(second, third, 1),
        ]

    def pool(kind: type) -> nn.Module:
        return kind(3, 2, ceil_mode=True)

    if dataset == "cifar":
        return nn.Sequential(
            *block(3, (192, 160, 96), 5, padding=2),
            pool(nn.MaxPool2d),
            nn.Dropout(),
            *block(96, (192, 192, 192), 5, padding=2),
            pool(nn.AvgPool2d),
            nn.Dropout(),
            *block(192, (192, 192, 10), 3, padding=1),
            nn.AdaptiveAvgPool2d(1),
        )
    return nn.Sequential(
        *block(3, (96, 96, 96), 11, stride=4),
        pool(nn.MaxPool2d),
        *block(96, (256, 256, 256), 5, padding=2),
        pool(nn.MaxPool2d),
        *block(256, (384, 384, 384), 3, padding=1),
        pool(nn.MaxPool2d),
        nn.Dropout(),
        *block(384, (1024, 1024, 1000), 3, padding=1),
        nn.AdaptiveAvgPool2d(1),
    )


def vgg16(dataset: str) -> nn.Module:
    layers: list[nn.Module] = []
    inputs = 3
    for outputs in (64, 64, 0, 128, 128, 0, *(256,) * 3, 0, *(512,) * 3, 0, *(512,) * 3, 0):
        if outputs:
            layers += relu_conv(inputs, outputs, 3, padding=1)
            inputs = outputs
        else:
            layers.append(nn.MaxPool2d(2, 2))
    pixels, classes = (49, 1000) if dataset == "imagenet" else (1, 10)
    return nn.Sequential(*layers, *_classifier(512 * pixels, 4096, 4096, classes))


def squeezenet(dataset: str) -> nn.Module:
    def fire(inputs: int, squeeze: int, expand: int) -> nn.Module:
        branches = Parallel(
            [relu_conv(squeeze, expand, 1), relu_conv(squeeze, expand, 3, padding=1)]
        )
        return nn.Sequential(relu_conv(inputs, squeeze, 1), branches)

    large = dataset == "imagenet"
    first = relu_conv(3, 96, 7, stride=2) if large else relu_conv(3, 96, 3, padding=1)
    return nn.Sequential(
        first,
        nn.MaxPool2d(3, 2, ceil_mode=True),
        fire(96, 16, 64),
        fire(128, 16, 64),
        fire(128, 32, 128),
        nn.MaxPool2d(3, 2, ceil_mode=True),
        fire(256, 32, 128),
        fire(256, 48, 192),
        fire(384, 48, 192),
        fire(384, 64, 256),
        nn.MaxPool2d(3, 2, ceil_mode=True),
        fire(512, 64, 256),
        nn.Dropout(),
        relu_conv(512, 1000 if large else 10, 1),
        nn.AdaptiveAvgPool2d(1),
    )


def googlenet(dataset: str) -> nn.Module:
    def inception(inputs: int, one: int, three: tuple, five: tuple, pool: int) -> nn.Module:
        return Parallel(
            [
                relu_conv(inputs, one, 1),
                nn.Sequential(
                    relu_conv(inputs, three[0], 1), relu_conv(*three, kernel=3, padding=1)
                ),
                nn.Sequential(relu_conv(inputs, five[0], 1), relu_conv(*five, kernel=5, padding=2)),
                nn.Sequential(nn.MaxPool2d(3, 1, padding=1), relu_conv(inputs, pool, 1)),
            ]
        )

    def head(inputs: int) -> nn.Module:
        return nn.Sequential(
            nn.AvgPool2d(5, 3),
            relu_conv(inputs, 128, 1),
            nn.Flatten(),
            nn.Linear(2048, 1024),
            nn.ReLU(inplace=True),
            nn.Dropout(0.7),
            nn.Linear(1024, 1000),
        )

    def pool() -> nn.Module:
        return nn.MaxPool2d(3, 2, ceil_mode=True)

    stem = nn.Sequential(
        relu_conv(3, 64, 7, stride=2, padding=3),
        pool(),
        nn.LocalResponseNorm(5),
        relu_conv(64, 64, 1),
        relu_conv(64, 192, 3, padding=1),
        nn.LocalResponseNorm(5),
        pool(),
        inception(192, 64, (96, 128), (16, 32), 32),
        inception(256, 128, (128, 192), (32, 96), 64),
        pool(),
        inception(480, 192, (96, 208), (16, 48), 64),
    )
    middle = nn.Sequential(
        inception(512, 160, (112, 224), (24, 64), 64),
        inception(512, 128, (128, 256), (24, 64), 64),
        inception(512, 112, (144, 288), (32, 64), 64),
    )
    tail = nn.Sequential(
        inception(528, 256, (160, 320), (32, 128), 128),
        pool(),
        inception(832, 256, (160, 320), (32, 128), 128),
        inception(832, 384, (192, 384), (48, 128), 128),
        nn.AdaptiveAvgPool2d(1),
        nn.Dropout(0.4),
        nn.Flatten(),
        nn.Linear(1024, 1000),
    )
    return Heads([stem, middle, tail], {0: head(512), 1: head(528)})


def resnet50(dataset: str) -> nn.Module:
    if dataset == "imagenet":
        stem = [bn_conv(3, 64, 7, stride=2, padding=3), nn.MaxPool2d(3, 2, padding=1)]
    else:
        stem = [bn_conv(3, 64, 3, padding=1)]
    blocks: list[nn.Module] = []
    inputs = 64
    for width, count, stride in ((64, 3, 1), (128, 4, 2), (256, 6, 2), (512, 3, 2)):
        for i in range(count):
            step = stride if i == 0 else 1
            branch = nn.Sequential(
                bn_conv(inputs, width, 1),
                bn_conv(width, width, 3, stride=step, padding=1),
                bn_conv(width, 4 * width, 1, relu=False),
            )
            shortcut = bn_conv(inputs, 4 * width, 1, stride=step, relu=False) if i == 0 else None
            blocks.append(Residual(branch, shortcut))
            inputs = 4 * width
    classes = 1000 if dataset == "imagenet" else 10
    pool = nn.AdaptiveAvgPool2d(1)
    return nn.Sequential(*stem, *blocks, pool, nn.Flatten(), nn.Linear(2048, classes))


def inceptionv3(dataset: str) -> nn.Module:
    def seq(*layers: nn.Module) -> nn.Module:
        return nn.Sequential(*layers)

    def mean() -> nn.Module:
        return nn.AvgPool2d(3, 1, padding=1)

    def a(n: int, pool: int) -> nn.Module:
        five = seq(bn_conv(n, 48, 1), bn_conv(48, 64, 5, padding=2))
        double = seq(
            bn_conv(n, 64, 1), bn_conv(64, 96, 3, padding=1), bn_conv(96, 96, 3, padding=1)
        )
        return Parallel([bn_conv(n, 64, 1), five, double, seq(mean(), bn_conv(n, pool, 1))])

    def b(n: int) -> nn.Module:
        double = seq(bn_conv(n, 64, 1), bn_conv(64, 96, 3, padding=1), bn_conv(96, 96, 3, stride=2))
        return Parallel([bn_conv(n, 384, 3, stride=2), double, nn.MaxPool2d(3, 2)])

    def c(n: int) -> nn.Module:
        wide, high = {"padding": (0, 3)}, {"padding": (3, 0)}
        seven = seq(
            bn_conv(768, n, 1), bn_conv(n, n, (1, 7), **wide), bn_conv(n, 192, (7, 1), **high)
        )
        double = seq(
            bn_conv(768, n, 1),
            bn_conv(n, n, (7, 1), **high),
            bn_conv(n, n, (1, 7), **wide),
            bn_conv(n, n, (7, 1), **high),
            bn_conv(n, 192, (1, 7), **wide),
        )
        return Parallel([bn_conv(768, 192, 1), seven, double, seq(mean(), bn_conv(768, 192, 1))])

    def d() -> nn.Module:
        three = seq(bn_conv(768, 192, 1), bn_conv(192, 320, 3, stride=2))
        seven = seq(
            bn_conv(768, 192, 1),
            bn_conv(192, 192, (1, 7), padding=(0, 3)),
            bn_conv(192, 192, (7, 1), padding=(3, 0)),
            bn_conv(192, 192, 3, stride=2),
        )
        return Parallel([three, seven, nn.MaxPool2d(3, 2)])

    def fan() -> nn.Module:
        return Parallel(
            [bn_conv(384, 384, (1, 3), padding=(0, 1)), bn_conv(384, 384, (3, 1), padding=(1, 0))]
        )

    def e(n: int) -> nn.Module:
        double = seq(bn_conv(n, 448, 1), bn_conv(448, 384, 3, padding=1), fan())
        return Parallel(
            [
                bn_conv(n, 320, 1),
                seq(bn_conv(n, 384, 1), fan()),
                double,
                seq(mean(), bn_conv(n, 192, 1)),
            ]
        )

    large = dataset == "imagenet"
    stem = [
        bn_conv(3, 32, 3, stride=2) if large else bn_conv(3, 32, 3, padding=1),
        bn_conv(32, 32, 3) if large else bn_conv(32, 32, 3, padding=1),
        bn_conv(32, 64, 3, padding=1),
        *([nn.MaxPool2d(3, 2)] if large else []),
        bn_conv(64, 80, 1),
        bn_conv(80, 192, 3),
        *([nn.MaxPool2d(3, 2)] if large else []),
    ]
    trunk = seq(*stem, a(192, 32), a(256, 64), a(288, 64), b(288), c(128), c(160), c(160), c(192))
    classes = 1000 if large else 10
    pool = nn.AdaptiveAvgPool2d(1)
    tail = seq(d(), e(1280), e(2048), pool, nn.Dropout(), nn.Flatten(), nn.Linear(2048, classes))
    head = seq(
        nn.AvgPool2d(5, 3),
        bn_conv(768, 128, 1),
        bn_conv(128, 768, 5),
        nn.AdaptiveAvgPool2d(1),
        nn.Flatten(),
        nn.Linear(768, classes),
    )
    return Heads([trunk, tail], {0: head} if large else {})


def mobilenet(dataset: str) -> nn.Module:
    large = dataset == "imagenet"
    layers: list[nn.Module] = [bn_conv(3, 32, 3, stride=2 if large else 1, padding=1)]
    inputs = 32
    strides = {64: 1, 128: 2, 256: 2, 512: 2, 1024: 2}
    for outputs in (64, 128, 128, 256, 256, *(512,) * 6, 1024, 1024):
        stride = strides[outputs] if outputs != inputs else 1
        layers.append(bn_conv(inputs, inputs, 3, stride=stride, padding=1, groups=inputs))
        layers.append(bn_conv(inputs, outputs, 1))
        inputs = outputs
    classes = 1000 if large else 10
    return nn.Sequential(*layers, nn.AdaptiveAvgPool2d(1), nn.Flatten(), nn.Linear(1024, classes))


def plain20(dataset: str) -> nn.Module:
    layers = [bn_conv(3, 16, 3, padding=1)]
    layers += [bn_conv(16, 16, 3, padding=1) for _ in range(6)]
    for inputs, outputs in ((16, 32), (32, 64)):
        layers.append(bn_conv(inputs, outputs, 3, stride=2, padding=1))
        layers += [bn_conv(outputs, outputs, 3, padding=1) for _ in range(5)]
    classes = 1000 if dataset == "imagenet" else 10
    return nn.Sequential(*layers, nn.AdaptiveAvgPool2d(1), nn.Flatten(), nn.Linear(64, classes))
