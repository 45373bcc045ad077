"""Every kind of bad input, by its message: what is wrong, where, and what to do. Afterwards all is as before."""

from __future__ import annotations

import copy
import re
import weakref
from collections.abc import Callable
from functools import partial
from typing import Any, ClassVar, final

import jax
import numpy as np
import pytest
from attrs import frozen
from typing_extensions import override

import tinyjax as tj
import tinyjax.numpy as tnp
from tinyjax import Array, ShapedArray, lax
from tinyjax.errors import (
    AllocationError,
    AxisNameError,
    BatchSizeError,
    ConcretizationError,
    InputError,
    LeakedTracerError,
    LinearityError,
    MissingRuleError,
    ParameterError,
    StaticArgumentError,
    TinyjaxError,
    TreeError,
    XlaError,
)
from tinyjax.ir import HostArray, Primitive
from tinyjax.tracing.concrete import as_array
from tinyjax.tracing.core import bind

X = np.array([0.3, -1.2, 2.0])
HERE = re.escape(__file__)


def raises(kind: type[TinyjaxError], *parts: str) -> Any:
    """The error has these parts in its message, or in its notes, in this order."""
    return pytest.raises(kind, match="(?s)" + ".*".join(parts))


# Trees.


def test_tangents_of_another_tree() -> None:
    with raises(
        TreeError, r"jvp: the primals and the tangents must have", r"differ at \[0\]\['a'\]", r"\(\{'b': \*\},\)"
    ):
        tj.jvp(lambda p: p["a"], ({"a": 1.0},), ({"b": 1.0},))
    with raises(TreeError, r"differ at \[1\]", r"the primals: \(\*, \*\)", r"the tangents: \(\*,\)"):
        tj.jvp(lambda x, y: x, (1.0, 2.0), (1.0,))
    with raises(TreeError, r"linearize: the primals and the tangents must have", r"differ at \[0\]\[1\]"):
        tj.linearize(lambda p: p[0], [1.0, 2.0])[1]([1.0])
    with raises(TreeError, r"differ:|differ at", r"\{'a': None\}"):
        tj.jvp(lambda p: 1.0, ({"a": None},), ({"a": 1.0},))


def test_cotangents_of_another_tree() -> None:
    def pair(x: Any) -> Any:
        return x, {"b": x}

    _, pull_back = tj.vjp(pair, 1.0)
    with raises(TreeError, r"vjp: the result of pair and the cotangent must have", r"differ at \[1\]\['b'\]"):
        pull_back((1.0, {"c": 1.0}))
    with raises(InputError, r"vjp: the cotangent\[1\]\['b'\]: 'no' of type str is not an array"):
        pull_back((1.0, {"b": "no"}))
    with raises(TreeError, "linear_transpose: the result of pair and the cotangent"):
        tj.linear_transpose(pair, 1.0)(1.0)
    with raises(InputError, r"linear_transpose: the cotangent\[0\]: 'no' of type str is not an array"):
        tj.linear_transpose(pair, 1.0)(("no", {"b": 1.0}))


def test_axes_of_another_tree() -> None:
    tree = {"a": X, "b": [X, X]}
    shown = r"in_axes: \(\{'a': 0, 'b': \(0, 0\)\},\)", r"the arguments: \(\{'a': \*, 'b': \[\*, \*\]\},\)"
    with raises(
        TreeError, r"in_axes must be a prefix of the tree of the arguments, but differs at \[0\]\['b'\]:", *shown
    ):
        tj.vmap(lambda p: p["a"], in_axes=({"a": 0, "b": (0, 0)},))(tree)
    with raises(TreeError, r"but differs at \[0\]:", r"\{'a': 0\}"):
        tj.vmap(lambda p: p["a"], in_axes=({"a": 0},))(tree)
    with raises(TreeError, r"out_axes must be a prefix of the tree of the results, but differs at the root"):
        tj.vmap(lambda p: p["a"], out_axes=(0, 0))(tree)
    with raises(InputError, "vmap: in_axes has 2 entries, but <lambda> got 1 positional arguments"):
        tj.vmap(lambda p: p["a"], in_axes=(0, 0))(tree)


