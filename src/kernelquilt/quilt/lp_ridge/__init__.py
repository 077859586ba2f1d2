"""Kernel ridge regression on kernel weights of lp norm one."""
