"""What takes long to make: cached by content, and reporting its progress.

Imports nothing of the project.
"""
