"""Callbacks to Python: eagerly, from compiled programs, and through every transformation."""

from __future__ import annotations

import logging
from collections.abc import Callable
from typing import Any, TypeAlias, get_args

import jax
import jax.experimental
import numpy as np
import numpy.typing as npt
import pytest

import tinyjax as tj
import tinyjax.numpy as tnp
from tinyjax import ShapedArray, lax
from tinyjax.control.callbacks import DebugCallback, VmapMethod
from tinyjax.errors import CallbackError, InputError, ParameterError, UnsupportedError, XlaError
from tinyjax.experimental import checkify
from tinyjax.ir.dtypes import HostArray

Floats: TypeAlias = npt.NDArray[np.float64]
VECTOR = ShapedArray((3,), "float64")
X = np.array([3.0, 1.0, 2.0])


def sort(x: tj.ArrayLike, method: VmapMethod | None = None) -> tj.Array:
    """A callback that doesn't work element by element."""
    found: tj.Array = tj.pure_callback(np.sort, VECTOR, x, vmap_method=method)
    return found


def plain(f: Callable[..., object]) -> Callable[..., object]:
    return f


RUNS = pytest.mark.parametrize("run", [plain, tj.jit], ids=["eager", "jit"])


@RUNS
def test_pure_callback(run: Callable[..., Callable[..., tj.Array]]) -> None:
    assert np.array_equal(run(lambda x: sort(x) * 2.0)(X), 2 * np.sort(X))


@RUNS
@pytest.mark.parametrize("impl", ["threefry2x32", "rbg"])
def test_keys_are_passed_as_their_words(
    run: Callable[..., Callable[..., tj.Array]], impl: str, capsys: pytest.CaptureFixture[str]
) -> None:
    keys = tj.random.split(tj.random.key(7, impl=impl), 3)
    words, seen = np.asarray(tj.random.key_data(keys)), list[HostArray]()

    def callback(x: HostArray) -> HostArray:
        seen.append(x)
        return np.asarray(np.sum(x, axis=-1, dtype=np.uint32))

    result = ShapedArray((3,), "uint32")
    assert np.array_equal(run(lambda k: tj.pure_callback(callback, result, k))(keys), words.sum(-1, dtype=np.uint32))
    one = ShapedArray((), "uint32")
    each = tj.vmap(lambda k: tj.pure_callback(callback, one, k, vmap_method="sequential"))
    assert np.array_equal(run(each)(keys), words.sum(-1, dtype=np.uint32))
    assert all(np.array_equal(x, y) for x, y in zip(seen, [words, *words], strict=True))
    run(lambda k: (tj.debug.print("{k}", k=k), k)[1])(keys)
    tj.effects_barrier()
    assert capsys.readouterr().out == f"{words}\n"
    checked = checkify.checkify(run(lambda k: checkify.check(tj.random.bits(k[0]) < 0, "not {}", k[0])))
    assert checked(keys)[0].get() == f"not {words[0]} (`check` failed)"


@RUNS
@pytest.mark.parametrize("dtype", ["bool", "int8", "uint32", "float16", "bfloat16", "float32", "complex64"])
@pytest.mark.parametrize("shape", [(), (2, 3), (2, 1, 3)])
def test_types_and_layouts(run: Callable[..., Callable[..., tj.Array]], dtype: str, shape: tuple[int, ...]) -> None:
    x = np.arange(np.prod(shape, dtype=int)).reshape(shape).astype(ShapedArray((), dtype).dtype)
    seen: list[tuple[HostArray, bool]] = []

    def callback(y: HostArray) -> HostArray:
        seen.append((y.copy(), y.flags.writeable))
        return y.T

    result = ShapedArray(shape[::-1], dtype)
    found = run(lambda x: tj.pure_callback(callback, result, tnp.transpose(tnp.transpose(x))))(x)
    ((arg, writeable),) = seen
    assert arg.dtype == x.dtype
    assert np.array_equal(arg, x)
    assert not writeable or run is tj.jit  # a compiled program passes a copy
    assert found.dtype == x.dtype
    assert np.array_equal(found, x.T)


@RUNS
def test_nothing_to_compute(run: Callable[..., Callable[..., tj.Array]]) -> None:
    empty = ShapedArray((0, 2), "float32")
    assert run(lambda x: tj.pure_callback(lambda x: np.zeros((0, 2), np.float32), empty, x))(X).shape == (0, 2)


