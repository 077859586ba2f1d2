"""What an exported model needs of its views and kernels."""

from functools import partial
from typing import Any

import numpy as np
from sklearn.metrics.pairwise import PAIRWISE_KERNEL_FUNCTIONS

from kernelquilt._messages import quoted
from kernelquilt._typing import Floats, Indices
from kernelquilt.data.preparation import ColumnPreparation
from kernelquilt.data.stack import TrainingRows
from kernelquilt.data.transformer import ViewTransformer
from kernelquilt.kernels.factor_input import FactorInput
from kernelquilt.kernels.functions import Gaussian, Jaccard, LatentSemantic
from kernelquilt.kernels.median_gaussian import MedianGaussian
from kernelquilt.kernels.preprocessing import CentreKernels, SelectKernels
from kernelquilt.kernels.view_kernels import ViewKernels

Plan = dict[str, Any]

FUNCTION_PARAMETERS = {"gamma", "degree", "coef0"}


def refusal(what: str, instead: str) -> ValueError:
    """Return the error that names what cannot be exported, and what can."""
    return ValueError(f"{what} cannot be exported; what can is {instead}. kq.save keeps any model")


class KernelPlans:
    """The kernels of a model with training samples, and what they need of new samples.

    Parameters
    ----------
    model : estimator
    before : list of ViewTransformer
        What prepares views for it.
    computed : ViewKernels or None
        What computes kernels for it.
    after : list of CentreKernels, ScaleKernels and SelectKernels
        What is done to them then.

    Attributes
    ----------
    plans : list of dict
    """

    def __init__(
        self,
        model: Any,
        before: list[ViewTransformer],
        computed: ViewKernels | None,
        after: list[Any],
    ) -> None:
        if not hasattr(model, "input_"):
            raise refusal(type(model).__name__, "a model of the quilt or the MKL family")
        self.model, self.before, self.held = model, before, model.input_
        if isinstance(self.held, FactorInput) and self.held.map is not None:
            self.held = self.held.map.input_
        self.computed = computed if self.held.views is None else self.held.view_kernels
        self.changes = [each for each in after if not isinstance(each, SelectKernels)]
        self.names = self.held.names
        if self.computed is not None:
            self.names = self.computed.kernel_names_
        elif self.changes:
            self.names = self.changes[0].training_rows_.names
        self.plans: list[Plan] = []
        self._blocks: dict[tuple[int, bytes], Floats] = {}
        first = [*before, model if computed is None else computed][0]
        self.first, self.views = first, list(getattr(first, "view_forms_", {}))

    def add(self, m: int, columns: Indices | None) -> int:
        """Add kernel m with some training samples, or the columns of its view, and number it."""
        name, function, points = self.held.names[m], None, None
        m = source = self.names.index(name)
        steps, used = [], None
        if self.changes and columns is not None:
            # a mean is over all that have the kernel, not only over those with a coefficient
            present = _column(self.changes[0].training_rows_, name)
            steps = [_step(each, name, present) for each in self.changes]
            used, columns = np.searchsorted(present, columns), present
        if self.computed is not None:
            source = self.views.index(self.computed.view_of(m))
        if self.computed is not None and columns is not None:
            function = _function(self.computed.kernels_[m], name)
            key = source, columns.tobytes()
            if key not in self._blocks:
                block = self.computed.training_views_[self.computed.view_of(m)]
                if getattr(self.held, "held", None) is not None:
                    columns = np.searchsorted(self.held.held, columns)
                self._blocks[key] = np.ascontiguousarray(block[columns])
            points, columns = self._blocks[key], None
        self.plans.append(
            {
                "name": name,
                "source": source,
                "function": function,
                "points": points,
                "columns": columns,
                "steps": steps,
                "used": used,
            }
        )
        return len(self.plans) - 1

    def input(self) -> Plan:
        """Return what samples consist of."""
        if isinstance(self.held, FactorInput):
            views = [
                _view(name, int(rank), None)
                for name, rank in zip(self.held.names, self.held.ranks, strict=True)
            ]
            return {"kind": "views", "views": views, "columns": None}
        if self.computed is None:
            n_train = len(self.held.observed)
            return {"kind": "kernels", "names": list(self.names), "n_train": n_train}
        first = self.first
        sparse = [name for name, form in first.view_forms_.items() if form.sparse]
        if sparse:
            raise refusal(f"the sparse views {quoted(sparse)}", "a model of dense views")
        names = self.computed.training_views_.names
        seen = dict(zip(names, self.computed.seen_views_.tolist(), strict=True))
        views = []
        for name, form in first.view_forms_.items():
            view = _view(name, form.size, form.columns)
            view["before"] = [
                _preparation(each.transformers_[name], name)
                for each in self.before
                if name in each.transformers_
            ]
            own = getattr(self.model, "preparation_", None)
            if own is not None and name in own.transformers_:
                view["preparation"] = _preparation(own.transformers_[name], name)
            view["seen"] = seen.get(name, True)  # one that only gates depend on is no kernel
            views.append(view)
        columns = getattr(first, "view_columns_", None)
        return {
            "kind": "views",
            "views": views,
            "columns": None if columns is None else {k: np.asarray(v) for k, v in columns.items()},
            "n_columns": first.n_features_in_,
        }


