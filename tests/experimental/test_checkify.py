"""`checkify`: errors as values. JAX's messages are the oracle; where JAX gives up, what is right is written down."""

from __future__ import annotations

from collections.abc import Callable, Iterator
from contextlib import contextmanager
from types import SimpleNamespace
from typing import Any, TypeAlias

import jax
import jax.numpy as jnp
import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from jax.experimental import checkify as jax_checkify

import tinyjax as tj
import tinyjax.numpy as tnp
from tests.transforms.pass_programs import FORWARD
from tinyjax import ir, lax, transforms
from tinyjax.errors import CheckError, InputError, UnhandledCheckError
from tinyjax.experimental import checkify
from tinyjax.primitives.checks import DivisionByZero, NanResult, OutOfBounds
from tinyjax.sharding import AbstractMesh
from tinyjax.sharding import PartitionSpec as P

#: A program of either library: `o` has its modules.
Program: TypeAlias = Callable[..., Any]

OURS = SimpleNamespace(tj=tj, np=tnp, lax=lax, checkify=checkify)
THEIRS = SimpleNamespace(tj=jax, np=jnp, lax=jax.lax, checkify=jax_checkify)


def positive(o: Any, x: Any) -> Any:
    o.checkify.check(x > 0, "{} must be more than {zero}", x, zero=o.np.zeros(2))
    return o.np.log(x)


def in_scan(o: Any, x: Any) -> Any:
    def step(carry: Any, row: Any) -> tuple[Any, Any]:
        return carry - 1.0, positive(o, row + carry) / carry

    return o.lax.scan(step, x, o.np.arange(4.0))


def in_while(o: Any, x: Any) -> Any:
    def cond(carry: Any) -> Any:
        o.checkify.check(carry < 9.0, "carry {c}", c=carry)
        return carry > 1.0

    return o.lax.while_loop(cond, lambda c: c - 1.0 + 0.0 * o.np.sqrt(c - 2.0) / (c - 3.0), x)


def in_cond(o: Any, x: Any) -> Any:
    return o.lax.cond(x > 2.0, lambda x: x / (x - 3.0), lambda x: positive(o, x), x)


def in_switch(o: Any, x: Any) -> Any:
    branches = [lambda x: positive(o, -x), o.np.sin, lambda x: o.np.arange(3.0)[x.astype("int32")] / x]
    return o.lax.switch(x.astype("int32"), branches, x)


def in_jit(o: Any, x: Any) -> Any:
    return o.tj.jit(lambda x: positive(o, x) + o.tj.jit(o.np.sqrt)(x - 1.0))(x) / (x - 3.0)


def in_remat(o: Any, x: Any) -> Any:
    return o.tj.checkpoint(lambda x: positive(o, x) * o.np.arcsin(x))(x)


def differentiated(o: Any, x: Any) -> Any:
    return o.tj.grad(lambda x: positive(o, x) * o.np.sqrt(x - 1.0))(x)


def with_jvp(o: Any, x: Any) -> Any:
    f = o.tj.custom_jvp(lambda x: positive(o, x - 1.0))
    f.defjvp(lambda primals, tangents: (f(*primals), tangents[0] / (primals[0] - 1.0)))
    return f(x) + o.tj.jvp(f, (x,), (x,))[1]


def with_vjp(o: Any, x: Any) -> Any:
    f = o.tj.custom_vjp(o.np.sqrt)
    f.defvjp(lambda x: (f(x), x), lambda x, ct: (ct / (x - 2.0),))
    return f(x) + o.tj.grad(f)(x)


def indexed(o: Any, x: Any) -> Any:
    i = x.astype("int32")
    table = o.np.arange(24.0).reshape(2, 3, 4)
    row = table.at[i, :, i + 1].add(1.0)[0, i]
    return o.lax.dynamic_slice(row, (i - 1,), (2,)) / x


def mapped(o: Any, x: Any) -> Any:
    return o.tj.vmap(lambda y: o.np.sqrt(y) + o.np.arange(4.0)[y.astype("int32")])(x + o.np.arange(-1.0, 3.0))


