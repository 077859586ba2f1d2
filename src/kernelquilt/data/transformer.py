"""Per-view preprocessing that keeps absence."""

from collections.abc import Mapping
from typing import Any

import numpy as np
from sklearn.base import BaseEstimator, TransformerMixin, clone
from sklearn.utils.validation import check_consistent_length, check_is_fitted

from kernelquilt._messages import quoted, unchanged_on_error, warn_all_absent
from kernelquilt._typing import Floats
from kernelquilt.data.columns import ViewColumns
from kernelquilt.data.validation import validate_views
from kernelquilt.data.views import MultiView, as_block


class ViewTransformer(TransformerMixin, BaseEstimator):
    """Fit a transformer to each view, on the samples that have the view.

    The way to impute single missing cells and to scale columns without touching the samples for
    which a view is absent: they stay absent.

    Parameters
    ----------
    transformers : dict of str to transformer, or transformer
        A transformer or pipeline for each view; views without one, or with ``"passthrough"``,
        pass through. A single transformer is used for every view.
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
    >>> from sklearn.impute import SimpleImputer
    >>> from kernelquilt.data.transformer import ViewTransformer
    >>> X = np.array([[1.0, np.nan, 5.0], [3.0, 4.0, 6.0], [np.nan, np.nan, 7.0]])
    >>> views = ViewTransformer(SimpleImputer(), views={"a": [0, 1], "b": [2]}).fit_transform(X)
    >>> views["a"].tolist()
    [[1.0, 4.0], [3.0, 4.0], [nan, nan]]
    """

    def __init__(self, transformers: Any, *, views: ViewColumns = None) -> None:
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
        """
        with unchanged_on_error(self):
            data = validate_views(self, X, self.views, reset=True, partial_nan="allow")
            check_consistent_length(data, y)
            chosen = self._chosen(data.names)
            warn_all_absent(data.observed, data.names, "view")
            self.transformers_: dict[str, Any] = {}
            outputs: dict[str, Floats] = {}
            for name, present in zip(data.names, data.observed.T, strict=True):
                if name in chosen and present.any():
                    target = None if y is None else np.asarray(y)[present]
                    transformer = clone(chosen[name])
                    output = transformer.fit_transform(data[name][present], target)
                    outputs[name] = as_block(name, output)
                    self.transformers_[name] = transformer
            seen = data.observed.any(axis=0)
            self.absent_views_ = tuple(np.asarray(data.names)[~seen].tolist())
            self.output_sizes_ = self.view_sizes_ | {
                name: output.shape[1] for name, output in outputs.items()
            }
            return self._assemble(data, outputs)

    def transform(self, X: Any) -> MultiView:
        """Transform samples; absent views stay absent.

        Parameters
        ----------
        X : MultiView, or any input of `as_views`, of n_samples samples

        Returns
        -------
        transformed : MultiView of n_samples samples
            A view that is absent for all training samples is absent here too.
        """
        check_is_fitted(self, "transformers_")
        data = validate_views(self, X, self.views, reset=False, partial_nan="allow")
        outputs = {
            name: as_block(name, transformer.transform(data[name][present]))
            for name, present in zip(data.names, data.observed.T, strict=True)
            if (transformer := self.transformers_.get(name)) is not None and present.any()
        }
        return self._assemble(data, outputs)

    def _chosen(self, names: tuple[str, ...]) -> dict[str, Any]:
        if not isinstance(self.transformers, Mapping):
            return dict.fromkeys(names, self.transformers)
        given = {str(name): transformer for name, transformer in self.transformers.items()}
        unknown = [name for name in given if name not in names]
        if unknown:
            raise ValueError(
                f"transformers are given for {quoted(unknown)}, but the views are {quoted(names)}"
            )
        return {
            name: transformer
            for name, transformer in given.items()
            if not isinstance(transformer, str) or transformer != "passthrough"
        }

    def _assemble(self, data: MultiView, outputs: dict[str, Floats]) -> MultiView:
        """Put the transformed rows back between the absent ones."""
        blocks = {name: data[name] for name in data.names}
        for name in self.transformers_:
            blocks[name] = np.full((len(data), self.output_sizes_[name]), np.nan)
            if name in outputs:
                present = data.observed[:, data.names.index(name)]
                blocks[name][present] = outputs[name]
        ignored = np.isin(data.names, self.absent_views_)
        return MultiView(blocks, data.observed & ~ignored, index=data.index)

    def get_params(self, deep: bool = True) -> dict[str, Any]:
        """Return the parameters; with `deep` also those of the transformer of each view.

        Parameters
        ----------
        deep : bool, default=True

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

        Returns
        -------
        self : ViewTransformer
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
        tags.transformer_tags.preserves_dtype = []
        return tags
