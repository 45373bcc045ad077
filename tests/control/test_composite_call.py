"""`composite`: an operation of a name, with its decomposition."""

from __future__ import annotations

import re
from collections.abc import Callable
from functools import partial
from typing import Any, Final

import jax
import jax.numpy as jnp
import ml_dtypes
import numpy as np
import pytest

import tinyjax as tj
import tinyjax.numpy as tnp
from tinyjax import interpreters, ir, lax, tools, transforms
from tinyjax.control.call import Call
from tinyjax.control.composite_call import CompositeCall, Dictionary, entries
from tinyjax.errors import InputError, LoweringError
from tinyjax.interop.jax import from_jax, to_jax
from tinyjax.testing import check_laws

X: Final = np.array([0.5, -1.0, 2.0], np.float32)

#: A value of each kind, which JAX takes too.
ATTRIBUTES: Final[dict[str, Any]] = {
    "bool": True,
    "int": -3,
    "large int": 2**63 - 1,
    "float": 2.5,
    "large": 1e300,
    "negative zero": -0.0,
    "nan": float("nan"),
    "string": 'a"b\\ü\n',
    "bytes": b"x\x00y",
    "dtype": np.dtype("float32"),
    "none": None,
    "scalar": np.float32(0.1),
    "infinity": np.float32(np.inf),
    "double": np.float64(0.1),
    "small int": np.int8(-3),
    "unsigned": np.uint8(200),
    "numpy bool": np.bool_(True),
    "bfloat16": ml_dtypes.bfloat16(1.5),
    "array": np.arange(6, dtype=np.float32).reshape(2, 3),
    "zeros": np.zeros((2, 2), np.int32),
    "scalar array": np.array(3.0),
    "bools": np.array([True, False]),
    "no elements": np.zeros((0, 3), np.float32),
    "large array": np.arange(40.0),
    "complex array": np.array([1 + 2j]),
    "list": [1, 2.0, "x"],
    "tuple": (1, (2, 3)),
    "dictionary": {"b": 1, "a": [True, np.float32(2)], "c": {"d": (np.arange(2),)}},
    "nothing": (),
    "no entries": {},
}


def sine(lib: Any, numpy: Any, **attributes: object) -> Callable[..., Any]:
    """The same operation in either library."""
    return partial(lib.composite(lambda x, **_: numpy.sin(x) * 2, "my.sine", 3), **attributes)


def operations(text: str) -> list[str]:
    """The lines that apply named operations, as MLIR's printer writes them."""
    from jax._src.interpreters import mlir
    from jaxlib.mlir import ir as mlir_ir

    with mlir.make_ir_context():
        printed = str(mlir_ir.Module.parse(text))
    return [re.sub(r"(%\w+ = )| loc\(.*", "", line).strip() for line in printed.splitlines() if ".composite" in line]


@pytest.mark.parametrize("name", ATTRIBUTES)
def test_lowered_as_by_jax(name: str) -> None:
    given = {name: ATTRIBUTES[name]}
    ours = tj.jit(sine(lax, tnp, **given)).lower(X).as_text()
    theirs = jax.jit(sine(jax.lax, jnp, **given)).lower(X).as_text()
    assert operations(ours) == operations(theirs) != []


def test_lowered_as_by_jax_with_all_of_them_at_once() -> None:
    ours = tj.jit(sine(lax, tnp, **ATTRIBUTES)).lower(X).as_text()
    theirs = jax.jit(sine(jax.lax, jnp, **ATTRIBUTES)).lower(X).as_text()
    assert operations(ours) == operations(theirs)


@pytest.mark.parametrize("name", ATTRIBUTES)
def test_there_and_back(name: str) -> None:
    program = tj.make_jaxpr(sine(lax, tnp, **{name: ATTRIBUTES[name]}))(X)
    assert ir.parse(str(program)) == program.jaxpr
    imported = from_jax(jax.make_jaxpr(to_jax(program))(X))
    assert imported == program
    assert ir.content_hash(imported) == ir.content_hash(program)


def test_attributes_in_files() -> None:
    program = tj.make_jaxpr(sine(lax, tnp, **ATTRIBUTES))(X)
    check_laws(program, [X], laws=["typecheck", "text", "files", "pickle", "staging", "compilation"])


@pytest.mark.parametrize("name", ATTRIBUTES)
def test_read_as_jax_prints_it(name: str) -> None:
    jaxpr = jax.make_jaxpr(sine(jax.lax, jnp, **{name: ATTRIBUTES[name]}))(X)
    read, imported = ir.parse(str(jaxpr)), from_jax(jaxpr).jaxpr
    if name == "bfloat16":  # whose dtype isn't printed
        assert isinstance(read.eqns[0].primitive, CompositeCall)
    else:
        assert read == imported


