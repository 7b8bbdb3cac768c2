"""Plain20: the 20-layer network without shortcuts beside which ResNets began (He et al. 2016,
§4.2)."""

from cdma.plan.workload.builder import Builder
from cdma.plan.workload.networks.normalized import conv_bn_relu


def plain20(net: Builder, dataset: str) -> None:
    """Plain-20 at CIFAR's 32×32, as published. ImageNet (CSWAP+) takes its layers at 224×224."""
    size, classes = {"cifar": (32, 10), "imagenet": (224, 1000)}[dataset]
    x = net.input("data", 3, size, size)
    x = conv_bn_relu(net, "conv0", x, 16, 3, pad=1)
    for stage, channels in enumerate((16, 32, 64), 1):
        for i in range(1, 7):
            stride = 2 if stage > 1 and i == 1 else 1
            x = conv_bn_relu(net, f"conv{stage}_{i}", x, channels, 3, stride=stride, pad=1)
    x = net.global_pool("pool", x)
    net.softmax("prob", net.fc("fc", x, classes))
