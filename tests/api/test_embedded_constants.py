"""Arrays that a function closes over are constants of its compiled program: one text, and one program for equals."""

from __future__ import annotations

import re
from collections.abc import Callable, Iterator, Sequence
from pathlib import Path

import jax
import numpy as np
import pytest
from jax import numpy as jnp

import tinyjax as tj
from tests.api.closing_programs import MASK, ORDER, PROGRAMS, W1, Numpy, X, Y, permutation
from tests.compiled import instructions
from tinyjax import backend
from tinyjax import numpy as tnp
from tinyjax.backend import CompilationCache, executable, spmd
from tinyjax.errors import DeletedBufferError, InputError
from tinyjax.ir.dtypes import HostArray


@pytest.fixture
def compiled(monkeypatch: pytest.MonkeyPatch) -> Iterator[list[str]]:
    """The texts that are given to the compiler."""
    texts: list[str] = []
    load = executable.load

    def noting(text: str, *rest: object) -> object:
        texts.append(text)
        run: Callable[..., object] = load
        return run(text, *rest)

    backend.execute.clear_cache()
    monkeypatch.setattr(executable, "load", noting)
    monkeypatch.setattr(spmd, "load", noting)
    yield texts
    backend.execute.clear_cache()


def arguments(text: str) -> int:
    return len(re.findall(r"%arg\d+:", text.partition("@main(")[2].partition("->")[0]))


@pytest.mark.parametrize(
    ("program", "largest"),
    [
        pytest.param(program, largest, marks=() if program is permutation and largest == 200 else pytest.mark.sweep)
        for program in PROGRAMS[:5]
        for largest in (0, 200, None)
    ],
)
def test_what_is_shown_is_compiled(
    program: Callable[[Numpy], Callable[..., object]], largest: int | None, compiled: list[str]
) -> None:
    f = tj.jit(program(tnp), embedded_constants_max_bytes=largest)
    shown = f.lower(X).as_text()
    plain = tj.tree.leaves(program(tnp)(tnp.asarray(X)))
    for run in (f, f, f.lower(X).compile(), f.trace(X), f.trace(X).lower().compile()):
        for found, expected in zip(tj.tree.leaves(run(X)), plain, strict=True):
            np.testing.assert_allclose(found, expected, rtol=1e-4, atol=1e-5)
    assert compiled == [shown]


@pytest.mark.sweep
@pytest.mark.parametrize("program", PROGRAMS, ids=lambda f: f.__name__)
def test_as_many_instructions_as_jax(program: Callable[[Numpy], Callable[..., object]]) -> None:
    theirs = jax.jit(program(jnp)).lower(X).compile()
    ours = tj.jit(program(tnp)).lower(X).compile()
    assert instructions(ours.as_text()) == instructions(str(theirs.as_text()))
    for found, expected in zip(tj.tree.leaves(ours(X)), jax.tree.leaves(theirs(X)), strict=True):
        np.testing.assert_allclose(found, jax.block_until_ready(expected), rtol=1e-3, atol=1e-5)


def test_equal_contents_are_compiled_once(compiled: list[str]) -> None:
    def closing(array: HostArray) -> Callable[[object], tj.Array]:
        w = tnp.asarray(array)
        return tj.jit(lambda x: tnp.sin(x) @ w)

    first, again, other = closing(W1), closing(W1.copy()), closing(2 * W1)
    np.testing.assert_array_equal(first(X), again(X))
    assert len(compiled) == 1
    np.testing.assert_allclose(other(X), 2 * np.asarray(first(X)), rtol=1e-4)
    assert len(compiled) == 2
    assert compiled[0] != compiled[1]


def test_contents_are_told_apart_where_sizes_are_not() -> None:
    """Equal programs whose constants differ in bits alone, or in their type."""

    def held(array: HostArray) -> tj.Array:
        w = tnp.asarray(array)
        both: tuple[tj.Array, tj.Array] = tj.jit(lambda x: (w, x + w))(np.float32(1.0))
        return both[0]

    for array in (np.zeros(2, "f4"), -np.zeros(2, "f4"), np.zeros(2, "i4"), np.full(2, np.nan, "f4")):
        found = np.asarray(held(array))
        assert (found.dtype, found.tobytes()) == (array.dtype, array.tobytes())


