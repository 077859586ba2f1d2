"""Looking inside: what views were worth to a model and to a sample, and figures."""

from kernelquilt.inspection.contributions import ViewContributions, view_contributions
from kernelquilt.inspection.displays.absence_curve import AbsenceCurveDisplay
from kernelquilt.inspection.displays.calibration import CalibrationByPatternDisplay
from kernelquilt.inspection.displays.completion import CompletionDisplay
from kernelquilt.inspection.displays.contributions import ViewContributionsDisplay
from kernelquilt.inspection.displays.convergence import ConvergenceDisplay
from kernelquilt.inspection.displays.importance import ViewImportanceDisplay
from kernelquilt.inspection.displays.kernel_stack import KernelStackDisplay
from kernelquilt.inspection.displays.kernel_weights import KernelWeightsDisplay
from kernelquilt.inspection.displays.observed_pattern import ObservedPatternDisplay
from kernelquilt.inspection.displays.survival import SurvivalByViewDisplay
from kernelquilt.inspection.displays.switches import SwitchDisplay
from kernelquilt.inspection.displays.view_transfer import ViewTransferDisplay
from kernelquilt.inspection.drifting import Change, Drift, drift
from kernelquilt.inspection.importance import ViewImportance, view_importance
from kernelquilt.inspection.next_view import NextView, next_view
from kernelquilt.inspection.pattern_scores import PatternScores, score_by_pattern

__all__ = [
    "AbsenceCurveDisplay",
    "CalibrationByPatternDisplay",
    "Change",
    "CompletionDisplay",
    "ConvergenceDisplay",
    "Drift",
    "KernelStackDisplay",
    "KernelWeightsDisplay",
    "NextView",
    "ObservedPatternDisplay",
    "PatternScores",
    "SurvivalByViewDisplay",
    "SwitchDisplay",
    "ViewContributions",
    "ViewContributionsDisplay",
    "ViewImportance",
    "ViewImportanceDisplay",
    "ViewTransferDisplay",
    "drift",
    "next_view",
    "score_by_pattern",
    "view_contributions",
    "view_importance",
]
