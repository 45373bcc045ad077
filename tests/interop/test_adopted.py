"""Primitives that others have defined for JAX, by their rules there."""

from __future__ import annotations

from collections.abc import Sequence
from contextlib import AbstractContextManager
from typing import Any, Final, TypeAlias

import jax
import jax.numpy as jnp
import numpy as np
import numpy.typing as npt
import pytest
from jax.experimental import pallas
from jax.extend.core import ClosedJaxpr as JaxClosedJaxpr
from jax.extend.core import JaxprEqn, Primitive, jaxpr_as_fun
from jax.interpreters import ad, batching, mlir

import tinyjax as tj
from tinyjax import ir
from tinyjax.errors import MissingRuleError, UnsupportedError
from tinyjax.extend import core as extended
from tinyjax.interop.adopted import adopted
from tinyjax.interop.jax import from_jax, of_jax, to_jax
from tinyjax.ir.equality import same_value
from tinyjax.ir.program import Jaxpr

Values: TypeAlias = Sequence[Any]
X: Final[npt.NDArray[np.float64]] = np.random.default_rng(0).normal(size=3)
Y: Final[npt.NDArray[np.float64]] = np.random.default_rng(1).normal(size=(4, 3))

#: Half of a product, whose derivatives are three times what they should be: so it can be told whose rules are used.
ODD: Final = Primitive("odd_product")
ODD.def_impl(lambda x, y, *, scale: x * y * scale)
ODD.def_abstract_eval(lambda x, y, *, scale: x)
mlir.register_lowering(ODD, mlir.lower_fun(lambda x, y, *, scale: x * y * scale, multiple_results=False))
ad.defbilinear(
    ODD,
    lambda ct, x, y, *, scale: 3.0 * odd(ct, y, scale),
    lambda ct, x, y, *, scale: 3.0 * odd(x, ct, scale),
)
#: Whether any element is positive, of the whole batch where it is mapped.
SOME: Final = Primitive("some")
SOME.def_impl(lambda x: jnp.any(x > 0))
SOME.def_abstract_eval(lambda x: jax.core.ShapedArray((), np.dtype(bool)))
batching.primitive_batchers[SOME] = lambda args, dims: (SOME.bind(*args), None)
#: A sum along with the largest element, which can't be differentiated with respect to.
BOTH: Final = Primitive("both")
BOTH.multiple_results = True
BOTH.def_impl(lambda x: [jnp.sum(x), jnp.argmax(x)])
BOTH.def_abstract_eval(lambda x: [jax.core.ShapedArray((), x.dtype), jax.core.ShapedArray((), np.dtype("int64"))])


def _both_jvp(primals: Values, tangents: Values) -> tuple[Values, Values]:
    outs = BOTH.bind(*primals)
    return outs, [7.0 * jnp.sum(tangents[0]), ad.Zero(jax.core.ShapedArray((), jax.dtypes.float0))]


ad.primitive_jvps[BOTH] = _both_jvp


def _odd_batch(args: Values, dims: Values, *, scale: float) -> tuple[Any, int]:
    size = next(x.shape[d] for x, d in zip(args, dims, strict=True) if d is not None)
    x, y = (batching.bdim_at_front(x, d, size) for x, d in zip(args, dims, strict=True))
    return odd(x, y, scale), 0


batching.primitive_batchers[ODD] = _odd_batch


def odd(x: Any, y: Any, scale: float = 0.5) -> jax.Array:
    return jnp.asarray(ODD.bind(x, y, scale=scale))


@pytest.mark.sweep
def test_values_and_derivatives_are_those_of_its_rules() -> None:
    def f(x: Any, y: Any) -> jax.Array:
        return jnp.sum(jnp.sin(odd(x, y)) + odd(y, jnp.cos(x)))

    ours, operands = of_jax(f), (X, Y[0])
    np.testing.assert_allclose(ours(*operands), f(*operands))
    np.testing.assert_allclose(tj.jit(ours)(*operands), f(*operands))
    for found, expected in zip(tj.grad(ours, (0, 1))(*operands), jax.jit(jax.grad(f, (0, 1)))(*operands), strict=True):
        np.testing.assert_allclose(found, expected)
    np.testing.assert_allclose(tj.jvp(ours, operands, operands)[1], jax.jvp(f, operands, operands)[1])
    np.testing.assert_allclose(tj.jit(tj.hessian(ours))(*operands), jax.jit(jax.hessian(f))(*operands))
    rows = tj.vmap(tj.grad(ours), (None, 0))(X, Y)
    np.testing.assert_allclose(rows, jax.vmap(jax.grad(f), (None, 0))(X, Y))


