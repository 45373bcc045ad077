"""Refs in rules of custom_vjp and in checkpoints: what is written when a gradient is pulled back, against jax."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import jax
import jax.numpy as jnp
import numpy as np
import pytest

import tinyjax as tj
from tinyjax import numpy as tnp
from tinyjax.errors import InputError, RefError
from tinyjax.testing import check_laws

jax.config.update("jax_enable_x64", True)

#: The library without types, for what these don't allow.
lib: Any = tj


def typed(transformation: Any) -> Callable[[Callable[..., Any]], Any]:
    """A transformation of either library, for type checkers."""
    found: Callable[[Callable[..., Any]], Any] = transformation
    return found


def same(found: object, expected: object) -> None:
    np.testing.assert_allclose(np.asarray(found), np.asarray(expected), rtol=1e-12)


def refused(call: Callable[[], object], *words: str, error: type[Exception] = RefError) -> None:
    with pytest.raises(error) as caught:
        call()
    for word in words:
        assert word in str(caught.value), str(caught.value)


# Rules, for both libraries: `lib` and `np_` are jax's or ours. Each takes Refs and a value, and returns the value.


def stash(lib: Any, np_: Any) -> Any:
    """Keeps the cotangent."""

    @typed(lib.custom_vjp)
    def rule(ref: Any, x: Any) -> Any:
        return x

    def bwd(ref: Any, ct: Any) -> Any:
        ref[...] = ct
        return None, 2.0 * ct

    rule.defvjp(lambda ref, x: (x, ref), bwd)
    return rule


def running(lib: Any, np_: Any) -> Any:
    """Reads what rules that have run before it have left."""

    @typed(lib.custom_vjp)
    def rule(ref: Any, x: Any) -> Any:
        return np_.sin(x)

    def bwd(res: Any, ct: Any) -> Any:
        ref, x = res
        ref[...] = 0.5 * ref[...] + ct
        return None, ct * np_.cos(x) + ref[...]

    rule.defvjp(lambda ref, x: (np_.sin(x), (ref, x)), bwd)
    return rule


RULES = pytest.mark.parametrize("rule", [stash, running], ids=lambda rule: rule.__name__)


# What they are applied in: a function of the rule, a Ref and a value.


def once(lib: Any, np_: Any, rule: Any, ref: Any, x: Any) -> Any:
    return np_.sin(rule(ref, np_.sin(x)))


def twice(lib: Any, np_: Any, rule: Any, ref: Any, x: Any) -> Any:
    return np_.sin(rule(ref, np_.sin(rule(ref, x))))


def compiled(lib: Any, np_: Any, rule: Any, ref: Any, x: Any) -> Any:
    inner = lib.jit(lambda ref, x: rule(ref, np_.sin(x)))
    return inner(ref, inner(ref, x))


def closed_over(lib: Any, np_: Any, rule: Any, ref: Any, x: Any) -> Any:
    return lib.jit(lambda x: rule(ref, np_.sin(x)))(x)


def looping(lib: Any, np_: Any, rule: Any, ref: Any, x: Any) -> Any:
    return lib.lax.scan(lambda x, a: (rule(ref, np_.sin(a * x)), None), x, np_.arange(1.0, 4.0))[0]


def remat(lib: Any, np_: Any, rule: Any, ref: Any, x: Any) -> Any:
    return lib.checkpoint(lambda x: np_.sin(rule(ref, np_.sin(x))))(x)


def layers(lib: Any, np_: Any, rule: Any, ref: Any, x: Any) -> Any:
    def layer(x: Any, a: Any) -> Any:
        return lib.jit(lambda x: np_.sin(rule(ref, a * x)))(x), None

    return lib.lax.scan(lib.checkpoint(layer), x, np_.arange(1.0, 3.0))[0]


def unread(lib: Any, np_: Any, rule: Any, ref: Any, x: Any) -> Any:
    rule(ref, x)
    return np_.sin(x)


BODIES = [once, twice, compiled, closed_over, looping, remat, layers, unread]
IN_BODIES = pytest.mark.parametrize("body", BODIES, ids=lambda body: body.__name__)


def gradient(lib: Any, np_: Any, run: Any, ref: Any, x: float) -> Any:
    return lib.grad(run, 1)(ref, x)


def compiled_gradient(lib: Any, np_: Any, run: Any, ref: Any, x: float) -> Any:
    return lib.jit(lib.grad(run, 1))(ref, x)


def gradient_of_compiled(lib: Any, np_: Any, run: Any, ref: Any, x: float) -> Any:
    return lib.grad(lib.jit(run), 1)(ref, x)


def pulled_back(lib: Any, np_: Any, run: Any, ref: Any, x: float) -> Any:
    _, f_vjp = lib.vjp(lambda x: run(ref, x), x)
    return f_vjp(1.0)[0] + f_vjp(3.0)[0]


def pulled_back_in_a_loop(lib: Any, np_: Any, run: Any, ref: Any, x: float) -> Any:
    def step(total: Any, x: Any) -> Any:
        return total + lib.grad(run, 1)(ref, x), None

    return lib.lax.scan(step, 0.0, np_.asarray([x, 0.3, 0.9]))[0]


WAYS = [gradient, compiled_gradient, gradient_of_compiled, pulled_back, pulled_back_in_a_loop]


def outcome(way: Any, body: Any, rule: Any, lib: Any, np_: Any, x: float) -> list[Any]:
    ref, made = lib.new_ref(np_.asarray(0.25)), rule(lib, np_)
    found = way(lib, np_, lambda ref, x: body(lib, np_, made, ref, x), ref, x)
    return [np.asarray(found), np.asarray(ref[...])]


def check(rule: Any, body: Any, way: Any) -> None:
    ours, theirs = outcome(way, body, rule, lib, tnp, 0.7), outcome(way, body, rule, jax, jnp, 0.7)
    for found, expected in zip(ours, theirs, strict=True):
        same(found, expected)


@pytest.mark.parametrize("way", WAYS, ids=lambda way: way.__name__)
def test_as_in_jax(way: Any) -> None:
    check(running, layers, way)


@pytest.mark.sweep
@pytest.mark.parametrize("way", WAYS, ids=lambda way: way.__name__)
@IN_BODIES
@RULES
def test_everywhere_as_in_jax(rule: Any, body: Any, way: Any) -> None:
    check(rule, body, way)


@pytest.mark.parametrize("x", [0.3, 0.7])
def test_branches(x: float) -> None:
    """JAX doesn't have these. A branch that isn't taken leaves a Ref as it was."""
    ref, rule = lib.new_ref(0.25), running(lib, tnp)

    def f(x: Any) -> Any:
        return lib.lax.cond(x > 0.5, lambda x: rule(ref, x * x), tnp.sin, x)

    found = [lib.grad(f)(x), ref[...], lib.jit(lib.grad(f))(x), ref[...], lib.grad(lib.jit(f))(x), ref[...]]
    other = lib.new_ref(0.25)
    expected: list[Any] = []
    for _ in range(3):
        expected += [lib.grad(lambda x: rule(other, x * x) if x > 0.5 else tnp.sin(x))(x), other[...]]
    same(found, expected)


@pytest.mark.parametrize("mode", [lambda f: f, tj.jit], ids=["eager", "jit"])
def test_of_any_dtype(mode: Any) -> None:
    """What isn't differentiable is threaded through without loss."""
    held: list[tuple[Any, Any]] = [
        (np.int64(2**62 + 12345), lambda x: x - 3),
        (np.int64(-(2**62) - 1), lambda x: x + 1),
        (np.uint64(2**64 - 2), lambda x: x + np.uint64(1)),
        (np.int8(-3), lambda x: x + np.int8(1)),
        (np.array([True, False, False]), lambda x: ~x),
        (np.float32(0.1), lambda x: x * 3),
        (np.array([np.nan, np.inf, -0.0, 1e300]), lambda x: -x),
        (np.complex64(1.0 + 2.0j), lambda x: x * 1j),
        (5, lambda x: x + 1),
    ]
    refs = [lib.new_ref(value) for value, _ in held]

    @typed(lib.custom_vjp)
    def rule(x: Any) -> Any:
        return x

    def bwd(_: Any, ct: Any) -> Any:
        for ref, (_, change) in zip(refs, held, strict=True):
            ref[...] = change(ref[...])
        return (ct,)

    rule.defvjp(lambda x: (x, None), bwd)
    f = mode(lib.grad(lambda x: lib.lax.scan(lambda x, _: (rule(tnp.sin(x)), None), x, None, length=2)[0]))
    f(0.3)
    f(0.3)
    for ref, (value, change) in zip(refs, held, strict=True):
        with np.errstate(all="ignore"):
            expected = change(change(change(change(value))))
        assert ref.dtype == np.asarray(value).dtype
        np.testing.assert_array_equal(np.asarray(ref[...]), np.asarray(expected, ref.dtype))


