"""Programs of JAX, imported: their values, derivatives and types; what is said of what can't be imported."""

from __future__ import annotations

import re
from collections.abc import Callable
from functools import cache
from typing import Any, TypeAlias

import jax
import jax.numpy as jnp
import numpy as np
import numpy.typing as npt
import pytest
from jax.experimental.layout import Format, Layout
from jax.extend.core import Primitive, primitives

import tinyjax as tj
from tests.api.families import Ours, Theirs
from tests.interop.functions import FUNCTIONS, counted, repeated, wave
from tinyjax import ClosedJaxpr, ShapedArray, ir
from tinyjax.control.custom_derivatives import CustomJvp, CustomVjp
from tinyjax.control.recursion import Enclosing
from tinyjax.errors import InputError, MissingRuleError, UnsupportedError, X64DisabledError
from tinyjax.interop.jax import from_jax, of_jax, to_jax

Matrix: TypeAlias = npt.NDArray[np.float64]
NO_FUNCTION: Any = 3
X: Matrix = np.random.default_rng(0).normal(size=(4, 3))
NAMES = pytest.mark.parametrize("name", FUNCTIONS)


@cache
def imported(name: str) -> ClosedJaxpr:
    return from_jax(FUNCTIONS[name], X)


def compiled(
    function: Callable[[jax.Array], dict[str, tuple[jax.Array, jax.Array]]],
) -> dict[str, tuple[jax.Array, jax.Array]]:
    """The results of a function of JAX, compiled in one go, and quickly rather than well."""
    found: dict[str, tuple[jax.Array, jax.Array]] = (
        jax.jit(function).lower(X).compile({"xla_backend_optimization_level": "0"})(X)
    )
    return found


def value_and_gradient(function: Callable[[jax.Array], jax.Array], x: jax.Array) -> tuple[jax.Array, jax.Array]:
    def total(y: jax.Array) -> tuple[jax.Array, jax.Array]:
        out = function(y)
        return jnp.sum(out), out

    gradient, value = jax.grad(total, has_aux=True)(x)
    return value, gradient


#: Those whose programs hold programs; the derivatives of primitives are tested where these are.
NESTED = (
    "activations",
    "custom_vjp",
    "custom_jvp",
    "loops",
    "branches",
    "rematerialised",
    "constants",
    "derivatives",
    "softmax",
)


@cache
def by_jax() -> dict[str, tuple[jax.Array, jax.Array]]:
    def both(name: str, x: jax.Array) -> tuple[jax.Array, jax.Array]:
        function = FUNCTIONS[name]
        return value_and_gradient(function, x) if name in NESTED else (function(x), x)

    return compiled(lambda x: {name: both(name, x) for name in FUNCTIONS})


@cache
def by_jax_again() -> dict[str, tuple[jax.Array, jax.Array]]:
    """Of what comes of taking the imported programs back."""
    return compiled(lambda x: {name: value_and_gradient(to_jax(imported(name)), x) for name in NESTED})


def run(program: ClosedJaxpr, x: tj.ArrayLike) -> tj.Array:
    return tj.eval_jaxpr(program, (), x)[0]


@NAMES
def test_imported_programs_have_the_values_of_jax(name: str) -> None:
    program = imported(name)
    ir.typecheck(program)
    np.testing.assert_allclose(run(program, X), by_jax()[name][0], rtol=1e-9, atol=1e-9)


@pytest.mark.parametrize("name", NESTED)
def test_imported_programs_have_the_gradients_of_jax(name: str) -> None:
    program = imported(name)
    found = tj.grad(lambda x: tj.numpy.sum(run(program, x)))(tj.numpy.asarray(X))
    np.testing.assert_allclose(found, by_jax()[name][1], rtol=1e-8, atol=1e-8)


@pytest.mark.parametrize("name", NESTED)
def test_imported_programs_go_back_to_jax(name: str) -> None:
    for found, expected in zip(by_jax_again()[name], by_jax()[name], strict=True):
        np.testing.assert_allclose(found, expected, rtol=1e-8, atol=1e-8)


@NAMES
def test_importing_again_gives_the_same_program(name: str) -> None:
    assert from_jax(to_jax(imported(name)), X) == imported(name)
    assert from_jax(jax.make_jaxpr(FUNCTIONS[name])(X)) == imported(name)