@pytest.mark.parametrize(("largest", "count"), [(0, 3), (64, 3), (1024, 2), (4096, 1), (None, 1)])
def test_large_arrays_are_passed(largest: int | None, count: int) -> None:
    """In any order; scalars are always constants."""
    large, small, one = tnp.asarray(np.arange(512.0)), tnp.asarray(np.arange(128.0)), tnp.asarray(np.float64(3.0))
    f = tj.jit(lambda x: (large.sum() + small) * one + x, embedded_constants_max_bytes=largest)
    assert arguments(f.lower(1.0).as_text()) == count
    expected = (np.arange(512.0).sum() + np.arange(128.0)) * 3 + 1
    for run in (f, f, f.lower(1.0).compile(), f.trace(1.0)):
        np.testing.assert_allclose(run(1.0), expected)


def test_the_size_is_a_number_of_bytes() -> None:
    for wrong in (-1, True, "all", 1.5):
        with pytest.raises(InputError, match="embedded_constants_max_bytes is a number of bytes"):
            tj.jit(lambda x: x, embedded_constants_max_bytes=wrong)  # type: ignore[arg-type]


def arrays_of_every_kind() -> Sequence[HostArray]:
    kinds = ["bool", "int4", "uint4", "int8", "uint16", "int64", "float16", "bfloat16", "float8_e4m3fn", "float64"]
    kinds += ["complex64", "complex128"]
    values = np.random.default_rng(1).integers(0, 2, (5, 7))
    return [
        np.asarray(tnp.asarray(array).astype(kind))
        for array in (values, values[:, :0], values[:2, :2])
        for kind in kinds
    ]


@pytest.mark.sweep
def test_every_kind_of_array() -> None:
    for array in arrays_of_every_kind():
        held = tnp.asarray(array)
        found = tj.jit(lambda i, held=held: (held, i))(1)[0]
        assert found.aval == held.aval
        assert np.asarray(found).tobytes() == array.tobytes()
    keys = tj.random.split(tj.random.key(0), 40)
    np.testing.assert_array_equal(
        tj.jit(lambda i: tj.random.bits(keys[i], (3,), "uint32"))(5), tj.random.bits(keys[5], (3,), "uint32")
    )


def test_donated_arguments_are_counted_without_constants() -> None:
    w, large = tnp.asarray(W1), tnp.asarray(np.ones(X.shape, "float32"))
    f = tj.jit(lambda x, y: (x * large + y, y @ w), donate_argnums=1, embedded_constants_max_bytes=600)
    x, y = (tj.device_put(z, tj.devices()[0]) for z in (X, 2 * X))
    assert f.lower(x, y).as_text().count("tf.aliasing_output") == 1
    first, second = f(x, y)
    np.testing.assert_allclose(first, 3 * X, rtol=1e-5)
    np.testing.assert_allclose(second, 2 * X @ W1, rtol=1e-4, atol=1e-5)
    assert not x.is_deleted()
    assert y.is_deleted()


def test_deleted_arrays_are_named() -> None:
    w = tj.device_put(W1, tj.devices()[0])
    f = tj.jit(lambda x: x @ w)
    w.delete()
    with pytest.raises(DeletedBufferError):
        f(X)


