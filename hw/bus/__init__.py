"""AXI4 from the inside: bursts as streams, and a port that several sources share.

Answers even if the bus does not: late, malformed and missing responses become errors.
"""
