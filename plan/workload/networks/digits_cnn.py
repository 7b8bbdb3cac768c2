"""The shipped capture's network: a small AlexNet on handwritten digits.

Its training is in `cdma.plan.workload.capture.digits_cnn`.

Tensors have the names of the capture's arrays, and at batch 16 their sizes.
"""

from cdma.plan.workload.builder import Builder
from cdma.plan.workload.capture.digits_cnn import CHANNELS, NEURONS


def digits_cnn(net: Builder, dataset: str) -> None:
    """The digits CNN at 32×32, one channel; dropout does not overwrite, as in the network's
    modules.
    """
    x = net.input("images", 1, 32, 32)
    for i, channels in enumerate(CHANNELS):
        size = 3 if i else 5
        x = net.conv(f"conv{i}.weights", x, channels, size, pad=size // 2)
        x = net.relu(f"conv{i}.relu", x)
        x = net.max_pool(f"pool{i}", x, 3, 2)
    x = net.dropout("dropout0", x, in_place=False)
    x = net.relu("fc0.relu", net.fc("fc0.weights", x, NEURONS))
    x = net.dropout("dropout1", x, in_place=False)
    net.softmax("loss", net.fc("fc1", x, 10))
