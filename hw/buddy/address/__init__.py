"""Logical addresses to places in device and buddy memory."""
