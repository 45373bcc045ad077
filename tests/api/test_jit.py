"""`jit`: one trace per signature, calls within programs, static and donated arguments, results on the device."""

from __future__ import annotations

import enum
import subprocess
import sys
from collections.abc import Callable
from functools import partial
from typing import Any, Literal, cast

import jax
import jax.numpy as jnp
import ml_dtypes
import numpy as np
import pytest

import tinyjax as tj
import tinyjax.numpy as tnp
from tests.api.matching import assert_matches
from tests.api.nodes import Layer, Pair
from tinyjax import Array, ShapedArray, ir
from tinyjax.errors import DeletedBufferError, InputError, StaticArgumentError

X = np.array([0.3, -1.2, 2.0])


class Counter:
    """Counts the calls of a function: how often it is traced."""

    def __init__(self, f: Callable[..., Any]) -> None:
        self._f = f
        self.count = 0

    def __call__(self, *args: Any, **kwargs: Any) -> Any:
        self.count += 1
        return self._f(*args, **kwargs)


# Tracing.


def test_traces_once_per_signature() -> None:
    traced: list[str] = []

    @tj.jit
    def f(x: Any) -> Any:
        traced.append(str(x.aval))
        return x * 2

    for argument in (1.0, 2.0, np.float64(1), np.float64(2), np.float32(1), 1, 2, True, X, X + 1, jnp.asarray(X)):
        f(argument)
    assert traced == ["~f64[]", "f64[]", "f32[]", "~i64[]", "bool[]", "f64[3]"]


def test_tree_structures_are_part_of_the_signature() -> None:
    f = Counter(tj.tree.leaves)
    g = tj.jit(f)
    for _ in range(2):
        g({"a": 1.0, "b": 2.0})
        g([1.0, 2.0])
        g((1.0, 2.0))
        g({"a": 1.0, "c": 2.0})
        g(Pair(1.0, 2.0))
        g((1.0, None, 2.0))
    assert f.count == 6


def test_jits_of_one_function_share_their_traces() -> None:
    f = Counter(lambda x: x * 2)
    assert float(tj.jit(f)(1.0)) == float(tj.jit(f)(1.0)) == 2.0
    tj.make_jaxpr(tj.jit(f))(1.0)
    tj.grad(tj.jit(f))(1.0)
    tj.vmap(tj.jit(f))(X)
    assert f.count == 2, "once for a weak scalar, once for an element of X"


def test_a_function_forgets_what_it_was_traced_as() -> None:
    """By whom else it was jitted, for static arguments, within transformations, under a mesh; no other."""
    traced: list[object] = []

    def f(x: Any, scale: object) -> Any:
        traced.append(scale)
        return 2.0 * x

    def g(x: Any) -> Any:
        traced.append("other")
        return x

    first, second = tj.jit(f, static_argnums=1), tj.jit(f, static_argnums=1)
    other = tj.jit(g)

    def calls() -> list[object]:
        traced.clear()
        for scale in ("a", "b"):
            first(np.ones(()), scale)
            second(np.ones(()), scale)
            tj.vmap(lambda x, scale=scale: first(x, scale))(np.ones(3))
        with tj.set_mesh(tj.make_mesh((1,), ("x",))):
            first(np.ones(()), "a")
        other(1.0)
        return [*traced]

    once = calls()
    assert once == ["a", "b", "a", "other"]
    assert calls() == []
    first.clear_cache()
    assert calls() == ["a", "b", "a"]
    other.clear_cache()
    assert calls() == ["other"]
    assert first.explain(np.ones(()), "a").hit


def test_a_function_of_refs_forgets_what_it_was_traced_as() -> None:
    traced = []

    @tj.jit
    def add(ref: tj.Ref, x: Any) -> None:
        traced.append(x)
        ref[...] += x

    ref = tj.new_ref(1.0)
    for _ in range(2):
        add(ref, 1.0)
    assert len(traced) == 1
    add.clear_cache()
    add(ref, 1.0)
    assert len(traced) == 2
    assert float(ref[...]) == 4.0


def test_traces_under_every_transformation_once() -> None:
    """The same program is called whoever calls it."""
    f = Counter(lambda x: tnp.sin(x) * x)
    g = tj.jit(f)
    x = np.float64(0.5)
    g(x)
    tj.grad(g)(x)
    tj.jvp(g, (x,), (x,))
    tj.vmap(tj.grad(g))(X)
    tj.jit(lambda y: g(y) + g(y * 2))(x)
    tj.hessian(g)(x)
    assert f.count == 1


