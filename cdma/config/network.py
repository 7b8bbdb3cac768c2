"""The table `[network]`: a shipped network with changes, a hook's, or layers one by one."""

from collections.abc import Mapping
from dataclasses import dataclass, field, replace
from typing import Any, Self

from cdma.config.operators import checked_layers, write_layers
from cdma.config.values import (
    PRESET,
    REFUSALS,
    TablePlace,
    meant,
    require_known,
    scalar,
    shown,
)
from cdma.plan.workload.builder import Builder
from cdma.plan.workload.graph import Graph
from cdma.plan.workload.layers import GraphError
from cdma.plan.workload.networks import NETWORKS, Network
from cdma.plan.workload.networks import find as find_network

HOOK, LAYERS = "hook", "layers"

OWN = "own"
"""The dataset of networks whose file does not name one."""


@dataclass(frozen=True, kw_only=True)
class NetworkConfig:
    """A training step, before it is turned into a graph.

    Parameters
    ----------
    name : str
        For reports; the shipped network's, the file's or the function's if not given.
    preset : str
        A shipped network; or `layers`, or `hook`.
    layers : list of table
        The operators below, in an order in which they can run.
    hook : str
        `module:function`, a function that returns a `Network` or a `Graph`, or one of these.
    batch : int
        Images, or sequences; the network's usual batch if not given. Layers need it.
    dataset : str
        Of a shipped network, its shape: imagenet, cifar, …; else a word for reports.
    activation : str
        relu, or leaky_relu for the variant with dense activations.
    precision : str
        fp32, bf16 or autocast; the network's usual one if not given.
    optimizer : str
        sgd, momentum or adam; the network's usual one if not given.
    """

    name: str
    source: Network | Graph
    origin: Mapping[str, Any] = field(hash=False)
    """The one of the keys `preset`, `layers` and `hook` that there is, with its value."""
    batch: int | None = None
    dataset: str | None = None
    activation: str = "relu"
    precision: str | None = None
    optimizer: str | None = None

    @classmethod
    def named(cls, name: str) -> Self:
        """A shipped network; `GraphError`, with those there are, if there is none."""
        return cls(name=name, source=find_network(name), origin={PRESET: name})

    @classmethod
    def of_hook(cls, path: str, made: Network | Graph) -> Self:
        """A network that a hook has returned."""
        name = made.name if isinstance(made, Graph) else path.rpartition(":")[2]
        return cls(name=name, source=made, origin={HOOK: path})

    @classmethod
    def of_table(cls, content: Mapping[str, Any], place: TablePlace) -> Self:
        """The network of a file's table; it is built once, so that what cannot be is told here.

        Raises
        ------
        UserError
            A key is unknown, missing or of another type, or nobody can build such a network.
        """
        from cdma.config.hooks import load_hook

        require_known(content, KEYS, place)
        origins = [key for key in (PRESET, LAYERS, HOOK) if key in content]
        if len(origins) != 1:
            raise place.error(
                f"must have one of {PRESET}, {LAYERS} and {HOOK}, not {' and '.join(origins) or 0}"
            )
        origin = content[origins[0]]
        given = {
            key: scalar(content[key], int if key == "batch" else str, key, place)
            for key in _SETTINGS
            if key in content
        }
        name = scalar(content["name"], str, "name", place) if "name" in content else None
        if origins == [PRESET]:
            if origin not in NETWORKS:
                near = meant(origin, NETWORKS) if isinstance(origin, str) else ""
                raise place.error(
                    f"{PRESET} must be one of {', '.join(NETWORKS)}, not {shown(origin)}"
                    + (f"; {near.rstrip()}" if near else "")
                )
            made = cls.named(origin)
        elif origins == [HOOK]:
            made = load_hook(cls, scalar(origin, str, HOOK, place))
        else:
            made = cls._of_layers(checked_layers(origin, place), given, place)
        made = replace(made, **({} if name is None else {"name": name}))
        try:
            made = made.changed(**given)
            made.graph()
        except REFUSALS as error:
            raise place.error(str(error)) from error
        return made

    @classmethod
    def _of_layers(
        cls, layers: tuple[Mapping[str, Any], ...], given: Mapping[str, Any], place: TablePlace
    ) -> Self:
        if "batch" not in given:
            raise place.error("needs batch, as it has layers of its own; add batch = 32")

        def write(net: Builder, dataset: str) -> None:
            write_layers(net, layers)

        return cls(
            name=_stem(place.file),
            source=Network(write, {given.get("dataset", OWN): given["batch"]}),
            origin={LAYERS: [dict(layer) for layer in layers]},
        )

    def changed(self, **settings: Any) -> Self:
        """The network with those of its settings replaced that are not None.

        Raises
        ------
        GraphError
            The network is a graph already, which has its batch and its shapes.
        """
        given = {key: value for key, value in settings.items() if value is not None}
        if isinstance(self.source, Graph) and given:
            raise GraphError(
                f"{self.name} is a graph already, whose {next(iter(given))} is as it is; leave "
                f"{', '.join(given)} out, or let the hook return a Network"
            )
        return replace(self, **given)

    def graph(self) -> Graph:
        """The training step; `GraphError` if nobody can build it so."""
        if isinstance(self.source, Graph):
            return self.source
        return Graph.from_network(
            self.name,
            self.source,
            self.batch,
            self.dataset,
            self.activation,
            self.precision,
            self.optimizer,
        )

    @property
    def usual_dataset(self) -> str:
        """The dataset: the one asked for, or the network's usual one."""
        if isinstance(self.source, Graph):
            return OWN
        return self.dataset or next(iter(self.source.batches))

    @property
    def usual_precision(self) -> str:
        """The precision: the one asked for, or the network's usual one."""
        return "fp32" if isinstance(self.source, Graph) else self.precision or self.source.precision

    @property
    def usual_optimizer(self) -> str:
        """The optimizer: the one asked for, or the network's usual one."""
        if isinstance(self.source, Graph):
            return "momentum"
        return self.optimizer or self.source.optimizer

    def table(self) -> dict[str, Any]:
        """The table of a file that makes this network again, with all its settings."""
        if isinstance(self.source, Graph):
            return {"name": self.name, **self.origin}
        return {
            "name": self.name,
            **{key: value for key, value in self.origin.items() if key != LAYERS},
            "batch": self.batch or self.source.batches.get(self.usual_dataset),
            "dataset": self.usual_dataset,
            "activation": self.activation,
            "precision": self.usual_precision,
            "optimizer": self.usual_optimizer,
            **{key: value for key, value in self.origin.items() if key == LAYERS},
        }


_SETTINGS = ("batch", "dataset", "activation", "precision", "optimizer")

KEYS = ("name", PRESET, LAYERS, HOOK, *_SETTINGS)
"""Of the table."""


def _stem(file: str) -> str:
    return file.replace("\\", "/").rpartition("/")[2].partition(".")[0]