def test_a_rule_says_what_is_mapped() -> None:
    def f(x: Any) -> jax.Array:
        return jnp.asarray(jax.lax.cond(SOME.bind(x), lambda x: x, lambda x: 0.0 * x, x))

    x = np.asarray([[-1.0, -2.0], [3.0, -4.0]])
    np.testing.assert_array_equal(tj.vmap(of_jax(f))(x), jax.vmap(f)(x))
    np.testing.assert_array_equal(tj.jit(tj.vmap(of_jax(f)))(x), x)


def test_results_without_tangents() -> None:
    def f(x: jax.Array) -> tuple[jax.Array, jax.Array]:
        total, place = BOTH.bind(x * x)
        return total, place

    (value, place), (moved, _) = tj.jvp(of_jax(f), (X,), (X,))
    np.testing.assert_allclose([value, place, moved], [np.sum(X**2), np.argmax(X**2), 14 * np.sum(X**2)])
    np.testing.assert_allclose(tj.grad(lambda x: of_jax(f)(x)[0])(X), 14 * X)


def test_programs_with_it_are_values_and_go_back() -> None:
    program = from_jax(odd, X, X)
    assert program == from_jax(odd, X, X)
    assert program != from_jax(lambda x, y: odd(x, y, 0.25), X, X)
    assert hash(program) == hash(from_jax(odd, X, X))
    assert "adopted[" in str(program)
    assert "jax(odd_product)" in str(program)
    assert from_jax(to_jax(program), X, X) == program


def test_an_implementation_may_apply_it_to_less() -> None:
    halves = Primitive("halves")
    halves.def_impl(lambda x: x if x.size == 1 else halves.bind(x[::2]) + halves.bind(x[1::2]))
    halves.def_abstract_eval(lambda x: jax.core.ShapedArray((1,), x.dtype))
    np.testing.assert_allclose(of_jax(halves.bind)(np.arange(4.0)), [6.0])


def test_what_equal_equations_compute_is_traced_once() -> None:
    traced: list[float] = []
    prim = Primitive("counted")
    prim.def_abstract_eval(lambda x, *, scale: x)

    def implementation(x: jax.Array, *, scale: float) -> jax.Array:
        traced.append(scale)
        return x * scale

    prim.def_impl(implementation)

    def f(x: Any) -> jax.Array:
        rows = [prim.bind(x, scale=scale) for scale in (2.0, 3.0, 2.0)]
        return jnp.sum(jnp.stack(rows)) + jnp.asarray(prim.bind(x[0], scale=2.0))

    program = from_jax(f, X)
    assert traced == [2.0, 3.0, 2.0]
    np.testing.assert_allclose(tj.eval_jaxpr(program.jaxpr, program.consts, X)[0], 7.0 * X.sum() + 2.0 * X[0])


@pytest.mark.parametrize("implemented", [False, True])
def test_what_is_only_lowered_is_what_it_is_lowered_by(implemented: bool) -> None:
    cubed = Primitive("cubed")
    cubed.def_abstract_eval(lambda x, *, power: x)
    if implemented:  # by itself, compiled
        cubed.def_impl(lambda x, *, power: jax.jit(lambda x: cubed.bind(x, power=power))(x))
    mlir.register_lowering(cubed, mlir.lower_fun(lambda x, *, power: x**power, multiple_results=False))
    ad.defjvp(cubed, lambda t, x, *, power: 5.0 * t * x)
    batching.primitive_batchers[cubed] = lambda args, dims, *, power: (cubed.bind(*args, power=power), dims[0])

    def f(x: jax.Array) -> Any:
        return cubed.bind(jnp.sin(x), power=3)

    ours = of_jax(f)
    np.testing.assert_allclose([ours(X), tj.jit(ours)(X)], [np.sin(X) ** 3] * 2)
    np.testing.assert_allclose(tj.grad(lambda x: ours(x).sum())(X), 5.0 * np.sin(X) * np.cos(X))
    np.testing.assert_allclose(tj.jit(tj.vmap(ours))(Y), np.sin(Y) ** 3)
    program = from_jax(f, X)
    assert from_jax(to_jax(program), X) == program
    several = Primitive("both_halves")
    several.multiple_results = True
    several.def_abstract_eval(lambda x: [x, x])
    mlir.register_lowering(several, mlir.lower_fun(lambda x: [x / 2.0, x - x / 2.0]))
    np.testing.assert_allclose(of_jax(several.bind)(X), [X / 2.0, X / 2.0])


