"""Fitted models in files, predictors that need numpy alone, and versions of all they depend on."""

from kernelquilt.persistence.exporting import export
from kernelquilt.persistence.files import SavedModel, load, save
from kernelquilt.persistence.numpy_predictor import NumpyPredictor
from kernelquilt.persistence.versions import show_versions

__all__ = ["NumpyPredictor", "SavedModel", "export", "load", "save", "show_versions"]
