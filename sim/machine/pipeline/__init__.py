"""A codec's RTL as an object: packets in, packets out."""
