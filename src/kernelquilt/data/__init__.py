"""What a user hands over: views, kernels, and what makes them clean."""
