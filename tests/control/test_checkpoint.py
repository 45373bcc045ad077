"""`checkpoint`: the same derivatives, fewer residuals; policies, names, and what is staged."""

from __future__ import annotations

import io
from collections.abc import Callable
from itertools import product
from types import ModuleType
from typing import Any

import jax
import jax.numpy as jnp
import numpy as np
import pytest
from attrs import frozen
from typing_extensions import override

import tinyjax as tj
import tinyjax.numpy as tnp
from tests.api.families import TRANSFORMATIONS
from tinyjax import ShapedArray, ir
from tinyjax import checkpoint_policies as policies
from tinyjax.control.checkpoint import Checkpoint, Policy
from tinyjax.errors import InputError, ParameterError, StaticArgumentError
from tinyjax.primitives.contractions import DotGeneral
from tinyjax.primitives.exponential import Exp

POLICIES = ["everything_saveable", "nothing_saveable", "dots_saveable", "dots_with_no_batch_dims_saveable"]
POINT = 0.7


def layers(lib: ModuleType, xp: ModuleType, name: Callable[[Any, str], Any], policy: object) -> Callable[..., Any]:
    def block(w: Any, x: Any) -> Any:
        h = name(xp.sin(w @ x), "hidden")
        return name(xp.exp(lib.jit(lambda y: xp.tanh(w @ y))(h)), "out")

    remat = lib.checkpoint(block, policy=policy)

    def f(x: Any) -> Any:
        w = xp.outer(xp.arange(1.0, 4.0), xp.arange(3.0) / 8.0) * x
        return xp.sum(remat(w, remat(w, xp.arange(3.0) * x)))

    return f


def both(policy: str, *names: str) -> tuple[Callable[..., Any], Callable[..., Any]]:
    """The functions of both libraries, with the policy of this name."""
    from jax.ad_checkpoint import checkpoint_name

    ours, theirs = getattr(policies, policy), getattr(jax.checkpoint_policies, policy)
    if names:
        ours, theirs = ours(*names), theirs(*names)
    return layers(tj, tnp, tj.checkpoint_name, ours), layers(jax, jnp, checkpoint_name, theirs)


def small(lib: ModuleType, xp: ModuleType) -> Callable[..., Any]:
    """A function with a call inside of a checkpoint inside of a checkpoint."""
    inner = lib.checkpoint(lambda x: xp.sin(lib.jit(lambda y: xp.exp(y) * x)(x)))
    function: Callable[..., Any] = lib.checkpoint(lambda x: inner(x) * xp.cos(x))
    return function


def check(ours: Callable[..., Any], theirs: Callable[..., Any], names: tuple[str, ...]) -> None:
    for name in reversed(names):
        our_transformation, their_transformation = TRANSFORMATIONS[name]
        ours, theirs = our_transformation(ours), their_transformation(theirs)
    expected = theirs(jnp.asarray(POINT))
    point = tnp.asarray(np.float64(POINT))
    np.testing.assert_allclose(ours(point), expected, rtol=1e-9, atol=1e-9)
    closed = tj.make_jaxpr(ours)(point)
    ir.typecheck(closed)
    np.testing.assert_allclose(tj.eval_jaxpr(closed, (), point)[0], expected, rtol=1e-9, atol=1e-9)


@pytest.mark.parametrize(
    "names", [*product(TRANSFORMATIONS, repeat=1), *product(TRANSFORMATIONS, repeat=2)], ids=".".join
)
@pytest.mark.sweep
def test_nestings(names: tuple[str, ...]) -> None:
    check(small(tj, tnp), small(jax, jnp), names)


@pytest.mark.sweep
@pytest.mark.parametrize("policy", POLICIES)
def test_policies(policy: str) -> None:
    check(*both(policy), ("grad", "grad"))


@pytest.mark.parametrize(
    "policy", ["save_only_these_names", "save_any_names_but_these", "save_anything_except_these_names"]
)
def test_policies_of_names(policy: str) -> None:
    check(*both(policy, "hidden"), ("grad",))