@pytest.mark.parametrize("mode", [lambda f: f, tj.jit], ids=["eager", "jit"])
def test_a_function_and_its_rules_write(mode: Any) -> None:
    """The function, `fwd` and `bwd` count how often they are run."""
    calls, forward, backward = (lib.new_ref(0) for _ in range(3))

    @typed(lib.custom_vjp)
    def f(x: Any) -> Any:
        calls[...] += 1
        return tnp.sin(x)

    def fwd(x: Any) -> Any:
        forward[...] += 1
        return tnp.sin(x), tnp.cos(x)

    def bwd(cos: Any, ct: Any) -> Any:
        backward[...] += 1
        return (ct * cos,)

    f.defvjp(fwd, bwd)
    run: Any = mode(f)
    same(run(0.5), np.sin(0.5))
    same(lib.grad(run)(0.5), np.cos(0.5))
    same(lib.grad(lambda x: run(run(x)))(0.5), np.cos(np.sin(0.5)) * np.cos(0.5))
    same(lib.checkpoint(run)(0.5), np.sin(0.5))
    assert [int(ref[...]) for ref in (calls, forward, backward)] == [2, 3, 3]


def test_a_ref_that_is_differentiated() -> None:
    """The rule says what the cotangent is of what a Ref that is an argument holds."""

    @typed(lib.custom_vjp)
    def f(ref: Any, x: Any) -> Any:
        return ref[...] * x

    f.defvjp(lambda ref, x: (f(ref, x), (ref[...], x)), lambda res, ct: (10.0 * res[1] * ct, 100.0 * res[0] * ct))
    for mode in (lambda f: f, tj.jit):
        found = lib.grad(mode(lambda a, x: f(lib.new_ref(a), x)), (0, 1))(2.0, 3.0)
        same(found, [30.0, 200.0])
    refused(lambda: lib.grad(lambda a: closing(lib.new_ref(a), 1.0))(2.0), "closes over", error=InputError)


