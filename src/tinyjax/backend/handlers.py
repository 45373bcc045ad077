"""Errors of the user's handlers of signals, which Python calls at any moment. Needs no jax at import."""

from __future__ import annotations

from typing import Final

#: Whose functions may be running where XLA refuses something.
_OURS: Final = frozenset({"tinyjax", "jax", "jaxlib", "numpy"})


def is_foreign(error: BaseException) -> bool:
    """Whether an error that passes through a call of jaxlib is none of its own: it was raised in a Python function that
    belongs to neither, such as a handler of a signal. What XLA says of a run has no such function in its traceback."""
    trace = error.__traceback__
    if trace is None:
        return False
    while trace.tb_next is not None:
        trace = trace.tb_next
    module = trace.tb_frame.f_globals.get("__name__")
    return not isinstance(module, str) or module.partition(".")[0] not in _OURS
