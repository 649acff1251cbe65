"""Graph functions from stored bytes to what a model takes; one concept a module."""