def closing(ref: Any, x: Any) -> Any:
    """A function that reads what a Ref holds that isn't an argument."""

    @typed(lib.custom_vjp)
    def f(x: Any) -> Any:
        return ref[...] * x

    f.defvjp(lambda x: (f(x), None), lambda _, ct: (ct,))
    return f(x)


def test_of_mapped_functions() -> None:
    """Gradients are mapped along with Refs; what is mapped within what is differentiated has no Ref of its own."""
    rule = stash(lib, tnp)
    x = np.arange(3.0)
    refs = lib.new_ref(np.zeros(3))
    same(lib.vmap(lib.grad(lambda x, ref: tnp.sin(rule(ref, x))))(x, refs), 2.0 * np.cos(x))
    same(refs[...], np.cos(x))
    same(lib.jit(lib.vmap(lib.grad(lambda x, ref: rule(ref, x * x))))(x, refs), 4.0 * x)
    same(refs[...], np.ones(3))
    ref = lib.new_ref(0.0)
    same(lib.vmap(lambda x: rule(ref, x))(x), x)
    same(lib.jit(lib.vmap(lib.jit(lambda x: rule(ref, x))))(x), x)
    same(lib.vmap(lib.jit(lambda x: x + ref[...]))(x), x)  # which reads only

    def shared(mode: Any) -> None:
        f: Any = mode(lambda x: rule(ref, x))
        refused(lambda: lib.grad(lambda x: tnp.sum(lib.vmap(f)(x)))(x), "uses a Ref", "map the gradient")
        refused(lambda: lib.vmap(lib.grad(f))(x), "same place")

    shared(lambda f: f)
    shared(tj.jit)
    refused(lambda: lib.jacrev(lambda x: x * rule(ref, 1.0 * x[0]))(x), "same place")
    refused(lambda: lib.grad(lambda x: rule(lib.new_ref(0.0), x))(1.0), "uses a Ref", "Make the Ref outside")
    mesh = lib.make_mesh((1,), ("x",))
    wide = lib.new_ref(np.zeros(3))
    divided = lib.shard_map(lambda x: rule(wide, x), mesh=mesh, in_specs=lib.P("x"), out_specs=lib.P("x"))
    same(divided(x), x)
    refused(lambda: lib.grad(lambda x: tnp.sum(divided(x)))(x), "uses a Ref")
    assert float(ref[...]) == 0.0


