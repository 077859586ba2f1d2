"""Forests as plain arrays, which can be looked at before scikit-learn follows them.

Scikit-learn does not check the numbers of a tree: one with children or columns that do not exist
makes it read memory that is not its own. Files therefore hold arrays, and trees are made of them if
children come after their parents, and columns are there.
"""

from copy import copy
from dataclasses import dataclass
from typing import Any

import numpy as np
from sklearn.ensemble import (
    ExtraTreesClassifier,
    ExtraTreesRegressor,
    RandomForestClassifier,
    RandomForestRegressor,
)
from sklearn.tree._tree import Tree

from kernelquilt._typing import Array, Floats, Indices

FORESTS = (
    RandomForestClassifier,
    RandomForestRegressor,
    ExtraTreesClassifier,
    ExtraTreesRegressor,
)
LEAF = -1  # as a child


@dataclass(frozen=True)
class TreeArrays:
    """The trees of a forest, one after the other.

    Attributes
    ----------
    shell : forest
        Without trees.
    sizes : ndarray of int of shape (n_trees,)
        Nodes of each tree.
    depths : ndarray of int of shape (n_trees,)
    nodes : dict of str to ndarray of shape (n_nodes,)
        What scikit-learn knows of each node, by name; children count from the root of their tree.
    values : ndarray of shape (n_nodes, n_outputs, n_classes)
    """

    shell: Any
    sizes: Indices
    depths: Indices
    nodes: dict[str, Array]
    values: Floats

    @classmethod
    def of(cls, forest: Any) -> "TreeArrays":
        """Take a fitted forest apart."""
        states = [each.tree_.__getstate__() for each in forest.estimators_]
        shell = copy(forest)
        shell.estimators_ = [copy(each) for each in forest.estimators_]
        for each in shell.estimators_:
            del each.tree_
        nodes = np.concatenate([state["nodes"] for state in states])
        return cls(
            shell,
            np.array([len(state["nodes"]) for state in states]),
            np.array([state["max_depth"] for state in states]),
            {name: np.ascontiguousarray(nodes[name]) for name in nodes.dtype.names or ()},
            np.concatenate([state["values"] for state in states]),
        )

    def forest(self, n_columns: int) -> Any:
        """Make the forest again.

        Parameters
        ----------
        n_columns : int
            That it is given.

        Returns
        -------
        forest : estimator

        Raises
        ------
        ValueError
            If the trees are not of a forest that was fitted to so many columns.
        """
        forest = copy(self.shell)
        like = _node_type()
        self._check(n_columns, like)
        n_outputs, n_classes = self.values.shape[1:]
        forest.estimators_ = [copy(each) for each in self.shell.estimators_]
        ends = np.cumsum(self.sizes)
        for each, end, size, depth in zip(
            forest.estimators_, ends, self.sizes, self.depths, strict=True
        ):
            part = slice(end - size, end)
            nodes = np.empty(size, dtype=like)
            for name, values in self.nodes.items():
                nodes[name] = values[part]
            each.tree_ = Tree(n_columns, np.full(n_outputs, n_classes, dtype=np.intp), n_outputs)
            each.tree_.__setstate__(
                {
                    "max_depth": int(depth),
                    "node_count": int(size),
                    "nodes": nodes,
                    "values": np.ascontiguousarray(self.values[part]),
                }
            )
        return forest

    def _check(self, n_columns: int, like: np.dtype[Any]) -> None:
        """Refuse arrays that are no trees."""
        fields = {name: values.dtype for name, values in self.nodes.items()}
        if fields != {name: like[name] for name in like.names or ()}:
            raise ValueError("the trees of a forest are of another version of scikit-learn")
        shapes = {values.shape for values in self.nodes.values()}
        fits = (
            type(self.shell) in FORESTS
            and self.sizes.ndim == 1
            and (self.sizes > 0).all()
            and shapes == {(int(self.sizes.sum()),)} == {self.values.shape[:1]}
            and self.values.ndim == 3
            and self.values.dtype == np.float64
            and all(each.n_features_in_ == n_columns for each in self.shell.estimators_)
        )
        if not (fits and self._leads_down(n_columns)):
            raise ValueError(
                f"the {len(self.sizes)} trees of a forest are not sound: their numbers would lead "
                "to nodes or columns that do not exist"
            )

    def _leads_down(self, n_columns: int) -> bool:
        """Whether all ways lead to leaves, by columns that exist."""
        first, size = (
            np.repeat(each, self.sizes) for each in (np.cumsum(self.sizes) - self.sizes, self.sizes)
        )
        own = np.arange(len(first)) - first
        left, right = self.nodes["left_child"], self.nodes["right_child"]
        leaf, feature = left == LEAF, self.nodes["feature"]
        # a child comes after its parent, so that no way leads back
        inner = [(child > own) & (child < size) for child in (left, right)]
        inner.append((feature >= 0) & (feature < n_columns))
        return bool(np.where(leaf, right == LEAF, np.all(inner, axis=0)).all())


def _node_type() -> np.dtype[Any]:
    """Return how scikit-learn holds nodes."""
    nothing = Tree(1, np.ones(1, dtype=np.intp), 1)
    return np.dtype(nothing.__getstate__()["nodes"].dtype)
