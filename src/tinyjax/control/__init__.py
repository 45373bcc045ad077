"""Primitives whose parameters are programs. What passes do with them has modules of its own, loaded when needed."""

from collections.abc import Mapping
from typing import Final

#: Which module has the rules for these primitives, by the table that they are in: see `ir.RuleTable`.
RULES: Final[Mapping[str, str]] = {
    "tinyjax.transforms.APPLYING": "trivial",
    "tinyjax.transforms.CHECKING": "checked",
    "tinyjax.transforms.FOLDING": "trivial",
    "tinyjax.transforms.HOISTING": "hoisting",
    "tinyjax.transforms.INLINING": "trivial",
    "tinyjax.transforms.LINEARITY": "linearity",
    "tinyjax.transforms.MERGING": "trivial",
    "tinyjax.transforms.PARTING": "parting",
    "tinyjax.transforms.PRUNING": "pruning",
    "tinyjax.transforms.SHORTCUTS": "trivial",
    "tinyjax.transforms.STACKING": "layered",
    "tinyjax.transforms.UNROLLING": "rolling",
}
