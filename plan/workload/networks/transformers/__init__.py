"""Transformers: language models, images as sequences, and a mixture of experts."""
