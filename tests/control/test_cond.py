"""`cond` and `switch`, against jax, and every rule of the primitive."""

from __future__ import annotations

from collections.abc import Callable
from functools import partial
from types import FunctionType, ModuleType
from typing import Any, ClassVar, TypeAlias, final

import jax
import jax.numpy as jnp
import numpy as np
import pytest
from attrs import frozen
from typing_extensions import override

import tinyjax as tj
import tinyjax.numpy as tnp
from tests.api.matching import assert_matches
from tests.golden import Golden
from tinyjax import Array, ArrayLike, ShapedArray, ir, lax, transforms
from tinyjax.contexts.evaluation import EvalContext
from tinyjax.control.branches import divide
from tinyjax.control.cond import Cond
from tinyjax.errors import (
    BatchedPredicateError,
    ConcretizationError,
    InputError,
    LinearityError,
    ParameterError,
    TreeError,
    TypingError,
)
from tinyjax.ir import Effect, Effects, Jaxpr, Primitive
from tinyjax.ir.dtypes import HostArray
from tinyjax.ir.primitive import CondPolicy
from tinyjax.ir.traverse import nested_programs
from tinyjax.tracing.concrete import as_array
from tinyjax.tracing.core import bind

F64 = ShapedArray((), "float64")
F32 = ShapedArray((), "float32")
VEC = ShapedArray((3,), "float64")
I32 = ShapedArray((), "int32")
BATCH = np.array([-2.0, -0.5, 0.0, 0.5, 3.0])

#: For calls that type checkers refuse, as they should.
any_cond: Callable[..., object] = lax.cond
any_switch: Callable[..., object] = lax.switch

#: A function written once: for `tinyjax` with its `numpy` and `lax`, or for those of jax.
Make: TypeAlias = Callable[[ModuleType], Callable[..., Any]]


def numpy_of(m: ModuleType) -> ModuleType:
    return jnp if m is jax else tnp


def agree(make: Make, *args: object) -> None:
    """Both libraries agree on a function: run eagerly, compiled, and as a program, which is well typed throughout."""
    expected = make(jax)(*args)
    ours = make(tj)
    assert_matches(ours(*args), expected)
    assert_matches(tj.jit(ours)(*args), expected)
    closed, shape = tj.make_jaxpr(ours, return_shape=True)(*args)
    for program in nested_programs(closed.jaxpr):
        ir.typecheck(program)
    outs = tj.eval_jaxpr(closed, (), *tj.tree.leaves(args))
    assert_matches(tj.tree.unflatten(tj.tree.structure(shape), outs), expected)


def total(make: Make) -> Make:
    """The sum of all elements of all results."""

    def made(m: ModuleType) -> Callable[..., Any]:
        f = make(m)
        return lambda *args: sum(numpy_of(m).sum(leaf) for leaf in m.tree.leaves(f(*args)))

    return made


def grad(make: Make, argnums: int | tuple[int, ...] = 0) -> Make:
    return lambda m: m.grad(total(make)(m), argnums)


def vmap(make: Make, *in_axes: int | None) -> Make:
    return lambda m: m.vmap(make(m), in_axes=in_axes)


def jvp(make: Make, position: int = 0) -> Make:
    """The results and their tangents in the direction of ones of one argument."""

    def made(m: ModuleType) -> Callable[..., Any]:
        def f(*args: Any) -> Any:
            def one(x: Any) -> Any:
                return make(m)(*args[:position], x, *args[position + 1 :])

            return m.jvp(one, (args[position],), (numpy_of(m).ones_like(args[position]),))

        return f

    return made


def signed(m: ModuleType) -> Callable[..., Any]:
    n = numpy_of(m)
    return lambda x: m.lax.cond(x > 0, lambda y: n.sin(y) * x, lambda y: y**2 + 1.0, x)


def trees(m: ModuleType) -> Callable[..., Any]:
    """With trees in and out, and a result that depends on an operand in one branch only."""
    n = numpy_of(m)

    def swap(a: dict[str, Any], b: tuple[Any, ...]) -> Any:
        return {"y": b[0] * 2.0, "x": (a["v"], None), "n": n.int32(1)}

    def keep(a: dict[str, Any], b: tuple[Any, ...]) -> Any:
        return {"y": n.sum(a["v"]) * b[0], "x": (n.cos(a["v"]) * b[0], None), "n": n.int32(2)}

    return lambda p, v, s: m.lax.cond(p, swap, keep, {"v": v}, (s,))


