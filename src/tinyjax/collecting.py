"""How often Python's garbage collector runs while a program is made.

The collector looks through the youngest objects whenever some hundred more have been made than freed, and now and then
through all objects there are. A program is nothing but objects that stay, and none of them is in a cycle, so while one
is staged or transformed the collector finds nothing, and takes up to half of the time.
"""

from __future__ import annotations

import gc
from collections.abc import Callable
from functools import wraps
from typing import Final, ParamSpec, TypeVar, final

P = ParamSpec("P")
T = TypeVar("T")

#: After how many new objects the collector looks for cycles while a program is made: some megabytes of them.
SELDOM: Final = 50_000
#: After how many times it looks at those again that are left, which nearly all are: after some hundred megabytes.
RARELY: Final = 100
#: After how many new objects it looks while a program is made of others that are gone in the end.
PASSING: Final = 1_000_000
#: After how many new objects it looks while modules are loaded, of which next to nothing is in a cycle that ends.
LOADING: Final = 1_000_000


@final
class FewCollections:
    """A block within which the collector runs seldom: `with FewCollections():`.

    The setting is the process's (`gc.set_threshold`), and is all the state that there is, so blocks nest and threads
    need no lock: who finds a lower threshold raises it and puts it back, who finds it raised does nothing. The user's
    setting counts: a collector that is off stays as it is, so does a threshold that is as high or was set within the
    block. Nothing is ever switched off, so cycles that are made meanwhile are found too.
    """

    __slots__ = ("_before", "_objects")

    def __init__(self, objects: int = SELDOM) -> None:
        self._before: tuple[int, int, int] | None = None
        self._objects = objects

    def __enter__(self) -> None:
        before = gc.get_threshold()
        if 0 < before[0] < self._objects and gc.isenabled():
            self._before = before
            gc.set_threshold(*self._raised(before))

    def __exit__(self, *_: object) -> None:
        before = self._before
        if before is not None:
            if gc.get_threshold() == self._raised(before):
                gc.set_threshold(*before)
            self._before = None

    def _raised(self, setting: tuple[int, int, int]) -> tuple[int, int, int]:
        return self._objects, max(setting[1], RARELY), setting[2]

    def __del__(self) -> None:  # an interrupt, at the very moment of entering or leaving
        if getattr(self, "_before", None) is not None:  # it isn't there if the interrupt came first of all
            self.__exit__()


def settle() -> None:
    """Has the collector take all objects there are for old ones, as if it had looked at them.

    What has been loaded stays, and it would look at all of that once the block ends. Cycles that nothing holds are
    found when it next looks at old objects, too.
    """
    if gc.isenabled() and not gc.get_freeze_count():  # what the user has frozen stays so
        gc.freeze()
        gc.unfreeze()


def loading(f: Callable[P, T]) -> Callable[P, T]:
    """f, which loads modules, in such a block, and with what it has loaded for old afterwards."""

    @wraps(f)
    def call(*args: P.args, **kwargs: P.kwargs) -> T:
        with FewCollections(LOADING):
            found = f(*args, **kwargs)
            settle()
            return found

    return call


def collecting_seldom(f: Callable[P, T]) -> Callable[P, T]:
    """f, which makes programs or goes through them, in such a block."""
    return _within(f, SELDOM)


def collecting_in_the_end(f: Callable[P, T]) -> Callable[P, T]:
    """f, which makes a program of others that nothing holds once it is there."""
    return _within(f, PASSING)


def _within(f: Callable[P, T], objects: int) -> Callable[P, T]:
    @wraps(f)
    def call(*args: P.args, **kwargs: P.kwargs) -> T:
        with FewCollections(objects):
            return f(*args, **kwargs)

    return call
