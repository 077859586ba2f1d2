"""Views in the span of landmarks: their features, regressions between them, and ridges on them."""
