"""VGG16: thirteen 3×3 convolutions in five blocks (Simonyan and Zisserman 2015, network D)."""

from cdma.plan.workload.builder import Builder

BLOCKS = ((64, 2), (128, 2), (256, 3), (512, 3), (512, 3))


def vgg16(net: Builder, dataset: str) -> None:
    """VGG-16 at 224×224, as published; on CIFAR's 32×32 the same layers, the last block's being
    2×2.
    """
    size, classes = {"imagenet": (224, 1000), "cifar": (32, 10)}[dataset]
    x = net.input("data", 3, size, size)
    for block, (channels, convolutions) in enumerate(BLOCKS, 1):
        for i in range(1, convolutions + 1):
            x = net.conv(f"conv{block}_{i}", x, channels, 3, pad=1)
            x = net.relu(f"relu{block}_{i}", x)
        x = net.max_pool(f"pool{block}", x, 2, 2)
    for i in (6, 7):
        x = net.fc(f"fc{i}", x, 4096)
        x = net.relu(f"relu{i}", x)
        x = net.dropout(f"drop{i}", x)
    x = net.fc("fc8", x, classes)
    net.softmax("prob", x)