def test_equations_that_differ_in_a_parameter_alone_are_other_ones() -> None:
    """What was read of one is read again only where every parameter, operand and result is the same."""

    def f(x: jax.Array) -> list[jax.Array]:
        sums = [jax.lax.cumsum(x, axis, reverse=reverse) for axis in (0, 1) for reverse in (False, True)]
        powers = [x**n for n in (2, 3, 2)]
        narrow = [y.astype(dtype) for y in (x, x * 2.0) for dtype in ("float32", "int8", "float32")]
        return [*sums, *powers, *narrow, *(jnp.sum(y, axis) for y in sums[:2] for axis in (0, 1, 0))]

    found = tj.jit(of_jax(f))(X)
    for one, other in zip(found, jax.jit(f)(X), strict=True):
        assert one.dtype == other.dtype
        np.testing.assert_allclose(one, other, rtol=1e-12)


def test_types_are_those_of_jax_weak_ones_too() -> None:
    program = from_jax(lambda x, y: (x + 1, y * 2, x * 1.5, y, np.float32(1)), 3, jnp.zeros(2, "bfloat16"))
    assert str(ir.typecheck(program)) == "(~i64[], bf16[2]) -> (~i64[], bf16[2], ~f64[], bf16[2], f32[])"


def test_equations_know_their_lines() -> None:
    def first(x: jax.Array) -> jax.Array:
        return jnp.sin(x)

    def second(x: jax.Array) -> jax.Array:
        out: jax.Array = jax.jit(first)(x) * x
        return out

    program = from_jax(second, 1.0)
    start = first.__code__.co_firstlineno
    lines = [eqn.source.line - start for jaxpr in ir.nested_programs(program.jaxpr) for eqn in jaxpr.eqns if eqn.source]
    assert lines == [1, 4, 4]
    files = {eqn.source.file for eqn in program.eqns if eqn.source}
    assert files == {__file__}


def test_shared_programs_are_imported_once() -> None:
    def inner(x: jax.Array) -> jax.Array:
        return jnp.sin(x)

    jitted = jax.jit(inner)
    program = from_jax(lambda x: jitted(jitted(jitted(x))), 1.0)
    assert len(ir.nested_programs(program.jaxpr)) == 2


def test_programs_nested_a_thousand_deep() -> None:
    program = jax.make_jaxpr(jax.jit(jnp.sin))(1.0)
    for _ in range(1000):
        params = {**program.eqns[0].params, "jaxpr": program}
        program = jax.make_jaxpr(lambda x, params=params: primitives.jit_p.bind(x, **params))(1.0)
    assert len(ir.nested_programs(from_jax(program).jaxpr)) == 1002


def rules_in(program: ClosedJaxpr) -> dict[str, CustomJvp | CustomVjp]:
    found = [eqn.primitive for jaxpr in ir.nested_programs(program.jaxpr) for eqn in jaxpr.eqns]
    return {p.function_name: p for p in found if isinstance(p, CustomJvp | CustomVjp)}


def test_rules_refer_to_the_function_they_belong_to() -> None:
    program = from_jax(lambda x: (wave(x), repeated(x, 2), jax.nn.relu(x)), 1.0)
    for primitive in rules_in(program).values():
        assert primitive.rules, primitive.function_name
        applied = [eqn.primitive for rule in primitive.rules.values() for eqn in rule.eqns]
        assert any(isinstance(p, Enclosing) for p in applied), primitive.function_name
    assert rules_in(program).keys() == {"wave", "repeated", "relu"}


def test_derivatives_of_any_order_of_recursive_rules() -> None:
    program = from_jax(wave, 0.7)

    ours: Ours = lambda x: run(program, x)  # noqa: E731
    theirs: Theirs = wave
    for _ in range(3):
        ours, theirs = tj.grad(ours), jax.grad(theirs)
        np.testing.assert_allclose(ours(tj.numpy.asarray(0.7)), theirs(jnp.asarray(0.7)))


def test_a_rule_that_only_looks_alike_is_kept_apart() -> None:
    """Two functions that compute the same and are written down at one place, whose rules differ."""

    def make(factor: float, other: Callable[[jax.Array], jax.Array] | None) -> Callable[[jax.Array], jax.Array]:
        @jax.custom_jvp
        def f(x: jax.Array) -> jax.Array:
            return jnp.sin(x)

        def rule(primals: tuple[jax.Array], tangents: tuple[jax.Array]) -> tuple[jax.Array, jax.Array]:
            extra = other(primals[0]) if other is not None else 1.0
            return f(primals[0]) if other is None else other(primals[0]), tangents[0] * factor * extra

        f.defjvp(rule)
        return f

    outer = make(5.0, make(7.0, None))
    program = from_jax(outer, 1.0)
    once = tj.grad(lambda x: run(program, x))
    np.testing.assert_allclose(tj.grad(once)(1.0), jax.grad(jax.grad(outer))(1.0))


