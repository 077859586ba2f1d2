"""Numerics on arrays that at least two families of methods use: no containers, no estimators."""
