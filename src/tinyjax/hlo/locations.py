"""Where operations are from, as MLIR and XLA write it: the lines of a user's program in StableHLO text."""

from __future__ import annotations

import re
from collections.abc import Sequence
from typing import Final

from tinyjax.hlo.called import PLACE, Place

_PLACED: Final = re.compile(rf'loc\("{PLACE}(\d+)"\)')


def with_lines(text: str, places: Sequence[Place]) -> str:
    """The text of a module with a name, a file and a line where it has numbers of places.

    >>> from tinyjax.ir.source import SourceInfo
    >>> from tinyjax.primitives.exponential import log
    >>> with_lines('loc("eqn:0")', [(log, SourceInfo("model.py", 12, "loss", (), "layer"))])
    'loc("layer/log"("model.py":12:0))'
    """
    return _PLACED.sub(lambda found: _location(places[int(found[1])]), text)


def _location(place: Place) -> str:
    primitive, source = place
    if source is None:
        return f"loc({_quoted(primitive.name)})"
    name = "/".join([*source.transformations, *([source.scope] if source.scope else []), primitive.name])
    return f"loc({_quoted(name)}({_quoted(source.file)}:{source.line}:0))"


def _quoted(name: str) -> str:
    """As MLIR writes strings: what isn't plain is the numbers of its bytes."""
    plain = (chr(byte) if 32 <= byte < 127 and byte not in b'"\\' else f"\\{byte:02X}" for byte in name.encode())
    return f'"{"".join(plain)}"'