def switched(m: ModuleType) -> Callable[..., Any]:
    """Branches that close over different values."""
    n = numpy_of(m)

    def f(i: Any, x: Any, w: Any) -> Any:
        outer = n.exp(w)
        branches = [n.sin, lambda y: y * outer + w, n.zeros_like, lambda _: outer * n.arange(3.0)]
        return m.lax.switch(i, branches, x)

    return f


VECTOR = np.array([0.3, -1.2, 2.0])
SCALAR = np.float64(0.7)


@pytest.mark.sweep
@pytest.mark.parametrize("x", [-2.0, 0.0, 3.0])
def test_cond_of_scalars(x: float) -> None:
    point = np.float64(x)
    agree(signed, point)
    agree(grad(signed), point)
    agree(grad(grad(signed)), point)
    agree(jvp(grad(signed)), point)
    agree(grad(jvp(signed)), point)


@pytest.mark.sweep
@pytest.mark.parametrize("predicate", [True, False])
def test_trees(predicate: bool) -> None:
    args = np.bool_(predicate), VECTOR, SCALAR
    agree(trees, *args)
    agree(grad(trees, (1, 2)), *args)
    agree(jvp(trees, 2), *args)
    agree(grad(grad(trees, 2), (1, 2)), *args)


@pytest.mark.sweep
@pytest.mark.parametrize("index", [-1, 0, 1, 2, 3, 9])
def test_switch_clamps_its_index(index: int) -> None:
    args = index, VECTOR, SCALAR
    agree(switched, *args)
    agree(grad(switched, (1, 2)), *args)
    agree(jvp(switched, 2), *args)


def test_switch_takes_indices_of_every_integer_type() -> None:
    branches = [lambda x, i=i: x + float(i) for i in range(200)]
    for dtype in ("int8", "uint8", "int16", "uint16", "int32", "uint32", "int64", "uint64"):
        for value in (0, 1, 127):
            assert float(lax.switch(np.asarray(value, dtype), branches, 0.0)) == value
        limits = np.iinfo(dtype)
        assert float(lax.switch(np.asarray(limits.min, dtype), branches, 0.0)) == 0
        assert float(lax.switch(np.asarray(limits.max, dtype), branches, 0.0)) == min(limits.max, 199)


@pytest.mark.sweep
@pytest.mark.parametrize("axes", [(0,), (1,), (-1,)])
def test_mapped_predicate(axes: tuple[int]) -> None:
    batch = np.stack([BATCH, -BATCH, BATCH + 0.25])
    one = vmap(signed, 0)
    agree(one, BATCH)
    agree(vmap(one, *axes), batch)
    agree(grad(vmap(one, *axes)), batch)
    agree(vmap(grad(one), *axes), batch)


@pytest.mark.parametrize(
    "axes",
    [
        *((None, 0, None), (0, 1, None), (0, 0, 0)),
        *(pytest.param(a, marks=pytest.mark.sweep) for a in ((None, None, 0), (0, None, None), (None, 1, 0))),
    ],
)
def test_vmap_of_trees_and_switches(axes: tuple[int | None, ...]) -> None:
    size = 4
    v = VECTOR if axes[1] is None else np.stack([VECTOR * k for k in range(size)], axes[1])
    s = SCALAR if axes[2] is None else np.arange(size) / 3.0
    p = np.bool_(True) if axes[0] is None else np.array([True, False, True, False])
    i = 1 if axes[0] is None else np.array([3, 1, 7, 0])
    for make, chosen in ((trees, p), (switched, i)):
        agree(vmap(make, *axes), chosen, v, s)
        agree(grad(vmap(make, *axes), (1, 2)), chosen, v, s)
        agree(vmap(jvp(make, 1), *axes), chosen, v, s)
        agree(vmap(grad(make, 2), *axes), chosen, v, s)


def test_numbers_as_predicates() -> None:
    for predicate in (0, 1, -3, 0.0, 0.5, np.float32(0), np.uint8(2), np.bool_(False)):
        agree(lambda m: lambda p: m.lax.cond(p, lambda: 1.0, lambda: 2.0), predicate)


def test_one_branch_is_applied_as_it_is() -> None:
    agree(lambda m: lambda i, x: m.lax.switch(i, [numpy_of(m).sin], x), 5, VECTOR)
    assert isinstance(lax.switch(5, [lambda x: x], VECTOR), Array)
    assert "cond" not in str(tj.make_jaxpr(lambda i: lax.switch(i, [lambda: 1.0]))(0))