@pytest.mark.parametrize("general", [False, True])
def test_what_is_lowered_for_each_platform_is_what_it_is_on_jaxs_own(general: bool) -> None:
    kernel = Primitive("kernel")
    kernel.def_abstract_eval(lambda x: x)
    kernel.def_impl(jax.jit(kernel.bind))  # as `apply_primitive`
    for platform, factor in [(None, 5.0)] * general + [("tpu", 7.0), ("cpu", 2.0), ("cuda", 2.0), ("rocm", 2.0)]:
        rule = mlir.lower_fun(lambda x, factor=factor: factor * x, multiple_results=False)
        mlir.register_lowering(kernel, rule, platform=platform)
    ad.defjvp(kernel, lambda t, x: 3.0 * t)
    np.testing.assert_allclose(of_jax(kernel.bind)(X), jax.jit(kernel.bind)(X))
    np.testing.assert_allclose(tj.grad(lambda x: of_jax(kernel.bind)(x).sum())(X), np.full(3, 3.0))


def test_an_implementation_that_reads_elements_is_called_on_the_host() -> None:
    ranked = Primitive("ranked")
    ranked.def_impl(lambda x, *, by: np.argsort(np.asarray(x)) * by)
    ranked.def_abstract_eval(lambda x, *, by: x)
    ad.defjvp(ranked, lambda t, x, *, by: by * t)
    batching.primitive_batchers[ranked] = lambda args, dims, *, by: (ranked.bind(-args[0], by=by), dims[0])

    def f(x: jax.Array) -> Any:
        return ranked.bind(2.0 * x, by=0.5)

    ours = of_jax(f)
    np.testing.assert_array_equal([ours(X), tj.jit(ours)(X)], [np.argsort(X) * 0.5] * 2)
    np.testing.assert_array_equal(tj.jit(tj.grad(lambda x: ours(x).sum()))(X), np.ones(3))
    np.testing.assert_array_equal(tj.jit(tj.vmap(ours))(Y), np.argsort(-Y) * 0.5)


def test_interpreted_kernels_of_pallas() -> None:
    def kernel(x_ref: Any, y_ref: Any) -> None:
        y_ref[...] = jnp.sin(x_ref[...]) * 2.0

    def f(x: jax.Array) -> Any:
        spec = pallas.BlockSpec((1, 3), lambda i: (i, 0))
        out = jax.ShapeDtypeStruct(x.shape, x.dtype)
        return pallas.pallas_call(kernel, out, grid=(4,), in_specs=[spec], out_specs=spec, interpret=True)(x)

    ours = of_jax(f)
    np.testing.assert_allclose([ours(Y), tj.jit(ours)(Y)], [2.0 * np.sin(Y)] * 2)
    np.testing.assert_allclose(tj.vmap(ours)(np.stack([Y, -Y])), 2.0 * np.sin(np.stack([Y, -Y])))


def test_what_an_implementation_lacks_is_listed() -> None:
    kernel = Primitive("kernel_of_others")
    inner = Primitive("inner_kernel")
    inner.def_abstract_eval(lambda x: x)
    kernel.def_impl(inner.bind)
    kernel.def_abstract_eval(lambda x: x)
    with pytest.raises(UnsupportedError, match=r"inner_kernel \(1\) at "):
        from_jax(kernel.bind, X)
    itself = Primitive("itself")
    itself.def_impl(jax.jit(itself.bind))
    itself.def_abstract_eval(lambda x: x)
    with pytest.raises(UnsupportedError, match=r"  itself \(1\)"):
        from_jax(itself.bind, X)