def test_another_process_finds_the_program(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    def added(array: HostArray) -> tj.Array:
        held = tnp.asarray(array)
        found: tj.Array = tj.jit(lambda x: x + held)(ORDER)
        return found

    for hits, scale in ((0, 1), (1, 1), (0, 2)):
        cache = CompilationCache(tmp_path, 2**30)
        monkeypatch.setattr(backend, "execute", backend.XlaExecutor(persistent=cache))
        np.testing.assert_array_equal(added(scale * ORDER), (1 + scale) * ORDER)
        assert cache.info().hits == hits


@pytest.mark.parametrize("explicit", [False, True])
def test_constants_of_programs_for_several_devices(explicit: bool, compiled: list[str]) -> None:
    """On the host, whole on each device, or divided: of these only the last is passed."""
    kind = tj.sharding.AxisType.Explicit if explicit else tj.sharding.AxisType.Auto
    mesh = tj.make_mesh((2,), ("x",), axis_types=(kind,))
    mask, whole = tnp.asarray(MASK), tj.device_put(W1, tj.NamedSharding(mesh, tj.P()))
    parts = tj.device_put(Y, tj.NamedSharding(mesh, tj.P("x")))
    x = tj.device_put(X, tj.NamedSharding(mesh, tj.P("x")))

    def f(x: Numpy) -> tj.Array:
        return tnp.where(mask[:, :1], (x + parts) @ whole, 0.0)

    expected = np.where(MASK[:, :1], (X + Y) @ W1, 0)
    for largest, count in ((None, 2), (0, 4), (1000, 2), ((MASK.nbytes + W1.nbytes) // 2, 3)):
        backend.execute.clear_cache()
        compiled.clear()
        run = tj.jit(f, embedded_constants_max_bytes=largest)
        lowered = run.lower(x)
        assert arguments(lowered.as_text()) == count
        for call in (run, run, lowered.compile(), run.trace(x)):
            np.testing.assert_allclose(call(x), expected, rtol=1e-4, atol=1e-5)
        assert compiled == [lowered.as_text()]


def test_a_whole_array_that_is_a_constant_says_where_a_program_runs() -> None:
    mesh = tj.make_mesh((4,), ("x",))
    w = tj.device_put(W1, tj.NamedSharding(mesh, tj.P()))
    f = tj.jit(lambda x: x @ w)
    for _ in range(3):
        found = f(X)
        assert len(found.devices()) == 4
        np.testing.assert_allclose(found, X @ W1, rtol=1e-4, atol=1e-5)
    other = tj.make_mesh((2,), ("x",))
    found = f(tj.device_put(X, tj.NamedSharding(other, tj.P("x"))))  # which says more
    assert len(found.devices()) == 2
    np.testing.assert_allclose(found, X @ W1, rtol=1e-4, atol=1e-5)


def test_contents_are_told_apart_on_several_devices(compiled: list[str]) -> None:
    mesh = tj.make_mesh((2,), ("x",))
    x = tj.device_put(X, tj.NamedSharding(mesh, tj.P("x")))
    for scale, count in ((1, 1), (1, 1), (2, 2)):
        w = tnp.asarray(scale * W1)
        np.testing.assert_allclose(tj.jit(lambda x, w=w: x @ w)(x), scale * X @ W1, rtol=1e-4, atol=1e-5)
        assert len(compiled) == count


def test_donated_arguments_on_several_devices() -> None:
    """They are counted without constants, which come first."""
    mesh = tj.make_mesh((2,), ("x",))
    w = tnp.asarray(W1)
    f = tj.jit(lambda x, y: (x @ w, 2.0 * y), donate_argnums=1)
    for _ in range(2):
        x, y = (tj.device_put(z, tj.NamedSharding(mesh, tj.P("x"))) for z in (X, Y))
        first, second = f(x, y)
        np.testing.assert_allclose(first, X @ W1, rtol=1e-4, atol=1e-5)
        np.testing.assert_allclose(second, 2 * Y, rtol=1e-5)
        assert not x.is_deleted()
        assert y.is_deleted()


def test_every_program_gives_the_same_on_several_devices() -> None:
    mesh = tj.make_mesh((2,), ("x",), axis_types=(tj.sharding.AxisType.Auto,))
    x = tj.device_put(X, tj.NamedSharding(mesh, tj.P("x")))
    for program in (permutation, *PROGRAMS[:2]):
        for found, expected in zip(
            tj.tree.leaves(tj.jit(program(tnp))(x)), tj.tree.leaves(tj.jit(program(tnp))(X)), strict=True
        ):
            np.testing.assert_allclose(found, expected, rtol=1e-4, atol=1e-5)


def test_arrays_decide_where_a_program_runs_that_closes_over_them() -> None:
    device = tj.devices()[3]
    w = tj.device_put(W1, device)
    assert tj.jit(lambda x: x @ w)(X).devices() == {device}


def test_calls_of_the_host_and_checks_of_results() -> None:
    w = tnp.asarray(W1)
    called = tj.jit(lambda x: tj.pure_callback(np.tanh, tj.ShapeDtypeStruct((24, 16), "float32"), x @ w))
    np.testing.assert_allclose(called(X), np.tanh(X @ W1), rtol=1e-4, atol=1e-5)
    with pytest.raises(tj.errors.NonFiniteError, match="log"):
        tj.jit(lambda x: tnp.log(x @ w - 1e9), debug_nans=True)(X)