def test_no_operands_and_no_results() -> None:
    agree(lambda m: lambda p: m.lax.cond(p, lambda: None, lambda: None), True)
    agree(lambda m: lambda p, x: m.lax.cond(p, lambda: x, lambda: x + 1.0), True, VECTOR)


def test_weakness_is_unified() -> None:
    def mixed(m: ModuleType) -> Callable[..., Any]:
        return lambda p: m.lax.cond(p, lambda: 1.0, lambda: numpy_of(m).asarray(2.0, "float64") * 1)

    agree(mixed, True)
    agree(mixed, False)
    agree(lambda m: lambda p: m.lax.cond(p, lambda: 1.0, lambda: 2.0), True)
    # Where jax complains of the dtypes, a Python scalar takes the other one's.
    found = lax.cond(True, lambda x: 0.5, lambda x: x, np.float32(1))
    assert (as_array(found).aval, float(found)) == (F32, 0.5)
    assert as_array(lax.cond(False, lambda x: 1, lambda x: x, np.float32(1))).aval == F32


def test_linearize_and_linear_transpose() -> None:
    f = signed(tj)
    for x in (-1.5, 0.8):
        y, push = tj.linearize(f, x)
        expected, push_expected = jax.linearize(signed(jax), x)
        np.testing.assert_allclose(y, expected)
        np.testing.assert_allclose(push(2.0), push_expected(2.0))

    def linear(x: Array) -> Array:
        return lax.cond(True, lambda y: y * 3.0, lambda y: tnp.sum(y) * VECTOR, x)

    (found,) = tj.linear_transpose(linear, VECTOR)(VECTOR)
    np.testing.assert_allclose(found, 3 * VECTOR)


@pytest.mark.sweep
def test_values_of_enclosing_transformations() -> None:
    def ours(x: Array) -> Array:
        def inner(y: Array) -> Array:
            return lax.cond(y > x, lambda z: z * x * y, lambda z: tnp.sin(z * x) + y, y)

        found: Array = tj.grad(lambda y: tj.jvp(inner, (y,), (x,))[1])(x * 1.5)
        return found

    def theirs(x: jax.Array) -> jax.Array:
        def inner(y: jax.Array) -> Any:
            return jax.lax.cond(y > x, lambda z: z * x * y, lambda z: jnp.sin(z * x) + y, y)

        out: jax.Array = jax.grad(lambda y: jax.jvp(inner, (y,), (x,))[1])(x * 1.5)
        return out

    for x in (-0.7, 0.7):
        point, expected = tnp.asarray(x), theirs(jnp.asarray(x))
        for f in (ours, tj.jit(ours)):
            np.testing.assert_allclose(f(point), expected)
            np.testing.assert_allclose(tj.grad(f)(point), jax.grad(theirs)(jnp.asarray(x)))
        np.testing.assert_allclose(tj.vmap(ours)(tnp.asarray(BATCH)), jax.vmap(theirs)(jnp.asarray(BATCH)))


def test_results_share_no_memory() -> None:
    x, w = np.ones(3), np.ones(3)
    y, z = lax.cond(True, lambda x: (x, w), lambda x: (x, x), x)
    x[:] = w[:] = 2.0
    np.testing.assert_array_equal(y, np.ones(3))
    np.testing.assert_array_equal(z, np.ones(3))


def test_operands_on_a_device() -> None:
    x = tj.jit(lambda: tnp.arange(3.0))()
    assert x.platform != "host"
    y = lax.cond(True, lambda x: x * 2.0, lambda x: x, x)
    np.testing.assert_array_equal(y, [0.0, 2.0, 4.0])
    assert y.platform == x.platform
    np.testing.assert_array_equal(lax.cond(tnp.sum(x) > 5, lambda: x, lambda: -x), [0.0, -1.0, -2.0])


def test_float0() -> None:
    """Tangents of integers pass through, though programs don't hold them."""
    zeros = np.zeros((2,), tj.float0)
    found = lax.cond(True, lambda t, x: (t, x), lambda t, x: (t, -x), zeros, 1.0)
    assert found[0].aval == ShapedArray((2,), tj.float0)
    assert float(found[1]) == 1.0