def test_trees_of_tree_map() -> None:
    with raises(TreeError, r"tree.map: the first tree and another tree must have", r"differ at \['a'\]"):
        tj.tree.map(lambda x, y: x, {"a": 1}, {"b": 1})


# Types of tangents and cotangents.


def test_tangents_of_other_types() -> None:
    f: Callable[..., Any] = lambda p, n: p["x"] * n  # noqa: E731
    zero = np.zeros((), tj.float0)
    with raises(InputError, r"jvp: the tangent of p\['x'\] must have type f64\[3\], that of its primal; got f64\[2\]"):
        tj.jvp(f, ({"x": X}, 2), ({"x": X[:2]}, zero))
    with raises(InputError, r"jvp: the tangent of n must have type float0\[\]", "pass zeros of dtype tinyjax.float0"):
        tj.jvp(f, ({"x": X}, 2), ({"x": X}, 1))
    with raises(InputError, r"must have type f64\[3\], that of its primal; got f32\[3\]"):
        tj.jvp(f, ({"x": X}, 2), ({"x": X.astype(np.float32)}, zero))
    with raises(InputError, r"must have type f32\[\], that of its primal; got ~c128\[\]"):
        tj.jvp(lambda x: x, (np.float32(1),), (1j,))
    with raises(InputError, r"linearize: the tangent of x must have type ~f64\[\], that of its primal; got f64\[3\]"):
        tj.linearize(lambda x: x, 1.0)[1](X)
    with raises(
        InputError, r"vjp: the cotangent of result\[1\] of <lambda> must have type ~f64\[\], that of its result"
    ):
        tj.vjp(lambda x: (x, x), tnp.asarray(1.0))[1]((tnp.asarray(1.0), tnp.asarray(X)))
    with raises(InputError, "jvp takes a tuple of primals and one of tangents, got 1.0 and 1.0"):
        tj.jvp(lambda x: x, 1.0, 1.0)  # type: ignore[call-overload]  # the mistake
    with raises(InputError, "linear_transpose takes floating-point and complex arguments; n is ~i64"):
        tj.linear_transpose(lambda n: n, 1)


# Gradients.


def loss(x: Any, y: Any = 1.0) -> Any:
    return x * y


LOSS = rf"grad of loss \({HERE}:\d+\)"


def test_gradients_of_what_is_no_scalar() -> None:
    said = r"Gradient only defined for scalar-output functions. Output had shape: \(3,\). Sum it, or use jacrev"
    with raises(InputError, rf"{LOSS}: {said}"):
        tj.grad(loss)(X)
    with raises(InputError, r"grad of <lambda> .* needs a function with one scalar result; it returned \(ShapedArray"):
        tj.grad(lambda x: (x, x))(1.0)
    with raises(InputError, r"needs a function with one scalar result; it returned None"):
        tj.grad(lambda x: None)(1.0)
    with raises(InputError, r"needs a function with a real, floating-point result; it returned i32\[\]"):
        tj.grad(lambda x: x.astype(np.int32))(1.0)
    with raises(InputError, r"it returned ~c128\[\]. Take its real part, or pass holomorphic=True"):
        tj.grad(lambda x: x * 1j)(1.0)
    with raises(InputError, r"holomorphic=True needs a complex result; it returned ~f64\[\]"):
        tj.grad(lambda x: x.real, holomorphic=True)(1j)
    with raises(InputError, r"holomorphic=True needs complex arguments; x is ~f64\[\]"):
        tj.grad(lambda x: x * 1j, holomorphic=True)(1.0)
    with raises(InputError, r"with has_aux=True, <lambda> must return a pair \(result, auxiliary\); got Tracer"):
        tj.grad(lambda x: x, has_aux=True)(1.0)


