"""From a program to the text of a StableHLO module. A pure function of strings: no MLIR library takes part."""

from __future__ import annotations

from collections import defaultdict, deque
from collections.abc import Sequence

from tinyjax.errors import InputError, LoweringError
from tinyjax.hlo.context import SSA, LoweringRules, Module, function_text, identifier, types_text
from tinyjax.hlo.tables import rules_for
from tinyjax.hlo.text import type_text
from tinyjax.ir.aval import Shape, ShapedArray
from tinyjax.ir.dtypes import DType
from tinyjax.ir.effects import axis_names
from tinyjax.ir.program import ClosedJaxpr, Jaxpr


def lower(
    program: Jaxpr | ClosedJaxpr,
    *,
    platform: str = "cpu",
    name: str = "main",
    donated: Sequence[bool] = (),
    rules: LoweringRules | None = None,
) -> str:
    """The program as the text of a StableHLO module, whose public function is `@main`.

    The constants of a ClosedJaxpr are spelled out in the text; a Jaxpr takes all its inputs as arguments. Every
    distinct program that is called becomes one private function.

    Args:
      platform: what the module will run on; some primitives have rules for one platform only.
      name: the name of the module.
      donated: for each argument, whether its memory may be used for results. None is, if this is empty.
      rules: the table to lower with, instead of the platform's.

    Raises:
      MissingRuleError: a primitive has no lowering rule.
      LoweringError: the program needs the axis of a `vmap` that isn't there, or a dtype that StableHLO lacks.
      InputError: `donated` has the wrong length.

    >>> from tinyjax.contexts.evaluation import single_equation
    >>> from tinyjax.primitives.elementwise import MUL
    >>> aval = ShapedArray((3,), "float32")
    >>> print(lower(single_equation(MUL, (aval, aval)), name="product"), end="")
    module @product {
      func.func public @main(%arg0: tensor<3xf32>, %arg1: tensor<3xf32>) -> (tensor<3xf32>) {
        %0 = stablehlo.multiply %arg0, %arg1 : tensor<3xf32>
        return %0 : tensor<3xf32>
      }
    }
    """
    jaxpr, consts = (program.jaxpr, program.consts) if isinstance(program, ClosedJaxpr) else (program, ())
    unbound = axis_names(jaxpr.effects)
    if unbound:
        names = ", ".join(map(repr, sorted(unbound)))
        raise LoweringError(
            f"the program uses the named axis {names}, which exists only inside `vmap(..., axis_name=...)`. Apply that "
            "vmap before compiling."
        )
    avals = jaxpr.in_avals[len(consts) :]
    if donated and len(donated) != len(avals):
        raise InputError(f"donated says which of {len(avals)} arguments are donated; it has {len(donated)} entries")
    args = [SSA(f"%arg{i}", aval) for i, aval in enumerate(avals)]
    marks = _donation_marks(avals, jaxpr.out_avals, donated)
    module = Module(rules_for(platform) if rules is None else rules)
    lines = [f"module @{identifier(name)} {{"]
    lines += function_text(module, jaxpr, _header("public @main", args, jaxpr.out_avals, marks), args, consts)
    while module.pending:
        function, called = module.pending.popleft()
        args = [SSA(f"%arg{i}", var.aval) for i, var in enumerate(called.invars)]
        header = _header(f"private @{function}", args, called.out_avals, [""] * len(args))
        lines += function_text(module, called, header, args, ())
    lines.append("}\n")
    return "\n".join(lines)


def _header(name: str, args: Sequence[SSA], out_avals: Sequence[ShapedArray], marks: Sequence[str]) -> str:
    inputs = ", ".join([f"{arg.name}: {type_text(arg.aval)}{mark}" for arg, mark in zip(args, marks, strict=True)])
    return f"  func.func {name}({inputs}) -> {types_text(out_avals)} {{"


def _donation_marks(
    avals: Sequence[ShapedArray], out_avals: Sequence[ShapedArray], donated: Sequence[bool]
) -> list[str]:
    """What to write behind the type of each argument.

    A donated argument gives its memory to the first result of the same type that has none yet. If there is none, XLA
    may use the memory as it likes.
    """
    marks = [""] * len(avals)
    if not any(donated):
        return marks
    free: defaultdict[tuple[Shape, DType], deque[int]] = defaultdict(deque)
    for i, aval in enumerate(out_avals):
        free[aval.shape, aval.dtype].append(i)
    for i, (aval, donate) in enumerate(zip(avals, donated, strict=True)):
        if donate:
            results = free[aval.shape, aval.dtype]
            marks[i] = (
                f" {{tf.aliasing_output = {results.popleft()} : i32}}" if results else " {jax.buffer_donor = true}"
            )
    return marks
