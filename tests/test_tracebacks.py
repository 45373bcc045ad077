"""Tracebacks show the user's frames, and no others."""

from __future__ import annotations

import inspect
import pickle
import subprocess
import sys
import traceback
from collections.abc import Callable, Iterator
from importlib import import_module
from pathlib import Path
from types import FunctionType
from typing import NoReturn

import numpy as np
import pytest

import tinyjax as tj
import tinyjax.numpy as tnp
from tinyjax import lax
from tinyjax.errors import InputError, LeakedTracerError, ShapeError, TinyjaxError
from tinyjax.tracebacks import VARIABLE
from tinyjax.tracing.array import Array

OWN = str(Path(tj.__file__).parent)
HERE = Path(__file__).name


class UserError(Exception):
    """What a user's code raises."""


def frames(error: BaseException) -> list[str]:
    return [f"{Path(frame.filename).name}:{frame.name}" for frame in traceback.extract_tb(error.__traceback__)]


def chain(error: BaseException) -> Iterator[BaseException]:
    found: BaseException | None = error
    while found is not None:
        yield found
        found = found.__cause__ or found.__context__


def raised(function: Callable[[], object]) -> Exception:
    try:
        function()
    except Exception as error:  # noqa: BLE001 (any)
        return error
    pytest.fail("nothing was raised")


def check(function: Callable[[], object], names: str, kind: type[Exception] = TinyjaxError) -> Exception:
    """Whether the frames behind this function's own are those of this module's functions `names`, and no others."""
    error = raised(function)
    assert isinstance(error, kind), error
    assert frames(error)[2:] == [f"{HERE}:{name}" for name in names.split()]
    for part in chain(error):
        assert not any(OWN in frame.filename for frame in traceback.extract_tb(part.__traceback__))
    return error


def inner(x: Array) -> Array:
    return x + np.ones(4)


def loss(x: Array) -> Array:
    return inner(x).sum()


def step(carry: Array, x: Array) -> tuple[Array, Array]:
    return inner(carry), x


def fails(*_: object, **__: object) -> NoReturn:
    raise UserError("mine")


X = tnp.ones(3)


def test_a_wrong_shape_in_jit_of_grad() -> None:
    check(lambda: tj.jit(tj.grad(loss))(X), "loss inner", ShapeError)


def test_a_wrong_shape_in_scan() -> None:
    check(lambda: lax.scan(step, X, X), "step inner", ShapeError)


def with_jvp(f: Callable[..., Array]) -> Callable[..., Array]:
    found = tj.custom_jvp(f)
    found.defjvps(None)
    return found


def with_vjp(f: Callable[..., Array]) -> Callable[..., Array]:
    found = tj.custom_vjp(f)
    found.defvjp(f, f)
    return found


TRANSFORMED: dict[str, Callable[[Callable[..., Array]], object]] = {
    "jit": lambda f: tj.jit(f)(X),
    "grad": lambda f: tj.grad(f)(X),
    "value_and_grad": lambda f: tj.value_and_grad(f)(X),
    "vmap": lambda f: tj.vmap(f)(X),
    "jvp": lambda f: tj.jvp(f, (X,), (X,)),
    "vjp": lambda f: tj.vjp(f, X),
    "linearize": lambda f: tj.linearize(f, X),
    "linear_transpose": lambda f: tj.linear_transpose(f, X),
    "jacfwd": lambda f: tj.jacfwd(f)(X),
    "jacrev": lambda f: tj.jacrev(f)(X),
    "hessian": lambda f: tj.hessian(f)(X),
    "checkpoint": lambda f: tj.grad(tj.checkpoint(f))(X),
    "make_jaxpr": lambda f: tj.make_jaxpr(f)(X),
    "eval_shape": lambda f: tj.eval_shape(f, X),
    "custom_jvp": lambda f: with_jvp(f)(X),
    "custom_vjp": lambda f: with_vjp(f)(X),
    "watch": lambda f: tj.watch(f)(X),
    "saved_residuals": lambda f: tj.saved_residuals(f, X),
    "trace": lambda f: tj.jit(f).trace(X),
    "lower": lambda f: tj.jit(f).lower(X),
    "pure_callback": lambda f: tj.pure_callback(f, tj.ShapedArray((), "float64"), X),
    "cond": lambda f: lax.cond(True, f, f, X),
    "switch": lambda f: lax.switch(0, [f, f], X),
    "scan": lambda _: lax.scan(fails, X, X),
    "map": lambda f: lax.map(f, X),
    "while_loop": lambda f: lax.while_loop(lambda x: x.sum() > 0, f, X),
    "fori_loop": lambda f: lax.fori_loop(0, 3, f, X),
    "associative_scan": lambda f: lax.associative_scan(f, X),
    "tree.map": lambda f: tj.tree.map(f, [X]),
    "inverse": lambda f: tj.interpreters.inverse(f)(X),
    "bounds": lambda f: tj.interpreters.bounds(f)(X, X),
    "harvest": lambda f: tj.interpreters.harvest(f)(X),
    "sparse_jacobian": lambda f: tj.interpreters.sparse_jacobian(f)(X),
    "at": lambda f: X.at[0].apply(f).sum(),
    "cost_of": lambda f: tj.tools.cost_of(f, X),
    "several": lambda f: tj.jit(tj.vmap(tj.grad(lambda x: lax.cond(x > 0, tj.jit(f), f, x))))(X),
}


