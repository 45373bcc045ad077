"""`from_jax(to_jax(p)) == p`, up to what JAX adds or leaves out, which is spelled out here case by case."""

from __future__ import annotations

from collections.abc import Sequence
from itertools import chain

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from jax.extend.core import primitives

import tinyjax as tj
import tinyjax.numpy as tnp
from tests.api.families import FUNCTIONS, TRANSFORMATIONS, Ours
from tests.control import loops
from tests.hlo.programs import side_by_side
from tests.primitives import array_catalog, catalog
from tests.strategies import programs
from tests.transforms import pass_programs
from tinyjax import Array, ArrayLike, ClosedJaxpr, Jaxpr, ShapedArray, ir, lax
from tinyjax.contexts.devices import single_equation
from tinyjax.control.cond import Cond
from tinyjax.extend import bind
from tinyjax.interop.jax import from_jax, to_jax
from tinyjax.interop.jax_context import TO_JAX
from tinyjax.ir.dtypes import BOOL
from tinyjax.primitives.constant import Constant
from tinyjax.primitives.conversion import ConvertElementType
from tinyjax.primitives.incomplete import RandomGammaGrad, RandomGammaGradA
from tinyjax.primitives.selection import clamp, select_n
from tinyjax.primitives.threefry import Threefry2x32
from tinyjax.registered.first_order import FIRST_ORDER


def there_and_back(program: Jaxpr | ClosedJaxpr) -> ClosedJaxpr:
    consts = len(program.consts) if isinstance(program, ClosedJaxpr) else 0
    back = from_jax(to_jax(program), *program.in_avals[0 if isinstance(program, ClosedJaxpr) else consts :])
    ir.typecheck(back)
    return back


def check(program: Jaxpr | ClosedJaxpr) -> None:
    closed = program if isinstance(program, ClosedJaxpr) else ClosedJaxpr(program)
    assert there_and_back(program) == closed


@settings(max_examples=30, deadline=None)
@given(programs(depth=2))
def test_generated_programs(program: Jaxpr) -> None:
    check(program)


@settings(max_examples=10, deadline=None)
@given(pass_programs.FORWARD)
def test_generated_programs_with_control_flow(program: Jaxpr) -> None:
    check(program)


def changes_nothing(primitive: ir.Primitive, avals: Sequence[ShapedArray]) -> bool:
    return isinstance(primitive, ConvertElementType) and primitive.type_of(*avals) == tuple(avals)


def elementwise_applications() -> list[tuple[ir.Primitive, tuple[ShapedArray, ...]]]:
    """Every elementwise primitive with every dtype: on arrays, on weak scalars, and on a scalar with arrays."""
    found = []
    for entry, dtype in catalog.CASES:
        dtypes = entry.operands(dtype)
        arrays = tuple(ShapedArray((2,), dt) for dt in dtypes)
        scalars = tuple(ShapedArray((), dt, dt != BOOL) for dt in dtypes)
        mixed = tuple(ShapedArray((2,) if i else (), dt) for i, dt in enumerate(dtypes))
        found += [(entry.primitive, avals) for avals in (arrays, scalars, mixed)]
    return [
        (primitive, avals)
        for primitive, avals in found
        if not changes_nothing(primitive, avals)
        and not TO_JAX.reason(type(primitive))
        and not isinstance(primitive, (RandomGammaGrad, RandomGammaGradA))  # functions there, of several primitives
    ]


def test_what_jax_lacks_is_said() -> None:
    names = {cls.name for cls in FIRST_ORDER if cls not in TO_JAX}
    assert all(TO_JAX.reason(cls) for cls in FIRST_ORDER if cls.name in names)
    assert not [name for name in names if hasattr(primitives, f"{name}_p")]


def test_every_elementwise_primitive() -> None:
    check(side_by_side(elementwise_applications()))


def test_every_other_primitive() -> None:
    cases = [(case.primitive, case.avals) for case in array_catalog.CASES]
    check(side_by_side([found for found in cases if not found[0].params.get("nan_mode")]))  # JAX has one maximum


OURS: dict[str, Ours] = {
    name: ours for name, (ours, _) in chain(FUNCTIONS.items(), loops.SCANS.items(), loops.WHILES.items())
}


@pytest.mark.parametrize("name", OURS)
def test_functions(name: str) -> None:
    check(tj.make_jaxpr(OURS[name])(ShapedArray((), "float64")))