def test_runs_like_the_function() -> None:
    def make(np: Any) -> Any:
        return lambda p, x: {"y": np.tanh(p.weights @ x + p.bias), "n": None, "x": (x, 1.0, 2)}

    layer = Layer(np.arange(6.0).reshape(2, 3), np.ones(2))
    assert_matches(tj.jit(make(tnp))(layer, X), jax.jit(make(jnp))(layer, X))


@pytest.mark.parametrize(
    "f",
    [
        lambda: None,
        lambda: (),
        lambda: 1.0,
        lambda: (np.arange(3), 2, True),
        lambda x=0.0: x,
        lambda x=X: (x, x, {"x": x}),
        lambda x=X: (x, 1.0, None),
    ],
)
def test_missing_constant_and_forwarded_values(f: Callable[..., Any]) -> None:
    args = f.__defaults__ or ()
    assert_matches(tj.jit(f)(*args), jax.jit(f)(*args))
    assert_matches(tj.jit(tj.jit(f))(*args), jax.jit(f)(*args))


def test_arguments_by_keyword() -> None:
    f = Counter(lambda x, *, scale, **rest: x * scale + rest["shift"])
    g = tj.jit(f)
    assert float(g(1.0, scale=2.0, shift=3.0)) == 5.0
    assert float(g(1.0, shift=4.0, scale=2.0)) == 6.0
    assert f.count == 1


def test_names_of_arguments_that_the_library_uses_too() -> None:
    def f(self: Any, args: Any, fun: Any, x: Any) -> Any:
        return self * args * fun * x

    assert float(tj.jit(f)(self=1.0, args=2.0, fun=3.0, x=4.0)) == 24.0
    assert float(tj.jit(f, static_argnames="args")(self=1.0, args=2.0, fun=3.0, x=4.0)) == 24.0
    assert float(tj.grad(f)(1.0, args=2.0, fun=3.0, x=4.0)) == 24.0
    assert tj.jit(f).trace(self=1.0, args=2.0, fun=3.0, x=4.0).eqns
    found = tj.jit(f).lower(self=1.0, args=2.0, fun=3.0, x=4.0).compile()(self=1.0, args=2.0, fun=3.0, x=4.0)
    assert float(found) == 24.0


def test_subclasses_of_python_numbers() -> None:
    class Color(enum.IntEnum):
        RED = 3

    class Length(float):
        pass

    f = tj.jit(lambda x: x * 2)
    assert str(f(Color.RED).aval) == "~i64[]"
    assert str(f(Length(1.5)).aval) == "~f64[]"
    assert float((tnp.ones(1) + Color.RED)[0]) == 4.0


def test_defaults_are_constants() -> None:
    def f(x: Any, scale: float = 3.0, names: tuple[str, ...] = ("a",)) -> Any:
        return x * scale * len(names)

    assert float(tj.jit(f)(2.0)) == 6.0
    assert float(tj.jit(f)(2.0, 4.0)) == 8.0


# Calls within programs.


def test_calls_stay_calls() -> None:
    @tj.jit
    def inner(x: Array) -> Array:
        return tnp.sin(x)

    def outer(x: Array) -> Array:
        return inner(x) + inner(x * 2.0)

    def names(f: Callable[..., Any]) -> list[str]:
        closed = tj.make_jaxpr(f)(np.float64(1.0))
        ir.typecheck(closed)
        return [eqn.primitive.name for eqn in closed.eqns]

    assert names(outer) == ["call", "mul", "call", "add"]
    assert names(tj.jit(outer)) == ["call"]
    assert names(tj.vmap(outer, axis_size=2, in_axes=None)).count("call") == 2
    assert names(tj.grad(outer)).count("call") >= 4
    assert "sin" not in names(tj.grad(outer))
    assert names(lambda x: tj.jvp(outer, (x,), (x,))[1]).count("call") == 2


def test_programs_of_calls_are_shared() -> None:
    inner = tj.jit(tnp.sin)
    closed = tj.make_jaxpr(lambda x: inner(x) * inner(x * 2.0))(1.0)
    first, second = [ir.subjaxprs(eqn.primitive)[0] for eqn in closed.eqns if eqn.primitive.name == "call"]
    assert first is second
    assert tj.jit(lambda x: inner(x) * inner(x * 2.0)).lower(1.0).as_text().count("func.func") == 2


