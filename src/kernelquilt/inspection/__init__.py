"""Figures of fitted models and experiments."""

from kernelquilt.inspection.absence_curve import AbsenceCurveDisplay

__all__ = ["AbsenceCurveDisplay"]