def test_arguments_and_results_without_tangents() -> None:
    program = from_jax(lambda x: counted(x, 3), 1.0)
    assert program.out_avals[1] == ShapedArray((), "int64", weak_type=True)
    np.testing.assert_allclose(tj.grad(lambda x: run(program, x))(1.0), 2.0)


def test_callbacks_are_called() -> None:
    program = from_jax(lambda x: jax.pure_callback(np.sin, x, x, vmap_method="sequential") * 2.0, X)
    np.testing.assert_allclose(run(program, X), 2 * np.sin(X))
    mapped = tj.vmap(
        lambda row: run(from_jax(lambda x: jax.pure_callback(np.sin, x, x, vmap_method="sequential"), X[0]), row)
    )
    np.testing.assert_allclose(mapped(tj.numpy.asarray(X)), np.sin(X))
    seen: list[npt.NDArray[np.float64]] = []
    looking = from_jax(lambda x: jax.debug.callback(seen.append, x), X)
    tj.eval_jaxpr(looking, (), X)
    np.testing.assert_array_equal(seen, [X])


def test_arguments_may_be_trees_types_and_our_arrays() -> None:
    def f(tree: dict[str, jax.Array], y: float) -> jax.Array:
        return jnp.asarray(tree["a"] @ tree["b"] * y)

    types = {"a": ShapedArray((2, 3), "float32"), "b": jax.ShapeDtypeStruct((3,), "float32")}
    arrays = {"a": tj.numpy.ones((2, 3), "float32"), "b": np.ones(3, np.float32)}
    assert from_jax(f, types, 2.0) == from_jax(f, arrays, tj.numpy.asarray(2.0))


ODD: Primitive = Primitive("odd")
ODD.def_abstract_eval(lambda x: x)
KERNEL: Primitive = Primitive("kernel")
KERNEL.def_abstract_eval(lambda x: x)


def foreign(x: jax.Array) -> jax.Array:
    """A kernel of somebody else's, which there is nothing for here."""
    return jnp.asarray(KERNEL.bind(x))


def test_everything_that_is_missing_is_listed_at_once() -> None:
    def f(x: jax.Array) -> jax.Array:
        inner = jax.jit(lambda z: foreign(z) + foreign(z + 1.0))
        return jnp.asarray(inner(x) + inner(2.0 * x) + ODD.bind(x))

    with pytest.raises(UnsupportedError) as caught:
        from_jax(f, X)
    found = re.findall(r"^  (\w+) \((\d+)\) at (.*)$", str(caught.value), re.MULTILINE)
    line, kernel = f.__code__.co_firstlineno, foreign.__code__.co_firstlineno + 2
    assert [(name, count) for name, count, _ in found] == [("kernel", "2"), ("odd", "1")]
    assert found[0][2] == f"{__file__}:{kernel} (foreign)"
    assert found[1][2].startswith(f"{__file__}:{line + 2} (")


def test_what_a_function_of_jax_lacks_is_at_the_lines_that_apply_it() -> None:
    names: dict[str, Any] = {"odd": ODD}
    exec(compile("def one(x): return odd.bind(x)", f"{jax.__path__[0]}/one.py", "exec"), names)  # noqa: S102
    one = jax.jit(names["one"])

    def f(x: jax.Array) -> jax.Array:
        y = one(x)
        return jnp.asarray(one(y + 1.0))

    with pytest.raises(UnsupportedError) as caught:
        from_jax(f, X)
    line = f.__code__.co_firstlineno
    (listed,) = re.findall(r"^  odd \(1\) at (.*)$", str(caught.value), re.MULTILINE)
    places = listed.split(", ")
    assert [place.partition(" ")[0] for place in places] == [f"{__file__}:{line + 1}", f"{__file__}:{line + 2}"]


def test_parameters_that_have_no_counterpart_are_named() -> None:
    where = jax.sharding.NamedSharding(jax.make_mesh((1,), ("i",)), jax.sharding.PartitionSpec())
    layout = Format(Layout(major_to_minor=(0, 1)), where)
    with pytest.raises(UnsupportedError, match=r"device_put: device_put\[devices=.*Format.*\] is not supported"):
        from_jax(lambda x: jax.device_put(x, layout), jnp.ones((2, 2)))


def scaled(y: jax.Array, x: jax.Array) -> jax.Array:
    """A function whose rule closes over a value of the program around it, which the function itself doesn't read."""

    @jax.custom_jvp
    def inner(x: jax.Array) -> jax.Array:
        return jnp.sin(x)

    @inner.defjvp
    def _rule(primals: tuple[jax.Array], tangents: tuple[jax.Array]) -> tuple[jax.Array, jax.Array]:
        return inner(primals[0]), tangents[0] * (y + primals[0])

    return inner(x) * y


