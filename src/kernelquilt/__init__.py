"""Multiple kernel learning for multi-view data in which whole views are absent for some samples."""

__version__ = "0.1.0"