def test_recursion() -> None:
    @partial(tj.jit, static_argnums=0)
    def power(n: int, x: Any) -> Any:
        return x if n == 1 else power(n - 1, x) * x

    assert float(power(5, 2.0)) == 32.0
    assert float(tj.grad(lambda x: power(5, x))(2.0)) == 80.0


# Closures.


def test_closed_over_tracers_are_inputs() -> None:
    def f(x: Any) -> Any:
        @tj.jit
        def inner(y: Any) -> Any:
            return y * x * x

        return inner(x) + inner(2.0)

    assert float(f(3.0)) == 45.0
    assert float(tj.grad(f)(3.0)) == 39.0
    assert float(tj.jit(f)(3.0)) == 45.0
    assert float(tj.jit(tj.grad(tj.grad(f)))(3.0)) == 22.0
    assert_matches(tj.vmap(tj.grad(f))(X), jnp.asarray(3 * X * X + 4 * X))


def test_one_function_with_tracers_of_different_levels() -> None:
    """What a jitted function closes over is read anew while it is being traced by someone, and never mixed up."""
    box: list[Any] = [2.0]
    f = tj.jit(lambda y: y * box[0])
    assert float(f(3.0)) == 6.0

    def g(x: Any) -> Any:
        box[0] = x
        return tj.jit(lambda y: y * box[0])(x)

    assert float(tj.grad(g)(3.0)) == 6.0
    assert float(tj.grad(tj.grad(g))(3.0)) == 2.0

    h = tj.jit(lambda y: y * box[0])

    def level(x: Any) -> Any:
        box[0] = x
        return h(x)

    assert float(tj.grad(level)(5.0)) == 10.0
    assert float(tj.grad(lambda x: tj.grad(level)(x) * x)(5.0)) == 20.0
    assert float(tj.grad(level)(7.0)) == 14.0
    assert_matches(tj.vmap(level)(X), jnp.asarray(X * X))
    box[0] = 3.0
    assert float(h(2.0)) == 6.0, "never cached with a tracer in it"


def test_closed_over_arrays_are_copied_once_traced() -> None:
    table = X.copy()
    f = tj.jit(lambda x: x + table)
    expected = np.asarray(f(1.0))
    table[:] = 100.0
    np.testing.assert_array_equal(f(1.0), expected)
    np.testing.assert_array_equal(tj.jit(lambda x: x + table)(1.0), table + 1)


def test_arguments_and_results_share_no_memory() -> None:
    x = np.ones(100_000)
    y = tj.jit(lambda x: (x, x + 1.0))(x)
    x[:] = 7.0
    assert float(y[0].max()) == 1.0
    assert float(y[1].max()) == 2.0


# Static arguments.


def test_static_arguments() -> None:
    f = Counter(lambda x, n: x * n)
    g = tj.jit(f, static_argnums=1)
    for n in (2, 2, 3, 2.0, True, 2, 3, 2.0, True):
        assert_matches(g(X, n), jnp.asarray(X * n))
    assert f.count == 4, "2, 3, 2.0 and True are different values"


def test_static_arguments_are_compared_within_tuples() -> None:
    f = tj.jit(lambda x, t: x * t[0], static_argnums=1)
    found = [f(2, t) for t in ((1,), (1.0,), (True,))]
    assert [str(y.dtype) for y in found] == ["int64", "float64", "int64"]
    signs = [float(tnp.copysign(1.0, f(2.0, t))) for t in ((0.0,), (-0.0,))]
    assert signs == [1.0, -1.0]
    counter = Counter(lambda x, n: x * n)
    g = tj.jit(counter, static_argnums=1)
    g(1.0, float("nan"))
    g(1.0, float("nan"))
    assert counter.count == 1


@pytest.mark.parametrize("kind", [np.float16, ml_dtypes.bfloat16, np.float32, np.float64, complex, np.complex64])
def test_static_zeros_of_either_sign_are_different(kind: Callable[[float], Any]) -> None:
    counter = Counter(lambda x, zero: x + tnp.copysign(1.0, np.real(zero)))
    f = tj.jit(counter, static_argnums=1)
    assert [float(f(0.0, kind(zero))) for zero in (0.0, -0.0, 0.0, -0.0)] == [1.0, -1.0, 1.0, -1.0]
    f(0.0, kind(np.nan)), f(0.0, kind(np.nan))
    assert counter.count == 3


def test_static_arguments_are_compared_within_frozensets() -> None:
    f = tj.jit(lambda x, numbers: x * max(numbers), static_argnums=1)
    found = [f(2, frozenset({n})) for n in (1, 1.0, True)]
    assert [str(y.dtype) for y in found] == ["int64", "float64", "int64"]