@RUNS
def test_trees(run: Callable[..., Callable[..., dict[str, tj.Array]]]) -> None:
    def callback(pair: tuple[Floats, Floats], *, scale: Floats) -> dict[str, object]:
        return {"sum": (pair[0] + pair[1]) * scale, "least": np.min(pair[0])}

    types = {"sum": VECTOR, "least": ShapedArray((), "float64")}
    found = run(lambda x, y: tj.pure_callback(callback, types, (x, x), scale=y))(X, 2.0)
    assert np.array_equal(found["sum"], 4 * X)
    assert float(found["least"]) == 1


@RUNS
@pytest.mark.parametrize("method", get_args(VmapMethod))
def test_vmap_is_as_in_jax(run: Callable[..., Callable[..., tj.Array]], method: VmapMethod) -> None:
    shapes: list[tuple[tuple[int, ...], ...]] = []
    expected: list[tuple[tuple[int, ...], ...]] = []
    x, y = np.arange(6.0).reshape(3, 2), 5.0

    def ours(x: Floats, y: Floats) -> Floats:
        shapes.append((x.shape, y.shape))
        return x - y

    def theirs(x: Floats, y: Floats) -> Floats:
        expected.append((np.shape(x), np.shape(y)))
        return np.asarray(x - y)

    scalar = ShapedArray((), "float64")
    ours_mapped = tj.vmap(tj.vmap(lambda x: tj.pure_callback(ours, scalar, x, y, vmap_method=method)), 1)
    found = run(ours_mapped)(x)
    struct = jax.ShapeDtypeStruct((), np.float64)
    theirs_mapped: Callable[..., jax.Array] = jax.vmap(
        jax.vmap(lambda x: jax.pure_callback(theirs, struct, x, y, vmap_method=method)), 1
    )
    assert np.array_equal(found, theirs_mapped(x))
    assert sorted(shapes) == sorted(expected)


def test_vmap_of_nothing() -> None:
    assert tj.vmap(lambda x: sort(x, "sequential"))(np.zeros((0, 3))).shape == (0, 3)


def test_vmap_needs_a_method() -> None:
    with pytest.raises(
        CallbackError, match="vmap of the callback sort needs to know how: pass pure_callback a `vmap_m"
    ):
        tj.vmap(sort)(np.zeros((2, 3)))
    with pytest.raises(InputError, match=r"vmap_method must be one of 'sequential'.* or None, got 'fast'"):
        make(tj.pure_callback, callback=np.sort, result_shape_dtypes=VECTOR, vmap_method="fast")


def test_no_derivative() -> None:
    with pytest.raises(CallbackError, match=r"Pure callbacks do not support JVP\. Please use `tinyjax.custom_jvp`"):
        tj.grad(lambda x: sort(x).sum())(X)
    assert np.array_equal(tj.grad(lambda x: (x * sort(lax.stop_gradient(x))).sum())(X), np.sort(X))


@RUNS
@pytest.mark.parametrize(
    ("result", "message"),
    [
        (np.zeros(2), r"an array of type f64\[3\] as result 0.*returned one of shape \(2,\) and dtype float64"),
        (np.zeros(3, np.float32), r"an array of type f64\[3\] as result 0.*shape \(3,\) and dtype float32"),
        ([np.zeros(3)] * 2, r"must return as many arrays as `result_shape_dtypes` has, \*; it returned \[\*, \*\]"),
    ],
)
def test_broken_promises(run: Callable[..., Callable[..., object]], result: object, message: str) -> None:
    error = XlaError if run is tj.jit else CallbackError
    with pytest.raises(error, match=message):
        run(lambda x: tj.pure_callback(lambda x: result, VECTOR, x))(X)


@RUNS
def test_results_count_and_not_what_holds_them(run: Callable[..., Callable[..., object]]) -> None:
    likes: list[Any] = [(VECTOR, VECTOR), {"a": [VECTOR], "b": (None, VECTOR)}]
    for like in likes:
        found = run(lambda x, like=like: tj.pure_callback(lambda x: [x, 2.0 * x], like, x))(X)
        assert tj.tree.structure(found) == tj.tree.structure(like)
        for k, leaf in enumerate(tj.tree.leaves(found)):
            np.testing.assert_array_equal(np.asarray(leaf), (k + 1) * X)


