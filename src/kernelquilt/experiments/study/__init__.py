"""What is run: protocols, data sets, problems."""