@pytest.mark.sweep
def test_a_deep_nest() -> None:
    def nested(x: Array, depth: int) -> Array:
        jaxpr = tj.make_jaxpr(tnp.sin)(x).jaxpr
        for _ in range(depth):
            inner = jaxpr
            jaxpr = tj.make_jaxpr(
                lambda y: bind(Cond((inner, inner)), as_array(np.int32(1)), y)[0]  # noqa: B023 (called at once)
            )(x).jaxpr
        return bind(Cond((jaxpr,)), as_array(np.int32(0)), x)[0]

    def deep(x: Array) -> Array:
        return nested(x, 1100)

    x = tnp.asarray(0.5)
    np.testing.assert_allclose(deep(x), np.sin(0.5))
    np.testing.assert_allclose(tj.grad(deep)(x), np.cos(0.5))
    np.testing.assert_allclose(tj.vmap(deep)(tnp.asarray(BATCH)), np.sin(BATCH))


# How a batch of predicates is treated.


def primitives_in(f: Callable[..., object], *args: object) -> list[str]:
    closed = tj.make_jaxpr(f)(*args)
    ir.typecheck(closed)
    return [eqn.primitive.name for eqn in closed.eqns]


def test_the_choice_is_visible() -> None:
    f = signed(tj)
    assert "select_n" in primitives_in(tj.vmap(f), BATCH)
    assert "select_n" in primitives_in(tj.vmap(f, cond="select"), BATCH)
    assert not {"cond", "scan"} & set(primitives_in(tj.vmap(f), BATCH))
    found = primitives_in(tj.vmap(f, cond="map"), BATCH)
    assert "scan" in found
    assert "select_n" not in found


@pytest.mark.parametrize("make", [signed, grad(signed), jvp(signed), grad(grad(signed))])
def test_map_takes_the_elements_one_after_the_other(make: Make) -> None:
    expected = jax.vmap(make(jax))(BATCH)
    f = tj.vmap(make(tj), cond="map")
    assert_matches(f(BATCH), expected)
    assert_matches(tj.jit(f)(BATCH), expected)
    np.testing.assert_allclose(
        tj.grad(lambda x: sum(map(tnp.sum, tj.tree.leaves(f(x)))))(BATCH), grad(vmap(make, 0))(jax)(BATCH)
    )


def test_map_of_trees() -> None:
    p, v = np.array([True, False, True, False]), np.stack([VECTOR * k for k in range(4)], 1)
    expected = jax.vmap(trees(jax), in_axes=(0, 1, None))(p, v, SCALAR)
    assert_matches(tj.vmap(trees(tj), in_axes=(0, 1, None), cond="map")(p, v, SCALAR), expected)


def test_a_predicate_that_is_not_mapped_is_left_alone() -> None:
    policies: list[CondPolicy] = ["select", "map", "error"]
    for policy in policies:
        f = tj.vmap(trees(tj), in_axes=(None, 0, None), cond=policy)
        found = primitives_in(f, True, np.ones((4, 3)), 1.0)
        assert [name for name in found if name != "broadcast_in_dim"] == ["convert_element_type", "cond"]


def test_each_vmap_has_its_own_policy() -> None:
    batch = np.stack([BATCH, BATCH])
    with pytest.raises(BatchedPredicateError):
        tj.vmap(tj.vmap(signed(tj), cond="error"))(batch)
    # The inner one has made it a select_n already.
    tj.vmap(tj.vmap(signed(tj)), cond="error")(batch)
    with pytest.raises(BatchedPredicateError):
        tj.vmap(tj.vmap(lambda x, y: signed(tj)(x) + y, in_axes=(None, 0)), cond="error")(BATCH, batch.T)
    assert_matches(tj.vmap(tj.vmap(signed(tj), cond="map"))(BATCH[None]), jax.vmap(jax.vmap(signed(jax)))(BATCH[None]))
    # Within jit the policy of the vmap around it counts.
    with pytest.raises(BatchedPredicateError):
        tj.vmap(tj.jit(signed(tj)), cond="error")(BATCH)
    assert "scan" in str(tj.make_jaxpr(tj.vmap(tj.jit(signed(tj)), cond="map"))(BATCH))


def test_refusal_names_the_line() -> None:
    def f(x: Array) -> Array:
        return lax.cond(x > 0, tnp.sin, tnp.cos, x)  # this one

    line = f.__code__.co_firstlineno + 1
    for g in (f, tj.jit(f)):
        with pytest.raises(BatchedPredicateError, match=rf"cond at .*test_cond\.py:{line} \(.*\) differs from element"):
            tj.vmap(g, cond="error")(tnp.asarray(BATCH))