def test_failures() -> None:
    def fails(x: HostArray) -> HostArray:
        raise KeyError("no such thing")

    with pytest.raises(KeyError, match="no such thing"):
        tj.pure_callback(fails, VECTOR, X)

    def f(x: tj.ArrayLike) -> tj.Array:
        found: tj.Array = tj.pure_callback(fails, VECTOR, x)
        return found

    with pytest.raises(XlaError, match=r"'f' failed on .*: the callback fails raised KeyError: 'no such thing'"):
        tj.jit(f)(X)


def test_results_are_the_callers_own() -> None:
    kept = np.zeros(3)

    def same(x: HostArray) -> HostArray:
        return kept

    found = tj.pure_callback(same, VECTOR, X)
    kept[0] = 1
    assert np.array_equal(found, np.zeros(3))
    assert np.array_equal(tj.pure_callback(lambda x: x, VECTOR, X), X)


def test_unused_pure_callbacks_go_and_effects_stay() -> None:
    def f(x: tj.Array) -> tj.Array:
        sort(x)
        tj.io_callback(lambda x: None, None, x)
        tj.debug.print("{}", x)
        return x

    program = tj.make_jaxpr(f)(X).jaxpr
    assert [eqn.primitive.name for eqn in program.eqns] == ["pure_callback", "io_callback", "debug_callback"]
    kept = tj.transforms.dce(program)
    assert [eqn.primitive.name for eqn in kept.eqns] == ["io_callback", "debug_callback"]
    assert sorted(map(str, kept.effects)) == ["Debug", "IO"]


@RUNS
def test_io_callbacks_are_called_once_and_in_order(run: Callable[..., Callable[..., tj.Array]]) -> None:
    calls: list[float] = []

    def count(x: HostArray) -> HostArray:
        calls.append(float(x))
        return np.asarray(float(len(calls)))

    scalar = ShapedArray((), "float64")

    def call(x: tj.Array) -> tj.Array:
        found: tj.Array = tj.io_callback(count, scalar, x, ordered=True)
        return found

    def f(x: tj.Array) -> tj.Array:
        inner = tj.jit(call)
        tj.io_callback(count, scalar, x)
        first = inner(x + 1)
        inner(x + 2)
        return first * 10 + inner(x + 3)

    for _ in range(2):
        calls.clear()
        assert float(run(f)(1.0)) == 24
        assert calls == [1, 2, 3, 4]


def test_io_callbacks_mapped_and_differentiated() -> None:
    seen: list[float] = []

    def note(x: HostArray) -> HostArray:
        seen.append(float(x))
        return x + 1

    def f(x: tj.ArrayLike, ordered: bool = False) -> tj.Array:
        found: tj.Array = tj.io_callback(note, ShapedArray((), "float64"), x, ordered=ordered)
        return found

    assert np.array_equal(tj.jit(tj.vmap(f))(X), X + 1)
    assert seen == [3, 1, 2]
    with pytest.raises(CallbackError, match="Cannot `vmap` ordered IO callback"):
        tj.vmap(lambda x: f(x, ordered=True))(X)
    with pytest.raises(CallbackError, match="IO callbacks do not support JVP"):
        tj.grad(f)(1.0)


def chatty(x: tj.Array) -> tj.Array:
    tj.debug.print("first {} {name!r}", x, name="n")
    y = tj.jit(inner)(x)
    tj.debug.print("last {y:.2f}", y=y)
    return y * x


def inner(x: tj.Array) -> tj.Array:
    tj.debug.print("inner {}", x)
    return x * 2


def transformed(f: Callable[..., tj.Array]) -> dict[str, Callable[..., tj.Array]]:
    return {"value": f, "vmap": tj.vmap(f), "grad": tj.grad(f), "vmap of grad": tj.vmap(tj.grad(f))}


@pytest.mark.parametrize("name", ["value", "vmap", "grad", "vmap of grad"])
def test_what_prints(name: str, capsys: pytest.CaptureFixture[str]) -> None:
    f = transformed(chatty)[name]
    x = np.array([1.0, 2.5]) if "vmap" in name else np.array(2.5)
    rows = [1.0, 2.5] if "vmap" in name else [2.5]
    expected = [f"first {row} 'n'" for row in rows] + [f"inner {row}" for row in rows]
    expected += [f"last {2 * row:.2f}" for row in rows]
    for g in (f, tj.jit(f), tj.jit(tj.jit(f))):
        np.asarray(g(x))
        assert capsys.readouterr().out.splitlines() == expected


