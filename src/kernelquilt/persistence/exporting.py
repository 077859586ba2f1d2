"""From a fitted model to a plan of arrays that numpy alone can follow.

What the plan says is computed in :mod:`kernelquilt.persistence.numpy_predictor`. Maps that are
applied one after the other are multiplied out where that changes no more than rounding.
"""

from typing import Any

import numpy as np
from sklearn.pipeline import Pipeline
from sklearn.utils.validation import check_is_fitted

from kernelquilt import __version__
from kernelquilt.data.transformer import ViewTransformer
from kernelquilt.kernels.preprocessing import CentreKernels, ScaleKernels, SelectKernels
from kernelquilt.kernels.view_kernels import ViewKernels
from kernelquilt.persistence.heads import head_and_finish
from kernelquilt.persistence.kernel_plans import KernelPlans, refusal
from kernelquilt.persistence.numpy_predictor import FORMAT, NumpyPredictor
from kernelquilt.quilt.survival.quilt import QuiltSurvival


def export(model: Any) -> NumpyPredictor:
    """Make a minimal predictor of a fitted model, which needs numpy alone.

    For services and devices on which the library is not wanted: the predictor, or the file that
    its `save` writes and one folder beside, gives the same scores, probabilities and
    predictions to rounding.

    Parameters
    ----------
    model : estimator
        A fitted estimator of the quilt family (with forests or without experts on columns), or of
        the MKL family, on views, kernels or factors; a search around one; or a pipeline
        that ends in one, before which stand ``ViewTransformer()``, then `ViewKernels`, then
        `CentreKernels`, `ScaleKernels` and `SelectKernels`, each if wanted.

    Returns
    -------
    NumpyPredictor
        With `predict`, `decision_function` and `predict_proba` where the model has them, its size
        as `n_bytes`, and `save`.

    Raises
    ------
    ValueError
        Names what needs more than numpy: kernels and transformers of your own, other experts than
        forests, completers, sparse views.

    Examples
    --------
    >>> import kernelquilt as kq
    >>> X, y = kq.datasets.load_example("wdbc")
    >>> model = kq.SimpleMKLClassifier().fit(X, y)
    >>> exported = kq.export(model)
    >>> exported.predict({"worst": X["worst"][:3]}).tolist()  # the other views are absent
    ['malignant', 'malignant', 'malignant']
    """
    check_is_fitted(model)
    name = type(model).__name__
    before, computed, after, model = _unwrapped(model)
    fitted = model.regressor_ if isinstance(model, QuiltSurvival) else model
    kernels = KernelPlans(fitted, before, computed, after)
    head, finish = head_and_finish(model, kernels)
    return NumpyPredictor(
        {
            "format": FORMAT,
            "kernelquilt": __version__,
            "estimator": name,
            "input": kernels.input(),
            "kernels": kernels.plans,
            "head": head,
            "finish": finish,
        }
    )


def _unwrapped(model: Any) -> tuple[list[ViewTransformer], ViewKernels | None, list[Any], Any]:
    """Return what prepares views, computes and changes kernels, and the model behind them."""
    before: list[ViewTransformer] = []
    computed = None
    after: list[Any] = []
    while hasattr(model, "best_estimator_") or isinstance(model, Pipeline):
        if not isinstance(model, Pipeline):
            model = model.best_estimator_
            continue
        for name, step in model.steps[:-1]:
            of_views = computed is None and not after
            if type(step) is ViewTransformer and of_views:
                before.append(step)
            elif type(step) is ViewKernels and of_views and step.dtype == np.float64:
                computed = step
            elif type(step) in (CentreKernels, ScaleKernels) or (
                type(step) is SelectKernels and not of_views  # else names of kernels are not known
            ):
                after.append(step)
            elif step not in (None, "passthrough"):
                raise refusal(
                    f"step {name!r} of the pipeline, {step!r},",
                    "ViewTransformer(), then ViewKernels() of float64, then CentreKernels(), "
                    "ScaleKernels() and SelectKernels() before the model",
                )
        model = model.steps[-1][1]
    return before, computed, after, model
