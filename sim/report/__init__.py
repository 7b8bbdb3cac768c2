"""Tables and files that tell what a run measured."""
