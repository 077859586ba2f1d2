"""From kernels to outputs (n_rows, c)."""

from collections.abc import Callable
from typing import Any

import numpy as np
from numpy.typing import NDArray

from .samples import Rows, as_numbers, as_texts

LARGEST = 1e38  # in single precision, which trees compare in
MIXED = 0.02  # share of uniform probabilities in those of a forest
SMALL = 1e-9  # added to probabilities before logarithms are taken


def normalised(scores: NDArray[Any]) -> NDArray[Any]:
    """Return logarithms of probabilities (n_rows, c)."""
    scores = scores - scores.max(axis=1, keepdims=True)
    return np.asarray(scores - np.log(np.exp(scores).sum(axis=1, keepdims=True)))


def class_scores(
    scores: NDArray[Any], active: NDArray[Any], multi_class: str, n_classes: int
) -> NDArray[Any]:
    """Return the scores of classes (n_rows, n_classes) from those of binary problems."""
    if n_classes == 2:
        return np.column_stack([-scores[:, 0], scores[:, 0]]) / 2
    if multi_class == "ovo":
        scores = _votes(scores, active, n_classes)
    idle = np.setdiff1d(np.arange(n_classes), active)
    scores[:, idle] = scores[:, active].min(axis=1, keepdims=True) - 1.0
    return scores


def _votes(scores: NDArray[Any], active: NDArray[Any], n_classes: int) -> NDArray[Any]:
    """Return one-vs-one votes (n_rows, n_classes), ties broken by the sum of the scores."""
    votes, confidence = np.zeros((2, len(scores), n_classes))
    pairs = [(a, b) for number, a in enumerate(active) for b in active[number + 1 :]]
    for score, (negative, positive) in zip(scores.T, pairs, strict=True):
        votes[:, positive] += score > 0
        votes[:, negative] += score <= 0
        confidence[:, positive] += score
        confidence[:, negative] -= score
    return np.asarray(votes + confidence / (3.0 * (np.abs(confidence) + 1.0)))


def _sum(head: dict[str, Any], rows: Rows) -> NDArray[Any]:
    """Add what each kernel says; ``fraction`` divides by the share of kernels that a sample has."""
    total = np.zeros((len(rows), len(head["bias"])))
    for _, having, scores in rows.terms(head["terms"]):
        total[having] += scores
    if head["fraction"] is not None:
        share = rows.observed[:, head["fraction"]].mean(axis=1)
        total /= np.where(share > 0, share, 1.0)[:, None]
    return total + head["bias"]


def _mean(head: dict[str, Any], rows: Rows) -> NDArray[Any]:
    """Average what the kernels of a sample say, each of the problems that it was trained for."""
    total = np.zeros((len(rows), len(head["bias"])))
    counts = np.zeros(total.shape)
    for k, having, scores in rows.terms(head["terms"]):
        trained = head["trained"][:, k]
        total[having] += np.where(trained, scores, 0.0)
        counts[having] += trained
    return np.where(counts > 0, total / np.maximum(counts, 1.0), head["bias"])


def _adaptive(head: dict[str, Any], rows: Rows) -> NDArray[Any]:
    """Let the pattern of kernels decide that is surest."""
    parts = np.zeros((len(head["bias"]), len(rows), rows.observed.shape[1]))
    for k, having, scores in rows.terms(head["terms"]):
        parts[:, having, k] = scores.T
    found = []
    for part, patterns, bias in zip(parts, head["patterns"], head["bias"], strict=True):
        scores = part @ patterns.T + bias
        chosen = (np.abs(scores) if head["both_signs"] else scores).argmax(axis=1)
        found.append(np.take_along_axis(scores, chosen[:, None], axis=1)[:, 0])
    return np.column_stack(found)


def _gated(head: dict[str, Any], rows: Rows) -> NDArray[Any]:
    """Weigh what each kernel says by gates that depend on the sample."""
    c, n_inputs = len(head["bias"]), head["gate_weights"].shape[2] - 1
    in_kernels = head["inputs"]["columns"] is None
    products = np.zeros((len(head["terms"]), len(rows), c + n_inputs * in_kernels))
    for k, having, scores in rows.terms(head["terms"]):
        products[k, having] = scores
    inputs = _gate_inputs(head["inputs"], rows, products[:, :, c:].sum(axis=0))
    total = np.tile(head["bias"], (len(rows), 1))
    for j, weights in enumerate(head["gate_weights"]):
        opened = np.where(rows.observed, inputs @ weights[:, :-1].T + weights[:, -1], -np.inf)
        if head["gating"] == "sigmoid":
            gates = np.exp(-np.logaddexp(0.0, -opened))
        else:
            top = opened.max(axis=1, keepdims=True)
            gates = np.exp(opened - np.where(np.isfinite(top), top, 0.0))
            gates /= np.maximum(gates.sum(axis=1, keepdims=True), np.finfo(np.float64).tiny)
        total[:, j] += np.sum(gates * products[:, :, j].T, axis=1)
    return total


