"""MobileNet v1: depthwise and pointwise convolutions in turns (Howard et al. 2017, Table 1)."""

from cdma.plan.workload.builder import Builder
from cdma.plan.workload.networks.normalized import conv_bn_relu

# Channels of the pointwise convolution, and the stride of the depthwise one before it.
PAIRS = (
    (64, 1),
    (128, 2),
    (128, 1),
    (256, 2),
    (256, 1),
    (512, 2),
    *(((512, 1),) * 5),
    (1024, 2),
    (1024, 1),
)


def mobilenet(net: Builder, dataset: str) -> None:
    """MobileNet at 224×224, as published. On CIFAR's 32×32, as is common, the first stride is 1."""
    size, stride, classes = {"imagenet": (224, 2, 1000), "cifar": (32, 1, 10)}[dataset]
    x = net.input("data", 3, size, size)
    x = conv_bn_relu(net, "conv0", x, 32, 3, stride=stride, pad=1)
    for i, (channels, stride) in enumerate(PAIRS, 1):
        groups = net.shape(x)[1]
        x = conv_bn_relu(net, f"dw{i}", x, groups, 3, stride=stride, pad=1, groups=groups)
        x = conv_bn_relu(net, f"pw{i}", x, channels, 1)
    x = net.global_pool("pool", x)
    net.softmax("prob", net.fc("fc", x, classes))
