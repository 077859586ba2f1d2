"""The compiled step of the multipliers in nuclear norm completion, in one pass over the matrices.

Imported by the function that needs it, as `kernelquilt.core.compiled`.
"""

from kernelquilt.core.compiled import compiled


@compiled
def relax(target, known, X, relaxation, state, sums):  # type: ignore[no-untyped-def]
    """Move `state` by what X asks for, and write ``target + state`` into `sums`.

    Where entries are known that is the distance from X to the target, elsewhere that from the state
    to X. Returns the squared norms of the two, without the relaxation.
    """
    primal = 0.0
    dual = 0.0
    for i in range(state.shape[0]):
        for j in range(state.shape[1]):
            if known[i, j]:
                change = target[i, j] - X[i, j]
                primal += change * change
            else:
                change = X[i, j] - state[i, j]
                dual += change * change
            state[i, j] += relaxation * change
            sums[i, j] = target[i, j] + state[i, j]
    return primal, dual