def test_gradients_with_respect_to_integers() -> None:
    with raises(
        InputError, rf"{LOSS} needs arguments of floating-point or complex dtype; x is ~i64\[\]", "allow_int=True"
    ):
        tj.grad(loss)(3)
    with raises(InputError, r"y\['n'\] is i64\[3\]. Convert it to a float, leave it out of argnums"):
        tj.grad(lambda x, y: tnp.sum(y["n"]) * x, argnums=(0, 1))(1.0, {"n": np.arange(3)})
    with raises(InputError, r"value_and_grad of <lambda> .* xs\[1\] is bool\[\]"):
        tj.value_and_grad(lambda *xs: xs[0] * xs[1], argnums=1)(1.0, True)


def test_argnums() -> None:
    with raises(InputError, "grad: argnums 2 is out of range: the call has 2 positional arguments"):
        tj.grad(loss, argnums=2)(1.0, 2.0)
    with raises(InputError, "grad: argnums -3 is out of range"):
        tj.grad(loss, argnums=-3)(1.0, 2.0)
    with raises(InputError, r"grad: argnums \(0, 0\) names an argument twice"):
        tj.grad(loss, argnums=(0, 0))(1.0, 2.0)
    with raises(InputError, "positions of arguments are integers, got 1.5"):
        tj.grad(loss, argnums=1.5)(1.0, 2.0)  # type: ignore[call-overload]  # the mistake


# Batches.


def test_batch_sizes() -> None:
    sizes = (
        r"3 along axis 0 of argument x of loss, f64\[3\]",
        r"2 along axis 1 of argument y\['b'\] of loss, f64\[4,2\]",
    )
    with raises(BatchSizeError, rf"vmap of loss \({HERE}:\d+\): the mapped axes must have one size, but have", *sizes):
        tj.vmap(loss, in_axes=(0, 1))(X, {"b": np.ones((4, 2))})
    with raises(BatchSizeError, r"3 along axis 0 of argument x", "5 asked for by axis_size"):
        tj.vmap(loss, axis_size=5)(X)
    with raises(BatchSizeError, "no argument is mapped; map at least one, or pass axis_size"):
        tj.vmap(loss, in_axes=None)(X)
    with raises(BatchSizeError, "no argument is mapped"):
        tj.vmap(lambda: 1.0)()


def test_axes_out_of_range() -> None:
    with raises(BatchSizeError, "axis 1 is out of range for argument y of loss, which has 1 dimensions"):
        tj.vmap(loss, in_axes=(0, 1))(X, X)
    with raises(BatchSizeError, "axis -2 is out of range for argument x of loss, which has 1 dimensions"):
        tj.vmap(loss, in_axes=-2)(X)
    with raises(BatchSizeError, "which has 0 dimensions. Map it with None to use the same value for every element"):
        tj.vmap(loss)(X, 2.0)
    with raises(BatchSizeError, r"axis 2 is out of range for result\['a'\] of <lambda>, which has 1 dimensions"):
        tj.vmap(lambda x: {"a": x}, out_axes=2)(X)
    with raises(InputError, "an axis is an integer or None, got 'x' for argument x of loss"):
        tj.vmap(loss, in_axes=("x", None))(X, 1.0)
    with raises(InputError, "an axis is an integer or None, got True"):
        tj.vmap(loss, in_axes=(True, None))(X, 1.0)
    with raises(InputError, "out_axes is None for result of <lambda>, which differs from element to element"):
        tj.vmap(lambda x: x, out_axes=None)(X)


def test_unbound_axis_names() -> None:
    def f(x: Any) -> Any:
        return lax.psum(x, "rows")

    calls: list[Callable[[], Any]] = [
        lambda: f(1.0),
        lambda: tj.jit(f)(1.0),
        lambda: tj.vmap(f)(X),
        lambda: tj.grad(f)(1.0),
    ]
    for call in calls:
        with raises(
            AxisNameError, r"unbound axis name: 'rows'. Axes in scope: none. Bind it with vmap\(..., axis_name="
        ):
            call()
    with raises(AxisNameError, r"unbound axis name: 'rows'. Axes in scope: 'columns'"):
        tj.vmap(f, axis_name="columns")(X)


# Numbers that aren't there.

