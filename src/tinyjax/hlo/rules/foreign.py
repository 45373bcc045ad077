"""Lowering rule of `ffi_call`: XLA's own call, of a function that it knows by its name."""

from __future__ import annotations

from collections.abc import Sequence

from tinyjax.control.foreign import FfiCall
from tinyjax.hlo.context import SSA, LoweringContext, types_text
from tinyjax.hlo.rules.composite import BARE, attribute_text, string_text
from tinyjax.hlo.rules.library_calls import aliases_text, layouts_text
from tinyjax.hlo.tables import RULES
from tinyjax.ir.aval import ShapedArray


@RULES.register(FfiCall)
def _ffi_call(
    primitive: FfiCall, ctx: LoweringContext, args: Sequence[SSA], types: Sequence[ShapedArray]
) -> Sequence[SSA]:
    version, config = primitive.custom_call_api_version, primitive.legacy_backend_config
    fields = [f"api_version = {version} : i32"]
    if version >= 4:
        fields.append(f"backend_config = {attribute_text(primitive.attributes)}")
    elif config is not None:
        fields.append(f"backend_config = {attribute_text(config)}")
    if primitive.has_side_effect:
        fields.append("has_side_effect = true")
    fields += [
        f"operand_layouts = {layouts_text(primitive.input_layouts)}",
        f"output_operand_aliases = {aliases_text(primitive.input_output_aliases, len(types))}",
        f"result_layouts = {layouts_text(primitive.output_layouts)}",
    ]
    operands = ", ".join([arg.name for arg in args])
    signature = f"{types_text([arg.aval for arg in args])} -> {types_text(types)}"
    text = f"stablehlo.custom_call @{_symbol(primitive.target_name)}({operands}) {{{', '.join(fields)}}}"
    return ctx.emit_many(f"{text} : {signature}", types)


def _symbol(name: str) -> str:
    """In quotes only if it has to be: other libraries are found by their names in the text."""
    return name if BARE.fullmatch(name) else string_text(name.encode())
