"""Programs as functions of JAX: run, compiled, differentiated and mapped by it; what is said where that can't be."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from typing import Any, ClassVar, TypeAlias, final

import jax
import jax.numpy as jnp
import numpy as np
import numpy.typing as npt
import pytest
from attrs import frozen
from typing_extensions import override

import tinyjax as tj
import tinyjax.numpy as tnp
from tests.api.families import FUNCTIONS, Ours, Theirs
from tinyjax import Array, ShapedArray, ir, lax
from tinyjax.contexts.devices import single_equation
from tinyjax.control.call import Call
from tinyjax.control.composite import Composite
from tinyjax.control.custom_derivatives import CustomJvp
from tinyjax.errors import InputError, MissingRuleError, StaticArgumentError, UnsupportedError, X64DisabledError
from tinyjax.interop.jax import TO_JAX, JaxContext, of_jax, to_jax
from tinyjax.ir import Context, Primitive
from tinyjax.ir.context import V
from tinyjax.ir.rules import RuleTable
from tinyjax.primitives.elementwise import add, mul
from tinyjax.primitives.gather import Gather
from tinyjax.primitives.windows import GatherDimensionNumbers, GatherScatterMode

Values: TypeAlias = npt.NDArray[np.float64]
SCALAR = ShapedArray((), "float64")
POINTS: Values = np.array([0.3, 0.9, 1.7])


@pytest.mark.parametrize("name", FUNCTIONS)
def test_jax_transforms_what_it_is_given(name: str) -> None:
    ours, theirs = FUNCTIONS[name]
    function = to_jax(tj.make_jaxpr(ours)(SCALAR))
    options: dict[str, str | bool] = {"xla_backend_optimization_level": "0"}

    def everything(f: Theirs) -> Sequence[jax.Array]:
        steps = jax.vmap(f), jax.vmap(jax.grad(f)), jax.vmap(lambda x: jax.jvp(jax.grad(f), (x,), (x,))[1])
        found: Sequence[jax.Array] = (
            jax.jit(lambda x: [step(x) for step in steps]).lower(POINTS).compile(options)(POINTS)
        )
        return found

    for found, expected in zip(everything(function), everything(theirs), strict=True):
        np.testing.assert_allclose(found, expected, rtol=1e-9)


def test_results_are_bare_if_there_is_one() -> None:
    assert isinstance(to_jax(tj.make_jaxpr(tnp.sin)(SCALAR))(1.0), jax.Array)
    none, two = (tj.make_jaxpr(lambda x, n=n: [x] * n)(SCALAR) for n in (0, 2))
    assert to_jax(none)(1.0) == ()
    assert to_jax(two)(1.0) == (1.0, 1.0)


def test_literal_results_are_arrays_of_their_types() -> None:
    program = tj.make_jaxpr(lambda: (2.0, np.float32(3), True))()
    weak, strong, truth = to_jax(program)()
    assert [str(jax.typeof(x)) for x in (weak, strong, truth)] == ["~float64[]", "float32[]", "bool[]"]


def test_arguments_are_checked() -> None:
    function = to_jax(tj.make_jaxpr(lambda x, y: x * y)(ShapedArray((2,), "float32"), ShapedArray((), "float32")))
    np.testing.assert_array_equal(function(tnp.ones(2, "float32"), 2), [2.0, 2.0])
    with pytest.raises(
        InputError, match=r"the program takes \(f32\[2\], f32\[\]\), got \(float64\[2\], ~float64\[\]\)"
    ):
        function(np.ones(2), 2.0)
    with pytest.raises(InputError, match=r"the program takes \(f32\[2\], f32\[\]\), got \(float32\[2\]\)"):
        function(np.ones(2, np.float32))
    counting = to_jax(tj.make_jaxpr(lambda n: n + 1)(ShapedArray((), "int32")))
    with pytest.raises(InputError, match=r"takes \(i32\[\]\), got \(~float64\[\]\)"):
        counting(1.5)


def test_custom_rules_and_their_absence() -> None:
    @tj.custom_vjp
    def f(x: Array) -> Array:
        return tnp.sin(x)

    f.defvjp(lambda x: (f(x), x), lambda x, ct: (ct * f(x) * 3.0,))
    function = to_jax(tj.make_jaxpr(f)(SCALAR))
    for order in (1, 2):
        ours: Ours = f
        theirs: Theirs = function
        for _ in range(order):
            ours, theirs = tj.grad(ours), jax.grad(theirs)
        np.testing.assert_allclose(theirs(jnp.float64(0.4)), ours(tnp.asarray(0.4)))


def test_values_that_a_rule_closes_over_cant_be_differentiated_with_respect_to() -> None:
    def f(x: Array, y: Array) -> Array:
        @tj.custom_jvp
        def inner(z: Array) -> Array:
            return tnp.sin(z) * y

        inner.defjvp(lambda primals, tangents: (inner(*primals), tangents[0] * y))
        return tj.jit(inner)(x)

    function = to_jax(tj.make_jaxpr(f)(SCALAR, SCALAR))
    np.testing.assert_allclose(jax.grad(function)(0.4, 2.0), 2.0)
    with pytest.raises(InputError, match=r"'inner', which has a derivative of its own, closes over a value of type"):
        jax.grad(function, argnums=1)(0.4, 2.0)


@pytest.mark.parametrize("dtype", ["float16", "bfloat16", "float32", "int8", "uint16", "bool", "complex64"])
@pytest.mark.parametrize("mode", [GatherScatterMode.CLIP, GatherScatterMode.FILL_OR_DROP])
def test_gathers_out_of_range(mode: GatherScatterMode, dtype: str) -> None:
    """Where nothing is said about what is missing, JAX takes what we do."""
    numbers = GatherDimensionNumbers((), (0,), (0,))
    gather = Gather(numbers, (1,), mode=mode)
    operand, indices = np.arange(1, 4).astype(jnp.dtype(dtype)), np.array([[0], [2], [7], [-5]])
    program = single_equation(gather, (ShapedArray((3,), operand.dtype), ShapedArray((4, 1), "int64")))
    (ours,) = tj.eval_jaxpr(program, [], operand, indices)
    theirs = np.asarray(jax.jit(to_jax(program))(operand, indices))
    np.testing.assert_array_equal(theirs.astype(np.complex128), np.asarray(ours).astype(np.complex128))


def test_mapped_rules() -> None:
    @tj.custom_jvp
    def f(x: Array) -> Array:
        return tnp.sin(x)

    f.defjvp(lambda primals, tangents: (f(*primals), tangents[0] * 3.0))
    function = to_jax(tj.make_jaxpr(lambda x: tnp.sum(tj.vmap(f)(x)))(ShapedArray((3,), "float64")))
    np.testing.assert_allclose(function(POINTS), np.sum(np.sin(POINTS)))
    np.testing.assert_array_equal(jax.grad(function)(POINTS), 3.0)


def test_constants_within_programs_within() -> None:
    table = tnp.asarray([1.0, 2.0, 3.0])

    def f(x: Array) -> Array:
        looped = lax.fori_loop(0, 3, lambda i, y: y + tnp.sum(table * x), x)
        chosen = lax.cond(x > 0, lambda y: tnp.sum(table * y), lambda y: y, x)
        out: Array = looped + chosen + tj.checkpoint(lambda y: tnp.sum(tnp.sin(table * y)))(x)
        return out

    program = tj.make_jaxpr(f)(SCALAR)
    spelled_out = tj.transforms.hoist_constants(program)
    for given in (program, spelled_out):
        np.testing.assert_allclose(
            jax.jit(jax.value_and_grad(to_jax(given)))(0.7), tj.value_and_grad(f)(tnp.asarray(0.7))
        )


def test_callbacks() -> None:
    seen: list[float] = []

    def f(x: Array) -> Array:
        tj.debug.callback(lambda v: seen.append(float(v)), x)
        out: Array = tj.pure_callback(np.sin, ShapedArray((), "float64"), x, vmap_method="sequential")
        return out

    function = to_jax(tj.make_jaxpr(f)(SCALAR))
    np.testing.assert_allclose(jax.jit(function)(0.5), np.sin(0.5))
    np.testing.assert_allclose(jax.vmap(function)(POINTS), np.sin(POINTS))
    jax.effects_barrier()
    assert seen == [0.5, *POINTS]


@final
@frozen
class MultiplyAdd(Composite):
    name: ClassVar[str] = "multiply_add"

    @override
    def decompose(self, ctx: Context[V], *args: V) -> Sequence[V]:
        x, y, z = args
        return [add(ctx, mul(ctx, x, y), z)]


@final
@frozen
class Twice(Primitive):
    name: ClassVar[str] = "twice"

    @override
    def type_of(self, *avals: ShapedArray) -> tuple[ShapedArray, ...]:
        return avals


def staged(primitive: Primitive, arity: int) -> ir.Jaxpr:
    invars = tuple(ir.Var(i, SCALAR) for i in range(arity))
    out = ir.Var(arity, SCALAR)
    return ir.Jaxpr(invars, (ir.Eqn(primitive, invars, (out,)),), (out,))


def test_primitives_of_a_users_own() -> None:
    assert float(jax.grad(to_jax(staged(MultiplyAdd(), 3)))(2.0, 3.0, 4.0)) == 3.0
    with pytest.raises(
        UnsupportedError, match=r"JAX has nothing for these primitives, .*: twice \(1\)\. Decompose them"
    ):
        to_jax(staged(Twice(), 1))
    own: RuleTable[[JaxContext, Sequence[jax.typing.ArrayLike]], Sequence[jax.typing.ArrayLike]]
    own = RuleTable("JAX", name="own", parent=TO_JAX)
    own[Twice] = lambda _, ctx, args: [jnp.asarray(args[0]) * 2]
    assert float(to_jax(staged(Twice(), 1), rules=own)(4.0)) == 8.0
    with pytest.raises(UnsupportedError):
        to_jax(staged(Twice(), 1))


def test_a_linear_map_that_only_has_a_transpose_has_no_counterpart() -> None:
    @tj.custom_vjp
    def f(x: Array) -> Array:
        return tnp.sin(x)

    f.defvjp(lambda x: (f(x), x), lambda x, ct: (ct * x,))
    linear = tj.transforms.linearize(tj.make_jaxpr(f)(SCALAR).jaxpr)
    with pytest.raises(UnsupportedError, match=r"custom_lin \(1\)"):
        to_jax(linear.linear)


def test_64_bits_are_refused_where_jax_would_truncate_them() -> None:
    wide = to_jax(tj.make_jaxpr(lambda x: x.astype("float64") * 2.0)(ShapedArray((), "float32")))
    narrow = to_jax(tj.make_jaxpr(lambda x: x * 2.0)(ShapedArray((), "float32")))
    with jax.enable_x64(False):
        assert narrow(jnp.float32(3)).dtype == np.float32
        with pytest.raises(
            X64DisabledError, match=r"64-bit numbers \(f64\[\] in convert_element_type at .*test_to_jax"
        ):
            wide(jnp.float32(3))
        with pytest.raises(InputError, match=r"takes \(f32\[\]\), got"):
            narrow(np.ones(2))
    assert wide(np.float32(3)).dtype == np.float64


def test_nesting_beyond_what_jax_can_trace_is_reported() -> None:
    jaxpr = tj.make_jaxpr(tnp.sin)(SCALAR).jaxpr
    for _ in range(3000):
        jaxpr = staged(Call("f", jaxpr), 1)
    with pytest.raises(UnsupportedError, match="nested more deeply here than JAX"):
        to_jax(jaxpr)(1.0)


def test_a_rule_that_was_left_out_is_missed_when_it_is_needed() -> None:
    function = to_jax(staged(CustomJvp("f", tj.make_jaxpr(tnp.sin)(SCALAR).jaxpr), 1))
    assert float(function(0.0)) == 0.0
    with pytest.raises(MissingRuleError, match="no derivative of 'f'"):
        jax.grad(function)(0.0)


# Functions.


def test_functions_keep_trees_and_names() -> None:
    traced = []

    def model(params: dict[str, Array], x: Array, *, kind: str = "sine", times: int = 1) -> dict[str, object]:
        """What it computes."""
        traced.append(times)
        y = tnp.matmul(x, params["w"]) + params["b"]
        return {"y": [tnp.sin(y) if kind == "sine" else y] * times, "n": tnp.argmax(y), "kind": None}

    f = to_jax(model, static_argnames="times")
    params = {"w": jnp.ones((3, 2)), "b": jnp.arange(2.0)}
    x = jnp.arange(3.0)
    assert (f.__name__, f.__doc__) == ("model", "What it computes.")
    out = f(params, x, times=2)
    assert isinstance(out["y"][1], jax.Array)
    assert (len(out["y"]), int(out["n"]), out["kind"]) == (2, 1, None)
    np.testing.assert_allclose(out["y"][0], jnp.sin(jnp.array([3.0, 4.0])))
    np.testing.assert_allclose(f(params, x, kind="plain")["y"][0], [3.0, 4.0])

    def total(params: dict[str, jax.Array], x: jax.Array) -> jax.Array:
        return jnp.sum(f(params, x)["y"][0])

    gradient = jax.jit(jax.vmap(jax.grad(total), in_axes=(None, 0)))(params, jnp.ones((4, 3)))
    np.testing.assert_allclose(gradient["b"], np.tile(np.cos([3.0, 4.0]), (4, 1)))
    jitted = to_jax(tj.jit(lambda x, n: x * sum(range(n)), static_argnums=1))
    assert jax.grad(jitted)(2.0, 4) == jax.grad(jitted)(2.0, n=4) == 6.0
    assert "name=model" in str(jax.make_jaxpr(jax.jit(lambda p: jax.jit(f)(p, x)))(params))
    count = len(traced)
    f(params, x + 1.0, times=2)
    assert (len(traced), sorted(set(traced))) == (count, [1, 2])


def test_functions_take_arrays_of_ours_numbers_and_keys() -> None:
    f = to_jax(lambda x, y: (x * y, y))
    product, y = f(tnp.asarray([1.0, 2.0]), 3.0)
    np.testing.assert_array_equal(product, [3.0, 6.0])
    assert jax.typeof(y).weak_type
    key = jax.random.key(1)
    for given in (key, tnp.asarray(key)):
        assert to_jax(lambda k: k[None])(given) == key
    with pytest.raises(InputError, match="closes over"):
        tj.make_jaxpr(lambda z: to_jax(lambda x: x * z)(1.0))(2.0)
    with pytest.raises(StaticArgumentError, match=r"argument y of .* is no array, so it is static, and must be hash"):
        f(1.0, y={1})
    with pytest.raises(InputError, match="a program has no static arguments"):
        to_jax(tj.make_jaxpr(tnp.sin)(1.0), static_argnums=0)


@pytest.mark.sweep
def test_samples_of_gamma_distributions_have_derivatives_there() -> None:
    shapes = np.array([0.4, 2.0, 30.0])

    def total(sampled: Callable[..., Any], a: Any) -> Any:
        return (sampled(jax.random.key(0), a) * np.array([1.0, 2.0, 3.0])).sum()

    back = to_jax(of_jax(jax.random.gamma))
    found = jax.jit(jax.grad(lambda a: total(back, a)))(shapes)
    np.testing.assert_allclose(found, jax.grad(lambda a: total(jax.random.gamma, a))(shapes), 1e-9)
    for dtype, tolerance in {"float16": 1e-2, "bfloat16": 5e-2, "float32": 2e-4, "float64": 1e-12}.items():
        a, x = (tnp.asarray(values, dtype) for values in ([0.5, 2.0, 30.0], [0.3, 1.5, 33.0]))
        slope = to_jax(tj.make_jaxpr(tj.lax.random_gamma_grad)(a, x))(*(jnp.asarray(np.asarray(y)) for y in (a, x)))
        assert slope.dtype == dtype
        expected = np.asarray(tj.lax.random_gamma_grad(a, x)).astype("float64")
        np.testing.assert_allclose(np.asarray(slope).astype("float64"), expected, tolerance)
