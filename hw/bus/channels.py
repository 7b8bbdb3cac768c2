"""The channels of an AXI4 port, as streams with IDs."""

from amaranth.lib import data

from cdma.hw.bus.burst import ReadResponse


class BusRequest(data.StructLayout):
    """A burst on AR or AW; the ID is the index of its source, and the owner that of its request."""

    def __init__(self, address_bits: int, id_bits: int, owners: int = 1) -> None:
        super().__init__(
            {"id": id_bits, "address": address_bits, "beats": 8, "owner": range(owners)}
        )


class BusReadBeat(data.StructLayout):
    """RID, and the beat: RDATA, RRESP, RLAST."""

    def __init__(self, data_bytes: int, id_bits: int) -> None:
        super().__init__({"id": id_bits, "response": ReadResponse(data_bytes)})


class BusWriteResponse(data.StructLayout):
    """BID and BRESP."""

    def __init__(self, id_bits: int) -> None:
        super().__init__({"id": id_bits, "resp": 2})