def weighted(y: jax.Array, x: jax.Array) -> jax.Array:
    """As `scaled`, in reverse mode: both halves of the rule close over the value, and the function over another."""
    z = jnp.exp(y)

    @jax.custom_vjp
    def inner(x: jax.Array) -> jax.Array:
        return jnp.sin(x) * jax.lax.stop_gradient(z)

    def forward(x: jax.Array) -> tuple[jax.Array, tuple[jax.Array, jax.Array]]:
        return inner(x), (x, x * y)

    def backward(residuals: tuple[jax.Array, jax.Array], ct: jax.Array) -> tuple[jax.Array]:
        return (ct * residuals[1] * y * jnp.cos(residuals[0]),)

    inner.defvjp(forward, backward)
    return inner(x) * y


@pytest.mark.parametrize("function", [scaled, weighted])
def test_rules_may_close_over_values_of_the_program_around_them(function: Callable[..., jax.Array]) -> None:
    y, x = np.asarray([2.0, 3.0]), np.asarray([0.3, 0.4])
    for f in (function, jax.jit(function)):
        program = from_jax(f, y[0], x[0])
        found = tj.vmap(lambda y, x, p=program: tj.grad(lambda x: tj.eval_jaxpr(p, (), y, x)[0])(x))(y, x)
        np.testing.assert_allclose(found, jax.vmap(jax.grad(function, 1))(y, x), rtol=1e-9)


def test_a_rule_that_closes_over_a_traced_value_of_elsewhere_is_named() -> None:
    def f(y: jax.Array, x: jax.Array) -> jax.Array:
        return jnp.asarray(jax.lax.scan(lambda c, _: (scaled(y, c), None), x, None, length=2)[0])

    program = from_jax(f, 2.0, 0.3)
    found = tj.eval_jaxpr(program, (), 2.0, 0.3)[0]
    np.testing.assert_allclose(found, f(jnp.asarray(2.0), jnp.asarray(0.3)))
    with pytest.raises(UnsupportedError, match="the rule of 'inner' closes over a traced value that isn't there where"):
        tj.grad(lambda x: tj.eval_jaxpr(program, (), 2.0, x)[0])(0.3)


def test_a_rule_that_fails_is_for_those_who_need_it() -> None:
    """The rule of `det` can't be traced for an empty matrix."""

    @jax.custom_jvp
    def f(x: jax.Array) -> jax.Array:
        return jnp.sin(x)

    @f.defjvp
    def _rule(primals: tuple[jax.Array], tangents: tuple[jax.Array]) -> tuple[jax.Array, jax.Array]:
        raise KeyError("no derivative today")

    program = from_jax(f, 0.5)
    np.testing.assert_allclose(run(program, 0.5), np.sin(0.5))
    with pytest.raises(KeyError, match="no derivative today"):
        tj.grad(lambda x: run(program, x))(0.5)
    assert float(run(from_jax(jnp.linalg.det, np.zeros((0, 0))), np.zeros((0, 0)))) == 1.0


def test_rules_that_tell_zeros_apart() -> None:
    @jax.custom_jvp
    def f(x: jax.Array, y: jax.Array, n: int) -> jax.Array:
        return x * y * n

    def rule(primals: tuple[Any, ...], tangents: tuple[Any, ...]) -> tuple[jax.Array, jax.Array]:
        (x, y, n), (dx, dy, dn) = primals, tangents
        zeros = [isinstance(t, jax.custom_derivatives.SymbolicZero) for t in (dx, dy, dn)]
        assert zeros[2]
        if zeros == [False, False, True]:
            raise ValueError("only one of both")
        return f(x, y, n), 3.0 * dy if zeros[0] else 5.0 * dx

    f.defjvp(rule, symbolic_zeros=True)
    program = from_jax(f, 2.0, 3.0, 4)
    for at, expected in enumerate((5.0, 3.0)):
        derivative = tj.grad(lambda *args: tj.eval_jaxpr(program, (), *args)[0], at)(2.0, 3.0, 4)
        assert float(derivative) == expected == float(jax.grad(f, at)(2.0, 3.0, 4))
    with pytest.raises(ValueError, match="only one of both"):
        tj.grad(lambda *args: tj.eval_jaxpr(program, (), *args)[0], (0, 1))(2.0, 3.0, 4)


