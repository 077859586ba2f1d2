"""Figures of fitted models: what is computed, and how it is drawn."""