BRANCHES: dict[str, tuple[Callable[[Any], object], str]] = {
    "bool": (lambda x: 1.0 if x > 0 else 2.0, r"can't decide a branch \(bool\)"),
    "while": (lambda x: [x for _ in iter(lambda: bool(x), False)], r"can't decide a branch \(bool\)"),
    "int": (int, "can't be converted to int"),
    "float": (float, "can't be converted to float"),
    "complex": (complex, "can't be converted to complex"),
    "range": (lambda x: list(range(x)), "can't be used as an index or size"),
    "index": (lambda x: [1, 2, 3][x], "can't be used as an index or size"),
    "numpy": (np.asarray, "can't be converted to a NumPy array"),
    "ufunc": (np.sin, "can't be converted to a NumPy array"),
    "item": (lambda x: x.item(), "can't be converted to a Python scalar"),
    "tolist": (lambda x: x.tolist(), "can't be converted to a list"),
    "format": (lambda x: f"{x:.3f}", "can't be converted to text"),
    "jax": (jax.numpy.asarray, r"can't be converted to a jax.Array"),
    "dlpack": (np.from_dlpack, "can't be shared through DLPack"),
}


@pytest.mark.parametrize("name", BRANCHES)
def test_staged_values_have_no_elements(name: str) -> None:
    f, what = BRANCHES[name]

    def g(n: Any) -> Any:
        f(n)
        return n

    calls: list[Callable[[], Any]] = [
        lambda: tj.jit(g)(3),
        lambda: tj.make_jaxpr(g)(3),
        lambda: tj.eval_shape(g, 3),
        lambda: tj.jit(tj.vmap(g, in_axes=None, axis_size=2))(3),
        lambda: tj.vmap(tj.jit(g))(np.arange(3)),
    ]
    for call in calls:
        with raises(
            ConcretizationError, r"A value of type ", r"traced by \w+ of ", what, "it has no elements yet", "static"
        ):
            call()


@pytest.mark.parametrize("name", BRANCHES)
def test_mapped_values_have_many_elements(name: str) -> None:
    f, what = BRANCHES[name]

    def g(n: Any) -> Any:
        f(n)
        return n

    where = r"used at .*array_constructors.py" if name == "jax" else rf"used at {HERE}:\d+ \("
    mapped = tj.vmap(g)
    for call in (partial(mapped, np.arange(3)), partial(tj.jit(mapped), np.arange(3))):
        with raises(ConcretizationError, where, what,
                    rf"differs from element to element of the batch of vmap of g \({HERE}:\d+\)", "map"):  # fmt: skip
            call()


def test_names_of_staged_values() -> None:
    """The message says which value it is: an argument by its path, or the line that computed it."""
    with raises(ConcretizationError, r"of type ~f64\[\], argument p\['a'\]\[1\], traced by jit of <lambda> "):
        tj.jit(lambda n, p: p["a"][0] if p["a"][1] else n)(0, {"a": (1.0, 2.0)})
    with raises(ConcretizationError, r"of type ~i64\[\], argument second, traced by"):
        tj.jit(lambda first, second: range(second), static_argnums=0)(1, 2)

    def branch(x: Any) -> Any:
        return 1.0 if x > 0 else 2.0

    line = branch.__code__.co_firstlineno + 1
    runs: list[Callable[[Any], Any]] = [tj.jit(branch), tj.jit(tj.grad(branch))]
    for run in runs:
        with raises(ConcretizationError, rf"the result of 'gt' at {HERE}:{line} \(.*branch\), traced by jit of branch"):
            run(1.0)


def test_python_control_flow_works_where_numbers_are_known() -> None:
    def f(x: Any) -> Any:
        return x * int(x) if x > 0 and float(x) < 10 and f"{x:.1f}" else -x

    for run in (
        f,
        tj.grad(f),
        lambda x: tj.jvp(f, (x,), (1.0,))[1],
        lambda x: tj.vjp(f, x)[1](1.0)[0],
        tj.grad(tj.grad(f)),
    ):
        run(3.0)
    assert float(tj.grad(f)(3.5)) == 3.0