def test_effects_keep_their_order_in_control_flow(capsys: pytest.CaptureFixture[str]) -> None:
    def say(text: str, x: tj.Array) -> tj.Array:
        tj.debug.print(text + " {}", x)
        return x

    def body(carry: tj.Array, i: tj.Array) -> tuple[tj.Array, tj.Array]:
        carry = say("scan", carry)
        carry = lax.cond(i > 1, lambda c: say("large", c) + 1.0, lambda c: say("small", c), carry)
        return carry * 2.0, carry

    def f(start: tj.ArrayLike) -> tj.Array:
        x = tnp.asarray(start)
        y, _ = lax.scan(body, say("start", x), np.arange(4))
        say("between", y)
        z: tj.Array = lax.while_loop(lambda c: say("test", c) < 200.0, lambda c: say("while", c) * 2.0, y)
        return say("end", z)

    f(np.array(2.0))
    expected = capsys.readouterr().out
    assert expected.splitlines()[:4] == ["start 2.0", "scan 2.0", "small 2.0", "scan 4.0"]
    tj.jit(f)(np.array(2.0))
    assert capsys.readouterr().out == expected


def test_debug_callback(capsys: pytest.CaptureFixture[str]) -> None:
    seen: list[HostArray] = []

    def f(x: tj.ArrayLike) -> tj.Array:
        tj.debug.callback(lambda tree: seen.append(tree["x"].copy()), {"x": x}, ordered=True)
        tj.debug.print("no arguments")
        return tnp.square(x)

    tj.jit(tj.vmap(tj.grad(f)))(X)
    assert [float(x) for x in seen] == X.tolist()
    assert capsys.readouterr().out == "no arguments\n"


def test_debug_primitives_are_linear_in_nothing() -> None:
    def f(x: tj.Array) -> tj.Array:
        tj.debug.callback(lambda x: None, x)
        return 2.0 * x

    (found,) = tj.linear_transpose(f, VECTOR)(X)
    assert np.array_equal(found, 2 * X)


@pytest.mark.parametrize(
    ("call", "message"),
    [
        (lambda: make(tj.debug.print, fmt=X), "needs a format string first"),
        (lambda: tj.debug.print("{} {}", X), "refers to the argument"),
        (lambda: tj.debug.print("{x}", y=X), "refers to the argument 'x', which isn't there"),
        (lambda: tj.debug.print("{}", X, X), "doesn't use the arguments 1"),
    ],
)
def test_formats(call: Callable[[], object], message: str) -> None:
    with pytest.raises(InputError, match=message):
        call()


def test_programs_with_callbacks_are_values_of_this_process() -> None:
    class Thing:
        def method(self, x: HostArray) -> HostArray:
            return x

    thing = Thing()

    def f(callback: Callable[..., object]) -> tj.ClosedJaxpr:
        return tj.make_jaxpr(lambda x: tj.pure_callback(callback, VECTOR, x))(X)

    assert f(np.sort) == f(np.sort)
    assert f(np.sort) != f(np.sin)
    assert f(thing.method) == f(thing.method)
    assert f(thing.method) != f(Thing().method)
    assert str(f(np.sort)).count("function=sort ") == 1
    with pytest.raises(ParameterError, match="a program that refers to sort can't be hashed by content"):
        tj.ir.content_hash(f(np.sort))
    arguments: dict[str, object] = {"function": lambda: (), "results": ()}
    with pytest.raises(ParameterError, match="parameter 'function' of primitive 'debug_callback' is a function"):
        make(DebugCallback, **arguments)


def make(cls: Callable[..., object], **fields: object) -> object:
    return cls(**fields)


def test_lowered_text(golden: Callable[[str, str], None]) -> None:
    f: Callable[..., object] = chatty
    golden("callbacks", tj.jit(f).lower(ShapedArray((2,), "float32")).as_text())


@pytest.mark.parametrize("how", ["jvp", "linearize", "linearize and apply", "jit"])
def test_effects_in_the_body_of_a_while_happen_as_often_as_in_jax(how: str, capsys: pytest.CaptureFixture[str]) -> None:
    """Once; but the derivative of a loop that is linearized goes through the iterations again."""
    found: list[str] = []
    for lib in (tj, jax):

        def loop(x: Any, lib: Any = lib) -> Any:
            def body(c: Any) -> Any:
                lib.debug.print("y = {}", c[1])
                return c[0] + 1, c[1] * 1.5

            return lib.lax.while_loop(lambda c: c[0] < 2, body, (0, x))[1]

        if how == "jvp":
            lib.jvp(loop, (1.0,), (1.0,))
        elif how == "jit":
            lib.jit(lambda x, lib=lib, loop=loop: lib.jvp(loop, (x,), (x,)))(1.0)
        else:
            _, linear = lib.linearize(loop, 1.0)
            if "apply" in how:
                linear(1.0)
        jax.effects_barrier()
        found.append(capsys.readouterr().out)
    assert found[0] == found[1]
    assert found[0].count("y = 1.5") == (2 if "apply" in how else 1)


