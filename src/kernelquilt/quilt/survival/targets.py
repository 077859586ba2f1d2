"""What is to be learned of survival data: was an event seen, and when, or until when was none."""

from typing import Any

import numpy as np

from kernelquilt._typing import Array, Bools, Floats
from kernelquilt.data.blocks import cells, is_frame, missing

FORMS = (
    "give a structured array with a boolean field for the event and one for the time, the pair "
    "(event, time) of arrays, or a frame with these two columns"
)


def survival_targets(y: Any) -> tuple[Bools, Floats]:
    """Return events and times after checking them.

    Parameters
    ----------
    y : structured array of shape (n,), pair of arrays of shape (n,), or frame of shape (n, 2)
        Of two fields or columns, the event is the boolean one, or else that whose name begins with
        ``event``, or else the first. Events are booleans, or 0 and 1.

    Returns
    -------
    event : ndarray of shape (n,), bool
        Whether the event was seen; False where the time is censored.
    time : ndarray of shape (n,)
        Non-negative.
    """
    event, time = (np.asarray(each) for each in _event_and_time(y))
    if event.ndim != 1 or event.shape != time.shape:
        raise ValueError(
            f"events of shape {event.shape} do not go with times of shape {time.shape}; {FORMS}"
        )
    return _checked_events(event), _checked_times(time)


def _event_and_time(y: Any) -> tuple[Any, Any]:
    if y is None:
        raise ValueError(
            f"QuiltSurvival requires y to be passed, but the target y is None; {FORMS}"
        )
    if is_frame(y):
        if y.shape[1] != 2:
            raise ValueError(f"y has {y.shape[1]} columns, not 2; {FORMS}")
        return _in_order(list(map(str, y.columns)), [np.asarray(cells(y, j)) for j in range(2)])
    if isinstance(y, np.ndarray) and y.dtype.names is not None:
        if len(y.dtype.names) != 2:
            raise ValueError(
                f"y has the {len(y.dtype.names)} fields {y.dtype.names}, not 2; {FORMS}"
            )
        return _in_order(list(y.dtype.names), [y[name] for name in y.dtype.names])
    if isinstance(y, tuple | list) and len(y) == 2 and np.ndim(y[0]) == 1:
        return y[0], y[1]
    raise ValueError(f"y tells no events and times; {FORMS}")


def _in_order(names: list[str], values: list[Array]) -> tuple[Array, Array]:
    """Return events first."""
    boolean = [each.dtype == np.bool_ for each in values]
    called = [name.lower().startswith("event") for name in names]
    second = boolean == [False, True] or (boolean[0] == boolean[1] and called == [False, True])
    return (values[1], values[0]) if second else (values[0], values[1])


def _checked_events(event: Array) -> Bools:
    gaps = missing(event)
    if gaps.any():
        raise ValueError(
            f"Input y contains NaN: {gaps.sum()} of {len(event)} samples tell no event; leave them "
            "out, or say False where the time is censored"
        )
    known = np.isin(event, (0, 1))
    if not known.all():
        odd = np.unique(event[~known].astype(str))[:5].tolist()
        raise ValueError(
            f"events are True or 1 where seen and False or 0 where the time is censored, but "
            f"{np.count_nonzero(~known)} of {len(event)} samples say otherwise, such as {odd}"
        )
    return event.astype(np.bool_)


def _checked_times(time: Array) -> Floats:
    try:
        time = time.astype(np.float64)
    except (TypeError, ValueError) as error:
        raise ValueError(f"times are numbers, got {time.dtype}; {FORMS}") from error
    for bad, what in (
        (np.isnan(time), "contains NaN"),
        (np.isinf(time), "contains infinity"),
        (time < 0, "has negative times"),
    ):
        if bad.any():
            raise ValueError(
                f"Input y {what}: {bad.sum()} of {len(time)} times; times are finite, and count "
                "from zero"
            )
    return time
