"""Programs that are made of others, made once."""

from __future__ import annotations

from collections.abc import Callable
from functools import cache
from typing import ParamSpec, TypeVar, cast

from tinyjax.caching import remembered

P = ParamSpec("P")
T = TypeVar("T")


def derived_once(derive: Callable[P, T], *args: P.args, **kwargs: P.kwargs) -> T:
    """`derive(...)`, which depends on nothing but its arguments: remembered for programs that are equal, from the same
    lines of user code."""
    return cast("T", _remembering(derive)(*args, **kwargs))


@cache  # of the few functions of the library that derive programs
def _remembering(derive: Callable[..., object]) -> Callable[..., object]:
    return remembered(derive)