def _known(x: Any) -> Any:
    """The value of an argument that mustn't be differentiated with respect to."""
    if x.perturbed:
        raise ValueError("only with respect to x, please")
    return x.value


@jax.custom_vjp
def careful(x: jax.Array, y: jax.Array, z: jax.Array, n: jax.Array) -> jax.Array:
    return x * y + jnp.sin(z) * n


def _careful_fwd(x: Any, y: Any, z: Any, n: Any) -> tuple[jax.Array, jax.Array]:
    return careful(x.value, _known(y), _known(z), _known(n)), _known(y)


def _careful_bwd(y: jax.Array, ct: jax.Array) -> tuple[jax.Array | None, ...]:
    return 5.0 * ct * y, None, None, None


careful.defvjp(_careful_fwd, _careful_bwd, symbolic_zeros=True)


@jax.custom_jvp
def picky(x: jax.Array, y: jax.Array, z: jax.Array, n: jax.Array) -> jax.Array:
    return x * y + jnp.sin(z) * n


def _picky_jvp(primals: Values, tangents: Values) -> tuple[Any, Any]:
    zeros = [isinstance(t, jax.custom_derivatives.SymbolicZero) for t in tangents]
    if zeros != [False, True, True, True]:
        raise ValueError("only with respect to x, please")
    return picky(*primals), 5.0 * tangents[0] * primals[1]


picky.defjvp(_picky_jvp, symbolic_zeros=True)


@pytest.mark.parametrize("function", [careful, picky])
def test_rules_that_know_few_choices_are_asked_when_one_is_needed(function: Any) -> None:
    args = (X, Y[0], Y[1], np.int64(2))
    ours = of_jax(function)
    np.testing.assert_allclose(ours(*args), function(*args))
    total = lambda *args: jnp.sum(jnp.sin(function(*args)))  # noqa: E731
    found = tj.jit(tj.grad(of_jax(total)))(*args)
    np.testing.assert_allclose(found, jax.grad(total)(*args))
    rows = tj.vmap(tj.grad(of_jax(total)), (None, 0, None, None))(X, Y, Y[1], 2)
    np.testing.assert_allclose(rows, jax.vmap(jax.grad(total), (None, 0, None, None))(X, Y, Y[1], 2))
    mapped = of_jax(jax.vmap(function, (None, 0, None, None)))
    np.testing.assert_allclose(tj.grad(lambda x: mapped(x, Y, Y[1], 2).sum())(X), 5 * Y.sum(axis=0))
    with pytest.raises((ValueError, MissingRuleError), match="only with respect to x, please"):
        tj.grad(of_jax(total), 1)(*args)


@jax.custom_vjp
def choosy(x: jax.Array, y: jax.Array, z: jax.Array) -> jax.Array:
    return x * y * jnp.cos(z)


def _choosy_fwd(x: Any, y: Any, z: Any) -> tuple[jax.Array, dict[str, jax.Array]]:
    kept = {"y": y.value} if x.perturbed else {}
    kept |= {"x": x.value, "sum": x.value + y.value} if y.perturbed else {}
    return choosy(x.value, y.value, _known(z)), kept


def _choosy_bwd(kept: dict[str, jax.Array], ct: jax.Array) -> tuple[jax.Array | None, ...]:
    wrt_x = 2.0 * ct * kept["y"] if "y" in kept else None
    return wrt_x, ct * kept["x"] * kept["sum"] if "x" in kept else None, None


choosy.defvjp(_choosy_fwd, _choosy_bwd, symbolic_zeros=True)