# Leaked values.


@pytest.mark.parametrize("name", ["jit", "make_jaxpr", "jvp", "vmap", "vjp", "linearize", "grad"])
def test_leaked_tracers(name: str) -> None:
    leaked: list[Any] = []

    def g(x: Any) -> Any:
        leaked.append(x * 2.0)
        return x

    x = tnp.asarray(np.float64(1.0))
    runs: dict[str, Callable[[], Any]] = {
        "jit": lambda: tj.jit(g)(x),
        "make_jaxpr": lambda: tj.make_jaxpr(g)(x),
        "jvp": lambda: tj.jvp(g, (x,), (x,)),
        "vmap": lambda: tj.vmap(g)(X),
        "vjp": lambda: tj.vjp(g, x),
        "linearize": lambda: tj.linearize(g, x),
        "grad": lambda: tj.grad(g)(x),
    }
    runs[name]()
    (y,) = leaked
    message = rf"A value of type f64\[\] was used after {name} of g \({HERE}:\d+\) had ended: it escaped"
    uses: list[Callable[[], Any]] = [
        lambda: y + 1.0,
        lambda: 1.0 - y,
        lambda: tnp.sin(y),
        lambda: float(y),
        lambda: bool(y),
        lambda: np.asarray(y),
        lambda: tj.jit(lambda x: x)(y),
        lambda: tj.jit(lambda x: x + y)(1.0),
        lambda: tj.jit(lambda x: y)(1.0),
        lambda: tj.grad(lambda x: x * y)(1.0),
        lambda: tj.grad(lambda x: x)(y),
        lambda: tj.vmap(lambda x: x * y)(X),
        lambda: tj.vmap(lambda x: y)(X),
        lambda: tj.jvp(lambda x: y, (1.0,), (1.0,)),
        lambda: tj.jvp(lambda x: x, (1.0,), (y,)),
        lambda: tj.vjp(lambda x: x, 1.0)[1](y),
    ]
    for use in uses:
        with raises(LeakedTracerError, message):
            use()
    assert repr(y).startswith("Tracer(f64[], ")


def test_leaks_between_nested_transformations() -> None:
    leaked: list[Any] = []

    def inner(y: Any) -> Any:
        leaked.append(y)
        return y

    def outer(x: Any) -> Any:
        tj.jvp(inner, (x,), (x,))
        return x * leaked[-1]

    for run in (tj.jit(outer), tj.grad(outer), tj.vmap(outer, in_axes=None, axis_size=3)):
        with raises(LeakedTracerError, r"was used after jvp of inner \(.*\) had ended"):
            run(1.0)


def test_stateful_functions_can_be_traced_again() -> None:
    """A value that escaped from one trace doesn't break the next one, if it isn't used."""
    state: dict[str, Any] = {}

    @tj.jit
    def f(x: Any) -> Any:
        state["last"] = x
        return x * 2.0

    assert float(f(1.0)) == 2.0
    assert float(tj.grad(f)(np.float64(1.0))) == 2.0


# Arguments and results that are no arrays.


