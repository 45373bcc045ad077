"""Primitives that are classes of Python methods: one source for JAX's module and for ours, and the same results."""

from __future__ import annotations

from types import SimpleNamespace
from typing import Any

import jax
import jax.experimental.hijax
import jax.numpy as jnp
import numpy as np
import pytest

import tinyjax as tj
import tinyjax.numpy as tnp
from tests.experimental.hi_primitives import classes
from tinyjax.errors import (
    ForwardModeError,
    InputError,
    MissingRuleError,
    RuleResultError,
    TinyjaxError,
    TypingError,
    UnforeseenError,
    UnsupportedError,
)
from tinyjax.experimental import hijax
from tinyjax.interop.jax import of_jax, to_jax
from tinyjax.testing import check_laws

THEIRS = SimpleNamespace(
    jax=jax, np=jnp, hijax=jax.experimental.hijax,
    HiPrim=getattr(jax.experimental.hijax, "HiPrim", None) or getattr(jax.experimental.hijax, "VJPHiPrimitive", None),
)  # fmt: skip
OURS = SimpleNamespace(jax=tj, np=tnp, hijax=hijax, HiPrim=hijax.HiPrim)
X, Y = np.array([0.5, -1.0, 2.0]), np.array([1.5, 0.25, -0.75])


def same(function: Any, *args: Any) -> None:
    """Whether a function of a library gives the same with both."""
    wanted, found = (function(j, classes(j))(*args) for j in (THEIRS, OURS))
    leaves, structure = jax.tree.flatten(wanted)
    others, other = tj.tree.flatten(found)
    assert structure == other
    for x, y in zip(leaves, others, strict=True):
        assert x.shape == y.shape
        np.testing.assert_allclose(np.asarray(y), np.asarray(x), rtol=1e-12, atol=1e-14)


@pytest.fixture(autouse=True)
def wide() -> Any:
    with jax.enable_x64(True):
        yield


TRANSFORMED: dict[str, Any] = {
    "value": lambda j, f: f,
    "jit": lambda j, f: j.jax.jit(f),
    "grad": lambda j, f: j.jax.grad(lambda *xs: j.np.sum(f(*xs)), (0, 1)),
    "jit of grad": lambda j, f: j.jax.jit(j.jax.grad(lambda *xs: j.np.sum(f(*xs)), (0, 1))),
    "grad of jit": lambda j, f: j.jax.grad(lambda *xs: j.np.sum(j.jax.jit(f)(*xs)), 1),
    "vjp": lambda j, f: lambda *xs: j.jax.vjp(f, *xs)[1](j.np.cos(X)),
    "vmap": lambda j, f: j.jax.vmap(f),
    "vmap of one": lambda j, f: lambda x, y: j.jax.vmap(f, (0, None), 0)(x, y[0]),
    "vmap of the other": lambda j, f: lambda x, y: j.jax.vmap(f, (None, 0), 0)(x[0], y),
    "vmap of grad": lambda j, f: j.jax.vmap(j.jax.grad(f)),
    "grad of vmap": lambda j, f: j.jax.grad(lambda *xs: j.np.sum(j.jax.vmap(f)(*xs)), (0, 1)),
    "grad of vmap of one": lambda j, f: (
        lambda x, y: j.jax.grad(lambda x, y: j.np.sum(j.jax.vmap(f, (0, None))(x, y)), (0, 1))(x, y[0])
    ),
    "grad of grad": lambda j, f: j.jax.vmap(j.jax.grad(j.jax.grad(f))),
    "grad of vmap of vmap": lambda j, f: j.jax.grad(
        lambda x, y: j.np.sum(j.jax.vmap(j.jax.vmap(f, (0, None)), (None, 0))(x, y)), (0, 1)
    ),
}


@pytest.mark.parametrize("transformed", TRANSFORMED)
@pytest.mark.parametrize("kind", ["Reverse", "Both"])
def test_reverse_mode(transformed: str, kind: str) -> None:
    same(lambda j, made: TRANSFORMED[transformed](j, made.function(getattr(made, kind))), X, Y)


@pytest.mark.parametrize("transformed", TRANSFORMED)
def test_cotangents_that_are_added_up(transformed: str) -> None:
    """JAX has no derivative of such a primitive once it is mapped."""
    made, run = classes(OURS), TRANSFORMED[transformed]
    found, wanted = (run(OURS, made.function(cls))(X, Y) for cls in (made.Accumulating, made.Reverse))
    for x, y in zip(tj.tree.leaves(found), tj.tree.leaves(wanted), strict=True):
        np.testing.assert_allclose(np.asarray(x), np.asarray(y), rtol=1e-12)


