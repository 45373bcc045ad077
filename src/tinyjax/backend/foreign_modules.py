"""Modules of StableHLO that JAX has exported, as functions that stand in others' text. Imports jax: to be imported at
first need."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from hashlib import sha256
from typing import Any, Final

import jax
import jax.export
import numpy as np
from jax._src.export import _export
from jax._src.interpreters import mlir
from jax.extend.core import JaxprEqn
from jax.typing import ArrayLike
from jaxlib.mlir import ir

from tinyjax.backend import jax_programs
from tinyjax.backend.export import exported as record
from tinyjax.backend.export import serialized
from tinyjax.errors import UnsupportedError
from tinyjax.hlo.text import identifier, results_text, type_text, types_text
from tinyjax.ir.aval import ShapedArray
from tinyjax.ir.dtypes import FLOAT0

#: How the names of functions in such text begin, which those of our programs never do.
_PREFIX: Final = "exported$"


def called(eqn: JaxprEqn) -> tuple[str, list[tuple[tuple[str, ...], str, str]]]:
    """What a `call_exported` of JAX calls: its name, and for platforms the function's name and the text that has it.

    The text takes and returns what has bits, of the types in the equation; for typed keys, their integers. An
    UnsupportedError if it is no function of arrays on one device.
    """
    exported: Any = eqn.params["exported"]
    if eqn.effects or exported.ordered_effects or exported.unordered_effects:
        raise UnsupportedError(f"the exported function {exported.fun_name!r} has effects")
    if exported.nr_devices != 1:
        raise UnsupportedError(
            f"the exported function {exported.fun_name!r} is for {exported.nr_devices} devices; export it for one"
        )
    ins: list[Any] = [atom.aval for atom in eqn.invars]  # Any: avals of JAX have shapes and dtypes
    outs: list[Any] = [var.aval for var in eqn.outvars]
    structs = [_in_integers(aval) for aval in ins if aval.dtype != FLOAT0]

    def call(*args: ArrayLike) -> list[ArrayLike]:
        given = iter(args)
        operands = [
            np.zeros(aval.shape, FLOAT0) if aval.dtype == FLOAT0 else _as_keys(next(given), aval) for aval in ins
        ]
        results = eqn.primitive.bind(*operands, **eqn.params)
        return [
            jax.random.key_data(result) if jax_programs.is_key(aval) else result
            for result, aval in zip(results, outs, strict=True)
            if aval.dtype != FLOAT0
        ]

    found: list[tuple[tuple[str, ...], str, str]] = []
    for platform in exported.platforms:
        function, text = _functions(call, structs, platform, exported.fun_name, exported.uses_global_constants)
        same = next((i for i, (_, _, known) in enumerate(found) if known == text), None)
        if same is None:
            found.append(((platform,), function, text))
        else:
            found[same] = ((*found[same][0], platform), function, text)
    return exported.fun_name, found


def _in_integers(aval: Any) -> jax.ShapeDtypeStruct:  # an aval of JAX
    """The type; for typed keys, that of the integers that they consist of."""
    if jax_programs.is_key(aval):
        return jax.ShapeDtypeStruct(jax_programs.key_shape(aval), np.uint32)
    return jax.ShapeDtypeStruct(aval.shape, aval.dtype)


def _as_keys(x: ArrayLike, aval: Any) -> ArrayLike:  # an aval of JAX
    """The typed keys that consist of these integers, if the type is one of keys."""
    if not jax_programs.is_key(aval):
        return x
    keys: jax.Array = jax.random.wrap_key_data(jax.numpy.asarray(x), impl=aval.dtype._impl)  # noqa: SLF001 (JAX says it nowhere else)
    return keys


def _functions(
    call: Callable[..., list[ArrayLike]], structs: Sequence[jax.ShapeDtypeStruct], platform: str, name: str,
    refined: bool,
) -> tuple[str, str]:  # fmt: skip
    """The function to call in the text of the functions that JAX lowers a call to, and that text."""
    with jax.enable_x64(True):
        lowered = jax.jit(call, keep_unused=True).trace(*structs).lower(lowering_platforms=(platform,))
        module: Any = lowered.compiler_ir("stablehlo")
        if refined:  # its shapes were open, or its platform
            module = mlir.refine_polymorphic_shapes(module)
    with module.context, ir.Location.unknown(module.context):
        _on_one_device(module, name)
        functions = {op.sym_name.value: op for op in module.body.operations}
        main = _without_wrappers(functions)
        for function in functions.values():
            _make_private(function)
        if not _is_ours(functions):
            text = "\n".join(map(_text, functions.values()))
            main = _rename(module, functions, main, f"{_PREFIX}{sha256(text.encode()).hexdigest()[:16]}$", name)
        return main, "\n".join(map(_text, functions.values()))


def _on_one_device(module: Any, name: str) -> None:  # a module of MLIR
    """Takes out what a module says of how arrays lie on one device, which is nothing."""
    about: list[Any] = []

    def look(op: Any) -> Any:
        if op.name.startswith("sdy."):
            about.append(op)
        if "sdy.sharding" in op.attributes:
            del op.attributes["sdy.sharding"]
        return ir.WalkResult.ADVANCE

    module.operation.walk(look)
    for op in reversed(about):  # meshes come before what names them
        if op.name == "sdy.sharding_constraint":
            op.results[0].replace_all_uses_with(op.operands[0])
        elif op.name != "sdy.mesh":
            raise UnsupportedError(f"the exported function {name!r} has {op.name}, which is about several devices")
        op.erase()


def _without_wrappers(functions: dict[str, Any]) -> str:
    """The function that `@main` is. Those that do nothing but call it are taken out."""
    name = "main"
    while (inner := _only_calls(functions[name])) is not None:
        functions.pop(name).operation.erase()
        name = inner
    return name


def _only_calls(function: Any) -> str | None:  # an operation of MLIR
    """The function that this one hands all its arguments to, and whose results it returns, in order; None if it does
    anything else."""
    block = function.regions[0].blocks[0]
    operations = list(block.operations)
    if len(operations) != 2 or operations[0].operation.name != "func.call":
        return None
    call, end = operations
    if list(call.operands) != list(block.arguments) or list(end.operands) != list(call.results):
        return None
    name: str = call.attributes["callee"].value
    return name


def _make_private(function: Any) -> None:  # an operation of MLIR
    """Takes out what is said to the compiler of arguments and results, which is for functions that no other calls."""
    for key in ("arg_attrs", "res_attrs"):
        if key in function.attributes:
            del function.attributes[key]
    function.attributes["sym_visibility"] = ir.StringAttr.get("private")


def _is_ours(functions: dict[str, Any]) -> bool:
    """Whether these are functions that have been given such names before."""
    prefixes = {name.rpartition("$")[0] for name in functions}
    return len(prefixes) == 1 and prefixes.pop().startswith(_PREFIX)


def _rename(module: Any, functions: dict[str, Any], main: str, prefix: str, name: str) -> str:  # a module of MLIR
    """Gives functions names that begin with `prefix`. What the `main` one is called then."""
    table: Any = ir.SymbolTable
    found = main
    for i, (old, op) in enumerate(functions.items()):
        new = prefix + (identifier(name) if old == main else f"{i}_{identifier(old)}")
        table.replace_all_symbol_uses(old, new, module.operation)
        table.set_symbol_name(op.operation, new)
        found = new if old == main else found
    return found


def _text(function: Any) -> str:  # an operation of MLIR
    text: str = function.operation.get_asm(enable_debug_info=False)
    return text.rstrip("\n")


def call_in_jax(
    name: str, platform: str, function: str, text: str, operands: Sequence[ShapedArray], results: Sequence[ShapedArray]
) -> Callable[..., list[jax.Array]]:
    """A function of JAX that calls a function in the text of some."""
    inputs = ", ".join(f"%arg{i}: {type_text(aval)}" for i, aval in enumerate(operands))
    passed, types = ", ".join(f"%arg{i}" for i in range(len(operands))), results_text(results)
    many = len(results) > 1
    found = f"%0:{len(results)} = " if many else "%0 = " if results else ""
    outs = ", ".join(f"%0#{i}" for i in range(len(results))) if many else "%0"
    end = f"return {outs} : {', '.join(map(type_text, results))}" if results else "return"
    module = f"""
module @{identifier(name)} {{
  func.func public @main({inputs}) -> {types} {{
    {found}func.call @{function}({passed}) : {types_text(operands)} -> {types}
    {end}
  }}
{text}
}}"""
    exported = jax.export.deserialize(record(serialized(module), operands, results, platform, name))
    bind: Any = _export.call_exported_p.bind  # what `call` does has a rule for derivatives, which is ours to say

    def call(*args: ArrayLike) -> list[jax.Array]:
        results: list[jax.Array] = bind(*args, exported=exported)
        return results

    return call
