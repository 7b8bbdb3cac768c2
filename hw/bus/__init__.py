"""AXI4 from the inside: bursts as streams, and a port that several sources share.

Answers even if the bus does not: late, torn and missing responses become errors.
"""
