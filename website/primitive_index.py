"""The page that lists all primitives: what the registry has, with the rules that classes and tables have for each."""

from __future__ import annotations

import html
from collections.abc import Callable, Sequence
from typing import Final, TypeAlias, final

import attrs
from attrs import frozen

from tinyjax import hlo, interpreters
from tinyjax.interop import jax as to_jax
from tinyjax.ir import STANDARD, Primitive, RuleTable
from tinyjax.tools import cost
from website.names import entries

PATH: Final = "reference/primitives.md"
_INTRODUCTION: Final = """\
The {number} primitives of the library, with the rules that each has. ● is a rule of the class itself, ○ one of a base
class; point at it to read whose. Where there is none a dot tells why, if that is noted. What a primitive lacks is
missed only by what needs it: a transposition rule by what is linear, for instance, and `partial_eval` by what can be
divided, as everything else is computed or staged whole. This page is made of the registry, the classes and the
tables."""
#: The rules that are methods of the class.
METHODS: Final = ("evaluate", "jvp", "batch", "transpose", "partial_eval", "expand")

#: Who has a rule for a class, as one would write it, or None; and why there is none, if that is known.
_Found: TypeAlias = tuple[str | None, str | None]


@final
@frozen
class Column:
    """A kind of rule: what the head of the column says, what that is, and how a class's rule is found."""

    head: str
    meaning: str
    find: Callable[[type[Primitive]], _Found]


def primitives() -> Sequence[type[Primitive]]:
    """The library's primitives, by name."""
    return sorted((cls for cls in STANDARD if issubclass(cls, Primitive)), key=lambda cls: cls.name)


def by_method(name: str) -> Callable[[type[Primitive]], _Found]:
    """Finds the class that defines a method, if it isn't the base of all."""

    def find(cls: type[Primitive]) -> _Found:
        owner = next(base for base in cls.__mro__ if name in vars(base))
        return (None if owner is Primitive else f"{owner.__name__}.{name}"), None

    return find


def in_tables(*tables: object) -> Callable[[type[Primitive]], _Found]:
    """Finds the entry of the first of these tables that has one."""
    readable = [table for table in tables if isinstance(table, RuleTable)]

    def find(cls: type[Primitive]) -> _Found:
        found = next((entry for table in readable if (entry := table.entry(cls)) is not None), None)
        return found, next((reason for table in readable if (reason := table.reason(cls)) is not None), None)

    return find


def _evaluation(cls: type[Primitive]) -> _Found:
    """By NumPy; or, with programs as parameters, by the evaluator."""
    return by_method("evaluate")(cls) if by_method("evaluate")(cls)[0] else by_method("evaluate_with")(cls)


COLUMNS: Final = (
    Column("value", "computed on the host: `evaluate`, or `evaluate_with`", _evaluation),
    *[Column(name, f"the method `{name}`", by_method(name)) for name in METHODS[1:]],
    Column(
        "lowering",
        "StableHLO: `tinyjax.hlo.RULES`, or a platform's table",
        in_tables(hlo.RULES, hlo.CPU_RULES, hlo.GPU_RULES),
    ),
    Column("to JAX", "`tinyjax.interop.jax.TO_JAX`", in_tables(to_jax.TO_JAX)),
    Column("cost", "`tinyjax.tools.cost.COSTS`", in_tables(cost.COSTS)),
    Column("bounds", "`tinyjax.interpreters.INTERVAL_RULES`", in_tables(interpreters.INTERVAL_RULES)),
    Column("sparsity", "`tinyjax.interpreters.SPARSITY_RULES`", in_tables(interpreters.SPARSITY_RULES)),
    Column("jet", "`tinyjax.interpreters.JET_RULES`", in_tables(interpreters.JET_RULES)),
    Column("inverse", "`tinyjax.interpreters.INVERSE_RULES`", in_tables(interpreters.INVERSE_RULES)),
)


def page() -> str:
    """Its text."""
    known = primitives()
    columns = [column for column in COLUMNS if any(column.find(cls)[0] for cls in known)]
    lines = [
        "---",
        "hide: [navigation, toc]",
        "---",
        "",
        "# All primitives",
        "",
        _INTRODUCTION.format(number=len(known)),
        "",
        '<div class="primitives" markdown>',
        "",
        "| primitive | class | module | parameters | " + " | ".join(column.head for column in columns) + " |",
        "| --- | --- | --- | --- |" + " :-: |" * len(columns),
        *[row(cls, columns) for cls in known],
        "",
        "</div>",
        "",
        "## The columns",
        "",
        "| column | where the rules are |",
        "| --- | --- |",
        *[f"| {column.head} | {column.meaning} |" for column in columns],
        "",
    ]
    return "\n".join(lines)


def row(cls: type[Primitive], columns: Sequence[Column] = COLUMNS) -> str:
    """A primitive's row of the table."""
    described = {entry.described_as: None for entry in entries() if entry.page == "tinyjax.extend.primitives"}
    target = f"tinyjax.extend.primitives.{cls.__name__}"
    link = f"[`{cls.__name__}`][{target}]" if target in described else f"`{cls.__name__}`"
    module = cls.__module__.removeprefix("tinyjax.")
    fields = "<br>".join(
        f"<code>{field.name}: {html.escape(str(field.type)).replace('|', '&#124;')}</code>"
        for field in attrs.fields(cls)
    )
    cells = [_cell(cls, column.find(cls)) for column in columns]
    return f"| `{cls.name}` {{ #{cls.name} }} | {link} | `{module}` | {fields} | " + " | ".join(cells) + " |"


def _cell(cls: type[Primitive], found: _Found) -> str:
    where, reason = found
    if where is None:
        return f'<span title="{html.escape(reason)}">·</span>' if reason else ""
    own = where.startswith(f"{cls.__name__}.") or where.endswith(f"[{cls.__name__}]")
    return f'<span title="{html.escape(where)}">{"●" if own else "○"}</span>'