def test_unknown_policy() -> None:
    with pytest.raises(InputError, match="vmap: cond is 'select' or 'map' or 'error', got 'both'"):
        tj.vmap(tnp.sin, cond="both")  # type: ignore[arg-type]


def test_named_axes_in_branches() -> None:
    def reduced(m: ModuleType) -> Callable[..., Any]:
        return lambda p, x: m.lax.cond(p, lambda y: m.lax.psum(y, "i"), lambda y: y * 1.0, x)

    def mapped(at: int | None) -> Make:
        return lambda m: m.vmap(reduced(m), in_axes=(at, 0), axis_name="i")

    agree(mapped(None), np.bool_(True), BATCH)
    agree(mapped(None), np.bool_(False), BATCH)
    np.testing.assert_allclose(mapped(0)(tj)(BATCH > 0, BATCH), np.where(BATCH > 0, BATCH.sum(), BATCH))
    with pytest.raises(BatchedPredicateError, match="axis 'i'"):
        tj.vmap(reduced(tj), axis_name="i", cond="map")(BATCH > 0, BATCH)


@final
@frozen
class Writing(Effect):
    """Writes something down."""


@final
@frozen
class Write(Primitive):
    """The identity, which also notes that it was called."""

    name: ClassVar[str] = "write"
    calls: ClassVar[list[float]] = []

    @property
    @override
    def effects(self) -> Effects:
        return frozenset({Writing()})

    @override
    def type_of(self, *avals: ShapedArray) -> tuple[ShapedArray, ...]:
        return avals

    @override
    def evaluate(self, *args: HostArray) -> tuple[HostArray, ...]:
        self.calls.append(float(args[0]))
        return args


def write(x: ArrayLike) -> Array:
    return bind(Write(), as_array(x))[0]


def test_effects_of_the_chosen_branch_only() -> None:
    def f(p: ArrayLike, x: ArrayLike) -> Array:
        return lax.cond(p, write, lambda y: y * 2.0, x)

    Write.calls.clear()
    f(False, 1.0)
    assert Write.calls == []
    f(True, 1.0)
    assert Write.calls == [1.0]
    closed = tj.make_jaxpr(f)(True, 1.0)
    assert closed.effects == {Writing()}
    unused = Jaxpr(closed.jaxpr.invars, closed.jaxpr.eqns, ())
    assert "write" in str(transforms.dce(unused))
    tj.eval_jaxpr(closed, (), True, 3.0)
    assert Write.calls == [1.0, 3.0]


def test_select_is_refused_where_branches_have_effects() -> None:
    def f(p: ArrayLike) -> Array:
        return lax.cond(p, lambda: write(1.0), lambda: tnp.asarray(2.0))

    with pytest.raises(BatchedPredicateError, match=r"a branch has effects \(Writing\(\)\)(.|\n)*cond='map'"):
        tj.vmap(f)(BATCH > 0)
    assert "write" in str(tj.make_jaxpr(tj.vmap(f, cond="map"))(BATCH > 0))


def test_elements_show_what_their_own_branch_shows() -> None:
    seen: list[float] = []

    def shown(x: Array) -> Array:
        tj.debug.callback(lambda y: seen.append(float(y)), x * 2.0)
        return tnp.sin(x)

    def plain(x: Array) -> Array:
        return lax.cond(x > 0.0, shown, lambda y: y, x)

    def within_jit(x: Array) -> Array:
        return lax.cond(x > 0.0, tj.jit(shown), lambda y: y, x)

    xs = tnp.asarray(np.array([1.0, -1.0, 2.0]))
    for f in (plain, within_jit):
        for g, expected in (
            (tj.vmap(f), [np.sin(1.0), -1.0, np.sin(2.0)]),
            (tj.jit(tj.vmap(tj.grad(f))), [np.cos(1.0), 1.0, np.cos(2.0)]),
        ):
            seen.clear()
            np.testing.assert_allclose(np.asarray(g(xs)), expected)
            assert sorted(seen) == [2.0, 4.0]
    text = str(tj.make_jaxpr(tj.vmap(plain))(xs))
    assert text.count("sin") == 1
    assert text.index("sin") > text.index("length=3")  # on the whole batch, after the turns