def _gate_inputs(plan: dict[str, Any], rows: Rows, projected: NDArray[Any]) -> NDArray[Any]:
    """Return standardised columns of views, or components of kernels, (n_rows, d)."""
    if plan["columns"] is None:
        counts = rows.observed[:, plan["used"]].sum(axis=1, keepdims=True)
        found = projected / np.sqrt(np.maximum(counts, 1.0)) + plan["offset"]
        return np.where(counts > 0, found, 0.0)
    blocks = []
    for view in plan["columns"]:
        present = rows.present[:, view["view"]]
        block = np.zeros((len(rows), len(view["mean"])))
        block[present] = (rows.blocks[view["view"]][present] - view["mean"]) / view["scale"]
        blocks.append(block)
    return np.hstack(blocks)


def _vote(head: dict[str, Any], rows: Rows) -> NDArray[Any]:
    """Count votes of the classifiers of a sample's views; their scores decide where they tie."""
    votes, confidence = np.zeros((2, len(rows), len(head["prior"])))
    for voter in head["voters"]:
        known = voter["known"]
        for _, having, scores in rows.terms([voter["term"]]):
            said = np.full((len(having), len(head["prior"])), -np.inf)
            said[:, known] = class_scores(
                scores + voter["bias"], voter["active"], voter["multi_class"], len(known)
            )
            votes[having, said.argmax(axis=1)] += 1.0
            confidence[having] += np.where(np.isfinite(said), said, 0.0)
    voted = votes.sum(axis=1, keepdims=True) > 0
    return np.where(voted, votes + confidence / (3 * (1 + np.abs(confidence))), head["prior"])


def _quilt(head: dict[str, Any], rows: Rows) -> NDArray[Any]:
    """Return log-probabilities, predictions or risks of a quilt and its experts on columns."""
    early, late = _quilt_scores(head, rows)
    experts = [_forest(expert, rows) for expert in head["experts"]]
    if head["risk"]:
        blocks = [early, late, *(each[None] for each in experts)]
        return np.tensordot(head["members"], np.vstack([each[:, :, 0] for each in blocks]), 1)[
            :, None
        ]
    members = [
        np.tensordot(stacking["weights"], scores, axes=1) + stacking["bias"]
        for stacking, scores in zip(head["stackings"], (early, late), strict=True)
    ]
    if head["classify"]:
        members = [np.exp(normalised(each)) + SMALL for each in members]
        members = [np.log(each) for each in [*members, *experts]]
    else:
        members += experts
    return np.tensordot(head["members"], np.array(members), axes=1)


def _quilt_scores(head: dict[str, Any], rows: Rows) -> tuple[NDArray[Any], NDArray[Any]]:
    """Return scores (1 or 2, n_rows, c) of experts on completed views, and of those beside."""
    n, c = len(rows), len(head["weighted"]["bias"])
    late = np.zeros((len(head["maps"]) + (head["pattern"] is not None), n, c))
    early = np.zeros((1 if head["joint"] is None else 2, n, c))
    Z, lengths = [], np.zeros((len(head["maps"]), n))
    for k, made in enumerate(head["maps"]):
        z, having = np.zeros((n, len(made["mean"]))), np.flatnonzero(rows.observed[:, k])
        if len(having):
            z[having] = (rows.kernel(k, having) @ made["projection"] - made["mean"]) * made["scale"]
            late[k, having] = z[having] @ head["late"][k]["coef"] + head["late"][k]["bias"]
            own = rows.own(k, having, made["diagonal"]) - made["mean"] @ made["mean"]
            square = made["scale"] ** 2 * own
            lengths[k, having] = square - 2.0 * made["scale"] * (z[having] @ made["mean"])
        Z.append(z)
    some = np.flatnonzero(rows.observed.any(axis=1))
    if not len(some):
        return early, late
    observed, lengths = rows.observed[some], lengths[:, some]
    if head["pattern"] is not None:
        features = (observed - head["pattern"]["mean"]) * head["pattern"]["scale"]
        late[-1, some] = features @ head["pattern"]["coef"] + head["pattern"]["bias"]
    Z = _completed(head["transfer"], [z[some] for z in Z], observed)
    for k, z in enumerate(Z):
        lengths[k] = np.where(observed[:, k], lengths[k], np.square(z).sum(axis=1))
    flat = np.hstack(Z)
    early[0, some] = flat @ head["weighted"]["coef"] + head["weighted"]["bias"]
    joint = head["joint"]
    if joint is not None:
        D = np.add.outer(lengths.sum(axis=0), joint["lengths"]) - 2.0 * (flat @ joint["points"].T)
        similar = np.exp(-joint["rate"] * np.maximum(D, 0.0))
        early[1, some] = similar @ joint["coef"] + joint["bias"]
    return early, late