FORWARD: dict[str, Any] = {
    "jvp": lambda j, f: lambda x, y: j.jax.jvp(f, (x, y), (y, x)),
    "jvp of one": lambda j, f: lambda x, y: j.jax.jvp(lambda x: f(x, y), (x,), (y,)),
    "jit of jvp": lambda j, f: j.jax.jit(lambda x, y: j.jax.jvp(f, (x, y), (y, x))),
    "jvp of vmap": lambda j, f: lambda x, y: j.jax.jvp(j.jax.vmap(f), (x, y), (y, x)),
    "jvp of vmap of one": lambda j, f: lambda x, y: j.jax.jvp(j.jax.vmap(f, (0, None)), (x, y[0]), (y, x[0])),
    "vmap of jvp": lambda j, f: j.jax.vmap(lambda x, y: j.jax.jvp(f, (x, y), (y, x))),
    "hessian": lambda j, f: lambda x, y: j.jax.hessian(f)(x[0], y[0]),
    "forward over forward": lambda j, f: lambda x, y: j.jax.jacfwd(j.jax.jacfwd(f))(x[0], y[0]),
    "reverse over forward": lambda j, f: (
        lambda x, y: j.jax.grad(lambda x: j.jax.jvp(lambda x: f(x, y[0]), (x,), (1.5,))[1])(x[0])
    ),
}


@pytest.mark.parametrize("transformed", FORWARD)
def test_forward_mode(transformed: str) -> None:
    same(lambda j, made: FORWARD[transformed](j, made.function(made.Both)), X, Y)


def test_a_rule_that_is_linear_in_two_steps() -> None:
    def linearized(j: Any, made: Any) -> Any:
        def run(x: Any, y: Any) -> Any:
            out, linear = j.jax.linearize(made.function(made.InSteps), x, y)
            return out, linear(y, x)

        return run

    same(linearized, X, Y)


def test_trees_of_types_and_zeros() -> None:
    def taken(j: Any, made: Any) -> Any:
        return lambda x, y: (made.of_tree({"x": x, "y": y}), j.jax.grad(made.partly)({"x": x[0], "y": y[0]}))

    same(taken, X, Y)
    made = classes(OURS)
    tj.grad(made.partly)({"x": 0.5, "y": 2.0})
    assert made.seen == [[False, False, True]]


def test_what_is_differentiated_is_said() -> None:
    def kept(j: Any, made: Any) -> Any:
        f = made.function(made.Sparing)
        return lambda x, y: (j.jax.grad(f)(x[0], y[0]), j.jax.grad(f, 1)(x[0], y[0]), j.jax.grad(f, (0, 1))(x[0], y[0]))

    same(kept, X, Y)


@pytest.mark.parametrize("moves", [True, False])
def test_a_forward_pass_says_whether_its_result_moves(moves: bool) -> None:
    def said(j: Any, made: Any) -> Any:
        def forward(self: Any, nzs: Any, x: Any, y: Any) -> Any:
            return self(x, y), (x, y), moves

        def backward(self: Any, res: Any, ct: Any) -> Any:
            return ct * res[1], ct * res[0]

        return j.jax.grad(made.function(made.made("Said", vjp_fwd=forward, vjp_bwd_retval=backward)), (0, 1))

    if moves:
        same(said, X[0], Y[0])
    else:  # where jax 0.10 fails
        assert said(OURS, classes(OURS))(X[0], Y[0]) == (0.0, 0.0)


def test_python_decides_by_values() -> None:
    same(lambda j, made: lambda x, y: [j.jax.grad(made.branching)(v) for v in (1.0, -1.0)], X, Y)


def test_it_is_one_equation_and_a_value() -> None:
    made = classes(OURS)
    f = made.function(made.Both)
    program = tj.make_jaxpr(f)(2.0, 3.0)
    assert program == tj.make_jaxpr(f)(4.0, 5.0)
    assert program != tj.make_jaxpr(made.function(made.Reverse))(2.0, 3.0)
    assert [eqn.primitive.name for eqn in program.jaxpr.eqns] == ["call_hi_primitive"]
    assert "call_hi_primitive[definition=Both[by=2.0]] a b" in str(program)
    # Its derivative isn't that of what it computes; and Python's functions can't be written down.
    skip = ("text", "files", "pickle", "finite_differences", "second_derivatives")
    check_laws(program, [2.0, 3.0], skip=skip)
    twice = tj.make_jaxpr(lambda x, y: made.Both(tj.typeof(x), tj.typeof(y), 2.0)(x, y) + f(x, y))(2.0, 3.0)
    assert len(tj.transforms.cse(twice).jaxpr.eqns) == 2