def test_policies_that_offload_keep_what_they_would_move() -> None:
    def kept(lib: Any) -> list[Any]:
        names = {"names_which_can_be_saved": ["outer"], "names_which_can_be_offloaded": ["hidden"]}
        memories = {"offload_src": "device", "offload_dst": "pinned_host"}
        found = lib.checkpoint_policies
        return [
            found.offload_dot_with_no_batch_dims("device", "pinned_host"),
            found.save_and_offload_only_these_names(**names, **memories),
        ]

    from jax.ad_checkpoint import checkpoint_name

    for ours, theirs in zip(kept(tj), kept(jax), strict=True):
        check(layers(tj, tnp, tj.checkpoint_name, ours), layers(jax, jnp, checkpoint_name, theirs), ("jit", "grad"))
    assert kept(tj) == [policies.dots_with_no_batch_dims_saveable, policies.save_only_these_names("hidden", "outer")]
    for lib in (tj, jax):
        with pytest.raises(ValueError, match="names_which_can_be_offloaded"):
            getattr(lib, "checkpoint_policies").save_and_offload_only_these_names(  # noqa: B009
                names_which_can_be_saved=["a"], names_which_can_be_offloaded=["a"], offload_src="", offload_dst=""
            )


def chain(x: Any) -> Any:
    y = tj.checkpoint_name(tnp.sin(x), "inner")
    return tnp.sin(tnp.exp(y))


@frozen
class SaveExponentials(Policy):
    """A policy of a user's."""

    @override
    def __call__(self, primitive: ir.Primitive, *avals: ir.ShapedArray) -> bool:
        return isinstance(primitive, Exp) and avals == (ir.ShapedArray((), "float64", weak_type=True),)


@pytest.mark.parametrize(
    ("policy", "expected"),
    [
        (None, ["argument x"]),
        (policies.nothing_saveable, ["argument x"]),
        (policies.save_only_these_names("other"), ["argument x"]),
        (policies.save_only_these_names("inner", "other"), ["argument x", "inner"]),
        (policies.save_any_names_but_these("inner"), ["argument x"]),
        (policies.save_any_names_but_these("other"), ["argument x", "inner"]),
        (policies.dots_saveable, ["argument x"]),
        (SaveExponentials(), ["argument x", "exp"]),
        (policies.save_from_both_policies(SaveExponentials(), policies.save_only_these_names("inner")),
         ["argument x", "exp"]),
        (policies.everything_saveable, ["cos", "cos", "exp"]),
    ],
)  # fmt: skip
def test_what_is_kept(policy: Policy | None, expected: list[str]) -> None:
    f = tj.checkpoint(chain, policy=policy)
    found = tj.saved_residuals(f, 2.0)
    assert sorted(r.name or (r.primitive.name if r.primitive else "") for r in found) == expected
    staged = tj.transforms.linearize(tj.make_jaxpr(f)(2.0).jaxpr)
    assert len(staged.residuals) == len(found)
    np.testing.assert_allclose(tj.grad(f)(2.0), tj.grad(chain)(2.0))
    np.testing.assert_allclose(tj.grad(tj.jit(f))(2.0), tj.grad(chain)(2.0))


def test_excluded_names_are_computed_again_from_what_is_kept() -> None:
    f = tj.checkpoint(chain, policy=policies.save_anything_except_these_names("inner"))
    assert "inner" not in {r.name for r in tj.saved_residuals(f, 2.0)}
    np.testing.assert_allclose(tj.grad(f)(2.0), tj.grad(chain)(2.0))


def test_batch_dims() -> None:
    def f(a: Any, b: Any) -> Any:
        return tnp.sum(tnp.sin(tnp.sin(a @ b) @ b))

    for shape, kept in (((4, 4), [1, 1]), ((2, 4, 4), [1, 0])):
        a = np.ones(shape)
        for policy, count in zip(
            (policies.dots_saveable, policies.dots_with_no_batch_dims_saveable), kept, strict=True
        ):
            found = tj.saved_residuals(tj.checkpoint(f, policy=policy), a, a)
            assert any(isinstance(r.primitive, DotGeneral) for r in found) == bool(count)


