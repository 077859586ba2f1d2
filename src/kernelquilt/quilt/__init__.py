"""The default: kernel ridge machines of views and of completed kernels, joined by stacking."""
