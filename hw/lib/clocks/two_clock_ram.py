"""A memory that is written with one clock and read with another."""

from cdma.hw.lib.ram import Ram


class TwoClockRam(Ram):
    """A memory whose ports have clocks of their own, both synchronous.

    It is as `Ram` but for the clocks. A word is read a long time after it was written, and not
    written again before it was read: who uses the memory takes care of that, so no port needs to
    know of the other one.

    Latency: 1 cycle of the port's clock. Throughput: a read and a write per cycle of theirs.

    Parameters
    ----------
    width
        Bits of a word.
    depth
        The number of words.
    write_domain, read_domain
        Clock domains of the ports, two different ones.

    Attributes
    ----------
    local_domains : dict of str to str
        The module's own names of both domains, so that all memories of a size share one.

    Members
    -------
    write_enable : `In(1)`
    write_address : `In(range(depth))`
    write_data : `In(width)`
    read_enable : `In(1)`
    read_address : `In(range(depth))`
    read_data : `Out(width)`
        The word of the last cycle with `read_enable`.

    Raises
    ------
    ValueError
        If both ports have the same domain.
    """

    def __init__(self, width: int, depth: int, *, write_domain: str, read_domain: str) -> None:
        if write_domain == read_domain:
            raise ValueError(f"ports must have two domains, not {write_domain!r} both")
        self.write_domain = write_domain
        self.read_domain = read_domain
        self.local_domains = {write_domain: "write", read_domain: "read"}
        super().__init__(width, depth)