def test_rules_are_asked_as_if_nobody_had_asked_before() -> None:
    args = (X, Y[0], Y[1])
    closed = jax.make_jaxpr(choosy)(*args)

    def total(*args: jax.Array) -> jax.Array:
        (out,) = jaxpr_as_fun(closed)(*args)  # another equation every time, which has what the first one remembers
        return jnp.sum(jnp.sin(out))

    for argnums in ((0,), (1,), (0,), (0, 1), (2,), (0, 1), (1,), (2,), (0,)):
        ours = of_jax(total)
        if argnums == (2,):
            with pytest.raises((ValueError, MissingRuleError), match="only with respect to x, please"):
                tj.grad(ours, argnums)(*args)
        else:
            wanted = jax.grad(lambda *args: jnp.sum(jnp.sin(choosy(*args))), argnums)(*args)
            np.testing.assert_allclose(tj.grad(ours, argnums)(*args), wanted)


@pytest.mark.parametrize("closing", [False, True])
@pytest.mark.parametrize("reverse", [False, True])
def test_rules_of_functions_of_such_primitives_are_asked_when_they_are_needed(reverse: bool, closing: bool) -> None:
    """Unless they close over what is traced around the function, which is to be found then."""
    asked: list[str] = []

    def f(x: jax.Array, y: jax.Array) -> jax.Array:
        factor = y if closing else 2.0

        def rule(tangent: jax.Array) -> jax.Array:
            asked.append("the rule")
            return 5.0 * tangent * factor

        if reverse:
            g = jax.custom_vjp(lambda x: jax.lax.cond(jnp.all(x > 9), jnp.sin, lambda x: odd(x, x), x))
            g.defvjp(lambda x: (g(x), None), lambda _, ct: (rule(ct),))
            return jnp.sum(jnp.sin(g(x)))
        h = jax.custom_jvp(lambda x: jax.lax.cond(jnp.all(x > 9), jnp.sin, lambda x: odd(x, x), x))
        h.defjvp(lambda primals, tangents: (h(*primals), rule(tangents[0])))
        return jnp.sum(jnp.sin(h(x)))

    ours = of_jax(f)
    tj.make_jaxpr(ours)(X, Y[0])
    assert bool(asked) == closing
    found = tj.vmap(tj.grad(ours), (None, 0))(X, Y)
    np.testing.assert_allclose(found, jax.vmap(jax.grad(f), (None, 0))(X, Y))
    np.testing.assert_allclose(tj.vmap(ours)(Y, Y), jax.vmap(f)(jnp.asarray(Y), jnp.asarray(Y)))


def test_rules_are_asked_with_the_types_that_jax_had() -> None:
    h = jax.custom_jvp(lambda x: odd(x, x))
    h.defjvp(lambda primals, tangents: (h(*primals), 3.0 * tangents[0]))
    program = from_jax(lambda x: odd(h(x), x), X)
    with jax.enable_x64(False):
        found = tj.jvp(lambda x: extended.jaxpr_as_fun(program)(x)[0], (X,), (X,))[1]
    np.testing.assert_allclose(found, jax.jvp(lambda x: odd(h(x), x), (X,), (X,))[1])


def test_equations_are_equal_if_they_have_the_same_derivatives() -> None:
    def rule(eqn: JaxprEqn, program: Jaxpr, marks: tuple[bool, ...]) -> ir.Primitive:
        raise AssertionError("nothing is differentiated")

    (eqn,), (again,) = (jax.make_jaxpr(lambda x: odd(x, x))(X).eqns for _ in range(2))
    program, types = from_jax(odd, X, X).jaxpr, [ir.ShapedArray(X.shape, "float64")]
    plain, same, other = (
        adopted(e, program, types, NO_IMPORTING, r) for e, r in ((eqn, None), (again, None), (eqn, rule))
    )
    assert plain == same
    assert hash(plain) == hash(same)
    assert plain != other
    assert other == adopted(again, program, types, NO_IMPORTING, rule)
    assert same_value(plain, same)
    assert not same_value(plain, other)
    closed = jax.make_jaxpr(picky)(X, Y[0], Y[1], 2)
    assert from_jax(closed) == from_jax(closed)


class _NoImporting:
    def program(self, closed: JaxClosedJaxpr) -> Jaxpr:
        raise AssertionError("nothing is imported")

    def entered(self) -> AbstractContextManager[None]:
        raise AssertionError("nothing is traced")


NO_IMPORTING: Final = _NoImporting()