def test_of_several_orders() -> None:
    ref, rule = lib.new_ref(0.0), running(lib, tnp)

    def inner(x: Any, y: Any) -> Any:
        """Only the outer derivative goes through the rule."""
        return lib.grad(lambda x: x * rule(ref, tnp.sin(y)))(x)

    for mode in (lambda f: f, tj.jit):
        ref[...] = 1.0
        found = lib.grad(lambda y, mode=mode: mode(inner)(2.0, y))(0.5)
        other = lib.new_ref(1.0)
        same(found, lib.grad(lambda y, other=other: rule(other, tnp.sin(y)))(0.5))
        same(ref[...], other[...])
    # A bwd rule that writes what is differentiated again.
    refused(lambda: lib.grad(lib.grad(lambda x: rule(ref, x) ** 2))(0.5), "stop_gradient(value)")
    refused(lambda: lib.jvp(lambda x: rule(ref, x), (0.5,), (1.0,)), "by grad or vjp")
    counting = lib.new_ref(0)

    @typed(lib.custom_vjp)
    def counted(x: Any) -> Any:
        return tnp.sin(x)

    def bwd(x: Any, ct: Any) -> Any:
        counting[...] += 1
        return (ct * tnp.cos(x),)

    counted.defvjp(lambda x: (tnp.sin(x), x), bwd)
    same(lib.grad(lib.grad(counted))(0.5), -np.sin(0.5))
    same(lib.jit(lib.grad(lib.grad(counted)))(0.5), -np.sin(0.5))
    assert int(counting[...]) == 2


def test_what_isnt_wanted() -> None:
    ref, total, rule = lib.new_ref(0.0), lib.new_ref(1.0), stash(lib, tnp)
    _, f_vjp = lib.vjp(lambda x, y: rule(ref, x) * tnp.sin(y), 2.0, 3.0)
    f_vjp.with_refs(total, tj.ad.DontWant())(1.0)
    same([ref[...], total[...]], [np.sin(3.0), 1.0 + 2.0 * np.sin(3.0)])
    f_vjp.with_refs(tj.ad.DontWant(), tj.ad.GradValue())(2.0)
    same(ref[...], 2.0 * np.sin(3.0))  # the rule runs for what it writes, too


def test_rules_that_refuse() -> None:
    """What a rule raises is raised where the rule is needed."""
    ref = lib.new_ref(0.0)

    @typed(lib.custom_vjp)
    def f(x: Any) -> Any:
        ref[...] += 1.0
        return x

    def bwd(_: Any, ct: Any) -> Any:
        raise ArithmeticError("no derivative")

    f.defvjp(lambda x: (x, None), bwd)
    same(lib.jit(f)(2.0), 2.0)
    refused(lambda: lib.grad(lib.jit(f))(2.0), "no derivative", error=ArithmeticError)
    f.defvjp(bwd, bwd)
    same(lib.jit(lambda x: f(x) + 1.0)(2.0), 3.0)
    made = typed(lib.custom_vjp)(lambda x: x)
    made.defvjp(lambda x: (x, lib.new_ref(x)), lambda ref, ct: (ct,))
    refused(lambda: lib.grad(made)(1.0), "returned a Ref that it made", "Return what it holds")
    g = typed(lib.custom_vjp)(lambda x, y: x[...])
    g.defvjp(lambda x, y: (x[...], None), lambda _, ct: (ct, ct))
    refused(lambda: g(ref, ref), "x and y", "are one Ref")


def test_programs_are_lawful() -> None:
    ref, rule = lib.new_ref(0.25), running(lib, tnp)
    program = lib.make_jaxpr(lambda x: lib.lax.scan(lambda x, _: (rule(ref, x), None), x, None, length=2)[0])(0.5)
    check_laws(program)
    assert "states=1" in str(program)
    assert str(tj.ir.parse(str(program.jaxpr))) == str(program.jaxpr)
    simple = lib.make_jaxpr(lib.grad(lambda x: rule(ref, x)))(0.5)
    assert [str(aval) for aval in simple.in_avals] == ["~f64[]", "~f64[]"]  # what it holds, and no state


@pytest.mark.parametrize("mode", [lambda f: f, tj.jit], ids=["eager", "jit"])
def test_checkpoints_write(mode: Any) -> None:
    for kind in (None, "no_grad_no_remat"):
        ref = lib.new_ref(1.0, kind=kind)

        @typed(lib.checkpoint)
        def f(y: Any, ref: Any) -> Any:
            ref[...] += tj.lax.stop_gradient(y)
            return tnp.sin(y * ref[...])

        same(lib.grad(mode(f))(2.0, ref), 3.0 * np.cos(6.0))
        same(ref[...], 3.0)
        same(lib.grad(mode(lambda y, f=f, ref=ref: f(y, ref)))(2.0), 5.0 * np.cos(10.0))
        same(ref[...], 5.0)
    detached = lib.new_ref(0.0, kind="no_grad_no_remat")
    same(lib.grad(mode(lambda y: (detached.addupdate(y * y), y * detached[...])[1]))(3.0), 9.0)
    refused(lambda: lib.new_ref(1.0, kind="anselm_ref"), "no_grad_no_remat", error=tj.errors.UnsupportedError)
