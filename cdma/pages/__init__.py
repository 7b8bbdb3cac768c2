"""Pages and pictures of `docs/` that are generated: commands with their output, blocks, waves."""
