"""The value map's points: all combinations of networks, devices, links, memories and codecs."""

from collections.abc import Sequence
from itertools import product
from typing import Unpack

from cdma.plan.platform.device import Device
from cdma.plan.platform.link import Link
from cdma.plan.value.point import Common, Point


def grid(
    networks: Sequence[str],
    devices: Sequence[str | Device],
    links: Sequence[str | Link],
    rooms: Sequence[float],
    codecs: Sequence[str],
    dataset: str | None = None,
    batch: int | None = None,
    **fields: Unpack[Common],
) -> tuple[Point, ...]:
    """All combinations as points, the links of a step beside each other.

    Parameters
    ----------
    networks, devices, links, rooms, codecs
        As of `Point.usual`.
    dataset, batch, fields
        Of `Point.usual`, the same for all points.
    """
    return tuple(
        Point.usual(
            network,
            dataset=dataset,
            batch=batch,
            device=device,
            link=link,
            room=room,
            codec=codec,
            **fields,
        )
        for network, device, room, codec, link in product(networks, devices, rooms, codecs, links)
    )
