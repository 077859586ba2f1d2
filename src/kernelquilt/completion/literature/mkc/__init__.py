"""Multi-view kernel completion."""
