"""What units tell of a job's CRC, by the algebra alone."""

import numpy as np

from cdma import golden
from cdma.hw.lib.codes.gf2 import FORWARD, ONES, power, times


def unit_crcs(lines: list[bytes], units: int) -> list[int]:
    """For each line, the CRC of all of its unit's lines of the job up to it.

    A line's own is from a state of zero and without inversion; the initial state goes with the
    first line.
    """
    line_shift = power(FORWARD, len(lines[0])) if lines else ()
    round_shift = power(FORWARD, units * len(lines[0])) if lines else ()
    ones = times(line_shift, ONES)
    found: list[int] = []
    for index, line in enumerate(lines):
        crc = golden.crc32(np.frombuffer(line, np.uint8)) ^ ONES
        if index:
            crc ^= ones
        if index >= units:
            crc ^= times(round_shift, found[index - units])
        found.append(crc)
    return found