# Mistakes.


def test_wrong_predicates() -> None:
    for wrong, message in (
        (np.array([True, False]), r"the predicate must be a scalar, got bool\[2\]"),
        (1j, r"a bool, an integer or a float, got ~c128\[\]"),
        ("yes", "the predicate must be a scalar"),
        (None, "the predicate must be a scalar"),
    ):
        with pytest.raises(InputError, match=message):
            any_cond(wrong, lambda: 1.0, lambda: 2.0)
    for wrong, message in (
        (1.0, r"the index must be an integer, got ~f64\[\]"),
        (True, r"the index must be an integer, got bool\[\]"),
        (np.array([1, 2]), r"the index must be a scalar, got i64\[2\]"),
    ):
        with pytest.raises(InputError, match=message):
            lax.switch(wrong, [lambda: 1.0, lambda: 2.0])
    with pytest.raises(ValueError, match="at least one branch"):
        lax.switch(0, [])
    with pytest.raises(InputError, match="needs a function"):
        any_cond(True, 1.0, lambda: 2.0)


def test_structures_that_differ() -> None:
    with pytest.raises(TreeError) as caught:
        lax.cond(True, lambda x: {"a": x, "b": x}, lambda x: {"a": x, "c": x}, 1.0)
    here = f"<lambda> ({__file__}:{test_structures_that_differ.__code__.co_firstlineno + 2})"
    first, second = f"the result of true_fun, {here}", f"the result of false_fun, {here}"
    assert str(caught.value) == (
        f"cond: {first} and {second} must have the same structure, but differ at ['b']:\n"
        f"  {first}: {{'a': *, 'b': *}}\n"
        f"  {second}: {{'a': *, 'c': *}}"
    )
    with pytest.raises(TreeError, match="the result of branch 2"):
        any_switch(0, [lambda: 1.0, lambda: 1.0, lambda: None])


def test_types_that_differ() -> None:
    with pytest.raises(InputError) as caught:
        lax.cond(
            True,
            lambda x: {"n": np.int32(1), "x": (x, x)},
            lambda x: {"n": np.int64(1), "x": (x, x[:2])},
            VECTOR,
        )
    line = test_types_that_differ.__code__.co_firstlineno
    first, second = (f"<lambda> ({__file__}:{line + n})" for n in (4, 5))
    assert str(caught.value) == (
        f"cond: true_fun, {first}, and false_fun, {second}, must return the same types, but differ:\n"
        "  ['n']: i32[] from true_fun, i64[] from false_fun\n"
        "  ['x'][1]: f64[3] from true_fun, f64[2] from false_fun\n"
        "Convert the results of one of them, for example with astype or reshape."
    )
    with pytest.raises(InputError, match=r"the result: ~f64\[\] from branch 0, bool\[\] from branch 2"):
        lax.switch(0, [lambda: 1.0, lambda: 2.0, lambda: np.bool_(True)])


def test_python_control_flow_in_a_branch() -> None:
    with pytest.raises(ConcretizationError, match="traced by cond of <lambda>"):
        lax.cond(True, lambda x: 1.0 if x > 0 else 2.0, lambda x: 3.0, 1.0)


# The primitive.


def program(f: Callable[..., object], *avals: ShapedArray) -> Jaxpr:
    return tj.make_jaxpr(f)(*avals).jaxpr


SINE = program(lambda x, y: tnp.sin(x) * y, F64, F64)
SUM = program(lambda x, y: x + y, F64, F64)


def test_typing_rule() -> None:
    cond = Cond((SINE, SUM))
    assert cond.type_of(I32, F64, F64) == (F64,)
    assert cond.name == "cond"
    for avals in ((I32, F64), (F64, F64, F64), (ShapedArray((), "bool"), F64, F64), (I32, F64, F32), ()):
        with pytest.raises(TypingError, match="cond"):
            cond.type_of(*avals)
    for other in (
        program(lambda x: x, F64),
        program(lambda x, y: (x, y), F64, F64),
        program(lambda x, y: x > y, F64, F64),
    ):
        with pytest.raises(TypingError, match=r"branches of one type, but branch 0 is (.*) and branch 1 is"):
            Cond((SINE, other)).type_of(I32, F64, F64)
    with pytest.raises(ParameterError, match="at least one branch"):
        Cond(())


