"""The Python blocks of the README and of the pages in docs, each as a module that a type checker reads.

A block sees what those above it have defined, as when a page is run: it imports these names, from the last block that
defines them. So blocks may define a name again. Lines keep their numbers.
"""

from __future__ import annotations

import re
import symtable
from collections.abc import Iterator
from pathlib import Path
from typing import Final

from tests.typing.checkers import ROOT

#: Not the page whose code is `examples/mini.py`, which is checked like the library.
PAGES: Final = [ROOT / "README.md", *sorted({*(ROOT / "docs").rglob("*.md")} - {ROOT / "docs" / "from-scratch.md"})]
_BLOCK: Final = re.compile(r"^```python\n(?P<text>.*?)^```$", re.MULTILINE | re.DOTALL)

#: Functions of a page may do without types, for the reader's sake. What they call is checked all the same.
_HOW_STRICT: Final = """\
# mypy: allow-untyped-defs, allow-incomplete-defs, allow-untyped-calls, allow-untyped-decorators, allow-any-generics
# mypy: allow-subclassing-any, allow-redefinition, implicit-reexport, no-warn-return-any
# mypy: disable-error-code="explicit-override,func-returns-value,redundant-expr"
# pyright: standard
"""
#: The README's have types.
_README: Final = """\
# mypy: implicit-reexport
# mypy: disable-error-code="explicit-override"
# pyright: standard
"""


def write_blocks(folder: Path) -> Iterator[tuple[Path, Path]]:
    """Writes the blocks to a folder, as modules; of each, its page and its file."""
    for page in PAGES:
        source = page.read_text(encoding="utf-8")
        homes: dict[str, str] = {}
        for match in _BLOCK.finditer(source):
            text = match["text"]
            line = source.count("\n", 0, match.start("text"))  # so many are above the block
            module = f"page_{page.stem.replace('-', '_')}_{line + 1}"
            table = symtable.symtable(text, module, "exec")
            defined = {
                symbol.get_name() for symbol in table.get_symbols() if symbol.is_assigned() or symbol.is_imported()
            }
            imports = [f"from {homes[name]} import {name}" for name in sorted(_read(table) - defined) if name in homes]
            # In the place of the line that opens the block.
            how_strict = _README if page.name == "README.md" else _HOW_STRICT
            program = "\n" * (line - 1) + "; ".join(imports) + "\n" + text + how_strict
            path = folder / f"{module}.py"
            path.write_text(program, encoding="utf-8")
            homes |= dict.fromkeys(defined, module)
            yield page, path


def _read(table: symtable.SymbolTable) -> set[str]:
    """The names of the module that this scope, or one within, reads."""
    at_top = table.get_type() == "module"
    found = {
        symbol.get_name() for symbol in table.get_symbols() if symbol.is_referenced() and (at_top or symbol.is_global())
    }
    return found.union(*map(_read, table.get_children()))