@pytest.mark.parametrize("transformation", TRANSFORMATIONS)
@pytest.mark.parametrize("name", ["nested", "vector", "conditional"])
def test_transformed_functions(name: str, transformation: str) -> None:
    check(tj.make_jaxpr(TRANSFORMATIONS[transformation][0](OURS[name]))(ShapedArray((), "float64")))


def test_functions_with_derivatives_of_their_own() -> None:
    @tj.custom_jvp
    def f(x: Array, y: Array) -> Array:
        return tnp.sin(x) * y

    @f.defjvp
    def _f_jvp(primals: tuple[Array, Array], tangents: tuple[Array, Array]) -> tuple[Array, Array]:
        x, y = primals
        return f(x, y), tangents[0] * tnp.cos(x) + tangents[1] * f(x, x)

    @tj.custom_vjp
    def g(x: Array, n: Array) -> Array:
        return x * x * n

    def forward(x: Array, n: Array) -> tuple[Array, tuple[Array, Array]]:
        return g(x, n), (x, tnp.sin(x))

    def backward(residuals: tuple[Array, Array], ct: Array) -> tuple[Array, None]:
        return ct * residuals[0] * residuals[1] + g(ct, tnp.asarray(2)), None

    g.defvjp(forward, backward)

    def both(x: Array) -> Array:
        slope: Array = tj.grad(lambda y: f(y, y) * g(y, tnp.asarray(2)))(x)
        return f(x, tnp.asarray(2.0)) + g(x, tnp.asarray(3)) + slope

    check(tj.make_jaxpr(both)(ShapedArray((), "float64")))


def test_checkpoints() -> None:
    policies = tj.checkpoint_policies
    both = policies.save_from_both_policies(policies.dots_saveable, policies.save_only_these_names("s"))
    for policy in (None, policies.everything_saveable, policies.save_anything_except_these_names("s"), both):

        def f(x: Array, policy: policies.Policy | None = policy) -> Array:
            wave = tj.checkpoint(lambda y: tnp.sum(tnp.sin(tj.checkpoint_name(tnp.sin(y @ y), "s"))), policy=policy)
            slope: Array = tj.grad(wave)(x)
            return slope[0, 0] + tnp.asarray(wave(x))

        check(tj.make_jaxpr(f)(ShapedArray((2, 2), "float32")))


def test_equations_come_from_the_line_that_calls_the_function() -> None:
    back = there_and_back(tj.make_jaxpr(tj.jit(tnp.sin))(ShapedArray((), "float64")))
    files = {eqn.source.file for jaxpr in ir.nested_programs(back.jaxpr) for eqn in jaxpr.eqns if eqn.source}
    assert files == {__file__}


# What JAX adds, and what it leaves out.


def test_conversions_that_change_nothing_are_left_out() -> None:
    aval = ShapedArray((2,), "float32")
    program = single_equation(ConvertElementType("float32"), (aval,))
    assert there_and_back(program) == ClosedJaxpr(tj.make_jaxpr(lambda x: x)(aval).jaxpr)


def test_constants_come_in_the_order_of_use_once_and_not_if_nothing_reads_them() -> None:
    a, b, c = (tnp.asarray([float(i), 1.0]) for i in range(3))
    twice = tj.make_jaxpr(lambda x: (a * x) + (b * x) + (a * x))(ShapedArray((2,), "float64"))
    check(twice)
    value = ir.ConcreteValue.of(np.asarray([5.0, 6.0]))
    shuffled = tj.make_jaxpr(lambda x: (c, a, x)[2] * a)(ShapedArray((2,), "float64"))
    assert len(shuffled.consts) == 1
    check(shuffled)
    aval = ShapedArray((2,), "float64")
    unused = ClosedJaxpr(tj.make_jaxpr(lambda k, x: x * x)(aval, aval).jaxpr, (value,))
    assert there_and_back(unused) == tj.make_jaxpr(lambda x: x * x)(aval)


def test_constant_equations_become_constants_of_the_whole_program() -> None:
    value = ir.ConcreteValue.of(np.asarray([5.0, 6.0]))
    program = single_equation(Constant(value), ())
    assert there_and_back(program).consts == (value,)
    assert there_and_back(program).eqns == ()


def test_scalar_cases_of_a_selection_are_broadcast() -> None:
    aval, scalar = ShapedArray((2,), "float32"), ShapedArray((), "float32")
    program = single_equation(select_n, (ShapedArray((2,), "bool"), scalar, aval))
    assert [eqn.primitive.name for eqn in there_and_back(program).eqns] == ["broadcast_in_dim", "select_n"]
    clamped = single_equation(clamp, (aval, scalar, aval))
    assert [eqn.primitive.name for eqn in there_and_back(clamped).eqns] == ["broadcast_in_dim", "clamp"]