@pytest.mark.parametrize("name", TRANSFORMED)
def test_what_users_raise_within(name: str) -> None:
    """Their error comes out as it was, with their frames."""
    apply = TRANSFORMED[name]
    error = check(lambda: apply(fails), "<lambda> <lambda> fails" if name == "several" else "<lambda> fails", UserError)
    assert error.args == ("mine",)
    assert error.__cause__ is None


def test_later_parts_of_a_transformation() -> None:
    pull_back: Callable[..., object] = tj.vjp(lambda x: x * 2.0, 1.0)[1]
    check(lambda: pull_back((1.0, 2.0)), "")
    push: Callable[..., object] = tj.linearize(lambda x: x * 2.0, 1.0)[1]
    check(lambda: push("a"), "", InputError)
    compiled = tj.jit(lambda x: x).lower(1.0).compile()
    check(lambda: compiled(1.0, 2.0), "")


def test_cause_context_and_notes_stay() -> None:
    cause, context, error = KeyError("cause"), IndexError("context"), UserError("mine")
    error.add_note("a note")

    def f(x: Array) -> Array:
        try:
            raise context
        except IndexError:
            raise error from cause

    found = check(lambda: tj.jit(f)(X), "f", UserError)
    assert found is error
    assert found.__cause__ is cause
    assert found.__context__ is context
    assert found.__notes__ == ["a note"]


def test_errors_of_chained_errors_are_filtered_too() -> None:
    def f(x: Array) -> Array:
        try:
            return inner(x)
        except ShapeError as error:
            raise UserError from error

    found = check(lambda: tj.jit(f)(X), "f", UserError)
    assert isinstance(found.__cause__, ShapeError)
    assert frames(found.__cause__) == [f"{HERE}:f", f"{HERE}:inner"]


def test_groups() -> None:
    def f(x: Array) -> Array:
        try:
            return inner(x)
        except ShapeError as error:
            raise ExceptionGroup("several", [error]) from None

    found = raised(lambda: tj.jit(f)(X))
    assert isinstance(found, ExceptionGroup)
    assert frames(found.exceptions[0]) == [f"{HERE}:f", f"{HERE}:inner"]


def test_helpers_between_are_hidden_and_the_users_own_shown() -> None:
    """What the library calls of Python's and NumPy's goes with it; what the user calls doesn't."""

    def f(x: Array) -> object:
        return np.broadcast_to(np.ones(3), (2, 2))

    error = raised(lambda: tj.jit(f)(X))
    assert frames(error)[2] == f"{HERE}:f"
    assert len(frames(error)) > 3
    assert not any(OWN in frame.filename for frame in traceback.extract_tb(error.__traceback__))


def test_generators_keep_their_frames() -> None:
    def rows(x: Array) -> Iterator[Array]:
        yield inner(x)

    def f(x: Array) -> Array:
        return sum(rows(x), x)

    check(lambda: tj.jit(f)(X), "f rows inner")


def test_rules_and_interpreters_of_users_are_theirs() -> None:
    @tj.custom_jvp
    def f(x: Array) -> Array:
        return x

    @f.defjvp
    def rule(primals: tuple[Array], tangents: tuple[Array]) -> tuple[Array, Array]:
        return fails()

    check(lambda: tj.jit(tj.grad(f))(X), "rule fails", UserError)


def test_interrupts_show_everything() -> None:
    def f(x: Array) -> Array:
        raise KeyboardInterrupt

    with pytest.raises(KeyboardInterrupt) as caught:
        tj.jit(f)(X)
    assert any(OWN in frame.filename for frame in traceback.extract_tb(caught.value.__traceback__))


