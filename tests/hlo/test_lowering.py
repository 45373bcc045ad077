"""The text of lowered programs: golden files, structure, and what can't be lowered."""

from __future__ import annotations

import subprocess
import sys
from collections.abc import Callable, Sequence
from typing import ClassVar, TypeAlias, cast, final

import numpy as np
import pytest
from attrs import frozen
from typing_extensions import override

from tests.golden import Golden
from tests.hlo.programs import run
from tests.primitives.array_catalog import aval
from tinyjax.contexts.devices import single_equation
from tinyjax.contexts.staging import StagingContext
from tinyjax.control.call import Call
from tinyjax.errors import ChoiceError, InputError, LoweringError, MissingRuleError
from tinyjax.hlo import CPU_RULES, GPU_RULES, RULES, lower, rules_for
from tinyjax.hlo.context import SSA, LoweringContext, LoweringRules
from tinyjax.ir.aval import ShapedArray
from tinyjax.ir.dtypes import FLOAT32, INT32
from tinyjax.ir.primitive import Primitive
from tinyjax.ir.program import Atom, ClosedJaxpr, Eqn, Jaxpr, Literal, Var
from tinyjax.ir.rules import RuleTable
from tinyjax.ir.source import SourceInfo
from tinyjax.ir.value import ConcreteValue
from tinyjax.primitives import special
from tinyjax.primitives.collectives import AxisIndex
from tinyjax.primitives.comparison import lt
from tinyjax.primitives.contractions import DotGeneral, Precision
from tinyjax.primitives.conversion import convert
from tinyjax.primitives.cumulative import CumLogSumExp, CumSum
from tinyjax.primitives.elementwise import add, mul, scale
from tinyjax.primitives.reductions import ArgMax, ReduceMax
from tinyjax.primitives.selection import select
from tinyjax.primitives.slicing import Pad, Slice
from tinyjax.primitives.sorting import Sort
from tinyjax.primitives.structure import broadcast_in_dim, reduce_sum
from tinyjax.primitives.trigonometric import sin

F32 = ShapedArray((), FLOAT32)
Build: TypeAlias = Callable[..., Atom | tuple[Atom, ...]]


def program(build: Build, *types: str) -> Jaxpr:
    """The program that a function of a staging context and atoms builds."""
    ctx = StagingContext()
    outs = build(ctx, *[ctx.argument(aval(text)) for text in types])
    return ctx.finish(outs if isinstance(outs, tuple) else (outs,)).jaxpr


def calling(jaxpr: Jaxpr, times: int, name: str = "inner") -> Jaxpr:
    """A program of one input and output that applies such a program several times in a row."""
    variables = [Var(i, jaxpr.invars[0].aval) for i in range(times + 1)]
    eqns = [Eqn(Call(name, jaxpr), (variables[i],), (variables[i + 1],)) for i in range(times)]
    return Jaxpr((variables[0],), tuple(eqns), (variables[-1],))


SINE = single_equation(sin, (F32,))


def scalars(ctx: StagingContext, x: Atom, n: Atom) -> Atom:
    """The same constant twice, repeated to the same shape."""
    return mul(ctx, scale(ctx, add(ctx, x, n), 0.1), convert(ctx, scale(ctx, n, 0.1), FLOAT32))


def network(ctx: StagingContext, x: Atom, w: Atom, b: Atom) -> tuple[Atom, ...]:
    (product,) = ctx.bind(DotGeneral((((1,), (0,)), ((), ())), Precision.HIGHEST), x, w)
    y = add(ctx, product, broadcast_in_dim(ctx, b, (2, 4), (1,)))
    zero = ctx.constant(Literal.of(0.0, FLOAT32))
    y = select(ctx, lt(ctx, y, zero), zero, y)
    return reduce_sum(ctx, y, (0, 1)), *ctx.bind(special.erf, y)


def binding(primitive: Primitive) -> Build:
    return lambda ctx, *args: ctx.bind(primitive, *args)


PROGRAMS: dict[str, tuple[Build, tuple[str, ...]]] = {
    "scalars": (scalars, ("float32[3]", "float32[]")),
    "network": (network, ("float32[2,3]", "float32[3,4]", "float32[4]")),
    "argmax": (binding(ArgMax((1,), INT32)), ("float32[2,3]",)),
    "complex_max": (binding(ReduceMax((0,))), ("complex64[3]",)),
    "cumsum": (binding(CumSum(1, True)), ("bfloat16[2,5]",)),
    "cumlogsumexp": (binding(CumLogSumExp(0)), ("float32[4]",)),
    "sort": (binding(Sort(0, True, 2)), ("int32[5]", "float32[5]", "bool[5]")),
    "slices": (
        lambda ctx, x, v: ctx.bind(Slice((0, 1), (2, 3), (1, 2)), *ctx.bind(Pad(((1, 0, 2), (-1, 3, 0))), x, v)),
        ("int32[2,3]", "int32[]"),
    ),
}