def twice(o: Any, x: Any) -> Any:
    """An error that is returned, and raised again."""
    error, y = o.checkify.checkify(lambda: positive(o, x))()
    o.checkify.check(y < 1.0, "large")
    o.checkify.check_error(error)
    return y


CASES: dict[str, Program] = {
    f.__name__: f
    for f in (
        positive, in_scan, in_while, in_cond, in_switch, in_jit, in_remat, differentiated, with_jvp, with_vjp, indexed,
        mapped,
    )
}  # fmt: skip
VALUES = (-1.0, 0.0, 1.0, 2.0, 3.0, 5.0, 11.0, 7.5)
SETS = ("user_checks", "nan_checks", "div_checks", "index_checks", "float_checks", "automatic_checks")


Said: TypeAlias = Callable[[Any], tuple[str | None, Any]]


def says(o: Any, program: Program, errors: str, outside: bool = True) -> Said:
    """What is wrong, and the result: of the compiled function, or of the function that compiles."""

    def f(x: Any) -> Any:
        return program(o, x)

    kinds = getattr(o.checkify, errors)
    run = o.tj.jit(o.checkify.checkify(f, errors=kinds)) if outside else o.checkify.checkify(o.tj.jit(f), errors=kinds)

    def said(x: Any) -> tuple[str | None, Any]:
        error, out = run(x)
        text = error.get()
        return None if text is None else text.rstrip(), o.tj.tree.map(np.asarray, out)

    return said


@pytest.mark.sweep
@pytest.mark.parametrize("errors", ["user_checks", "automatic_checks"])
@pytest.mark.parametrize("name", CASES)
def test_it_says_what_jax_says(name: str, errors: str) -> None:
    program = CASES[name]
    expected, found, inside = (
        says(THEIRS, program, errors),
        says(OURS, program, errors),
        says(OURS, program, errors, False),
    )
    for value in VALUES:
        x = np.float64(value)
        text, out = expected(x)
        assert found(x)[0] == text, (name, x)
        jax.tree.map(lambda a, b: np.testing.assert_allclose(a, b, rtol=1e-9), found(x)[1], out)
        if value in VALUES[::3]:
            assert inside(x)[0] == text, (name, x)


@pytest.mark.sweep
@pytest.mark.parametrize("errors", SETS)
def test_a_mapped_error_has_a_line_for_each(errors: str) -> None:
    def run(o: Any) -> str | None:
        f = o.checkify.checkify(lambda x: indexed(o, x) + positive(o, x), errors=getattr(o.checkify, errors))
        found: str | None = o.tj.jit(o.tj.vmap(f))(np.array(VALUES[:-1]))[0].get()
        return found

    ours, theirs = run(OURS), run(THEIRS)
    assert (ours is None) == (theirs is None)
    if ours is not None and theirs is not None:
        assert [line.rstrip() for line in ours.split("\n")] == [line.rstrip() for line in theirs.split("\n")]


def test_the_first_failure_of_the_program_counts() -> None:
    """In JAX a `check` comes before what is looked for by itself, wherever they are."""

    def f(x: Any) -> Any:
        y = 1.0 / x
        checkify.check(y < 1.0, "large")
        return y

    assert checkify.checkify(f, errors=checkify.all_checks)(tnp.zeros(()))[0].get() == "division by zero"
    assert checkify.checkify(lambda x: twice(OURS, x))(tnp.asarray(0.5))[0].get() is None
    assert checkify.checkify(lambda x: twice(OURS, x))(tnp.asarray(9.0))[0].get() == "large (`check` failed)"
    with raises("-2.0 must be more than", kind=ValueError):
        checkify.check_error(checkify.checkify(lambda x: positive(OURS, x))(tnp.asarray(-2.0))[0])


@contextmanager
def raises(*words: str, kind: type[Exception] = CheckError) -> Iterator[None]:
    with pytest.raises(kind) as caught:
        yield
    assert all(word in str(caught.value) for word in words), str(caught.value)