@pytest.mark.parametrize("value", ["off", "OFF", "0"])
def test_all_frames(value: str, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv(VARIABLE, value)
    found = frames(raised(lambda: tj.jit(tj.grad(loss))(X)))
    assert f"{HERE}:loss" in found
    assert len(found) > 12
    monkeypatch.setenv(VARIABLE, "on")
    assert len(frames(raised(lambda: tj.jit(tj.grad(loss))(X)))) == 4


def test_what_is_printed(tmp_path: Path) -> None:
    program = tmp_path / "program.py"
    program.write_text("import tinyjax.numpy as tnp\n\nx = tnp.ones(3)\nx + tnp.ones(4)\n")
    done = subprocess.run([sys.executable, program], capture_output=True, text=True, check=False)
    lines = done.stderr.splitlines()
    assert lines[0] == "Traceback (most recent call last):"
    assert [line for line in lines if line.startswith("  File")] == [f'  File "{program}", line 4, in <module>']


def test_recursion_without_end() -> None:
    def f(x: Array) -> Array:
        return f(x) + 1.0

    error = raised(lambda: f(tnp.ones(3)))
    assert isinstance(error, RecursionError)


class Bomb:
    """An argument that raises when it is looked at, whatever is done with it."""

    def fail(self, *_: object, **__: object) -> NoReturn:
        raise UserError

    __array__ = __jax_array__ = __index__ = __float__ = __int__ = __bool__ = __iter__ = __call__ = fail
    __len__ = __getitem__ = __fspath__ = __eq__ = __hash__ = __str__ = __repr__ = __dlpack__ = __format__ = fail


def functions() -> Iterator[tuple[str, Callable[..., object]]]:
    packages = [
        "lax",
        "numpy",
        "tree",
        "transforms",
        "tools",
        "interpreters",
        "extend",
        "debug",
        "ir",
        "hlo",
        "interop.jax",
        "ops",
        "scipy.fft",
        "scipy.ndimage",
        "scipy.stats",
        "scipy.cluster.vq",
        "scipy.sparse.linalg",
        "experimental.sparse.linalg",
    ]
    for package in [tj, *(import_module(f"tinyjax.{name}") for name in packages)]:
        for name in getattr(package, "__all__", None) or dir(package):
            found = getattr(package, name)
            if isinstance(found, FunctionType) and not name.startswith("_") and name != "filter_package":
                yield f"{package.__name__}.{name}", found


FUNCTIONS = dict(functions())


def explode(function: Callable[..., object], first: tuple[object, ...] = ()) -> None:
    """Calls a function with arguments that raise; what comes out shows none of the library's frames."""
    parameters = list(inspect.signature(function).parameters.values())[len(first) :]
    count = sum(p.kind in (p.POSITIONAL_ONLY, p.POSITIONAL_OR_KEYWORD) for p in parameters)
    required = sum(p.kind in (p.POSITIONAL_ONLY, p.POSITIONAL_OR_KEYWORD) and p.default is p.empty for p in parameters)
    named = {p.name: Bomb() for p in parameters if p.kind is p.KEYWORD_ONLY and p.default is p.empty}
    for number in range(required, count + 1):
        try:
            function(*first, *[Bomb() for _ in range(number)], **named)
        except Exception as error:  # noqa: BLE001 (any)
            for part in chain(error):
                shown = [frame for frame in traceback.extract_tb(part.__traceback__) if OWN in frame.filename]
                assert not shown, shown


def test_there_are_functions_to_try() -> None:
    assert len(FUNCTIONS) > 400


@pytest.mark.parametrize("package", sorted({name.rpartition(".")[0] for name in FUNCTIONS}))
def test_every_public_function(package: str) -> None:
    for name, function in FUNCTIONS.items():
        if name.rpartition(".")[0] == package and name not in NOT_ENTRIES:
            explode(function)


#: Called for every equation, and without checks.
NOT_ENTRIES = {f"tinyjax.ir.{name}" for name in ("format_closed", "format_eqn", "nested_programs", "subjaxprs")} | {
    "tinyjax.ir.variable_names"
}

METHODS = sorted(
    name
    for name in dir(Array)
    if isinstance(inspect.getattr_static(Array, name), FunctionType)
    and (name.endswith("__") or not name.startswith("_"))
    and name not in {"__init__", "__setattr__", "__init_subclass__", "__getattr__", "into", "concrete"}
)


def test_every_method_of_an_array() -> None:
    assert len(METHODS) > 90
    for name in METHODS:
        explode(getattr(Array, name), (tnp.ones(3),))


def test_every_method_of_what_has_escaped() -> None:
    kept: list[Array] = []

    def f(x: Array) -> Array:
        kept.append(x)
        return x

    tj.jit(f)(tnp.ones((2, 3)))
    leaked = kept[0]
    for name in METHODS:
        explode(getattr(Array, name), (leaked,))
    check(lambda: leaked.T, "", LeakedTracerError)
    check(lambda: leaked.at[0].set(1.0), "", LeakedTracerError)
    check(lambda: sum(leaked), "", LeakedTracerError)


def test_entries_are_the_functions_that_they_were() -> None:
    for name, function in FUNCTIONS.items():
        assert function.__doc__ or name.startswith("tinyjax.ir."), name
        if name not in NOT_ENTRIES:
            assert pickle.loads(pickle.dumps(function)) is function, name
