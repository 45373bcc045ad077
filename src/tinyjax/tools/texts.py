"""Pictures and pages as text, which notebooks show as what they are.

Each is a `str`: it can be written to a file, or searched, like any other.
"""

from __future__ import annotations

from typing import final

from typing_extensions import override

from tinyjax.ir.printing.html import escape


@final
class Svg(str):
    """A picture in SVG. Notebooks show it; `repr` says what it is, and `str` is the text."""

    __slots__ = ()

    @override
    def __repr__(self) -> str:
        return f"<SVG, {len(self):,} characters: a notebook shows it; elsewhere, write it to a file>"

    def _repr_svg_(self) -> str:
        return str(self)

    def _repr_html_(self) -> str:
        return self[max(self.find("<svg"), 0) :]  # without a declaration, which is no HTML


@final
class Page(str):
    """A page of HTML. Notebooks show it in a frame; `repr` says what it is, and `str` is the text."""

    __slots__ = ()

    @override
    def __repr__(self) -> str:
        return f"<page of HTML, {len(self):,} characters: a notebook shows it; elsewhere, write it to a file>"

    def _repr_html_(self) -> str:
        return (
            f'<iframe sandbox="allow-scripts" srcdoc="{escape(self)}" '
            'style="width:100%;height:600px;border:1px solid #8885"></iframe>'
        )


@final
class Dot(str):
    """A graph in Graphviz's language. `repr` is the text."""

    __slots__ = ()

    @override
    def __repr__(self) -> str:
        return str(self)

    def _repr_html_(self) -> str:
        return f"<pre>{escape(self)}</pre>"
