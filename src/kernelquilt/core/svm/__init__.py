"""The SVM dual with general margins and bounds, on a weighted sum of kernels."""
