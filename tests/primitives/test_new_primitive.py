"""What CONTRIBUTING says a primitive takes: a class and one line of lowering. All else follows, as is seen here."""

from __future__ import annotations

import ast
import sys
from collections.abc import Iterator, Sequence
from pathlib import Path
from typing import ClassVar, Final, TypeVar, final

import attrs
import numpy as np
import pytest
from attrs import frozen
from typing_extensions import override

import tinyjax as tj
from tinyjax import Array, ShapedArray, extend, interpreters, ir
from tinyjax.arrays.elementwise import inexact
from tinyjax.errors import UnsupportedError
from tinyjax.hlo.context import SSA, LoweringContext
from tinyjax.hlo.rules.arithmetic import computed
from tinyjax.hlo.tables import RULES
from tinyjax.interop.jax import to_jax
from tinyjax.ir.context import Context
from tinyjax.ir.dtypes import FLOATS, HostArray
from tinyjax.lax.binding import strict, strict_pair
from tinyjax.primitives.arithmetic import abs_, div, reciprocal
from tinyjax.primitives.elementwise import Binary, Dtypes, NumPyFunction, Smooth, Unary, add, mul
from tinyjax.primitives.exponential import sqrt
from tinyjax.primitives.structure import constant_like
from tinyjax.registered.first_order import FIRST_ORDER, primitives_of
from tinyjax.testing import check_laws
from tinyjax.tools import cost

V = TypeVar("V")


def _softsign(x: HostArray) -> HostArray:
    return np.asarray(x / (1 + np.abs(x)))


def _one_and_magnitude(ctx: Context[V], x: V) -> V:
    return add(ctx, abs_(ctx, x), constant_like(ctx, x, 1))


# In a module of `primitives`:


@final
@frozen
class Softsign(Unary):
    name: ClassVar[str] = "softsign"
    accepts: ClassVar[Dtypes] = FLOATS
    function: ClassVar[NumPyFunction] = _softsign

    @override
    def derivative(self, ctx: Context[V], x: V, y: V) -> V:
        slope = reciprocal(ctx, _one_and_magnitude(ctx, x))
        return mul(ctx, slope, slope)


@final
@frozen
class Hypot(Binary):
    name: ClassVar[str] = "hypot"
    accepts: ClassVar[Dtypes] = FLOATS
    function: ClassVar[NumPyFunction] = np.hypot

    @override
    def left(self, ctx: Context[V], t: V, x: V, y: V, out: V) -> V:
        return mul(ctx, t, div(ctx, x, out))

    @override
    def right(self, ctx: Context[V], t: V, x: V, y: V, out: V) -> V:
        return mul(ctx, t, div(ctx, y, out))


softsign: Final = Softsign()
hypot: Final = Hypot()

# In `hlo.rules`:

RULES[Softsign] = computed(lambda ctx, x: div(ctx, x, _one_and_magnitude(ctx, x)))


@RULES.register(Hypot)
def _hypot(_: Hypot, ctx: LoweringContext, args: Sequence[SSA], types: Sequence[ShapedArray]) -> Sequence[SSA]:
    x, y = args
    return (sqrt(ctx, add(ctx, mul(ctx, x, x), mul(ctx, y, y))),)


# In `lax`, and in `numpy`:


def strictly(x: tj.ArrayLike) -> Array:
    return strict(softsign, x)


def promoted(x: tj.ArrayLike) -> Array:
    return inexact(softsign, extend.as_array(x))


def strictly_of_two(x: tj.ArrayLike, y: tj.ArrayLike) -> Array:
    return strict_pair(hypot, x, y)


REGISTRY: Final = ir.STANDARD.extended(*primitives_of(sys.modules[__name__]))
POINTS: Final = np.array([-3.0, -0.25, 0.0, 0.5, 8.0])


def test_it_is_registered() -> None:
    assert list(primitives_of(sys.modules[__name__])) == [Softsign, Hypot]
    assert str(tj.make_jaxpr(strictly)(0.5)) == "{ lambda ; a:~f64[]. let b:~f64[] = softsign a in (b,) }"


@pytest.mark.parametrize("dtype", ["float64", "float32"])
def test_every_law_holds(dtype: str) -> None:
    """Values, types, text, files, compilation, passes, derivatives in any nesting, batching."""
    x = POINTS.astype(dtype)
    np.testing.assert_allclose(strictly(x), x / (1 + abs(x)), rtol=1e-6)
    report = check_laws(tj.make_jaxpr(lambda x: strictly(x) * x)(x), [x + 0.125], registry=REGISTRY)
    assert {"text", "files", "compilation", "batch", "jvp", "finite_differences", "transpose"} <= set(report.checked)


