"""Numerics on features of views: regressions between them, ridges on them, and their experts."""
