"""Keys of random numbers that are used twice: found, and refused."""

from __future__ import annotations

from collections.abc import Callable

from tinyjax.api.make_jaxpr import make_jaxpr
from tinyjax.control.key_reuse import key_reuse
from tinyjax.errors import KeyReuseError


def check_key_reuse(fun: Callable[..., object], /, *args: object) -> None:
    """A KeyReuseError if a function uses a key twice, for arguments that may be types (ShapedArray).

    The error names the key, by the argument that it is or by the line that makes it, and the lines of both uses.

    >>> from tinyjax import random
    >>> def draw(key):
    ...     first, second = random.split(key)
    ...     return random.normal(first) + random.uniform(second)
    >>> check_key_reuse(draw, random.key(0))
    """
    found = key_reuse(make_jaxpr(fun)(*args))
    if found:
        listed = "\n".join(f"  {reuse}" for reuse in found)
        raise KeyReuseError(
            f"a key is used twice, and gives the same numbers twice:\n{listed}\n"
            "Make a key for each use: `first, second = tinyjax.random.split(key)`; in a loop, "
            "`tinyjax.random.fold_in(key, i)`. Where the same numbers are meant, `tinyjax.random.clone(key)`."
        )
