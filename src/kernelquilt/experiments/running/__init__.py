"""Doing it: the runner, the store, one cell."""
