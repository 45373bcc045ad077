"""What `--passes` says."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from typing import Final

from tinyjax import transforms
from tinyjax.ir.program import Jaxpr
from tinyjax.tools.cli.failure import CommandError
from tinyjax.transforms.pipeline import OPTIMIZATION, Pipeline

#: The passes by name.
PASSES: Final[Mapping[str, Callable[[Jaxpr], Jaxpr]]] = {
    "cse": transforms.cse,
    "dce": transforms.dce,
    "fold_constants": transforms.fold_constants,
    "hoist_constants": transforms.hoist_constants,
    "inline": transforms.inline,
    "simplify": transforms.simplify,
}


def parse_passes(text: str) -> Pipeline | None:
    """The passes that a text names, separated by commas; `all`: those of `transforms.optimize`; None for no text.

    >>> pipeline = parse_passes("cse,dce")
    >>> pipeline.names
    ('cse', 'dce')
    """
    names = [name.strip() for name in text.split(",") if name.strip()]
    if not names:
        return None
    if names == ["all"]:
        return OPTIMIZATION
    for name in names:
        if name not in PASSES:
            raise CommandError(f"--passes: there is no {name!r}; there are {', '.join(PASSES)}, and all")
    return Pipeline([PASSES[name] for name in names])
