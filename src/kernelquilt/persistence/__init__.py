"""Fitted models in files, and the versions of everything they depend on."""

from kernelquilt.persistence.files import SavedModel, load, save
from kernelquilt.persistence.versions import show_versions

__all__ = ["SavedModel", "load", "save", "show_versions"]
