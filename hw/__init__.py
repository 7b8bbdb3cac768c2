"""The RTL, in Amaranth: parametric components with ready/valid streams and AMBA ports.

Takes format constants from `golden` and nothing else of ours.
"""