def test_selectors_of_other_dtypes_are_converted() -> None:
    aval = ShapedArray((2,), "float32")
    program = single_equation(select_n, (ShapedArray((2,), "int8"), aval, aval, aval))
    names = [eqn.primitive.name for eqn in there_and_back(program).eqns]
    assert names == ["clamp", "convert_element_type", "select_n"]


def test_results_of_convolutions_that_jax_takes_no_dtype_for() -> None:
    """It wants numbers of the same kind that aren't shorter."""

    def f(x: ArrayLike, k: ArrayLike, dtype: str) -> Array:
        return tj.lax.conv_general_dilated(x, k, (1,), "VALID", preferred_element_type=dtype)

    for old, new in (("int32", "uint32"), ("uint16", "float32"), ("float64", "float16")):
        x, k = (np.arange(size).reshape(shape).astype(old) for size, shape in ((5, (1, 1, 5)), (2, (1, 1, 2))))
        theirs = to_jax(tj.make_jaxpr(lambda x, k, new=new: f(x, k, new))(x, k))(x, k)
        assert theirs.dtype == new
        np.testing.assert_array_equal(theirs, f(x, k, new))


def test_scalar_operands_of_a_hash_are_broadcast() -> None:
    scalar, many = ShapedArray((), "uint32"), ShapedArray((2,), "uint32")
    program = single_equation(Threefry2x32(), (many, scalar, many, many))
    x = np.arange(2, dtype="uint32")
    args = x, x[1], x + x, x
    for ours, theirs in zip(bind(Threefry2x32(), *args), to_jax(program)(*args), strict=True):
        np.testing.assert_array_equal(theirs, ours)


def test_a_cond_of_one_branch_is_that_branch() -> None:
    branch = tj.make_jaxpr(tnp.sin)(ShapedArray((), "float64")).jaxpr
    program = single_equation(Cond((branch,)), (ShapedArray((), "int32"), *branch.in_avals))
    assert [eqn.primitive.name for eqn in there_and_back(program).eqns] == ["sin"]


def test_values_that_a_rule_closes_over_become_arguments() -> None:
    def f(x: Array) -> Array:
        @tj.custom_jvp
        def inner(y: Array) -> Array:
            return tnp.sin(y) * x

        @inner.defjvp
        def _rule(primals: tuple[Array], tangents: tuple[Array]) -> tuple[Array, Array]:
            return inner(*primals), tangents[0] * x

        out: Array = lax.scan(lambda c, _: (inner(c), None), x, None, length=2)[0]
        return out

    program = tj.make_jaxpr(f)(ShapedArray((), "float64"))
    (scan,) = there_and_back(program).eqns
    body = scan.params["jaxpr"]
    assert isinstance(body, Jaxpr)
    # The first one keeps the value from being differentiated with respect to.
    applied = [(eqn.params["function_name"], eqn.params["num_captured"]) for eqn in body.eqns]
    assert applied == [("inner_captured", 0), ("inner", 0)]


def test_mapped_functions_with_rules_are_functions_with_mapped_rules() -> None:
    @tj.custom_jvp
    def f(x: Array) -> Array:
        return tnp.sin(x)

    f.defjvp(lambda primals, tangents: (f(*primals), tangents[0] * 3.0))
    program = tj.make_jaxpr(tj.vmap(f))(ShapedArray((3,), "float64"))
    assert [eqn.primitive.name for eqn in program.eqns] == ["mapped_custom"]
    back = there_and_back(program)
    assert [eqn.primitive.name for eqn in back.eqns] == ["custom_jvp"]
    derived = tj.jvp(lambda x: tj.eval_jaxpr(back, (), x)[0], (tnp.ones(3),), (tnp.ones(3),))[1]
    np.testing.assert_array_equal(derived, 3.0)


@given(st.sampled_from([float("nan"), float("inf"), -0.0, 1.0, 5e-324]), st.booleans())
@settings(max_examples=10, deadline=None)
def test_literals_to_the_bit(value: float, weak: bool) -> None:
    literal = ir.Literal(value, ShapedArray((), "float64", weak))
    x = ir.Var(0, ShapedArray((), "float64"))
    check(Jaxpr((x,), (), (literal, x)))
