"""Completers of the literature."""
