"""What JAX calls parts of a program that are called otherwise here. An AttributeError says what to write."""

from __future__ import annotations

from collections.abc import Mapping
from typing import TYPE_CHECKING, Final, NoReturn

_ADVICE: Final[Mapping[str, str]] = {
    "constvars": "constants feed the first inputs: zip(closed.jaxpr.invars, (*closed.consts, *args))",
    "debug_info": "what inputs are called is `input_names`, and where an equation comes from its `source`",
    "invars": "write closed.jaxpr.invars, the first of which closed.consts feed",
    "literals": "the constants are `consts`",
    "outvars": "write closed.jaxpr.outvars",
    "replace": "attrs.evolve(part, ...) makes a changed copy",
    "source_info": "where an equation comes from is its `source`",
    "val": "the number is its `value`",
}


class NamesOfJax:
    """A part of a program."""

    __slots__ = ()

    if not TYPE_CHECKING:  # for type checkers these names are absent, too

        def __getattr__(self, name: str) -> NoReturn:
            said = _ADVICE.get(name)
            raise AttributeError(
                f"{type(self).__name__!r} object has no attribute {name!r}" + (f": {said}" if said else ""),
                name=name,
                obj=self,
            )