def test_a_check_is_raised_at_once_outside_and_refused_by_the_compiler() -> None:
    checkify.check(True, "fine")
    with raises("-1.0 must be more than [0. 0.]", kind=ValueError):
        positive(OURS, tnp.asarray(-1.0))
    with raises("check('{} must be more than {zero}')", "checkify.checkify(f)", kind=UnhandledCheckError):
        tj.jit(lambda x: positive(OURS, x))(1.0)
    assert issubclass(UnhandledCheckError, ValueError)

    def debugged(x: tj.Array) -> tj.Array:
        checkify.debug_check(x > 0.0, "no")
        return 1.0 * x

    assert float(tj.jit(debugged)(tnp.asarray(-1.0))) == -1.0
    assert checkify.checkify(debugged)(tnp.asarray(-1.0))[0].get() == "no (`check` failed)"


def test_the_line_is_said_when_it_is_thrown() -> None:
    error, _ = checkify.checkify(tj.jit(lambda x: positive(OURS, x)))(-2.0)
    assert error.get() == "-2.0 must be more than [0. 0.] (`check` failed)"
    with raises("-2.0 must be more than", "test_checkify.py", "(positive)"):
        error.throw()
    assert "test_checkify.py" in str(error.get_exception())
    assert repr(error) == f"Error({error.get()})"
    fine, _ = checkify.checkify(lambda x: positive(OURS, x))(2.0)
    fine.throw()
    assert fine.get() is None
    assert fine.get_exception() is None
    assert checkify.init_error.get() is None
    checkify.check_error(checkify.init_error)


def test_only_rows_that_run_are_checked() -> None:
    """Under vmap all branches run, and loops run until the last row has ended. JAX refuses, or says what isn't so."""

    def small(x: tj.Array) -> tj.Array:
        checkify.check(x < 3, "{} isn't small", x)
        return x + 1

    def loop(x: tj.Array) -> tj.Array:
        return lax.while_loop(lambda x: x < 3, small, x)

    def branch(x: tj.Array) -> tj.Array:
        return lax.cond(x < 3, small, lambda x: x, x)

    x: Any = np.arange(5)
    for f, expected in ((loop, [3, 3, 3, 3, 4]), (branch, [1, 2, 3, 3, 4])):
        error, y = checkify.checkify(tj.vmap(f))(x)
        assert error.get() is None
        np.testing.assert_array_equal(tj.vmap(f)(x), y)  # nor is anything raised
        np.testing.assert_array_equal(y, expected)
    error, _ = checkify.checkify(tj.vmap(lambda x: lax.while_loop(lambda x: x < 4, small, x)))(x)
    assert error.get() == "3 isn't small (`check` failed)"
    with raises("3 isn't small"):
        tj.vmap(lambda x: lax.cond(x < 4, small, lambda x: x, x))(x)


def test_errors_are_trees() -> None:
    def step(carry: tj.Array, x: tj.Array) -> tuple[tj.Array, Any]:
        return checkify.checkify(lambda c: positive(OURS, c))(carry)[1], checkify.checkify(positive)(OURS, x)

    def f(xs: Any) -> Any:
        _, (errors, ys) = lax.scan(step, 2.0, xs)
        checkify.check_error(errors)
        return ys

    error, _ = checkify.checkify(f)(np.array([1.0, -1.0, -2.0]))
    assert error.get() == "-1.0 must be more than [0. 0.] (`check` failed)"
    (error, _), (tangent, _) = tj.jvp(checkify.checkify(lambda x: positive(OURS, x)), (2.0,), (1.0,))
    assert error.get() is None
    assert isinstance(tangent, checkify.Error)
    assert float(tj.grad(lambda x: checkify.checkify(lambda x: positive(OURS, x))(x)[1])(4.0)) == 0.25
    leaves, treedef = jax.tree.flatten(error)
    assert jax.tree.unflatten(treedef, leaves).get() is None


def test_the_rule_of_a_function_stays_its_own() -> None:
    @tj.custom_jvp
    def f(x: Any) -> Any:
        checkify.check(x > 0.0, "positive")
        return x * x

    f.defjvp(lambda primals, tangents: (f(*primals), 7.0 * tangents[0]))
    assert float(tj.grad(lambda x: checkify.checkify(f)(x)[1])(1.0)) == 7.0
    assert checkify.checkify(tj.grad(f))(-1.0)[0].get() == "positive (`check` failed)"