@pytest.mark.parametrize("pair", ["FromJvp", "FromLin", "FromJvpDirectly"])
def test_rules_made_of_others(pair: str) -> None:
    made = classes(OURS)
    wanted = made.function(made.Both)
    lin, linearized = hijax.linearize_from_jvp
    forward, backward = hijax.vjp_from_lin
    direct, transposed = hijax.vjp_from_jvp
    methods = {
        "FromJvp": {"jvp": made.jvp, "lin": lin, "linearized": linearized, "vjp_fwd": forward,
                    "vjp_bwd_retval": backward},
        "FromLin": {"lin": made.lin, "linearized": made.linearized, "jvp": hijax.jvp_from_lin, "vjp_fwd": forward,
                    "vjp_bwd_retval": backward},
        "FromJvpDirectly": {"jvp": made.jvp, "vjp_fwd": direct, "vjp_bwd_retval": transposed},
    }  # fmt: skip
    f = made.function(made.made(pair, **methods[pair], batch_dim_rule=made.batch_dim_rule))
    for run in (
        TRANSFORMED["grad"],
        TRANSFORMED["grad of vmap of one"],
        TRANSFORMED["grad of grad"],
        FORWARD["hessian"],
    ):
        found = run(OURS, f)(X, Y)
        for x, y in zip(tj.tree.leaves(found), tj.tree.leaves(run(OURS, wanted)(X, Y)), strict=True):
            np.testing.assert_allclose(np.asarray(x), np.asarray(y), rtol=1e-12)
    _, linear = tj.linearize(f, X, Y)
    np.testing.assert_allclose(linear(Y, X), tj.jvp(wanted, (X, Y), (Y, X))[1])


def test_rules_that_define_each_other() -> None:
    class Circular(hijax.HiPrim):
        def __init__(self, aval: Any) -> None:
            self.in_avals, self.out_aval, self.params = (aval,), aval, {}
            super().__init__()

        lin, linearized = hijax.linearize_from_jvp
        jvp = hijax.jvp_from_lin

    with pytest.raises(InputError, match="define each other"):
        tj.jvp(lambda x: Circular(tj.typeof(x))(x), (1.0,), (1.0,))


def test_in_loops_and_branches() -> None:
    made = classes(OURS)
    f, wanted = made.function(made.Both), made.plain

    def looped(f: Any) -> Any:
        def run(x: Any) -> Any:
            out, _ = tj.lax.scan(lambda c, y: (f(c, y), c), x, Y)
            return tj.lax.cond(out > 0.0, lambda: f(out, x), lambda: out)

        return run

    for transform in (tj.grad, tj.jit, lambda g: tj.jit(tj.grad(tj.checkpoint(g)))):
        np.testing.assert_allclose(transform(looped(f))(0.3), transform(looped(wanted))(0.3), rtol=1e-12)


@pytest.mark.parametrize("transformed", [*TRANSFORMED, *FORWARD])
def test_those_of_jax_are_taken_over(transformed: str) -> None:
    run, made = {**TRANSFORMED, **FORWARD}[transformed], classes(THEIRS)
    wanted = run(THEIRS, made.function(made.Both))(X, Y)
    found = run(OURS, of_jax(made.function(made.Both)))(X, Y)
    for x, y in zip(jax.tree.leaves(wanted), tj.tree.leaves(found), strict=True):
        np.testing.assert_allclose(np.asarray(y), np.asarray(x), rtol=1e-12, atol=1e-14)


@pytest.mark.parametrize("kind", ["Reverse", "Accumulating", "InSteps", "Sparing", "Bare"])
def test_others_of_jax_are_taken_over_as_far_as_they_go(kind: str) -> None:
    made = classes(THEIRS)
    theirs = made.function(getattr(made, kind))
    ours = of_jax(theirs)
    np.testing.assert_allclose(ours(X, Y), theirs(X, Y))
    if kind == "Bare":
        with pytest.raises(MissingRuleError, match="Differentiation rule"):
            tj.grad(ours)(1.0, 2.0)
    elif kind == "InSteps":
        for x, y in zip(jax.linearize(theirs, X, Y)[1](Y, X), tj.jvp(ours, (X, Y), (Y, X))[1], strict=True):
            np.testing.assert_allclose(y, x)
    else:
        np.testing.assert_allclose(tj.grad(ours, 1)(0.5, 2.0), jax.grad(theirs, 1)(0.5, 2.0))


def test_trees_of_jax_and_back() -> None:
    made = classes(THEIRS)
    point = {"x": np.float64(0.5), "y": np.float64(2.0)}
    assert tj.tree.leaves(tj.grad(of_jax(made.partly))(point)) == jax.tree.leaves(jax.grad(made.partly)(point))
    back = to_jax(tj.make_jaxpr(of_jax(made.function(made.Both)))(0.5, 2.0))
    assert "call_hi_primitive" in str(jax.make_jaxpr(back)(0.5, 2.0))
    assert jax.grad(lambda x: back(x, 2.0))(0.5) == jax.grad(made.function(made.Both))(0.5, 2.0)


