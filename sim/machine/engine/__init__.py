"""The DMA engine between simulated memories and a simulated link."""