@pytest.mark.parametrize("check_vma", [True, False])
@pytest.mark.parametrize("loops", [True, False])
def test_devices_have_a_line_each(check_vma: bool, loops: bool) -> None:
    mesh = AbstractMesh((2, 2), ("x", "y"))

    def f(x: tj.Array) -> tj.Array:
        if loops:
            return lax.scan(lambda c, x: (c / x, lax.psum(x, "x")), x[0], x)[1]
        return 1.0 / x

    g = tj.shard_map(f, mesh=mesh, in_specs=P(("x", "y")), out_specs=P(("x", "y")), check_vma=check_vma)
    x: Any = np.array([1.0, 1.0, 1.0, 0.0, 2.0, 2.0, 0.0, 1.0])
    error, out = tj.jit(checkify.checkify(g, errors=checkify.float_checks))(x)
    assert error.get() == "at mapped index 1: division by zero\nat mapped index 3: division by zero"
    assert out.shape == (8,)


def test_what_happens_besides_happens_once() -> None:
    seen: list[float] = []

    @tj.custom_vjp
    def f(x: Any) -> Any:
        tj.debug.callback(lambda x: seen.append(float(x)), x)
        return tnp.sqrt(x)

    f.defvjp(lambda x: (f(x), x), lambda x, ct: (ct,))
    error, _ = checkify.checkify(f, errors=checkify.nan_checks)(-1.0)
    assert error.get() == "nan generated by primitive: sqrt."
    assert seen == [-1.0]


def test_bad_input() -> None:
    with raises("takes a scalar pred", "bool[2]", "jnp.all(pred)", kind=TypeError):
        checkify.check(np.array([True, False]), "no")
    with raises("debug_check takes a scalar pred", "~f64[]", kind=InputError):
        checkify.debug_check(1.0, "no")
    with raises("Formatting arguments of check", "'hello' of type str", kind=TypeError):
        checkify.check(True, "{}", "hello")
    with raises("refers to the argument 'y'", kind=InputError):
        checkify.check(True, "{y}", x=1.0)
    with raises("checkify.float_checks", "'nan'", kind=InputError):
        checkify.checkify(positive, errors={"nan"})  # type: ignore[arg-type]
    with raises("takes an Error", kind=InputError):
        checkify.check_error(None)  # type: ignore[arg-type]
    with raises("a function to transform", kind=InputError):
        checkify.checkify(3)  # type: ignore[arg-type]


def test_arguments_may_be_anything() -> None:
    f = checkify.checkify(lambda n, flag, name: tnp.ones(n) if flag else name)
    assert f(3, True, "x")[1].shape == (3,)
    with raises("index 5 out of bounds", kind=IndexError):  # of Python, where nothing is computed yet
        checkify.checkify(lambda x: x[5], errors=checkify.index_checks)(tnp.ones(2))


KINDS = st.sets(st.sampled_from([NanResult, DivisionByZero, OutOfBounds]))


@pytest.mark.sweep
@settings(deadline=None)
@given(FORWARD, KINDS)
def test_results_stay_what_they_are(program: ir.Jaxpr, kinds: set[Any]) -> None:
    found = transforms.checkify(program, kinds)
    ir.typecheck(found.jaxpr)
    n = len(program.outvars)
    assert found.jaxpr.out_avals[:n] == program.out_avals
    assert found.jaxpr.in_avals == program.in_avals
    assert bool(found.failures) == (len(found.jaxpr.outvars) > n)
    assert {type(failure) for failure in found.failures} <= kinds
    assert transforms.checkify(found.jaxpr, []).jaxpr == found.jaxpr  # without checks, it is the same program
    args = [
        np.linspace(-1.0, 2.0, max(aval.size, 1))[: aval.size].reshape(aval.shape).astype(aval.dtype)
        for aval in program.in_avals
    ]
    before, after = tj.eval_jaxpr(program, (), *args), tj.eval_jaxpr(found.jaxpr, (), *args)
    for x, y in zip(before, after[:n], strict=True):
        np.testing.assert_array_equal(x, y)
    if NanResult in kinds and found.failures and not after[n]:
        assert not any(np.isnan(x).any() for x in before if x.dtype.kind == "f")