def test_programs_are_values() -> None:
    assert Cond((SINE, SUM)) == Cond((program(lambda x, y: tnp.sin(x) * y, F64, F64), SUM))
    assert Cond((SINE, SUM)) != Cond((SUM, SINE))


def test_what_is_closed_over_is_passed_once() -> None:
    def f(x: Array, y: Array, z: Array) -> Array:
        return lax.switch(0, [lambda: x + y, lambda: y + z, lambda: y])

    (eqn,) = [eqn for eqn in program(f, F64, F64, F64).eqns if isinstance(eqn.primitive, Cond)]
    assert len(eqn.invars) == 4
    for branch in subprograms(eqn.primitive):
        assert len(branch.invars) == 3

    w = tnp.ones(3)
    closed = tj.make_jaxpr(lambda p: lax.cond(p, lambda: w, lambda: -w))(I32)
    (eqn,) = [eqn for eqn in closed.eqns if isinstance(eqn.primitive, Cond)]
    assert len(eqn.invars) == 2


def subprograms(primitive: Primitive) -> tuple[Jaxpr, ...]:
    assert isinstance(primitive, Cond)
    return primitive.branches


def test_branches_share_slots_for_residuals() -> None:
    """Only one branch runs, so the memory is that of the largest one for each type."""
    sines = program(lambda x, y: tnp.sin(tnp.sin(x)) * y, VEC, VEC)
    cosine = program(lambda x, y: tnp.cos(x) * y + tnp.sum(tnp.exp(x)) * y, VEC, VEC)
    plain = program(lambda x, y: x * y, VEC, VEC)
    divided = divide((sines, cosine, plain), (False, True))
    assert divided.slots == (VEC, F64)
    assert divided.forwarded == (0,)
    assert divided.unknown_out == (True,)
    for known, staged in zip(divided.known, divided.staged, strict=True):
        ir.typecheck(known)
        ir.typecheck(staged)
        assert known.out_avals == divided.slots
        assert staged.in_avals == (VEC, *divided.slots, VEC)


def test_partial_evaluation() -> None:
    cond = Cond((SINE, SUM))
    assert cond.partial_eval((True, False, False)) is None, "nothing is known without the index"
    assert cond.partial_eval((True, False, True)) is None
    split = cond.partial_eval((False, False, True))
    assert split is not None
    assert split.unknown_out == (True,)
    assert split.residuals == (0, 1, None)

    def f(i: Array, x: Array, y: Array) -> Array:
        return bind(cond, i, x, y)[0]

    whole = program(f, I32, F64, F64)
    for unknown in ((False, False, True), (False, True, False), (True, False, False), (False, True, True)):
        parts = transforms.partial_eval(whole, unknown)
        ir.typecheck(parts.known)
        ir.typecheck(parts.staged)
        for index in (0, 1):
            values = list(map(as_array, (np.int32(index), 0.3, 0.6)))
            (expected,) = tj.eval_jaxpr(whole, (), *values)
            given = [v for v, mark in zip(values, unknown, strict=True) if not mark]
            known = tj.eval_jaxpr(parts.known, (), *given)
            if not parts.unknown_out[0]:
                np.testing.assert_allclose(known[0], expected)
                continue
            computed = iter(known)
            residuals = [next(computed) if r.input is None else values[r.input] for r in parts.residuals]
            rest = [v for v, mark in zip(values, unknown, strict=True) if mark]
            np.testing.assert_allclose(tj.eval_jaxpr(parts.staged, (), *residuals, *rest)[0], expected)


def test_an_output_that_one_branch_knows() -> None:
    first = program(lambda x, y: (tnp.sin(x), y), F64, F64)
    second = program(lambda x, y: (tnp.cos(x), x), F64, F64)
    split = Cond((first, second)).partial_eval((False, False, True))
    assert split is not None
    assert split.unknown_out == (False, True)
    third = program(lambda x, y: (y, x), F64, F64)
    split = Cond((first, third)).partial_eval((False, False, True))
    assert split is not None
    assert split.unknown_out == (True, True)


def test_tangents_of_one_branch_only() -> None:
    """A tangent that is zero in one branch is written out there; one that is zero in all isn't returned."""
    constant = program(lambda x: (x * 2.0, 1.0, x > 0), F64)
    moving = program(lambda x: (1.0 * x, 3.0, x < 0), F64)
    still = program(lambda x: (np.float64(1.0), 2.0, x == 0), F64)
    whole = program(lambda i, x: tuple(bind(Cond((constant, moving, still)), i, x)), I32, F64)
    derived = transforms.jvp(whole)
    ir.typecheck(derived.jaxpr)
    assert derived.nonzero_out == (True, False, False)