def _completed(
    transfer: dict[str, Any], Z: list[NDArray[Any]], observed: NDArray[Any]
) -> list[NDArray[Any]]:
    """Return features of all views, those of absent ones predicted from the others."""
    once = []
    for p, z in enumerate(Z):
        absent = np.flatnonzero(~observed[:, p])
        found, total = np.zeros((len(absent), z.shape[1])), np.zeros(len(absent))
        for l, W in transfer["first"][p].items():
            having = observed[absent, int(l)]
            weight = transfer["weights"][p, int(l)]
            found[having] += weight * (Z[int(l)][absent[having]] @ W)
            total[having] += weight
        served = total > 0
        found[served] /= total[served, None]
        found[~served] = transfer["means"][p]
        z = z.copy()
        z[absent] = found
        once.append(z)
    again = [z.copy() for z in once]
    for p, maps in enumerate(transfer["second"]):
        absent = np.flatnonzero(~observed[:, p])
        if maps is not None and len(absent):
            again[p][absent] = sum(once[int(l)][absent] @ W for l, W in maps.items())
    return again


def _forest(expert: dict[str, Any], rows: Rows) -> NDArray[Any]:
    """Return probabilities or predictions (n_rows, c) of a random forest on columns."""
    X = _columns(expert, rows)
    having, c = np.flatnonzero(~np.isnan(X).all(axis=1)), expert["n_outputs"]
    found = np.full((len(X), c), 1.0 / c if expert["classify"] else 0.0)
    leaves = _leaves(expert, X[having].astype(np.float32))
    said = np.zeros((len(having), expert["value"].shape[1]))
    for leaf in leaves.T:
        said += expert["value"][leaf]
    said /= leaves.shape[1]
    if not expert["classify"]:
        found[having] = said
        return found
    P = np.zeros((len(having), c))
    P[:, expert["classes"]] = said
    total = P.sum(axis=1, keepdims=True)
    P = np.where(total > 0, P / np.where(total > 0, total, 1.0), 1.0 / c)
    found[having] = (1.0 - MIXED) * P + MIXED / c
    return found


def _columns(expert: dict[str, Any], rows: Rows) -> NDArray[Any]:
    """Return the columns that an expert sees, NaN where a value is not known."""
    blocks = []
    for v, codes in zip(expert["views"], expert["codes"], strict=True):
        given = rows.given[v]
        block = np.empty(given.shape)
        for j in range(given.shape[1]):
            known = codes.get(str(j))
            if known is None:
                block[:, j] = as_numbers(f"column {j}", given[:, j])
            else:
                block[:, j] = [
                    np.nan if text is None else known.get(text, np.nan)
                    for text in as_texts(given[:, j])
                ]
        blocks.append(block)
    with np.errstate(over="ignore"):
        found = (np.hstack(blocks)[:, expert["used"]] / 2 - expert["middle"]) / expert["unit"]
    return np.clip(found, -LARGEST, LARGEST)


def _leaves(expert: dict[str, Any], X: NDArray[Any]) -> NDArray[Any]:
    """Return the leaf (n_rows, n_trees) that samples end in, of trees that stand one by one."""
    node = np.tile(expert["roots"], (len(X), 1))
    sample = np.arange(len(X))[:, None]
    for _ in range(len(expert["left"])):  # a forged cycle ends, too
        inner = expert["left"][node] >= 0
        if not inner.any():
            break
        value = X[sample, np.where(inner, expert["feature"][node], 0)]
        left = np.where(
            np.isnan(value), expert["missing_left"][node], value <= expert["threshold"][node]
        )
        ahead = np.where(left, expert["left"][node], expert["right"][node])
        node = np.where(inner, ahead, node)
    return node


HEADS: dict[str, Callable[[dict[str, Any], Rows], NDArray[Any]]] = {
    "sum": _sum,
    "mean": _mean,
    "adaptive": _adaptive,
    "gated": _gated,
    "vote": _vote,
    "quilt": _quilt,
}
