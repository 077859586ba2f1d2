"""What a grid search keeps: the table of its results, the best candidate, and that one fitted.

Names and order are those of `sklearn.model_selection.GridSearchCV`.
"""

import time
from collections.abc import Mapping
from typing import Any

import numpy as np
from scipy.stats import rankdata
from sklearn.base import clone
from sklearn.utils.validation import check_is_fitted

from kernelquilt._typing import Floats


def results_table(
    candidates: list[dict[str, Any]],
    scores: Floats,
    times: Mapping[str, Floats],
    means: Mapping[str, Floats],
) -> dict[str, Any]:
    """Return the table of results, with the best candidate at rank 1 and nan at the last.

    Parameters
    ----------
    candidates : list of dict
    scores : ndarray of shape (n_candidates, n_splits)
        The more the better.
    times, means : mapping of str to ndarray of shape (n_candidates, n_splits)
        Seconds, of which mean and deviation are told, and what else has a mean.
    """
    results: dict[str, Any] = {}
    for name, seconds in times.items():
        results[f"mean_{name}"], results[f"std_{name}"] = seconds.mean(axis=1), seconds.std(axis=1)
    for name in sorted({name for candidate in candidates for name in candidate}):
        given = np.array([name in candidate for candidate in candidates])
        values = np.empty(len(candidates), dtype=object)  # which may be lists of equal length
        for k, candidate in enumerate(candidates):
            values[k] = candidate.get(name)
        results[f"param_{name}"] = np.ma.MaskedArray(values, mask=~given)
    results["params"] = candidates
    for k, column in enumerate(scores.T):
        results[f"split{k}_test_score"] = column
    mean = scores.mean(axis=1)
    results["mean_test_score"], results["std_test_score"] = mean, scores.std(axis=1)
    ranks = rankdata(np.where(np.isnan(mean), np.inf, -mean), method="min")
    results["rank_test_score"] = ranks.astype(np.int32)
    return results | {f"mean_{name}": values.mean(axis=1) for name, values in means.items()}


class BestCandidate:
    """Mixin of a search: keeps its results and the best candidate, and asks that one."""

    best_params_: dict[str, Any]

    def _keep_results(
        self, candidates: list[dict[str, Any]], scores: Floats, *tables: Mapping[str, Floats]
    ) -> None:
        """Keep the table of `results_table` and the best candidate."""
        self.cv_results_ = results_table(candidates, scores, *tables)
        self.n_splits_ = scores.shape[1]
        self.best_index_ = int(self.cv_results_["rank_test_score"].argmin())
        self.best_params_ = candidates[self.best_index_]
        self.best_score_ = float(self.cv_results_["mean_test_score"][self.best_index_])

    def _refit(self, estimator: Any, method: str, *data: Any, **weights: Any) -> Any:
        """Fit a clone with the best parameters by ``"fit"`` or ``"fit_transform"``."""
        begun = time.perf_counter()
        best = clone(estimator).set_params(**clone(self.best_params_, safe=False))
        result = getattr(best, method)(*data, **weights)
        self.best_estimator_ = best
        self.refit_time_ = time.perf_counter() - begun
        return result

    @property
    def _best(self) -> Any:
        """The best estimator, or the error that there is none."""
        check_is_fitted(self, "cv_results_")
        remedy = "this %(name)s was fitted with refit=False, and thus has no estimator to ask"
        check_is_fitted(self, "best_estimator_", msg=remedy)
        return self.best_estimator_

    @property
    def n_features_in_(self) -> int:
        """Number of features, or of kernels, of the best estimator."""
        return int(self._best.n_features_in_)
