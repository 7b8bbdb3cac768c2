"""Inception v3 (Szegedy et al. 2016), as in torchvision."""

from cdma.plan.workload.builder import Builder
from cdma.plan.workload.networks.normalized import conv_bn_relu as conv


def inceptionv3(net: Builder, dataset: str) -> None:
    """Inception v3 at 299×299, with the auxiliary classifier.

    On CIFAR's 32×32 as is common: the first layers have stride 1 and no pooling, so that the
    modules begin with 30×30 pixels, and there is no auxiliary classifier.
    """
    if dataset == "imagenet":
        x = net.input("data", 3, 299, 299)
        x = conv(net, "conv1a", x, 32, 3, stride=2)
        x = conv(net, "conv2a", x, 32, 3)
        x = conv(net, "conv2b", x, 64, 3, pad=1)
        x = net.max_pool("pool1", x, 3, 2)
        x = conv(net, "conv3b", x, 80, 1)
        x = conv(net, "conv4a", x, 192, 3)
        x = net.max_pool("pool2", x, 3, 2)
        classes = 1000
    else:
        x = net.input("data", 3, 32, 32)
        x = conv(net, "conv1a", x, 32, 3, pad=1)
        x = conv(net, "conv2a", x, 32, 3, pad=1)
        x = conv(net, "conv2b", x, 64, 3, pad=1)
        x = conv(net, "conv3b", x, 80, 1)
        x = conv(net, "conv4a", x, 192, 3)
        classes = 10
    for name, pool_channels in (("5b", 32), ("5c", 64), ("5d", 64)):
        x = _fives(net, f"mixed{name}", x, pool_channels)
    x = _shrink(net, "mixed6a", x)
    for name, channels in (("6b", 128), ("6c", 160), ("6d", 160), ("6e", 192)):
        x = _sevens(net, f"mixed{name}", x, channels)
    if dataset == "imagenet":
        _auxiliary(net, x, classes)
    x = _shrink_again(net, "mixed7a", x)
    for name in ("7b", "7c"):
        x = _fans(net, f"mixed{name}", x)
    x = net.global_pool("pool", x)
    x = net.dropout("dropout", x)
    net.softmax("prob", net.fc("fc", x, classes))


def _fives(net: Builder, name: str, x: int, pool_channels: int) -> int:
    """Figure 5: two 3×3 in place of a 5×5; torchvision keeps one 5×5 beside them."""
    one = conv(net, f"{name}.1x1", x, 64, 1)
    five = conv(net, f"{name}.5x5_1", x, 48, 1)
    five = conv(net, f"{name}.5x5_2", five, 64, 5, pad=2)
    three = conv(net, f"{name}.3x3_1", x, 64, 1)
    three = conv(net, f"{name}.3x3_2", three, 96, 3, pad=1)
    three = conv(net, f"{name}.3x3_3", three, 96, 3, pad=1)
    pool = net.avg_pool(f"{name}.pool", x, 3, 1, pad=1)
    pool = conv(net, f"{name}.pool_proj", pool, pool_channels, 1)
    return net.concat(f"{name}.concat", one, five, three, pool)


def _shrink(net: Builder, name: str, x: int) -> int:
    """Figure 10: to half the pixels without a bottleneck."""
    three = conv(net, f"{name}.3x3", x, 384, 3, stride=2)
    double = conv(net, f"{name}.double_1", x, 64, 1)
    double = conv(net, f"{name}.double_2", double, 96, 3, pad=1)
    double = conv(net, f"{name}.double_3", double, 96, 3, stride=2)
    pool = net.max_pool(f"{name}.pool", x, 3, 2)
    return net.concat(f"{name}.concat", three, double, pool)


def _sevens(net: Builder, name: str, x: int, channels: int) -> int:
    """Figure 6: n×n as 1×n and n×1, n = 7."""
    wide, high = (1, 7), (7, 1)
    one = conv(net, f"{name}.1x1", x, 192, 1)
    seven = conv(net, f"{name}.7x7_1", x, channels, 1)
    seven = conv(net, f"{name}.7x7_2", seven, channels, wide, pad=(0, 3))
    seven = conv(net, f"{name}.7x7_3", seven, 192, high, pad=(3, 0))
    double = conv(net, f"{name}.double_1", x, channels, 1)
    double = conv(net, f"{name}.double_2", double, channels, high, pad=(3, 0))
    double = conv(net, f"{name}.double_3", double, channels, wide, pad=(0, 3))
    double = conv(net, f"{name}.double_4", double, channels, high, pad=(3, 0))
    double = conv(net, f"{name}.double_5", double, 192, wide, pad=(0, 3))
    pool = net.avg_pool(f"{name}.pool", x, 3, 1, pad=1)
    pool = conv(net, f"{name}.pool_proj", pool, 192, 1)
    return net.concat(f"{name}.concat", one, seven, double, pool)


def _auxiliary(net: Builder, x: int, classes: int) -> None:
    x = net.avg_pool("aux.pool0", x, 5, 3)
    x = conv(net, "aux.conv0", x, 128, 1)
    x = conv(net, "aux.conv1", x, 768, 5)
    x = net.global_pool("aux.pool1", x)
    net.softmax("aux.prob", net.fc("aux.fc", x, classes))


def _shrink_again(net: Builder, name: str, x: int) -> int:
    three = conv(net, f"{name}.3x3_1", x, 192, 1)
    three = conv(net, f"{name}.3x3_2", three, 320, 3, stride=2)
    seven = conv(net, f"{name}.7x7_1", x, 192, 1)
    seven = conv(net, f"{name}.7x7_2", seven, 192, (1, 7), pad=(0, 3))
    seven = conv(net, f"{name}.7x7_3", seven, 192, (7, 1), pad=(3, 0))
    seven = conv(net, f"{name}.7x7_4", seven, 192, 3, stride=2)
    pool = net.max_pool(f"{name}.pool", x, 3, 2)
    return net.concat(f"{name}.concat", three, seven, pool)


def _fans(net: Builder, name: str, x: int) -> int:
    """Figure 7: filter banks that fan out."""
    one = conv(net, f"{name}.1x1", x, 320, 1)
    three = _fan(net, f"{name}.3x3", conv(net, f"{name}.3x3_1", x, 384, 1))
    double = conv(net, f"{name}.double_1", x, 448, 1)
    double = conv(net, f"{name}.double_2", double, 384, 3, pad=1)
    double = _fan(net, f"{name}.double", double)
    pool = net.avg_pool(f"{name}.pool", x, 3, 1, pad=1)
    pool = conv(net, f"{name}.pool_proj", pool, 192, 1)
    return net.concat(f"{name}.concat", one, three, double, pool)


def _fan(net: Builder, name: str, x: int) -> int:
    wide = conv(net, f"{name}_wide", x, 384, (1, 3), pad=(0, 1))
    high = conv(net, f"{name}_high", x, 384, (3, 1), pad=(1, 0))
    return net.concat(f"{name}_fan", wide, high)
