"""Looking inside: what views were worth to a model and to a sample, and figures."""

from kernelquilt.inspection.absence_curve import AbsenceCurveDisplay
from kernelquilt.inspection.contributions import ViewContributions, view_contributions
from kernelquilt.inspection.importance import ViewImportance, view_importance
from kernelquilt.inspection.next_view import NextView, next_view
from kernelquilt.inspection.pattern_scores import PatternScores, score_by_pattern

__all__ = [
    "AbsenceCurveDisplay",
    "NextView",
    "PatternScores",
    "ViewContributions",
    "ViewImportance",
    "next_view",
    "score_by_pattern",
    "view_contributions",
    "view_importance",
]