def _power(x: Any, n: int = 2) -> Any:
    return x**n


@pytest.mark.parametrize(
    "options", [{"static_argnums": 1}, {"static_argnums": (-1,)}, {"static_argnames": "n"}, {"static_argnames": ["n"]}]
)
def test_static_by_number_and_by_name(options: dict[str, Any]) -> None:
    f = tj.jit(_power, **options)
    assert float(f(3.0, 3)) == float(f(3.0, n=3)) == 27.0
    assert "integer_pow[y=3]" in str(tj.make_jaxpr(lambda x: f(x, n=3))(1.0))
    assert float(f(3.0)) == 9.0


def test_static_by_number_and_by_name_at_once_is_what_is_said() -> None:
    """Then neither says anything of the other."""
    seen: list[tuple[bool, bool]] = []

    def known(x: object, y: object) -> int:
        seen.append((isinstance(x, tj.Array), isinstance(y, tj.Array)))
        return 1

    f = tj.jit(known, static_argnums=(1,), static_argnames="x")
    f(2, "a"), f(1, y=3), f(x="a", y=3)
    assert seen == [(True, False), (True, True), (False, True)]


@pytest.mark.parametrize("kind", ["static", "donate"])
def test_names_that_no_argument_can_be_given_by(kind: str) -> None:
    def f(a: object, /, b: object, *args: object, **more: object) -> None: ...

    fine: dict[str, Any] = {f"{kind}_argnames": ("b", "other")}
    tj.jit(f, **fine)
    for name in ("a", "args"):
        wrong: dict[str, Any] = {f"{kind}_argnames": name}
        with pytest.raises(StaticArgumentError, match=f"argument '{name}' of f, which is marked .*: mark its position"):
            tj.jit(f, **wrong)


def test_static_arguments_of_any_hashable_kind() -> None:
    apply = tj.jit(lambda f, x, options=(): f(x) * len(options), static_argnums=(0, 2))
    assert float(apply(tnp.square, 3.0, ("a", "b"))) == 18.0
    assert float(apply(tnp.negative, 3.0, ("a", "b"))) == -6.0
    with pytest.raises(StaticArgumentError, match=r"argument 0 of .*must be hashable; got a list: \[1\]"):
        apply([1], 3.0)


def test_decorator_with_options() -> None:
    @tj.jit(static_argnames=("n",))
    def f(x: Any, n: int) -> Any:
        """Documentation."""
        return x * n

    assert float(f(2.0, n=3)) == 6.0
    assert (f.__name__, f.__doc__) == ("f", "Documentation.")


# Donation.


def test_donated_arguments_are_deleted() -> None:
    f = tj.jit(lambda x, y: x + y, donate_argnums=0)
    x = tj.device_put(tnp.asarray(X))
    y = tj.device_put(tnp.asarray(X))
    np.testing.assert_array_equal(f(x, y), X + X)
    assert x.is_deleted()
    assert not y.is_deleted()
    uses: list[Callable[[], object]] = [lambda: f(x, y), lambda: np.asarray(x), lambda: repr(x), lambda: x + 1.0]
    for use in uses:
        with pytest.raises(DeletedBufferError, match=r"f64\[3\] on .* was used after it had been donated or deleted"):
            use()


def test_donated_trees_and_names() -> None:
    f = tj.jit(lambda p, x: {k: v * x for k, v in p.items()}, donate_argnames="p")
    calls: list[Callable[[Any], Any]] = [lambda p: f(p, 2.0), lambda p: f(p=p, x=2.0)]
    for call in calls:
        p = tj.device_put({"a": tnp.asarray(X), "b": tnp.asarray(X + 1)})
        np.testing.assert_array_equal(call(p)["b"], 2 * (X + 1))
        assert p["a"].is_deleted()
        assert p["b"].is_deleted()


def test_donated_host_arrays_and_traced_values_are_left_alone() -> None:
    f = tj.jit(lambda x: x * x, donate_argnums=0)
    x = X.copy()
    np.testing.assert_array_equal(f(x), X * X)
    np.testing.assert_array_equal(x, X)
    y = tj.device_put(tnp.asarray(X))
    np.testing.assert_array_equal(tj.grad(lambda y: tnp.sum(f(y)))(y), 2 * X)
    np.testing.assert_array_equal(tj.vmap(f)(y), X * X)
    np.testing.assert_allclose(tj.jit(lambda y: f(y) + y)(y), X * X + X)
    assert not y.is_deleted()


