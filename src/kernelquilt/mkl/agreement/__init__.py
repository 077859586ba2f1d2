"""A classifier for each view, and views that are to agree."""