def test_loops_whose_condition_has_rows() -> None:
    def f(n: jax.Array) -> jax.Array:
        start = (jnp.zeros(()), jnp.ones(()))
        return jnp.asarray(jax.lax.while_loop(lambda c: c[0] < n, lambda c: (c[0] + 1.0, c[1] * n), start)[1])

    mapped = jax.vmap(jax.vmap(f))
    x = np.asarray([[1.0, 2.0, 3.0], [4.0, 0.0, 2.0]])
    program = from_jax(mapped, x)
    np.testing.assert_allclose(run(program, x), mapped(jnp.asarray(x)))
    np.testing.assert_allclose(tj.jit(lambda x: run(program, x))(tj.numpy.asarray(x)), mapped(jnp.asarray(x)))
    found = tj.jvp(lambda x: run(program, x), (x,), (x,))[1]
    np.testing.assert_allclose(found, jax.jvp(mapped, (jnp.asarray(x),), (jnp.asarray(x),))[1])


def test_branches_may_differ_in_what_is_weak() -> None:
    jaxpr = jax.make_jaxpr(lambda p, x: jax.lax.cond(p, lambda x: x * 2, lambda x: x, x))(True, 1.0)
    (_, cond) = jaxpr.jaxpr.eqns
    strong = jax.make_jaxpr(lambda x: jnp.asarray(x, "float64"))(1.0)
    branches = (strong, cond.params["branches"][1])

    def f(i: jax.Array, x: jax.Array) -> jax.Array:
        return jnp.asarray(primitives.cond_p.bind(i, x, **{**cond.params, "branches": branches})[0])

    program = from_jax(f, np.int32(0), 1.0)
    assert [float(tj.eval_jaxpr(program, (), np.int32(i), 1.5)[0]) for i in range(2)] == [1.5, 3.0]


def test_arrays_that_stay_where_they_are() -> None:
    mesh = jax.sharding.Mesh(np.array(jax.devices()[:1]), ("i",))
    everywhere = jax.sharding.NamedSharding(mesh, jax.sharding.PartitionSpec())

    def f(x: jax.Array) -> list[jax.Array]:
        first, second = jax.device_put((x, x + 1.0), jax.devices()[0])
        return [first, second, jnp.zeros(3, device=everywhere), jax.lax.reshape(x, (12,), (1, 0))]

    for found, expected in zip(tj.eval_jaxpr(from_jax(f, X), (), X), f(jnp.asarray(X)), strict=True):
        np.testing.assert_array_equal(found, expected)


def test_64_bits_are_refused_where_jax_would_truncate_them() -> None:
    with jax.enable_x64(False):
        with pytest.raises(
            X64DisabledError, match=r"from_jax: an argument has dtype float64, which JAX has switched off"
        ):
            from_jax(jnp.sin, X)
        with pytest.raises(X64DisabledError, match=r"dtype int64"):
            from_jax(jnp.sin, ShapedArray((), "int64"))
        program = from_jax(lambda x: x * 2.0, X.astype(np.float32))
    assert program.out_avals == (ShapedArray((4, 3), "float32"),)


@pytest.mark.parametrize("name", ["input_dtype", "_input_dtype"])
def test_conj_says_the_type_that_its_operand_has(name: str) -> None:
    program = from_jax(lambda x: primitives.conj_p.bind(x, **{name: x.dtype}), X)
    np.testing.assert_array_equal(run(program, X), X.astype("complex128"))


def test_what_is_no_function_is_refused() -> None:
    with pytest.raises(InputError, match="from_jax needs a function or a program of JAX, got 3"):
        from_jax(NO_FUNCTION)
    with pytest.raises(InputError, match="a program that has been traced already takes no arguments here; got 1"):
        from_jax(jax.make_jaxpr(jnp.sin)(1.0), 1.0)


def test_rules_beyond_what_was_imported_are_missed_when_they_are_needed() -> None:
    """A rule that applies the function to ever larger arguments has no finite program."""

    @jax.custom_jvp
    def f(x: jax.Array) -> jax.Array:
        return jnp.sum(x)

    @f.defjvp
    def _rule(primals: tuple[jax.Array], tangents: tuple[jax.Array]) -> tuple[jax.Array, jax.Array]:
        (x,), (t,) = primals, tangents
        return f(x), f(jnp.concatenate([x, x])) * jnp.sum(t)

    program = from_jax(f, np.ones(1))

    def derivative(order: int, x: tj.Array) -> tj.Array:
        if order == 0:
            return run(program, x)
        out: tj.Array = tj.jvp(lambda y: derivative(order - 1, y), (x,), (x,))[1]
        return out

    assert float(derivative(1, tj.numpy.ones(1))) == 2.0
    with pytest.raises(MissingRuleError, match="holds no derivative of 'f' of this order"):
        derivative(6, tj.numpy.ones(1))
