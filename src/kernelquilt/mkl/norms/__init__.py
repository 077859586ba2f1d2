"""Kernel weights bounded by a norm: uniform, l1, lp, (r, p)."""