def test_every_law_holds_of_two_operands() -> None:
    program = tj.make_jaxpr(lambda x, y: strictly_of_two(x, y) * strictly_of_two(2.0, x))(POINTS, POINTS)
    report = check_laws(program, [POINTS + 0.125, POINTS[::-1] + 0.125], registry=REGISTRY)
    assert {"text", "files", "compilation", "batch", "jvp", "finite_differences", "transpose"} <= set(report.checked)


def test_promotion() -> None:
    assert promoted(3).dtype == np.float64
    assert tj.jit(promoted)(True) == 0.5
    with pytest.raises(tj.errors.TypingError, match="softsign does not accept i64 operands; it accepts floats"):
        strictly(3)


def test_the_tools_know_it() -> None:
    program = tj.make_jaxpr(strictly)(ShapedArray((100,), "float32"))
    assert cost.program_cost(program).total.fixed == cost.Cost(transcendentals=100, bytes=800)
    of_two = tj.make_jaxpr(strictly_of_two)(ShapedArray((100,), "float32"), ShapedArray((), "float32"))
    assert cost.program_cost(of_two).total.fixed == cost.Cost(transcendentals=100, bytes=804)
    low, high = interpreters.bounds(strictly_of_two)((POINTS, 1.0), (POINTS + 1, 1.0))
    assert np.all(low <= np.hypot(POINTS, 1))
    assert np.all(high >= np.hypot(POINTS + 1, 1))
    low, high = interpreters.bounds(strictly)(POINTS, POINTS + 1)
    assert np.all(low <= strictly(POINTS))
    assert np.all(high >= strictly(POINTS + 1))
    np.testing.assert_array_equal(interpreters.jacobian_sparsity(strictly, POINTS), np.eye(5, dtype=bool))


def test_jax_does_not_know_it_and_says_so() -> None:
    with pytest.raises(UnsupportedError, match=r"JAX has nothing for these primitives.*softsign"):
        to_jax(tj.make_jaxpr(strictly)(0.5))


#: Where something particular may be said of a primitive. Nothing need be.
SPECIAL: Final = ("transforms/simplify_", "interpreters/interval_", "interpreters/inverse_", "interpreters/jet_")


def classes_used(code: str) -> Iterator[str]:
    """What a file uses of modules of primitives, by full names: `from module import Name`, or `module.Name`."""
    modules: dict[str, str] = {}
    for node in ast.walk(ast.parse(code)):
        if isinstance(node, ast.ImportFrom) and node.module == "tinyjax.primitives":
            modules |= {item.asname or item.name: f"{node.module}.{item.name}" for item in node.names}
        elif isinstance(node, ast.ImportFrom) and node.module is not None:
            yield from (f"{node.module}.{item.name}" for item in node.names)
        elif isinstance(node, ast.Attribute) and isinstance(node.value, ast.Name) and node.value.id in modules:
            yield f"{modules[node.value.id]}.{node.attr}"


def test_no_table_names_each_smooth_function() -> None:
    """The classes of smooth functions without parameters stand in their module, in a lowering, and where there is more
    to say of them than their family does."""
    source = Path(tj.__file__).parent
    smooth = {
        cls
        for cls in FIRST_ORDER
        if issubclass(cls, Smooth) and {each.name for each in attrs.fields(cls)} <= {"accuracy"}
    }
    names = {f"{cls.__module__}.{cls.__name__}" for cls in smooth}
    assert len(names) > 25
    found: dict[str, set[str]] = {}
    for path in source.rglob("*.py"):
        name, code = path.relative_to(source).as_posix(), path.read_text(encoding="utf-8")
        if "tinyjax.primitives" in code and not name.startswith(("hlo/rules/", *SPECIAL)):
            classes = {full.rpartition(".")[2] for full in names.intersection(classes_used(code))}
            found |= {name: classes} if classes else {}
    expected = {
        "contexts/rebuilding.py": {"Abs", "Square"},
        "control/remade.py": {"Rsqrt", "Sqrt"},
        "tools/cost/rules.py": {"Abs", "Logistic", "Square"},
        "transforms/added_checks.py": {"Abs"},
        "transforms/lost_nans.py": {"Abs", "Exp", "Exp2", "Log"},  # of softmaxes
        "transforms/subtracted_maxima.py": {"Abs", "Exp", "Log"},  # of softmaxes
    }
    assert found == expected, "say it of a family, or in the class"
