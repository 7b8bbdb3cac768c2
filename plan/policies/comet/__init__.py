"""COMET: activations kept on the device under an error bound that the gradients can bear.

`law` says how far an error in activations moves a weight's gradient, `controller` turns that into a
bound per layer and a batch size while a network trains.
"""

from cdma.plan.policies.comet.controller import Collected, Controller, training_batch

__all__ = ["Collected", "Controller", "training_batch"]
