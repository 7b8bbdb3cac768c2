"""The driver of the buddy memory controller."""
