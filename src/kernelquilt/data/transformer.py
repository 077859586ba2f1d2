"""Per-view preprocessing that keeps absence."""

from collections.abc import Iterator, Mapping
from contextlib import contextmanager
from typing import Any

import numpy as np
from scipy.sparse import issparse
from sklearn.base import BaseEstimator, TransformerMixin, clone
from sklearn.utils.validation import check_consistent_length, check_is_fitted

from kernelquilt._messages import quoted
from kernelquilt._typing import Floats
from kernelquilt.core.limits import unchanged_on_error
from kernelquilt.data.blocks import (
    as_block,
    check_finite,
    is_frame,
    nothing,
    rows_without_values,
    take,
)
from kernelquilt.data.columns import ViewColumns
from kernelquilt.data.containers import warn_all_absent
from kernelquilt.data.new_samples import match_views
from kernelquilt.data.preparation import ColumnPreparation
from kernelquilt.data.validation import check_alignment, validate_views
from kernelquilt.data.views import MultiView


class ViewTransformer(TransformerMixin, BaseEstimator):
    """Fit a transformer to each view, on the samples that have the view.

    The way to impute single missing cells, to encode categories and to scale columns without
    touching the samples for which a view is absent: they stay absent. A transformer gets the view
    as it was given: a data frame with names and types of its columns, a sparse matrix, or an array.

    Parameters
    ----------
    transformers : dict of str to transformer, transformer or "auto", default="auto"
        A transformer or pipeline for each view; views without one, or with ``"passthrough"``,
        pass through. A single transformer is used for every view. ``"auto"`` prepares columns by
        their type: numbers get the mean where they are missing and are standardised, categories
        and strings are encoded one-hot, where a category that is not known from training is none
        of the others. Dates are refused, sparse views pass through.
    views : dict of str to columns, "columns" or None, default=None
        The views of 2-D data, as in `as_views`.

    Attributes
    ----------
    transformers_ : dict of str to fitted transformer
        Without the views that pass through or that are absent for all training samples.
    absent_views_ : tuple of str
        The views that are absent for all training samples.
    view_names_ : tuple of str
        The names of the views.
    n_features_in_ : int
        Number of columns of 2-D data, otherwise of views.

    Examples
    --------
    >>> import numpy as np
    >>> import pandas as pd
    >>> from sklearn.impute import SimpleImputer
    >>> from kernelquilt.data.transformer import ViewTransformer
    >>> X = np.array([[1.0, np.nan, 5.0], [3.0, 4.0, 6.0], [np.nan, np.nan, 7.0]])
    >>> views = ViewTransformer(SimpleImputer(), views={"a": [0, 1], "b": [2]}).fit_transform(X)
    >>> views["a"].tolist()
    [[1.0, 4.0], [3.0, 4.0], [nan, nan]]

    Without arguments it takes columns of all types:

    >>> clinic = pd.DataFrame({"age": [61.0, None, 59.0], "sex": ["f", "m", "f"]})
    >>> ViewTransformer().fit_transform({"clinic": clinic})["clinic"].tolist()
    [[1.0, 1.0, 0.0], [0.0, 0.0, 1.0], [-1.0, 1.0, 0.0]]
    """

    def __init__(self, transformers: Any = "auto", *, views: ViewColumns = None) -> None:
        self.transformers = transformers
        self.views = views

    def fit(self, X: Any, y: Any = None) -> "ViewTransformer":
        """Fit the transformers.

        Parameters
        ----------
        X : MultiView, or any input of `as_views`, of n_samples samples
            Cells of observed views may be NaN.
        y : array-like of shape (n_samples,), default=None
            Passed on to the transformers.

        Returns
        -------
        self : ViewTransformer
            The fitted transformer.
        """
        self.fit_transform(X, y)
        return self

    def fit_transform(self, X: Any, y: Any = None) -> MultiView:
        """Fit the transformers and transform the training samples.

        Parameters
        ----------
        X, y
            As in `fit`.

        Returns
        -------
        transformed : MultiView of n_samples samples
            The transformed views, absent where they were.
        """
        with unchanged_on_error(self):
            data = validate_views(self, X, self.views, as_given=True)
            check_alignment(data, y, "y")
            check_consistent_length(data, y)
            warn_all_absent(data.observed, data.names, "view")
            return self._fit_views(data, y)

    def _fit_views(self, data: MultiView, y: Any = None, weight: Floats | None = None) -> MultiView:
        """Fit the transformers to checked samples; `weight` (n,) counts where they are "auto"."""
        chosen = self._chosen(data.names)
        self.transformers_: dict[str, Any] = {}
        outputs: dict[str, Any] = {}
        for name, present in zip(data.names, data.observed.T, strict=True):
            if name not in chosen or not present.any():
                continue
            transformer = clone(chosen[name])
            rows = np.flatnonzero(present)
            target = None if y is None else np.asarray(y)[rows]
            options = {}
            if weight is not None and isinstance(transformer, ColumnPreparation):
                options["sample_weight"] = weight[rows]
            with _naming(name, data):
                output = transformer.fit_transform(take(data.given(name), rows), target, **options)
            outputs[name] = _checked(name, output, len(rows))
            self.transformers_[name] = transformer
        seen = data.observed.any(axis=0)
        self.absent_views_ = tuple(np.asarray(data.names)[~seen].tolist())
        self.outputs_ = {
            name: (output.shape[1], issparse(output)) for name, output in outputs.items()
        }
        return self._assemble(data, outputs)

    def transform(self, X: Any) -> MultiView:
        """Transform samples; absent views stay absent.

        Parameters
        ----------
        X : MultiView, or any input of `as_views`, of n_samples samples
            Samples with any of the views.

        Returns
        -------
        transformed : MultiView of n_samples samples
            A view that is absent for all training samples is absent here too.
        """
        check_is_fitted(self, "transformers_")
        return self._transform_views(match_views(self, X, self.views, as_given=True))

    def _transform_views(self, data: MultiView) -> MultiView:
        """Transform checked samples."""
        outputs = {}
        for name, transformer in self.transformers_.items():
            rows = np.flatnonzero(data.present(name))
            if len(rows):
                with _naming(name, data):
                    output = transformer.transform(take(data.given(name), rows))
                outputs[name] = _checked(name, output, len(rows))
        return self._assemble(data, outputs)

    def _chosen(self, names: tuple[str, ...]) -> dict[str, Any]:
        if not isinstance(self.transformers, Mapping):
            given = dict.fromkeys(names, self.transformers)
        else:
            given = {str(name): transformer for name, transformer in self.transformers.items()}
        unknown = [name for name in given if name not in names]
        if unknown:
            raise ValueError(
                f"transformers are given for {quoted(unknown)}, but the views are {quoted(names)}"
            )
        return {
            name: ColumnPreparation() if _is(transformer, "auto") else transformer
            for name, transformer in given.items()
            if not _is(transformer, "passthrough")
        }

    def _assemble(self, data: MultiView, outputs: dict[str, Any]) -> MultiView:
        """Put the transformed rows back between the absent ones."""
        blocks, columns = {}, data.columns
        for name in data.names:
            if name not in self.transformers_:
                blocks[name] = data.given(name)
                continue
            columns[name] = None
            if name in outputs:
                present = data.present(name)
                blocks[name] = take(outputs[name], np.where(present, np.cumsum(present) - 1, -1))
            else:
                size, sparse = self.outputs_[name]
                blocks[name] = nothing(len(data), size, sparse=sparse)
        made = MultiView._build(blocks, data.observed, data.index, columns)
        return made.with_observed(data.observed & ~np.isin(data.names, self.absent_views_))

    def get_params(self, deep: bool = True) -> dict[str, Any]:
        """Return the parameters; with `deep` also those of the transformer of each view.

        Parameters
        ----------
        deep : bool, default=True
            Whether to return the parameters of the transformers too.

        Returns
        -------
        params : dict
            The transformer of a view as ``rna``, its parameters as ``rna__with_mean``.
        """
        params: dict[str, Any] = super().get_params(deep=deep)
        if deep and isinstance(self.transformers, Mapping):
            for name, transformer in self.transformers.items():
                nested = transformer.get_params() if hasattr(transformer, "get_params") else {}
                named = {name: transformer} | {f"{name}__{key}": nested[key] for key in nested}
                params = named | params
        return params

    def set_params(self, **params: Any) -> "ViewTransformer":
        """Set parameters, under the names that `get_params` returns.

        Parameters
        ----------
        **params : dict
            The parameters by name.

        Returns
        -------
        self : ViewTransformer
            The transformer itself.
        """
        own = super().get_params(deep=False)
        if "transformers" in params:
            self.transformers = params.pop("transformers")
        if isinstance(self.transformers, Mapping):
            replaced = {
                name: params.pop(name)
                for name in self.transformers
                if name in params and name not in own
            }
            if replaced:
                self.transformers = {**self.transformers, **replaced}
        super().set_params(**params)
        return self

    def __sklearn_tags__(self) -> Any:
        tags = super().__sklearn_tags__()
        tags.input_tags.allow_nan = True
        tags.input_tags.sparse = _is(self.transformers, "auto")
        tags.transformer_tags.preserves_dtype = []
        return tags


def _is(transformer: Any, word: str) -> bool:
    return isinstance(transformer, str) and transformer == word


def _checked(name: str, output: Any, n: int) -> Any:
    """Return what a transformer made of n samples as a block."""
    block = as_block(name, output)
    if block.shape[0] != n:
        raise ValueError(f"the transformer of view {name!r} made {block.shape[0]} rows of {n}")
    if not is_frame(block):
        check_finite(name, block)
    empty = rows_without_values(block)
    if empty.any():
        raise ValueError(
            f"the transformer of view {name!r} left nothing but NaN for {empty.sum()} of {n} "
            "samples that have the view; let it impute missing cells"
        )
    return block


@contextmanager
def _naming(view: str, data: MultiView) -> Iterator[None]:
    """Name the view in errors of its transformer."""
    try:
        with np.errstate(over="ignore", invalid="ignore"):  # refused by name
            yield
    except (TypeError, ValueError) as error:
        block = data.given(view)
        size = 8 * block.shape[0] * block.shape[1] / 2**30
        form = f" (sparse; dense it would take {size:.2g} GiB)" if issparse(block) else ""
        raise ValueError(f"view {view!r}{form}: {error}") from error
