"""Telling it: statistics, tables, figures, pages."""