def test_numpys_options_are_those_of_the_call(capsys: pytest.CaptureFixture[str]) -> None:
    x = np.array([1 / 3, 2 / 3])
    f = tj.jit(lambda x: tj.debug.print("{}", x))
    with np.printoptions(precision=2):
        f(x)
    f(x)  # which was traced within
    tj.debug.print("{}", x)
    tj.debug.print("{x}", x=x)
    assert capsys.readouterr().out.splitlines() == ["[0.33 0.67]"] * 2 + ["[0.33333333 0.66666667]"] * 2


def test_options_first_and_the_rest_after(capsys: pytest.CaptureFixture[str]) -> None:
    nothing: Any = None
    x: dict[str, Any] = {"x": 1}
    tj.debug.print(ordered=True)("x is {x}", x=np.arange(2))
    tj.debug.print(skip_format_check=True)("{} and", 1, 2)
    tj.debug.callback(ordered=True)(lambda x, *, y: tj.debug.print("{}", x + y), 1, y=2)
    tj.debug.print("{x}, ", 1, 2.5, skip_format_check=True)
    assert capsys.readouterr().out.splitlines() == ["x is [0 1]", "{} and 1 2", "3", "{x},  1 2.5"]
    for show in (tj.debug.print, tj.debug.log):
        with pytest.raises(InputError, match=r"debug\.(print|log): arguments are given together with what shows them"):
            show(nothing, **x)
        with pytest.raises(InputError, match="that is no format has no places for x"):
            show("x", skip_format_check=True, **x)
        with pytest.raises(UnsupportedError, match="are shown as a whole"):
            show("x", partitioned=True)
    with pytest.raises(InputError, match=r"debug\.callback: arguments are given together"):
        tj.debug.callback(nothing, 1)


def test_logs(caplog: pytest.LogCaptureFixture) -> None:
    @tj.jit
    def f(x: Any) -> Any:
        tj.debug.log("x is {}", x)
        return x

    with caplog.at_level(logging.INFO, "tinyjax.debug"):
        f(2.0)
        tj.vmap(f)(np.array([3.0, 4.0]))
    assert [record.getMessage() for record in caplog.records] == ["x is 2.0", "x is 3.0", "x is 4.0"]
    assert {(record.pathname, record.lineno) for record in caplog.records} == {
        (__file__, f.__wrapped__.__code__.co_firstlineno + 2)
    }


@RUNS
def test_the_place_to_call_from_is_taken(run: Callable[..., Callable[..., tj.Array]]) -> None:
    """As in JAX; and the function gets no argument of that name."""
    place: Any = tj.sharding.SingleDeviceSharding(tj.devices()[0])
    np.testing.assert_array_equal(run(lambda x: tj.pure_callback(np.sort, VECTOR, x, sharding=place))(X), np.sort(X))
    np.testing.assert_array_equal(run(lambda x: tj.io_callback(np.sort, VECTOR, x, sharding=place))(X), np.sort(X))
    wrong: Any = "cpu:0"
    for call in (tj.pure_callback, tj.io_callback):
        with pytest.raises(InputError, match="sharding is a Sharding or None, got 'cpu:0'"):
            call(np.sort, VECTOR, X, sharding=wrong)


def test_batches_that_it_does_not_support_are_what_jax_raises() -> None:
    flags = np.array([True, False])

    def unmapped(j: Any, call: Any) -> Any:
        return j.vmap(lambda x: j.pure_callback(np.sin, x, x))(np.arange(2.0))

    def chosen(j: Any, call: Any) -> Any:
        nothing = lambda: call(lambda: None, None)  # noqa: E731
        return j.vmap(lambda flag: j.lax.cond(flag, nothing, nothing))(flags)

    for wrong in (unmapped, chosen):
        for j, call in ((tj, tj.io_callback), (jax, jax.experimental.io_callback)):
            with pytest.raises(NotImplementedError):
                wrong(j, call)
