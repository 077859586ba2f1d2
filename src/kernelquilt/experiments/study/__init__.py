"""What is run: protocols, data sets, splits."""