CASES: Final[dict[str, tuple[Callable[[Any, Any], Callable[..., Any]], tuple[Any, ...]]]] = {
    "one": (lambda m, n: m.composite(lambda x: n.sin(x) * x, "my.f"), (X,)),
    "several results": (lambda m, n: m.composite(lambda x, y: (x, n.exp(y) * x, 3.0), "my.f"), (X, X)),
    "trees": (
        lambda m, n: m.composite(lambda t, *, k: {"s": t["a"] * k, "m": t["b"].max()}, "my.f"),
        ({"a": X, "b": X},),
    ),
    "no operands": (lambda m, n: m.composite(lambda: n.float32(2.0), "my.two"), ()),
    "no results": (lambda m, n: m.composite(lambda x: (), "my.none"), (X,)),
    "arrays of outside": (lambda m, n: m.composite(lambda x: x * X + n.asarray(X) ** 2, "my.scale"), (X,)),
    "within another": (
        lambda m, n: m.composite(lambda x: m.composite(n.tanh, "my.inner")(x) * 2, "my.outer"),
        (X,),
    ),
    "control flow": (
        lambda m, n: m.composite(lambda x: m.fori_loop(0, 3, lambda i, y: n.sin(y), x), "my.loop"),
        (X,),
    ),
    "integers": (lambda m, n: m.composite(lambda x: x // 2, "my.half"), (np.arange(4, dtype=np.int32),)),
}


def close(found: object, expected: object) -> None:
    ours, theirs = jax.tree.leaves(found, is_leaf=lambda x: isinstance(x, tj.Array)), jax.tree.leaves(expected)
    assert len(ours) == len(theirs)
    for one, other in zip(ours, theirs, strict=True):
        np.testing.assert_allclose(np.asarray(one), np.asarray(other), rtol=1e-5, atol=1e-6)


def run(program: ir.ClosedJaxpr, *args: Any) -> Any:
    return tj.eval_jaxpr(program.jaxpr, program.consts, *args)


def applied(name: str, m: Any, n: Any) -> Callable[..., Any]:
    f = CASES[name][0](m, n)
    return partial(f, k=2) if name == "trees" else f


@pytest.mark.parametrize("name", CASES)
def test_values(name: str) -> None:
    args = CASES[name][1]
    f, g = applied(name, lax, tnp), applied(name, jax.lax, jnp)
    expected = g(*args)
    close(f(*args), expected)
    close(tj.jit(f)(*args), expected)
    close(tj.jit(tj.jit(f))(*args), expected)
    program = tj.make_jaxpr(f)(*args)
    leaves = jax.tree.leaves(args)
    close(jax.jit(to_jax(program))(*leaves), jax.tree.leaves(expected))
    close(run(from_jax(jax.make_jaxpr(g)(*args)), *leaves), jax.tree.leaves(expected))


@pytest.mark.sweep
@pytest.mark.parametrize("name", CASES)
def test_laws(name: str) -> None:
    check_laws(tj.make_jaxpr(applied(name, lax, tnp))(*CASES[name][1]))


#: Those without operands, or without derivatives, are left out.
DIFFERENTIABLE: Final = sorted(set(CASES) - {"no operands", "integers", "no results"})


@pytest.mark.parametrize(
    "name",
    [pytest.param(name, marks=[pytest.mark.sweep] if name != "several results" else []) for name in DIFFERENTIABLE],
)
def test_derivatives_and_batches_are_those_of_the_decomposition(name: str) -> None:
    """JAX has none of the operation, but of the function itself."""

    class Bare:
        """`jax.lax` whose composite is the function."""

        fori_loop = staticmethod(jax.lax.fori_loop)

        @staticmethod
        def composite(f: Callable[..., Any], name: str) -> Callable[..., Any]:
            return f

    args = CASES[name][1]
    f, g = applied(name, lax, tnp), applied(name, Bare, jnp)
    tangents = jax.tree.map(lambda x: x * 0.5 + 1, args)
    for ours, theirs in ((f, g), (tj.jit(f), jax.jit(g))):
        close(tj.jvp(ours, args, tangents), jax.jvp(theirs, args, tangents))
        value, pull = tj.vjp(ours, *args)
        expected, pull_there = jax.vjp(theirs, *args)
        close(value, expected)
        cts = jax.tree.map(jnp.ones_like, expected)
        close(pull(jax.tree.map(np.asarray, cts)), pull_there(cts))
    stacked = jax.tree.map(lambda x: np.stack([x, x * 2]), args)
    close(tj.vmap(f)(*stacked), jax.vmap(g)(*stacked))
    close(tj.jit(tj.vmap(f))(*stacked), jax.vmap(g)(*stacked))

    def total(h: Callable[..., Any], tree: Any) -> Callable[..., Any]:
        return lambda *xs: sum(leaf.sum() for leaf in tree.leaves(h(*xs)) if hasattr(leaf, "sum"))

    hessian = tj.jvp(tj.grad(total(f, tj.tree)), args, tangents)
    close(hessian, jax.jvp(jax.grad(total(g, jax.tree)), args, tangents))


def kinds(f: Callable[..., Any], *args: Any) -> list[type]:
    return [type(eqn.primitive) for eqn in tj.make_jaxpr(f)(*args).eqns]


def test_the_name_is_for_the_operation_as_it_is() -> None:
    f = lax.composite(lambda x: (tnp.sin(x) * x, x + 1), "my.f")
    assert kinds(f, X) == [CompositeCall]
    assert kinds(lambda x: tj.jvp(f, (x,), (x,)), X) == [Call]
    assert kinds(tj.vmap(f), X) == [Call]
    assert CompositeCall in kinds(lambda x: tj.vmap(lambda y: (f(x), y))(x), X), "nothing is mapped"
    assert CompositeCall in kinds(lambda x: tj.jvp(lambda y: (f(x), y), (x,), (x,))[0], X), "nothing moves"
    assert CompositeCall in kinds(lambda x: tj.vjp(lambda y: f(tj.lax.stop_gradient(y))[0], x)[0], X)


def test_a_derivative_of_its_own_keeps_the_name() -> None:
    @tj.custom_jvp
    def gelu(x: Any) -> Any:
        return lax.composite(lambda x: x * tj.nn.sigmoid(1.702 * x), "my.gelu")(x)

    @gelu.defjvp
    def _(primals: Any, tangents: Any) -> Any:
        (x,), (t,) = primals, tangents
        return gelu(x), lax.composite(lambda x, t: t * tnp.cos(x), "my.gelu_tangent")(x, t)

    text = tj.jit(tj.value_and_grad(lambda x: gelu(x).sum())).lower(X).as_text()
    assert '"my.gelu"' in text


def test_passes_keep_the_operation() -> None:
    f = lax.composite(lambda x, y: (tnp.sin(x) + 0, y * y, tnp.cos(x)), "my.f", 2)
    program = tj.make_jaxpr(lambda x: f(x, x)[0])(X).jaxpr
    for change in (transforms.dce, transforms.cse, transforms.simplify, transforms.inline, transforms.hoist_constants):
        (eqn,) = change(program).eqns
        assert isinstance(eqn.primitive, CompositeCall), change
        assert eqn.primitive.jaxpr.out_avals == tuple(out.aval for out in program.eqns[0].outvars)
        assert len(eqn.invars) == 2, change
    assert not transforms.dce(tj.make_jaxpr(lambda x: (f(x, x), x)[1])(X)).eqns
    assert len(transforms.cse(tj.make_jaxpr(lambda x: (f(x, x), f(x, x)))(X)).eqns) == 1
    (whole,) = transforms.inline(program, lambda eqn: True).eqns[:1]
    assert whole.primitive.name == "sin"


def test_partial_evaluation_leaves_it_whole() -> None:
    f = lax.composite(lambda x, y: tnp.sin(x) * y, "my.f")
    parts = transforms.partial_eval(tj.make_jaxpr(f)(X, X).jaxpr, (False, True))
    assert not parts.known.eqns
    assert [type(eqn.primitive) for eqn in parts.staged.eqns] == [CompositeCall]


def test_transposed() -> None:
    f = lax.composite(lambda x, y: x * y + x, "my.linear")
    (ct,) = tj.linear_transpose(lambda x: f(x, X), X)(np.ones(3, np.float32))
    np.testing.assert_array_equal(np.asarray(ct), X + 1)


def test_arrays_closed_over_are_the_first_operands() -> None:
    def f(m: Any, x: Any) -> Any:
        return m.composite(lambda x: x * X, "my.scale")(x)

    ours = operations(tj.jit(partial(f, lax)).lower(X).as_text())
    theirs = operations(jax.jit(partial(f, jax.lax)).lower(X).as_text())
    assert len(ours) == 1
    assert ours[0].partition(" : ")[2] == theirs[0].partition(" : ")[2]


def test_values_of_outside_are_operands() -> None:
    def f(x: Any, scale: Any) -> Any:
        return lax.composite(lambda y: y * scale, "my.scale")(x)

    assert kinds(f, X, X) == [CompositeCall]
    np.testing.assert_array_equal(np.asarray(tj.jit(f)(X, X)), X * X)
    close(tj.grad(lambda s: f(X, s).sum())(X), X)


def test_attributes_are_compared_to_the_bit() -> None:
    values = [1, 1.0, True, np.float32(1), np.array(1), "float32", np.dtype("float32"), 0.0, -0.0, float("nan"), (1,),
              (1.0,), {"a": 1}, {"a": True}, b"a", "a"]  # fmt: skip
    programs = [tj.make_jaxpr(sine(lax, tnp, k=value))(X) for value in values]
    assert len(set(programs)) == len({ir.content_hash(p) for p in programs}) == len(values)
    assert programs == [tj.make_jaxpr(sine(lax, tnp, k=value))(X) for value in values]
    one, other = sine(lax, tnp, a=1, b=2), sine(lax, tnp, b=2, a=1)
    assert tj.make_jaxpr(one)(X) == tj.make_jaxpr(other)(X), "in any order"
    assert Dictionary((("b", 1), ("a", 2))) == Dictionary((("a", 2), ("b", 1)))


def test_effects_keep_their_order() -> None:
    seen: list[float] = []

    def noted(x: Any) -> Any:
        tj.debug.callback(lambda y: seen.append(float(y)), x, ordered=True)
        return x + 1

    f = lax.composite(noted, "my.noted")
    tj.jit(lambda x: f(f(f(x))))(1.0).block_until_ready()
    assert seen == [1.0, 2.0, 3.0]


BAD: Final[tuple[tuple[str, Callable[[], object], type[Exception], str], ...]] = (
    ("name", lambda: lax.composite(tnp.sin, ""), InputError, "needs a name"),
    ("version", lambda: lax.composite(tnp.sin, "my.f", 2**40), InputError, "32 bits, got 1099511627776"),
    ("complex", lambda: sine(lax, tnp, k=2j)(X), InputError, "attributes of 'my.sine'['k'] is 2j, of type complex"),
    ("object", lambda: sine(lax, tnp, k=[None])(X), InputError, "['k'][0] is None"),
    ("large", lambda: sine(lax, tnp, k=2**70)(X), InputError, "beyond int64: give it as a string"),
    ("key", lambda: sine(lax, tnp, k={1: 2})(X), InputError, "has the key 1: attributes are named by strings"),
    ("traced", lambda: tj.jit(lambda k: sine(lax, tnp, k=k)(X))(1.0), InputError, "pass the value by position"),
    ("namespace", lambda: tj.jit(lax.composite(tnp.sin, "sine"))(X), LoweringError, "as in 'my.gelu'"),
)


@pytest.mark.parametrize(("f", "error", "message"), [case[1:] for case in BAD], ids=[case[0] for case in BAD])
def test_refused(f: Callable[[], object], error: type[Exception], message: str) -> None:
    with pytest.raises(error, match=re.escape(message)):
        f()


def test_enumerations_and_classes_are_what_they_stand_for() -> None:
    import enum

    class Mode(enum.IntEnum):
        FAST = 2

    assert entries("a", {"m": Mode.FAST, "t": np.float32}) == (("m", 2), ("t", np.dtype("float32")))


def test_tools_look_into_the_decomposition() -> None:
    def function(x: Any) -> Any:
        return tnp.sin(x) * x + x[0]

    f = lax.composite(function, "my.f")
    named, called = (tj.make_jaxpr(each)(X) for each in (f, tj.jit(function)))

    def looked(program: ir.ClosedJaxpr) -> list[str]:
        found = (tools.cost_of(program), tools.dependence(program), tools.constancy(program))
        return [re.sub(r"composite|call|jit|<.*>", "", str(each)).replace(" ", "") for each in found]

    assert looked(named)[1:] == looked(called)[1:]
    assert tools.cost_of(named).total == tools.cost_of(called).total
    assert "my.f" in tools.to_html(named)
    assert "version: 0 -> 1" in str(tools.diff(named, tj.make_jaxpr(lax.composite(function, "my.f", 1))(X)))


def test_interpreters_go_through_it() -> None:
    def function(x: Any) -> Any:
        return tj.checkpoint_name(tnp.exp(x), "e") * 2

    f = lax.composite(function, "my.f")
    close(interpreters.inverse(f)(X * X + 1), interpreters.inverse(function)(X * X + 1))
    close(interpreters.jet(f, (X,), ((X, X),)), interpreters.jet(function, (X,), ((X, X),)))
    close(interpreters.bounds(f)(X - 1, X + 1), interpreters.bounds(function)(X - 1, X + 1))
    close(interpreters.harvest(f)(X), interpreters.harvest(function)(X))
    assert str(interpreters.jacobian_sparsity(f, X)) == str(interpreters.jacobian_sparsity(function, X))
    checked = tj.experimental.checkify.checkify(
        lax.composite(tnp.log, "my.log"), errors=tj.experimental.checkify.float_checks
    )
    assert "nan" in str(tj.jit(checked)(X)[0].get())