def test_program() -> None:
    closed = tj.make_jaxpr(tj.grad(tj.checkpoint(chain, policy=policies.save_only_these_names("inner"))))(2.0)
    first, second = (eqn.primitive for eqn in closed.eqns)
    assert isinstance(first, Checkpoint)
    assert isinstance(second, Checkpoint)
    assert (first.differentiated, second.differentiated) == (False, True)
    assert [eqn.primitive.name for eqn in first.jaxpr.eqns] == ["sin", "name", "exp", "sin"]
    assert "exp" in [eqn.primitive.name for eqn in second.jaxpr.eqns]
    again = tj.make_jaxpr(tj.grad(tj.checkpoint(chain, policy=policies.save_only_these_names("inner"))))(2.0)
    assert closed == again
    assert ir.content_hash(closed) == ir.content_hash(again)
    assert "policy=SaveNames(names={inner})" in str(closed)


@pytest.mark.parametrize("prevent_cse", [True, False])
def test_barrier(prevent_cse: bool) -> None:
    text = tj.jit(tj.grad(tj.checkpoint(chain, prevent_cse=prevent_cse))).lower(2.0).as_text()
    assert ("stablehlo.optimization_barrier" in text) == prevent_cse
    assert "optimization_barrier" not in tj.jit(tj.checkpoint(chain)).lower(2.0).as_text()


@pytest.mark.parametrize("marks", [(True,), (False,), ({"a": False, "b": True},), ({"a": False, "b": False},)])
def test_barrier_for_some_arguments(marks: tuple[Any, ...]) -> None:
    def f(tree: Any) -> Any:
        return tnp.sin(tnp.exp(tree["a"])) * tnp.exp(tree["b"])

    given = {"a": 2.0, "b": 1.0}
    found = tj.jit(tj.grad(tj.checkpoint(f, prevent_cse=marks)))
    assert ("stablehlo.optimization_barrier" in found.lower(given).as_text()) == ("True" in str(marks))
    np.testing.assert_allclose(found(given)["a"], tj.grad(f)(given)["a"])
    wrong: Any = ("a",)
    with pytest.raises(InputError, match="prevent_cse is a bool, or a tree"):
        tj.checkpoint(f, prevent_cse=wrong)


@pytest.mark.parametrize(
    ("marks", "fits"),
    [
        ((True, False), True),
        ((True, {"b": False}), True),
        ([False, True], True),
        ((True,), False),
        ((True, False, True), False),
        ((True, {"a": False}), False),
        ((True, (False,)), False),
    ],
)
def test_marks_that_do_not_fit_the_arguments(marks: Any, fits: bool) -> None:
    def f(x: Any, y: Any) -> Any:
        return x * y["b"]

    for differentiated in (
        tj.grad(tj.checkpoint(f, prevent_cse=marks)),
        jax.grad(jax.checkpoint(f, prevent_cse=marks)),
    ):
        if fits:
            assert differentiated(1.0, {"b": 2.0}) == 2.0
        else:
            with pytest.raises(ValueError, match=r"prefix|prevent_cse is a bool, or a tree of bools that begins"):
                differentiated(1.0, {"b": 2.0})


def test_the_second_computation_stays() -> None:
    """XLA merges equal computations; the barrier keeps it from undoing what the checkpoint is for."""

    def exponentials(prevent_cse: bool) -> int:
        f = tj.checkpoint(lambda x: tnp.exp(tnp.sin(tnp.exp(x))), prevent_cse=prevent_cse)
        text: str = tj.jit(tj.value_and_grad(f)).lower(2.0).compile().as_text()
        return text.count(" exponential(")

    assert exponentials(True) > exponentials(False)


def test_what_got_its_name_later_is_kept_where_it_is_computed() -> None:
    """The derivative of exp uses its result, from before it got a name."""

    def f(x: Any) -> Any:
        return tnp.sin(tj.checkpoint_name(tnp.exp(tnp.sin(x)), "growth"))

    (x, growth) = tj.saved_residuals(tj.checkpoint(f, policy=policies.save_only_these_names("growth")), 2.0)
    assert (x.name, growth.name) == ("argument x", "growth")