def test_transposition_refuses_a_linear_index() -> None:
    whole = program(lambda i, x: bind(Cond((SINE, SUM)), i, x, x)[0], I32, F64)
    with pytest.raises(LinearityError, match="not in its index"):
        transforms.transpose(whole, (True, True))


def test_interpretation_without_a_compiler() -> None:
    ctx = EvalContext()
    args = [ir.ConcreteValue.of(v) for v in (np.int32(1), np.float64(2.0), np.float64(3.0))]
    (found,) = ctx.bind(Cond((SINE, SUM)), *args)
    assert float(np.asarray(found.data)) == 5.0


def test_printed(golden: Golden) -> None:
    def f(x: Array) -> Array:
        return lax.cond(x > 0.0, lambda y: tnp.sin(y) * x, tnp.cos, x)

    batch = ShapedArray((4,), "float64")
    texts = {
        "cond": tj.make_jaxpr(f)(F64),
        "grad": tj.make_jaxpr(tj.grad(f))(F64),
        "vmap": tj.make_jaxpr(tj.vmap(f))(batch),
        "vmap, cond='map'": tj.make_jaxpr(tj.vmap(f, cond="map"))(batch),
        "vmap, predicate not mapped": tj.make_jaxpr(tj.vmap(lambda p, x: lax.cond(p, tnp.sin, tnp.cos, x), (None, 0)))(
            True, batch
        ),
        "switch": tj.make_jaxpr(lambda i, x: lax.switch(i, [tnp.sin, tnp.cos, tnp.exp], x))(0, F64),
        "StableHLO": tj.jit(f).lower(tnp.asarray(np.float64(1.0))).as_text(),
    }
    golden("cond", "\n\n".join(f"# {name}\n{text}" for name, text in texts.items()))


def test_lowering_calls_what_nests() -> None:
    """A branch that holds programs itself becomes a function, so that regions don't nest."""

    def f(x: Array) -> Array:
        return lax.cond(x > 0, lambda y: lax.cond(y > 1, tnp.sin, tnp.cos, y), lambda y: y, x)

    text = tj.jit(f).lower(tnp.asarray(1.0)).as_text()
    assert text.count("stablehlo.case") == 2
    assert text.count("func.call") == 1


def test_the_operand_by_name() -> None:
    for x in (1.0, None, (2.0, 3.0)):
        for lib in (tj, jax):
            assert lib.lax.cond(True, lambda x: x, lambda x: x, operand=x) == x
            assert lib.lax.switch(1, [lambda x: x, lambda x: x], operand=x) == x
    with pytest.raises(InputError, match="or one by the name `operand`, but not both"):
        any_cond(True, lambda x: x, lambda x: x, 1.0, operand=2.0)


def test_errors_say_where_each_function_is() -> None:
    """Whatever it is that can be called."""

    def yes(x: Array) -> Array:
        return x

    def no(x: Array) -> Array:
        return x > 0.0

    class Chooser:
        def __call__(self, x: Array) -> Array:
            return x > 0.0

    def at(function: object, name: str) -> str:
        assert isinstance(function, FunctionType)
        return f"{name} ({__file__}:{function.__code__.co_firstlineno})"

    others: dict[str, list[Callable[[Array], Array]]] = {
        at(no, "no"): [no, tj.jit(no), tj.checkpoint(no)],
        at(no, "partial"): [partial(no)],
        at(Chooser.__call__, "Chooser"): [Chooser()],
        at(Chooser.__call__, "__call__"): [Chooser().__call__],
    }
    for where, functions in others.items():
        for function in functions:
            with pytest.raises(InputError) as caught:
                lax.cond(True, yes, function, 1.0)
            assert f"cond: true_fun, {at(yes, 'yes')}, and false_fun, {where}, must return" in str(caught.value)
            with pytest.raises(InputError) as caught:
                lax.switch(0, [yes, yes, function], 1.0)
            assert f"branch 1, {at(yes, 'yes')}, and branch 2, {where}, must return" in str(caught.value)
            with pytest.raises(InputError) as caught:
                lax.while_loop(lambda x: x > 0.0, function, 1.0)
            assert f"while_loop: {where} must return a carry" in str(caught.value)
