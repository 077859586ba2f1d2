"""Predictions of an exported model with numpy alone.

The files of this folder import numpy and Python's own modules, nothing else: copied beside a file
that `NumpyPredictor.save` has written, the folder predicts as the model did, where the library is
not at hand.

    from numpy_predictor import NumpyPredictor
    model = NumpyPredictor.load("model.npz")
    model.predict({"mri": mri, "clinic": clinic})

A file holds arrays, and a plan that says what they are for. Reading it executes nothing. The plan
has four parts: the views or kernels that samples have (``input``), kernels with training samples
(``kernels``), what is made of them (``head``), and what is returned (``finish``).
"""

from .predictor import FORMAT, NumpyPredictor

__all__ = ["FORMAT", "NumpyPredictor"]
