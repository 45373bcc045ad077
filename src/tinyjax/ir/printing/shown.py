"""Classes of results that show themselves. What that takes is imported when something is shown."""

from __future__ import annotations

from abc import ABC, abstractmethod
from collections.abc import Iterator
from typing import TYPE_CHECKING

import attrs
from attrs import frozen
from typing_extensions import override

if TYPE_CHECKING:
    from tinyjax.ir.printing.display import Block


class Shown(ABC):
    """What shows itself: `str` and `repr` are its tables, and notebooks get them in HTML."""

    __slots__ = ()

    @abstractmethod
    def _blocks(self) -> Iterator[Block]:
        """What is shown, in order."""

    @override
    def __str__(self) -> str:
        return "\n\n".join(block.text for block in self._blocks() if block.text)

    @override
    def __repr__(self) -> str:
        return str(self)

    @property
    def html(self) -> str:
        """What notebooks show."""
        from tinyjax.ir.printing.display import page

        return page(block.html for block in self._blocks())

    def _repr_html_(self) -> str:
        return self.html


@frozen(eq=False, repr=False)
class Record(Shown):
    """An attrs class with programs among its fields: these are shown as programs, and the others in a table."""

    @override
    def _blocks(self) -> Iterator[Block]:
        from tinyjax.ir.printing.display import fields

        return fields(type(self).__name__, self._shown())

    def _shown(self) -> Iterator[tuple[str, object]]:
        """What is shown of it, by name: the public fields."""
        for attribute in attrs.fields(type(self)):
            if attribute.repr and not attribute.name.startswith("_"):
                yield attribute.name, getattr(self, attribute.name)


def text_html(head: str, text: str) -> str:
    """A long text in a notebook, of which a line is shown until it is opened."""
    from tinyjax.ir.printing.display import page
    from tinyjax.ir.printing.html import escape

    return page([f"<details><summary>{escape(head)}</summary><pre>{escape(text)}</pre></details>"])