def test_arguments_that_are_no_arrays() -> None:
    thing = object()
    calls: list[tuple[Callable[[], Any], str]] = [
        (lambda: tj.jit(loss)("text"), r"argument x of loss: 'text' of type str is not an array"),
        (lambda: tj.jit(loss)(1.0, {"k": [thing]}), r"argument y\['k'\]\[0\] of loss: <object object"),
        (lambda: tj.grad(loss)(1.0j * np.ones(1, object)), r"argument x of loss: arrays of dtype object"),
        (lambda: tj.vmap(loss)(np.array(["a", "b"])), r"argument x of loss: arrays of dtype <U1 are not supported"),
        (lambda: tj.jvp(loss, (thing,), (1.0,)), r"argument x of loss: <object object"),
        (lambda: tj.jvp(loss, (1.0,), (thing,)), r"of loss: <object object"),
        (lambda: tj.jit(lambda *xs: xs)(1.0, "text"), r"argument xs\[1\] of <lambda>: 'text'"),
        (lambda: tj.jit(lambda **kw: kw)(name="text"), r"argument name of <lambda>: 'text'"),
        (lambda: tj.jit(lambda n, x: x, static_argnums=0)(1, "text"), r"argument x of <lambda>: 'text'"),
        (lambda: tj.jit(loss)(2**70), "argument x of loss: the integer 1180591620717411303424 doesn't fit in 64 bits"),
        (
            lambda: tj.jit(loss)(np.ma.masked_array([1.0], [True])),
            r"argument x of loss: masked arrays are not supported",
        ),
        (lambda: tj.make_jaxpr(loss)("text"), "'text' of type str is not an array"),
        (lambda: tj.eval_shape(loss, "text"), "'text' of type str is not an array"),
        (lambda: tnp.sin("text"), "'text' of type str is not an array"),  # type: ignore[arg-type]  # the mistake
        (lambda: tnp.asarray(1.0) + "text", "text|unsupported operand"),  # type: ignore[operator]  # the mistake
    ]
    for call, message in calls[:-1]:
        with raises(InputError, message, "Pass NumPy arrays, scalars, or trees|not supported|64 bits"):
            call()
    with pytest.raises(TypeError, match=calls[-1][1]):
        calls[-1][0]()


def test_results_that_are_no_arrays() -> None:
    def f(x: Any) -> Any:
        return {"a": x, "b": ["text"]}

    calls: list[Callable[[], Any]] = [
        lambda: tj.jit(f)(1.0),
        lambda: tj.vmap(f)(X),
        lambda: tj.make_jaxpr(f)(1.0),
        lambda: tj.jvp(f, (1.0,), (1.0,)),
        lambda: tj.vjp(f, 1.0),
    ]
    for call in calls:
        with raises(InputError, r"result\['b'\]\[0\] of f: 'text' of type str is not an array"):
            call()


def test_what_is_no_function() -> None:
    names = ["jit", "grad", "value_and_grad", "vmap", "jacfwd", "jacrev", "make_jaxpr"]
    for name in names:
        with raises(InputError, rf"{name} needs a function to transform, got 3"):
            getattr(tj, name)(3)
    for name in ("linearize", "vjp", "linear_transpose", "eval_shape"):
        with raises(InputError, rf"{name} needs a function to transform, got None"):
            getattr(tj, name)(None, 1.0)
    with raises(InputError, "jvp needs a function to transform, got None"):
        tj.jvp(None, (1.0,), (1.0,))  # type: ignore[call-overload]  # the mistake


def test_missing_arguments_are_pythons_own_error() -> None:
    with pytest.raises(TypeError, match="missing 1 required positional argument: 'x'"):
        tj.jit(loss)()  # type: ignore[call-arg]  # the mistake
    with pytest.raises(TypeError, match="takes from 1 to 2 positional arguments but 3 were given"):
        tj.jit(loss)(1.0, 2.0, 3.0)  # type: ignore[call-arg]  # the mistake


# Static arguments.


def test_static_arguments() -> None:
    with raises(StaticArgumentError, r"argument 0 of loss is static, so it must be hashable; got a dict: \{'a': 1\}",
                "Pass a tuple or another immutable value, or don't mark it static"):  # fmt: skip
        tj.jit(loss, static_argnums=0)({"a": 1}, 1.0)
    with raises(StaticArgumentError, r"argument 'y' of loss is static, so it must be hashable; got a ndarray"):
        tj.jit(loss, static_argnames="y")(1.0, y=X)
    with raises(StaticArgumentError, r"argument 1 of loss is static, so it must be hashable; got a Tracer"):
        tj.jit(lambda y: tj.jit(loss, static_argnums=1)(1.0, y))(2.0)
    with raises(StaticArgumentError, "loss has 2 positional arguments; number 5 is marked static"):
        tj.jit(loss, static_argnums=5)
    with raises(StaticArgumentError, "loss has no argument 'z', which is marked static"):
        tj.jit(loss, static_argnames="z")
    with raises(StaticArgumentError, "loss has 2 positional arguments; number 5 is marked donated"):
        tj.jit(loss, donate_argnums=5)
    with raises(StaticArgumentError, "jit: arguments can't be both static and donated"):
        tj.jit(loss, static_argnums=0, donate_argnames="x")


