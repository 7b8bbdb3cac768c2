"""Tools that all rooms share: caching by content, progress, compilers, and packages of extras.

They import nothing of the project.
"""
