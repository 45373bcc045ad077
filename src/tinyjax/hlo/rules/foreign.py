"""Calls of functions that XLA knows by their names: `ffi_call`, and the one that only takes a value; and of those that
are given as StableHLO."""

from __future__ import annotations

from collections.abc import Sequence

from tinyjax.control.exported import CallExported
from tinyjax.control.foreign import FfiCall
from tinyjax.hlo.context import SSA, LoweringContext, LoweringRules
from tinyjax.hlo.rules.composite import BARE, attribute_text, string_text
from tinyjax.hlo.rules.library_calls import aliases_text, layouts_text
from tinyjax.hlo.tables import PLATFORM_NAMES, RULES
from tinyjax.hlo.text import results_text, types_text
from tinyjax.ir.aval import ShapedArray
from tinyjax.ir.dtypes import KEYS
from tinyjax.primitives.keys import RandomUnwrap
from tinyjax.primitives.sinks import DceSink


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
    signature = f"{types_text([arg.aval for arg in args])} -> {results_text(types)}"
    text = f"stablehlo.custom_call @{_symbol(primitive.target_name)}({operands}) {{{', '.join(fields)}}}"
    return ctx.emit_many(f"{text} : {signature}", types)


@RULES.register(DceSink)
def _dce_sink(
    primitive: DceSink, ctx: LoweringContext, args: Sequence[SSA], types: Sequence[ShapedArray]
) -> Sequence[SSA]:
    if not primitive.prevent_mlir_dce:
        return []
    bits = [ctx.bind(RandomUnwrap(), arg)[0] if arg.aval.dtype in KEYS else arg for arg in args]
    orders = tuple([tuple(reversed(range(arg.aval.ndim))) for arg in bits])
    return ctx.bind(FfiCall("dce_sink", (), has_side_effect=True, input_layouts=orders), *bits)


def _register(table: LoweringRules, names: tuple[str, ...]) -> None:
    @table.register(CallExported)
    def _call_exported(
        primitive: CallExported, ctx: LoweringContext, args: Sequence[SSA], types: Sequence[ShapedArray]
    ) -> Sequence[SSA]:
        module = primitive.module_for(names)
        ctx.module.foreign[module.function] = module.text
        operands = ", ".join([arg.name for arg in args])
        signature = f"{types_text([arg.aval for arg in args])} -> {results_text(types)}"
        return ctx.emit_many(f"func.call @{module.function}({operands}) : {signature}", types)


for _table, _names in PLATFORM_NAMES.items():
    _register(_table, _names)


def _symbol(name: str) -> str:
    """In quotes only if it has to be: other libraries are found by their names in the text."""
    return name if BARE.fullmatch(name) else string_text(name.encode())
