"""Programs show themselves as text, and in notebooks. What that takes is imported when something is shown."""

from __future__ import annotations

from typing_extensions import override


class Printed:
    """An equation, a program or a closed program, which prints as such."""

    __slots__ = ()

    @override
    def __str__(self) -> str:
        from tinyjax.ir.printing.printer import text_of

        return text_of(self)

    @override
    def __repr__(self) -> str:
        return str(self)

    def pretty_print(self, *, use_color: bool | None = None) -> str:
        """The text, as `str` has it: that has no colours, whatever is asked for. Notebooks show them.

        >>> from tinyjax import make_jaxpr
        >>> make_jaxpr(lambda x: 2.0 * x)(1.0).pretty_print(use_color=False)
        '{ lambda ; a:~f64[]. let b:~f64[] = mul 2.0 a in (b,) }'
        """
        return str(self)

    def _repr_html_(self) -> str:
        """What notebooks show."""
        from tinyjax.ir.printing.html import html_of

        return html_of(self)
