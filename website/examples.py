"""Examples of functions whose docstrings have none: `examples.txt`, which a test runs as doctests.

There each name has a line of its own, and lines of a doctest under it. `pytest --update-golden` writes what they give.
"""

from __future__ import annotations

import re
from collections.abc import Mapping
from functools import cache
from pathlib import Path
from typing import Final

#: The file.
FILE: Final = Path(__file__).parent / "examples.txt"
#: What the examples see.
IMPORTS: Final = """\
import numpy as np
import tinyjax as tj
import tinyjax.numpy as tnp
from tinyjax import hlo, interpreters, ir, lax, tools, transforms, tree
"""
_ENTRY: Final = re.compile(r"^(tinyjax[\w.]+)\n((?:.+\n)+)", re.MULTILINE)


@cache
def examples() -> Mapping[str, str]:
    """Doctests by full names."""
    return dict(_ENTRY.findall(FILE.read_text(encoding="utf-8")))