@pytest.mark.parametrize("name", PROGRAMS)
def test_golden(name: str, golden: Golden) -> None:
    build, types = PROGRAMS[name]
    golden(name, lower(program(build, *types), name=name))


def test_golden_calls(golden: Golden) -> None:
    """One function for each distinct program, however often and under whatever names it is called."""
    shared = calling(calling(SINE, 2), 1, "middle")
    x, y, z = (Var(i, F32) for i in range(3))
    outer = Jaxpr((x,), (Eqn(Call("f", shared), (x,), (y,)), Eqn(Call("inner", SINE), (y,), (z,))), (z, y))
    text = lower(outer)
    golden("calls", text)
    assert text.count("func.func private") == 3


def test_golden_donated(golden: Golden) -> None:
    """A donated argument gives its memory to a result of its type; if there is none, XLA may use it otherwise."""
    types = ["float32[2]", "float32[2]", "float32[2]", "int32[2]", "float32[]"]
    jaxpr = program(lambda ctx, *args: (args[4], add(ctx, args[0], args[1]), mul(ctx, args[2], args[4])), *types)
    golden("donated", lower(jaxpr, donated=(False, True, True, True, False)))


def test_text_is_a_function_of_the_value() -> None:
    first, second = (program(network, "float32[2,3]", "float32[3,4]", "float32[4]") for _ in range(2))
    assert first is not second
    assert lower(first) == lower(second)


def test_equal_programs_with_different_names_are_one_function() -> None:
    x, y, z = (Var(i, F32) for i in range(3))
    copy = Jaxpr(SINE.invars, SINE.eqns, SINE.outvars)
    text = lower(Jaxpr((x,), (Eqn(Call("f", SINE), (x,), (y,)), Eqn(Call("g", copy), (y,), (z,))), (z,)))
    assert text.count("call @f(") == 2
    assert "@g" not in text


def test_different_programs_with_one_name() -> None:
    x, y, z = (Var(i, F32) for i in range(3))
    erf = single_equation(special.erf, (F32,))
    text = lower(Jaxpr((x,), (Eqn(Call("f", SINE), (x,), (y,)), Eqn(Call("f", erf), (y,), (z,))), (z,)))
    assert "private @f(" in text
    assert "private @f_1(" in text


def test_names_are_made_fit_for_mlir() -> None:
    text = lower(calling(SINE, 1, "<lambda>"), name="my function.<locals>")
    assert text.startswith("module @my_function._locals_ {")
    assert "private @_lambda_(" in text
    assert "private @main_1(" in lower(calling(SINE, 1, "main"))


def test_no_inputs_and_no_outputs() -> None:
    x = Var(0, F32)
    assert run(Jaxpr((), (), ())) == []
    assert run(Jaxpr((x,), (), ()), np.asarray(1, np.float32)) == []
    assert run(calling(SINE, 0), np.asarray(2, np.float32)) == [2]
    nothing = Jaxpr((x,), (Eqn(Call("nothing", Jaxpr((x,), (), ())), (x,), ()),), (x,))
    assert run(nothing, np.asarray(2, np.float32)) == [2]


def test_results_that_are_inputs_or_literals() -> None:
    x, y = Var(0, F32), Var(1, F32)
    jaxpr = Jaxpr((x, y), (), (y, Literal.of(2.5), x, y))
    assert run(jaxpr, np.asarray(3, np.float32), np.asarray(4, np.float32)) == [4, 2.5, 3, 4]


def test_several_results_of_a_call() -> None:
    x, y = Var(0, F32), Var(1, F32)
    inner = Jaxpr((x, y), (Eqn(mul, (x, y), (Var(2, F32),)),), (y, Var(2, F32), x))
    outs = tuple(Var(i, F32) for i in range(2, 5))
    jaxpr = Jaxpr((x, y), (Eqn(Call("swap", inner), (x, y), outs),), outs)
    assert "%0:3 = func.call @swap" in lower(jaxpr)
    assert run(jaxpr, np.asarray(3, np.float32), np.asarray(4, np.float32)) == [4, 12, 3]


@pytest.mark.sweep
def test_deep_nesting() -> None:
    jaxpr = SINE
    for _ in range(1000):
        x, y, z = (Var(i, F32) for i in range(3))
        jaxpr = Jaxpr((x,), (Eqn(Call("f", jaxpr), (x,), (y,)), Eqn(add, (x, y), (z,))), (z,))
    assert lower(jaxpr).count("func.func") == 1001
    assert run(jaxpr, np.asarray(1, np.float32)) == [pytest.approx(1000 + np.sin(1), rel=1e-5)]