# Kinds of callables.


class Model:
    """Methods and callable objects."""

    def __init__(self, scale: float) -> None:
        self.scale = scale

    @partial(tj.jit, static_argnums=0)
    def method(self, x: Any) -> Any:
        return x * self.scale

    def plain(self, x: Any) -> Any:
        return x * self.scale

    def __call__(self, x: Any) -> Any:
        return x * self.scale

    @staticmethod
    @tj.jit
    def static(x: float) -> Any:
        return x * 2.0

    @classmethod
    def cls(cls, x: Any) -> Any:
        return x * 2.0


@tj.jit
def module_level(x: Any) -> Any:
    return x * 2.0


def test_methods_partials_and_objects() -> None:
    model, other = Model(3.0), Model(4.0)
    assert (float(model.method(2.0)), float(other.method(2.0)), float(Model.method(model, 2.0))) == (6.0, 8.0, 6.0)
    assert (float(tj.jit(model.plain)(2.0)), float(tj.jit(other.plain)(2.0))) == (6.0, 8.0)
    assert (float(tj.jit(model)(2.0)), float(tj.jit(other)(2.0))) == (6.0, 8.0)
    assert float(Model.static(2.0)) == float(model.static(2.0)) == float(tj.jit(Model.cls)(2.0)) == 4.0
    assert float(tj.jit(partial(_power, n=3))(2.0)) == 8.0
    assert float(tj.jit(tnp.sin)(0.0)) == 0.0
    assert float(tj.jit(abs)(-3.0)) == 3.0
    assert float(tj.grad(tj.jit(model.plain))(1.0)) == 3.0


def test_functions_that_cannot_be_hashed() -> None:
    class Unhashable:
        __hash__ = None  # type: ignore[assignment]  # what a class with __eq__ alone has

        def __call__(self, x: Any) -> Any:
            return x * 2.0

    f = tj.jit(Unhashable())
    assert float(f(2.0)) == float(f(2.0)) == 4.0


def test_no_options_is_the_default() -> None:
    f = tj.jit(_power, static_argnums=None, static_argnames=None, donate_argnums=None, donate_argnames=None)
    assert float(f(3.0)) == 9.0


def test_wraps_the_function() -> None:
    assert module_level.__name__ == "module_level"
    assert module_level.__module__ == __name__
    assert repr(module_level).startswith("<jit of <function module_level")
    assert tj.jit(tj.grad(_power)).__name__ == "_power"


# Stages.


def test_lower_and_compile() -> None:
    f = tj.jit(lambda x, y: {"sum": x + y["b"]})
    lowered = f.lower(ShapedArray((3,), "float32"), {"b": jax.ShapeDtypeStruct((), jnp.float32)})
    assert "stablehlo.add" in lowered.as_text()
    assert "tensor<3xf32>" in lowered.as_text()
    compiled = lowered.compile()
    x = X.astype(np.float32)
    np.testing.assert_array_equal(compiled(x, {"b": np.float32(1)})["sum"], x + 1)
    assert "HloModule" in compiled.as_text()
    assert compiled.cost_analysis()["flops"] >= 0
    with pytest.raises(InputError, match=r"was compiled for \(x: f32\[3\], .*: f32\[\]\), got \(f64\[3\], f32\[\]\)"):
        compiled(X, {"b": np.float32(1)})
    with pytest.raises(ValueError, match=r"must have the same structure, but differ at \[0\]\[1\]\['b'\]"):
        compiled(x, {"c": np.float32(1)})
    with pytest.raises(InputError, match="a compiled function can't be transformed"):
        tj.grad(lambda x: compiled(x, {"b": np.float32(1)})["sum"][0])(tnp.asarray(x))


def test_lower_with_static_donated_and_constant_values() -> None:
    table = X.copy()
    f = tj.jit(lambda x, n: (x * n + table, 2.0), static_argnums=1, donate_argnums=0)
    lowered = f.lower(X, 3)
    assert "dense<[3.0" in lowered.as_text() or "constant dense<" in lowered.as_text()
    x = tj.device_put(tnp.asarray(X))
    np.testing.assert_array_equal(lowered.compile()(x)[0], X * 3 + table)
    assert x.is_deleted()


def test_trace() -> None:
    traced = tj.jit(lambda x: 2.0 * x).trace(ShapedArray((), "float64"))
    assert str(traced.jaxpr) == "{ lambda ; a:f64[]. let b:f64[] = mul 2.0 a in (b,) }"


