"""The DMA engine: descriptors in, completion records out, compression units between."""
