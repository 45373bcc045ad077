"""Lowering rule of `composite`: StableHLO's own, which a compiler may replace by an operation that it knows."""

from __future__ import annotations

import json
import re
from collections.abc import Sequence
from typing import Final

import numpy as np

from tinyjax.control.composite_call import OPERATION, Attribute, CompositeCall, Dictionary
from tinyjax.errors import LoweringError
from tinyjax.hlo.context import SSA, LoweringContext
from tinyjax.hlo.keys import in_words
from tinyjax.hlo.tables import RULES
from tinyjax.hlo.text import ELEMENT_TYPES, dense_text, results_text, scalar_text, type_text, types_text
from tinyjax.ir.aval import ShapedArray
from tinyjax.ir.dtypes import FLOAT64, DType
from tinyjax.ir.effects import must_stay
from tinyjax.ir.program import Literal
from tinyjax.ir.value import ConcreteValue

#: What needs no quotes as the name of an attribute, or of a function.
BARE: Final = re.compile(r"[A-Za-z_][A-Za-z0-9_$.]*")


@RULES.register(CompositeCall)
def _composite(
    primitive: CompositeCall, ctx: LoweringContext, args: Sequence[SSA], types: Sequence[ShapedArray]
) -> Sequence[SSA]:
    name, jaxpr = primitive.function_name, primitive.jaxpr
    if must_stay(jaxpr.effects):  # which take part in the order of all: another function than the name is for
        return ctx.call(jaxpr, name, args)
    if OPERATION.fullmatch(name) is None:
        raise LoweringError(
            f"composite: StableHLO has no operation called {name!r}. Put a namespace before the name, as in 'my.gelu': "
            "letters, digits and underscores, with a dot between two parts at least."
        )
    function = ctx.module.function(jaxpr, name, ctx.manual)
    ctx.callees[function] = None
    ctx.module.on_call()
    fields = [f"decomposition = @{function}"]
    if primitive.attributes:
        fields.insert(0, f"composite_attributes = {_dictionary(primitive.attributes)}")
    if primitive.version:
        fields.append(f"version = {primitive.version} : i32")
    args, given = ctx.apart(args), in_words(types)
    operands = ", ".join([arg.name for arg in args])
    signature = f"{types_text([arg.aval for arg in args])} -> {results_text(given)}"
    operation = f"stablehlo.composite {json.dumps(name)} {operands}{' ' if args else ''}{{{', '.join(fields)}}}"
    return ctx.together(ctx.emit_many(f"{operation} : {signature}", given), types)


def attribute_text(value: Attribute) -> str:
    """An attribute in MLIR's spelling.

    >>> attribute_text(3), attribute_text((True, "a")), attribute_text(Literal.of(np.float32(2)))
    ('3 : i64', '[true, "a"]', '2.0 : f32')
    """
    if isinstance(value, bool):
        return "true" if value else "false"
    if isinstance(value, int):
        return f"{value} : i64"
    if isinstance(value, float):
        return _scalar(value, FLOAT64)
    if isinstance(value, str | bytes):
        return string_text(value if isinstance(value, bytes) else value.encode("utf-8", "surrogatepass"))
    if isinstance(value, np.dtype):
        return _element(value)
    if isinstance(value, Literal):
        return _scalar(value.value, value.aval.dtype)
    if isinstance(value, ConcreteValue):
        return f"dense<{dense_text(np.asarray(value.data))}> : {type_text(value.aval)}"
    if isinstance(value, Dictionary):
        return _dictionary(value.entries)
    return f"[{', '.join(map(attribute_text, value))}]"


def _scalar(value: bool | float | complex, dtype: DType) -> str:
    return f"{scalar_text(value, dtype)} : {_element(dtype)}"


def _element(dtype: DType) -> str:
    found = ELEMENT_TYPES.get(dtype)
    if found is None:
        raise LoweringError(f"StableHLO has nothing of dtype {dtype.name}, which an attribute has")
    return found


def _dictionary(entries: Sequence[tuple[str, Attribute]]) -> str:
    names = [key if BARE.fullmatch(key) else string_text(key.encode()) for key, _ in entries]
    items = [f"{name} = {attribute_text(item)}" for name, (_, item) in zip(names, entries, strict=True)]
    return f"{{{', '.join(items)}}}"


def string_text(value: bytes) -> str:
    """In double quotes; all that isn't plain in hexadecimal."""
    plain = [chr(c) if 32 <= c < 127 and c not in b'"\\' else f"\\{c:02X}" for c in value]
    return f'"{"".join(plain)}"'