# Missing rules.


@final
@frozen
class Bare(Primitive):
    """No rules at all."""

    name: ClassVar[str] = "bare"


@frozen
class Half(Primitive):
    """Typing and evaluation only."""

    name: ClassVar[str] = "multiply_add"

    @override
    def type_of(self, *avals: ShapedArray) -> tuple[ShapedArray, ...]:
        return avals[:1]

    @override
    def evaluate(self, *args: HostArray) -> tuple[HostArray, ...]:
        return args[:1]


def half(x: Any) -> Array:
    return bind(Half(), as_array(x))[0]


def bare(x: Any) -> Array:
    return bind(Bare(), as_array(x))[0]


MISSING: dict[str, tuple[Callable[[], object], str, str]] = {
    "evaluation": (lambda: bare(1.0), "Evaluation rule for 'bare'", "method `evaluate` of Bare"),
    "typing": (lambda: tj.make_jaxpr(bare)(1.0), "Abstract evaluation for 'bare'", "method `type_of` of Bare"),
    "typing in jit": (lambda: tj.jit(bare)(1.0), "Abstract evaluation for 'bare'", "method `type_of` of Bare"),
    "jvp": (lambda: tj.jvp(half, (1.0,), (1.0,)), "Differentiation rule for 'multiply_add'", "method `jvp` of Half"),
    "grad": (lambda: tj.grad(half)(1.0), "Differentiation rule for 'multiply_add'", "method `jvp` of Half"),
    "grad of jit": (lambda: tj.grad(tj.jit(half))(1.0), "Differentiation rule for 'multiply_add'", "`jvp` of Half"),
    "vmap": (lambda: tj.vmap(half)(X), "Batching rule for 'multiply_add'", "method `batch` of Half"),
    "vmap of jit": (lambda: tj.vmap(tj.jit(half))(X), "Batching rule for 'multiply_add'", "method `batch` of Half"),
    "transpose": (
        lambda: tj.linear_transpose(half, 1.0)(1.0),
        r"Transpose rule \(for reverse-mode differentiation\) for 'multiply_add'",
        "method `transpose` of Half",
    ),
    "transpose of jit": (
        lambda: tj.linear_transpose(tj.jit(half), 1.0)(1.0),
        r"Transpose rule \(for reverse-mode differentiation\) for 'multiply_add'",
        "method `transpose` of Half",
    ),
    "lowering": (lambda: tj.jit(half)(1.0), "Translation rule for 'multiply_add'", r"RULES.register\(Half\)"),
    "lowering to text": (lambda: tj.jit(half).lower(1.0).as_text(), "Translation rule for 'multiply_add'", "Half"),
}


@pytest.mark.parametrize("name", MISSING)
def test_missing_rules(name: str) -> None:
    call, what, how = MISSING[name]
    with raises(MissingRuleError, f"{what} not implemented", how):
        call()
    with pytest.raises(NotImplementedError, match="not implemented"):
        call()
    assert float(half(2.0)) == 2.0, "the rules that are there keep working"


def test_missing_transpose_rules_say_where() -> None:
    def f(x: Any) -> Any:
        return half(x) * 2.0

    for g in (f, tj.jit(f)):
        with raises(MissingRuleError, "while transposing the equation: .* = multiply_add", rf"at {HERE}:\d+ \(half\)"):
            tj.linear_transpose(g, 1.0)(1.0)

    def square(x: Any) -> Any:
        return x * x

    def sine(x: Any) -> Any:
        return tnp.sin(x)

    with raises(LinearityError, "mul is linear in each of its operands", rf"from {HERE}:\d+ \(.*square\)"):
        tj.linear_transpose(square, 1.0)(1.0)
    with raises(LinearityError, "the program is not linear: sin is not linear", rf"from {HERE}:\d+ \(.*sine\)"):
        tj.linear_transpose(sine, 1.0)(1.0)


