"""Golden files: expected texts that a reader can review and a flag rewrites.

A test asks for the fixture `golden` and calls `golden("name", text)`. The text must be that of `golden/name.txt` beside
the test's file; `pytest --update-golden` writes it instead.
"""

from __future__ import annotations

import difflib
from pathlib import Path
from typing import final

import pytest
from attrs import frozen


@final
@frozen
class Golden:
    """The golden files of one test module."""

    folder: Path
    update: bool

    def __call__(self, name: str, text: str) -> None:
        """Fails unless `text` is the content of the golden file `name`."""
        __tracebackhide__ = True
        path = self.folder / f"{name}.txt"
        text = text.rstrip("\n") + "\n"
        if self.update:
            self.folder.mkdir(exist_ok=True)
            path.write_text(text, encoding="utf-8")
            return
        if not path.exists():
            pytest.fail(f"{path} doesn't exist; `pytest --update-golden` writes it")
        expected = path.read_text(encoding="utf-8")
        if text != expected:
            diff = difflib.unified_diff(expected.splitlines(), text.splitlines(), "expected", "got", lineterm="")
            lines = "\n".join(diff)
            pytest.fail(f"{path} differs; if that is intended, `pytest --update-golden` rewrites it\n{lines}")


@pytest.fixture
def golden(request: pytest.FixtureRequest) -> Golden:
    """Compares texts with the golden files beside the test."""
    return Golden(request.path.parent / "golden", bool(request.config.getoption("--update-golden")))
