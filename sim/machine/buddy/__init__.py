"""The buddy controller between a GPU's accesses and simulated memories."""
