"""Functions that a module has under their names, and that pickle refers to by these."""

from __future__ import annotations

import sys
from collections.abc import Callable


def name_in_module(f: Callable[..., object]) -> str | None:
    """The name by which pickle finds a function in its module; None if it isn't there, or if that is `__main__`, which
    is another one where it is read."""
    name, module = getattr(f, "__qualname__", None), sys.modules.get(f.__module__)
    if name is None or module is None or f.__module__ == "__main__" or vars(module).get(name) is not f:
        return None
    return str(name)
