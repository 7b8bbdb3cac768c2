"""The RTL as silicon: what a component costs."""
