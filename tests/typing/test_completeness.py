"""Every public name has a type that is written down: pyright's report on the library, as it is installed."""

from __future__ import annotations

import pytest

from tests.typing.checkers import run_pyright


@pytest.mark.sweep
def test_every_public_type_is_known() -> None:
    report = run_pyright("--verifytypes", "tinyjax", "--ignoreexternal")["typeCompleteness"]
    incomplete = [
        f"{symbol['name']}: {entry['message']}"
        for symbol in report["symbols"]
        if not symbol["isTypeKnown"] or symbol["isTypeAmbiguous"]
        for entry in symbol["diagnostics"]
    ]
    assert not incomplete, "\n" + "\n".join(incomplete)
    assert report["completenessScore"] == 1
    assert report["exportedSymbolCounts"]["withKnownType"] > 5000
