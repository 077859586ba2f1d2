"""Comparisons of methods: what to run, and what came of it."""