def test_long_programs_cost_what_they_are_long() -> None:
    """The text of twice as many equations is twice as long."""

    def chain(count: int) -> Jaxpr:
        variables = [Var(i, F32) for i in range(count + 1)]
        eqns = tuple(Eqn(sin, (variables[i],), (variables[i + 1],)) for i in range(count))
        return Jaxpr((variables[0],), eqns, (variables[-1],))

    assert len(lower(chain(20_000)).splitlines()) == 20_000 + 5


@final
@frozen
class Mystery(Primitive):
    """A primitive that has a type, and no other rule."""

    name: ClassVar[str] = "mystery"

    @override
    def type_of(self, *avals: ShapedArray) -> tuple[ShapedArray, ...]:
        return avals


def test_a_missing_rule() -> None:
    x, y = Var(0, F32), Var(1, F32)
    eqn = Eqn(Mystery(), (x,), (y,), SourceInfo("model.py", 7, "loss"))
    with pytest.raises(MissingRuleError, match="Translation rule for 'mystery' not implemented. To add it, decorate "
                       r"a function with `@tinyjax.hlo.CPU_RULES.register\(Mystery\)`") as caught:  # fmt: skip
        lower(calling(Jaxpr((x,), (eqn,), (y,)), 1))
    assert caught.value.__notes__ == ["The equation comes from model.py:7 (loss)."]


def test_what_nothing_reads_needs_no_rule() -> None:
    x, y, z = Var(0, F32), Var(1, F32), Var(2, F32)
    unread = Jaxpr((x,), (Eqn(Mystery(), (x,), (y,)), Eqn(add, (y, y), (z,))), (x,))
    assert "return %arg0" in lower(calling(unread, 1))


def test_rules_of_a_platform_and_of_a_caller() -> None:
    table: LoweringRules = RuleTable("Translation", name="table", parent=RULES)

    @table.register(Mystery)
    def _(primitive: Mystery, ctx: LoweringContext, args: Sequence[SSA], types: Sequence[ShapedArray]) -> Sequence[SSA]:
        return ctx.bind(add, *args, *args)

    jaxpr = single_equation(Mystery(), (F32,))
    assert "stablehlo.add %arg0, %arg0" in lower(jaxpr, rules=table)
    assert rules_for("cpu") is CPU_RULES
    assert rules_for("cuda") is rules_for("gpu") is GPU_RULES
    assert rules_for("elsewhere") is RULES
    with pytest.raises(ChoiceError, match="platform is a name, such as 'cpu' or 'cuda', got 3"):
        rules_for(cast("str", 3))
    with pytest.raises(MissingRuleError, match="GPU_RULES"):
        lower(jaxpr, platform="cuda")


def test_named_axes_can_not_be_lowered() -> None:
    jaxpr = single_equation(AxisIndex("rows"), ())
    with pytest.raises(LoweringError, match=r"the program uses the named axis 'rows', which exists only inside `vmap"):
        lower(jaxpr)
    with pytest.raises(LoweringError, match="'rows'"):
        lower(ClosedJaxpr(Jaxpr((), (Eqn(Call("f", jaxpr), (), ()),), ())))


def test_donation_of_the_wrong_length() -> None:
    with pytest.raises(InputError, match="which of 1 arguments are donated; it has 2 entries"):
        lower(SINE, donated=(True, False))
    x = Var(0, F32)
    closed = ClosedJaxpr(Jaxpr((x,), (), (x,)), (ConcreteValue.of(np.float32(1)),))
    with pytest.raises(InputError, match="which of 0 arguments"):
        lower(closed, donated=(True,))


def test_lowering_needs_no_jax() -> None:
    code = (
        "import sys\n"
        "from tinyjax.hlo import lower\n"
        "from tinyjax.ir import Jaxpr\n"
        "assert 'func.func public @main() -> ()' in lower(Jaxpr((), (), ()))\n"
        "assert not {'jax', 'jaxlib'} & set(sys.modules)"
    )
    subprocess.run([sys.executable, "-c", code], check=True)


def concrete_primitives() -> list[type[Primitive]]:
    """The classes of primitives that the library itself defines."""
    found: list[type[Primitive]] = []
    pending: list[type[Primitive]] = [Primitive]
    while pending:
        for cls in pending.pop().__subclasses__():
            pending.append(cls)
            module = sys.modules[cls.__module__]
            # attrs makes a class anew to give it slots, and the first one may still be there.
            if module.__name__.startswith("tinyjax.") and getattr(module, cls.__name__, None) is cls:
                found.append(cls)
    # The importer has a primitive of its own, which says what is missing.
    return sorted(
        [cls for cls in found if "name" in vars(cls) and not cls.__name__.startswith("_")], key=lambda cls: cls.__name__
    )


@pytest.mark.parametrize("cls", concrete_primitives(), ids=lambda cls: cls.__name__)
def test_every_primitive_has_a_rule(cls: type[Primitive]) -> None:
    assert cls in rules_for("cpu") or cls.expand is not Primitive.expand  # or other primitives have them
