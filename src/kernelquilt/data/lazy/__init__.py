"""Views that are read piece by piece: collections of dask, files, and streams."""