def test_in_scan() -> None:
    """Of each step, only the carry is kept."""

    def f(step: Callable[..., Any], x: Any) -> Any:
        return tj.lax.scan(step, x, None, length=5)[0]

    def step(c: Any, _: None) -> tuple[Any, None]:
        return tnp.sin(tnp.exp(tnp.sin(c))), None

    remat = tj.checkpoint(step, prevent_cse=False)
    np.testing.assert_allclose(tj.grad(lambda x: f(remat, x))(0.5), tj.grad(lambda x: f(step, x))(0.5))
    plain, less = (sum(r.nbytes for r in tj.saved_residuals(lambda x, s=s: f(s, x), 0.5)) for s in (step, remat))
    assert less < plain


def test_static_and_other_arguments() -> None:
    @tj.checkpoint(static_argnums=(1,))
    def f(x: dict[str, Any], flag: bool, *, scale: Any) -> tuple[Any, Any]:
        return (tnp.sin(x["a"]) * scale if flag else x["a"]), x["n"]

    assert float(f({"a": tnp.asarray(0.0), "n": tnp.asarray(3)}, True, scale=tnp.asarray(2.0))[0]) == 0.0
    gradient = tj.grad(lambda x: f({"a": x, "n": tnp.asarray(3)}, True, scale=tnp.asarray(2.0))[0])
    np.testing.assert_allclose(gradient(0.0), 2.0)
    assert tj.remat is tj.checkpoint
    checkpoint: Callable[..., object] = tj.checkpoint
    with pytest.raises(InputError, match="policy must be one of"):
        checkpoint(chain, policy=3)
    with pytest.raises(InputError, match=r"a policy is what .* returns, not that function: `") as found:
        checkpoint(chain, policy=policies.save_from_both_policies)
    hint = "tinyjax.checkpoint_policies.dots_saveable, tinyjax.checkpoint_policies.save_only_these_names('name')"
    assert f"save_from_both_policies({hint})`" in str(found.value)
    policies.save_from_both_policies(policies.dots_saveable, policies.save_only_these_names("name"))
    with pytest.raises(InputError, match=r"is a policy of JAX's.* tinyjax\.checkpoint_policies have the same names"):
        checkpoint(chain, policy=jax.checkpoint_policies.dots_saveable)


def test_closures() -> None:
    def f(a: Any, x: Any) -> Any:
        return tj.checkpoint(lambda y: tnp.sin(a * y))(x)

    np.testing.assert_allclose(tj.grad(f, (0, 1))(2.0, 3.0), (3.0 * np.cos(6.0), 2.0 * np.cos(6.0)))
    np.testing.assert_allclose(tj.vmap(f, (0, None))(np.arange(3.0), 3.0), np.sin(3.0 * np.arange(3.0)))


def test_effects_happen_once() -> None:
    seen: list[float] = []

    def f(x: Any) -> Any:
        tj.debug.callback(lambda y: seen.append(float(y)), x)
        return tnp.sin(tnp.sin(x))

    tj.grad(tj.checkpoint(f))(2.0)
    assert seen == [2.0]


def test_custom_rules_within() -> None:
    @tj.custom_vjp
    def f(x: Any) -> Any:
        return tnp.sin(x)

    f.defvjp(lambda x: (tnp.sin(x), tnp.cos(x)), lambda c, g: (7.0 * c * g,))
    g = tj.checkpoint(lambda x: f(f(x)))
    expected = tj.grad(lambda x: f(f(x)))(0.5)
    for h in (tj.grad(g), tj.jit(tj.grad(g)), tj.grad(tj.jit(g))):
        np.testing.assert_allclose(h(0.5), expected)
    (residual,) = tj.saved_residuals(g, 0.5)
    assert residual.name == "argument x"


