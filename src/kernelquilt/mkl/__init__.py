"""Multiple kernel learning classifiers."""