def test_parameters_that_are_no_values() -> None:
    @frozen
    class Scale(Primitive):
        factors: object
        name: ClassVar[str] = "scale"

    for value in ([1], X, {"a": 1}, object()):
        with raises(ParameterError, "parameter 'factors' of primitive 'scale' is a ", "immutable, hashable values"):
            Scale(value)


# XLA.


def test_xla_errors() -> None:
    def huge() -> Array:
        return lax.broadcasted_iota("float64", (2**19, 2**16), 0)

    def huge_too(x: Any) -> Any:
        return huge() * x

    with raises(AllocationError, "'huge' failed on", "Out of memory|out of memory|RESOURCE_EXHAUSTED"):
        np.asarray(tj.jit(huge)())
    for endless in (lambda: tnp.eye(2**40), lambda: tnp.zeros(2**61)):  # with which XLA ends the process
        with raises(AllocationError, "has more bytes than XLA counts"):
            tj.jit(endless)()
    for use in (np.asarray, repr, float, lambda y: y.block_until_ready(), np.from_dlpack):
        with raises(XlaError, "failed", "Out of memory|out of memory|RESOURCE_EXHAUSTED"):
            use(tj.jit(huge_too)(1.0))


# Other mistakes with arrays.


def test_arrays_can_not_be_written_to_or_hashed() -> None:
    x = tnp.asarray(X)
    with pytest.raises(TypeError, match=r"immutable|can't be written|at\["):
        x[0] = 1.0  # type: ignore[index]  # the mistake
    with pytest.raises(TypeError, match="can't be hashed"):
        {x: 1}  # noqa: B018
    with pytest.raises(ValueError, match="read-only"):
        np.asarray(x)[0] = 1.0
    with pytest.raises(TypeError, match="can't be pickled"):
        tj.jit(lambda x: __import__("pickle").dumps(x))(1.0)


def test_arrays_are_copied_and_referred_to_weakly() -> None:
    x = tnp.asarray(X)
    for copied in (copy.copy(x), copy.deepcopy(x)):
        np.testing.assert_array_equal(copied, x)
    assert weakref.ref(x)() is x

    def f(y: tj.Array) -> tj.Array:
        assert weakref.ref(y)() is y
        return copy.copy(y) + copy.deepcopy({"y": y})["y"]

    np.testing.assert_array_equal(tj.jit(f)(x), 2 * X)


def test_all_errors_are_of_the_family() -> None:
    """And of the built-in exception that a Python user expects."""
    kinds: tuple[type[Exception], ...] = (
        TreeError,
        BatchSizeError,
        LeakedTracerError,
        StaticArgumentError,
        LinearityError,
    )
    for kind in kinds:
        assert issubclass(kind, TinyjaxError)
        assert issubclass(kind, ValueError)
    kinds = (InputError, ConcretizationError, ParameterError)
    for kind in kinds:
        assert issubclass(kind, TinyjaxError)
        assert issubclass(kind, TypeError)
    assert issubclass(AxisNameError, NameError)
    assert issubclass(MissingRuleError, NotImplementedError)
    assert issubclass(XlaError, RuntimeError)


@pytest.mark.parametrize(
    "wrong",
    [
        lambda x: tj.linearize(tnp.sum, x)[1](np.ones((3, 2))),
        lambda x: tj.vjp(tnp.sin, x)[1](np.ones((3, 2))),
        lambda x: tj.jvp(tnp.sin, (x,), (np.ones(2),)),
        tj.vmap(tnp.sin, in_axes=(0, 1)),
        tj.vmap(tnp.sin, out_axes=None),
    ],
)
def test_what_is_a_value_error_in_jax_is_one(wrong: Callable[[Any], object]) -> None:
    for error in (ValueError, TypeError):
        with pytest.raises(error) as raised:
            wrong(np.arange(3.0))
        assert isinstance(raised.value, InputError)