def test_residuals_are_described() -> None:
    w = np.ones((3, 3))

    def f(params: dict[str, Any], x: Any) -> Any:
        return tj.checkpoint_name(tnp.exp(params["w"] @ x), "activation") @ w[0]

    found = tj.saved_residuals(f, {"w": w}, np.ones(3))
    by_name = {r.name: r for r in found}
    assert {"activation", "argument params['w']", "argument x", "a value that the function closes over"} == set(by_name)
    activation = by_name["activation"]
    assert isinstance(activation.primitive, Exp)
    assert activation.nbytes == 24
    text = activation.describe()
    assert text.startswith("f64[3], 24 bytes: 'activation', the result of exp at ")
    assert "test_checkpoint.py" in text
    assert by_name["argument x"].describe() == "f64[3], 24 bytes: argument x"


def test_residuals_of_programs() -> None:
    jaxpr = tj.make_jaxpr(lambda x, y: tj.jit(tnp.sin)(x) * y)(1.0, 2.0).jaxpr
    parts = tj.transforms.partial_eval(jaxpr, [False, True])
    (residual,) = parts.residuals
    assert residual.primitive is not None
    assert residual.primitive.name == "sin"
    assert "the result of sin at" in residual.describe()
    (residual,) = tj.transforms.partial_eval(tj.make_jaxpr(lambda x, y: x * y)(1.0, 2.0).jaxpr, [False, True]).residuals
    assert residual.describe() == "~f64[], 8 bytes: input 0"


def test_functions_are_policies() -> None:
    seen: list[Any] = []

    def keep_tanh(primitive: Any, *avals: Any, **params: Any) -> bool:
        seen.append((primitive.name, avals, params))
        return bool(primitive.name == "tanh")

    def f(x: Any) -> Any:
        return tnp.sum(tnp.sin(tnp.tanh(tnp.exp(x)) ** 3))

    def names(policy: Any) -> list[str]:
        found = tj.saved_residuals(tj.checkpoint(f, policy=policy), np.ones(3))
        return [residual.primitive.name for residual in found if residual.primitive is not None]

    assert names(keep_tanh) == ["tanh"]
    assert ("integer_pow", (ShapedArray((3,), "float64"),), {"y": 3}) in seen
    assert names(lambda *args, **params: False) == []
    assert names(lambda *args, **params: True) == names(policies.everything_saveable)
    both = policies.save_from_both_policies(keep_tanh, lambda primitive, *avals, **params: primitive.name == "exp")
    assert sorted(names(both)) == ["exp", "tanh"]
    gradient = tj.grad(f)(np.ones(3))
    for transformed in (lambda g: g, tj.jit):
        np.testing.assert_allclose(transformed(tj.grad(tj.checkpoint(f, policy=keep_tanh)))(np.ones(3)), gradient)
    first, again = (tj.make_jaxpr(tj.checkpoint(f, policy=keep_tanh))(np.ones(3)) for _ in range(2))
    assert first == again
    assert first != tj.make_jaxpr(tj.checkpoint(f, policy=lambda *args, **params: True))(np.ones(3))
    assert "policy=keep_tanh" in str(first)
    with pytest.raises(ParameterError, match="keep_tanh is a function of this process"):
        ir.save(io.BytesIO(), first)
    with pytest.raises(ParameterError, match="keep_tanh"):
        ir.content_hash(first)


def test_static_arguments_by_name() -> None:
    unhashable: Any = (2.0, [3])

    def f(x: Any, n: int, *, flag: bool = False) -> Any:
        return x * n if flag else x + n

    both = tj.checkpoint(f, static_argnums=1, static_argnames="flag")
    named = tj.checkpoint(f, static_argnames=("flag", "n"))
    decorated = tj.checkpoint(static_argnames=("flag", "n"))(f)
    for g in (both, named, decorated):
        assert tj.grad(g)(2.0, 3, flag=True) == 3.0
        assert tj.grad(g)(2.0, 3) == 1.0
        assert tj.jit(tj.grad(g), static_argnums=1)(2.0, 3) == 1.0
    assert tj.grad(named)(2.0, n=3, flag=True) == 3.0
    with pytest.raises(StaticArgumentError, match="f has no argument 'flags', which is marked static"):
        tj.checkpoint(f, static_argnames="flags")(2.0, 3)
    with pytest.raises(StaticArgumentError, match="argument 1 of f is static, so it must be hashable"):
        named(*unhashable)