def test_lowering_is_deterministic() -> None:
    texts = {tj.jit(lambda x: tnp.sin(x) * tj.jit(tnp.cos)(x)).lower(X).as_text() for _ in range(2)}
    assert len(texts) == 1


# Results.


def test_results_stay_on_the_device() -> None:
    y = tj.jit(lambda x: x * 2.0)(X)
    assert y.platform in ("cpu", "gpu", "cuda")
    assert (y + 1.0).platform == y.platform
    assert tnp.asarray(X).platform == "host"
    np.testing.assert_array_equal(np.asarray(y), 2 * X)
    np.testing.assert_array_equal(np.add(y, 1.0), 2 * X + 1)
    np.testing.assert_array_equal(jnp.asarray(y) + 1, 2 * X + 1)
    np.testing.assert_array_equal(np.from_dlpack(y), 2 * X)
    assert_matches(tj.jit(lambda z: z + 1.0)(y), jnp.asarray(2 * X + 1))
    assert_matches(tj.jit(lambda z: z + 1.0)(jnp.asarray(X)), jnp.asarray(X + 1))
    assert float(y[0]) == 0.6
    assert y.block_until_ready() is y


def test_weak_types_pass_through() -> None:
    f = tj.jit(lambda x: x * 2)
    assert str(f(1.0).aval) == "~f64[]"
    assert str((f(1.0) * np.float32(2)).dtype) == "float32"
    assert str(f(np.float32(1)).aval) == "f32[]"


# Failures.


def test_a_failure_leaves_nothing_behind() -> None:
    fail = [True]

    @tj.jit
    def f(x: Any) -> Any:
        if fail[0]:
            raise RuntimeError("not today")
        return x * 2.0

    for transformed in (f, tj.grad(f), tj.vmap(tj.jit(f)), lambda x: tj.jvp(f, (x,), (x,)), tj.jit(lambda x: f(f(x)))):
        with pytest.raises(RuntimeError, match="not today"):
            transformed(X)
    fail[0] = False
    assert float(f(1.0)) == 2.0


# Without JAX's switch for 64 bits.

WITHOUT_X64 = """
import jax, numpy as np, tinyjax as tj, tinyjax.numpy as tnp
x = 1.0 + 2.0**-40
assert float(tj.jit(lambda x: x * 1.0)(x)) == x
assert float(tj.grad(lambda x: x * x)(x)) == 2 * x
assert int(tj.jit(lambda n: n + 1)(2**40)) == 2**40 + 1
y = tj.jit(lambda x: {"y": x + tnp.arange(3)})(np.ones(3))["y"]
assert str(y.dtype) == "float64" and np.asarray(y).dtype == np.float64
assert tj.jit(lambda x: x)(np.arange(3)).dtype == np.int64
assert tj.jit(lambda x: x)(np.ones(2, np.complex128) * 1j).dtype == np.complex128
assert float(tj.device_put(x)) == x
assert np.from_dlpack(y).dtype == np.float64
assert jax.config.jax_enable_x64 is False
assert jax.numpy.asarray(1.0).dtype == np.float32
assert jax.jit(lambda x: x * 2)(1.0).dtype == np.float32
assert str(tj.jit(lambda x: x * 2)(jax.numpy.asarray(1.0)).dtype) == "float32"
"""


@pytest.mark.sweep
def test_independent_of_the_x64_flag() -> None:
    subprocess.run([sys.executable, "-W", "error", "-c", WITHOUT_X64], check=True)


def test_text_in_another_dialect() -> None:
    lowered = tj.jit(lambda x: 2.0 * x).lower(1.0)
    assert lowered.as_text("stablehlo") == lowered.as_text()
    assert "ROOT multiply" in lowered.as_text("hlo")
    with pytest.raises(InputError, match="the dialect is 'stablehlo' or 'hlo', got 'mhlo'"):
        lowered.as_text(cast("Literal['hlo']", "mhlo"))


def test_inline() -> None:
    inner = tj.jit(lambda x, n: x**n, static_argnums=1, inline=True)
    outer = tj.make_jaxpr(lambda x: inner(x, 3) + inner(2.0 * x, 2))(1.0)
    assert outer == tj.make_jaxpr(lambda x: x**3 + (2.0 * x) ** 2)(1.0)
    assert inner(2.0, 3) == 8.0
    assert tj.jit(tj.grad(lambda x: inner(x, 3)))(2.0) == 12.0
    np.testing.assert_array_equal(tj.vmap(lambda x: inner(x, 2))(np.arange(3.0)), np.arange(3.0) ** 2)
