"""Room on the stack, for what recurses over nested programs."""

from __future__ import annotations

import sys
from collections.abc import Callable
from contextvars import copy_context
from typing import TypeVar

T = TypeVar("T")


def with_room(f: Callable[[], T]) -> T:
    """f(), on the empty stack of a new thread if this one's is half full: so recursion is as deep as it has to be."""
    try:
        sys._getframe(sys.getrecursionlimit() // 2)
    except ValueError:  # there are fewer frames than that
        pass
    else:
        from concurrent.futures import ThreadPoolExecutor  # rarely needed, and not quick to import

        with ThreadPoolExecutor(1) as thread:
            return thread.submit(copy_context().run, f).result()
    return f()  # here, so that what it raises isn't raised while handling the ValueError