def test_what_is_missing_is_said() -> None:
    made = classes(OURS)
    f = made.function(made.Reverse)
    with pytest.raises(ForwardModeError, match=r"Reverse: its rules are for reverse mode.*define its method `jvp`"):
        tj.jvp(f, (1.0, 2.0), (1.0, 1.0))
    bare = made.function(made.Bare)
    assert bare(2.0, 3.0) == tj.jit(bare)(2.0, 3.0) == 6.0
    with pytest.raises(MissingRuleError, match=r"Differentiation rule for 'Bare'.*`vjp_fwd` and `vjp_bwd_retval`"):
        tj.grad(bare)(1.0, 2.0)
    with pytest.raises(MissingRuleError, match=r"Batching rule for 'Bare'.*`batch_dim_rule`"):
        tj.vmap(bare)(X, Y)


def test_bad_definitions() -> None:
    class Unset(hijax.HiPrim):
        def __init__(self) -> None:
            super().__init__()

    with pytest.raises(InputError, match=r"Unset\.__init__ has to set `self.in_avals`"):
        Unset()

    class Untyped(hijax.HiPrim):
        def __init__(self) -> None:
            self.in_avals, self.out_aval, self.params = (3.0,), tj.ShapedArray((), "float64"), {}
            super().__init__()

    with pytest.raises(InputError, match=r"Untyped: in_avals has 3\.0, which is no type"):
        Untyped()
    made = classes(OURS)
    scalar = tj.ShapedArray((), "float64")
    both = made.Both(scalar, scalar, 2.0)
    with pytest.raises(TypingError, match="Both takes"):
        both(X, Y)
    with pytest.raises(TinyjaxError, match="the arguments of Both"):
        both(1.0)

    def forward(self: Any, nzs: Any, x: Any, y: Any) -> Any:
        return self(x, y), None

    wrong = made.made("Wrong", expand=lambda self, x, y: tnp.ones(3))
    with pytest.raises(RuleResultError, match="expand of Wrong has to return"):
        made.function(wrong)(1.0, 2.0)
    short = made.made("Short", vjp_fwd=forward, vjp_bwd_retval=lambda self, res, ct: (ct,))
    with pytest.raises(RuleResultError, match="vjp_bwd_retval of Short must return a tuple of length 2"):
        tj.grad(made.function(short))(1.0, 2.0)
    misshapen = made.made("Misshapen", vjp_fwd=forward, vjp_bwd_retval=lambda self, res, ct: (tnp.ones(2), None))
    with pytest.raises(RuleResultError, match="vjp_bwd of Misshapen: a derivative has to be"):
        tj.grad(made.function(misshapen))(1.0, 2.0)


@pytest.mark.parametrize("rule", ["expand", "vjp_fwd", "vjp_bwd_retval", "jvp", "batch_dim_rule", "batch"])
def test_rules_that_are_none_or_return_something_else(rule: str) -> None:
    def made(value: object) -> Any:
        methods: dict[str, Any] = {
            "expand": lambda self, x, y: x, "vjp_fwd": lambda self, nzs, x, y: (self(x, y), None),
            "vjp_bwd_retval": lambda self, res, ct: (ct, None), "batch_dim_rule": lambda self, axis, dims: 0,
        }  # fmt: skip
        if rule == "jvp":
            del methods["vjp_fwd"], methods["vjp_bwd_retval"]
        return classes(OURS).function(classes(OURS).made("Odd", **{**methods, rule: value}))

    def use(f: Any) -> object:
        if rule.startswith("batch"):
            return tj.vmap(f)(np.ones(2), np.ones(2))
        return f(1.0, 2.0) if rule == "expand" else tj.grad(f)(1.0, 2.0)

    for value, said in {
        None: rf"Odd\.{rule} has to be a method, and is None",
        (lambda self: None): rf"Odd\.{rule} doesn't take the arguments that such a rule is called with",
        (lambda self, *args: "x"): rule if rule != "batch_dim_rule" else "the mapped axes are said by integers",
    }.items():
        with pytest.raises(TinyjaxError, match=said) as caught:
            use(made(value))
        assert not isinstance(caught.value, UnforeseenError)


def test_it_stays_in_this_process() -> None:
    made = classes(OURS)
    program = tj.make_jaxpr(made.function(made.Both))(2.0, 3.0)
    with pytest.raises(TinyjaxError, match="Both"):
        tj.ir.content_hash(program)
    with pytest.raises(UnsupportedError, match=r"to_jax: Both is a class of methods.*custom_vjp or custom_jvp"):
        to_jax(program)(2.0, 3.0)
