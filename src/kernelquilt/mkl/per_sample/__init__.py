"""Kernel weights of each sample's own."""
