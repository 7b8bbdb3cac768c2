"""The value map: what the engine is worth, by network, device, link, memory and codec."""