def _view(name: str, size: int, columns: tuple[str, ...] | None) -> Plan:
    names = None if columns is None else list(columns)
    return {
        "name": name,
        "size": size,
        "columns": names,
        "before": [],
        "preparation": None,
        "seen": True,
    }


def _preparation(step: Any, name: str) -> Plan:
    """Return how the columns of a view are prepared."""
    if type(step) is not ColumnPreparation:
        raise refusal(f"the transformer {step!r} of view {name!r}", "ViewTransformer()")
    scaler, encoder = step.scaler_, step.encoder_
    mean = np.zeros(0) if scaler is None else scaler.mean_
    return {
        "numbers": step.number_columns_,
        "mean": mean,
        "scale": np.ones(len(mean)) if scaler is None or not step.scale else scaler.scale_,
        "scaled": step.scale,
        "gaps": step.gap_columns_,
        "categories": step.category_columns_,
        "values": [] if encoder is None else [each.tolist() for each in encoder.categories_],
    }


def _column(training: TrainingRows, name: str) -> Indices:
    """Return the training samples that have a kernel."""
    return np.flatnonzero(training.observed[:, training.names.index(name)])


def _step(step: Any, name: str, present: Indices) -> Plan:
    """Return how a kernel with the training samples that have it is centred or scaled."""
    statistics = step.statistics_[step.training_rows_.names.index(name)]
    if isinstance(step, CentreKernels):
        return {
            "kind": "centre",
            "share": statistics.share[present],
            "columns": statistics.columns[present],
            "overall": statistics.overall,
        }
    if isinstance(statistics, float):
        return {"kind": "divide", "by": statistics}
    columns, lowest = statistics
    return {"kind": "unit_diagonal", "columns": columns[present], "lowest": lowest}


def _function(kernel: Any, name: str) -> Plan:
    """Return name and parameters of a fitted kernel function."""
    if type(kernel) is Gaussian:
        return {"name": "gaussian", "unit": kernel.unit_, "width": kernel.width_}
    if type(kernel) is MedianGaussian:
        return {
            "name": "median_gaussian",
            "centres": kernel.centres_,
            "scales": kernel.scales_,
            "draws_in": kernel.standardize == "robust",
            "squared_width": kernel.squared_width_,
        }
    if type(kernel) is Jaccard:
        return {"name": "jaccard"}
    if type(kernel) is LatentSemantic:
        return {"name": "latent_semantic", "components": kernel.components_}
    function, options = kernel, {}
    if isinstance(kernel, partial) and not kernel.args:
        function, options = kernel.func, kernel.keywords
    named = [name for name, each in PAIRWISE_KERNEL_FUNCTIONS.items() if each is function]
    if not named or not set(options) <= FUNCTION_PARAMETERS:
        raise refusal(f"kernel {name!r}, {kernel!r},", "a kernel that has a name")
    return {"name": "polynomial" if "poly" in named else named[0], **options}
