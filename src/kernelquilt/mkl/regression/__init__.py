"""Support vector regression on learned kernel weights."""
