"""`make_jaxpr`, `eval_jaxpr` and `eval_shape`."""

from __future__ import annotations

import types
from collections import namedtuple
from collections.abc import Callable
from functools import partial
from itertools import product
from typing import Any

import jax
import jax.numpy as jnp
import numpy as np
import pytest

import tinyjax as tj
import tinyjax.numpy as tnp
from tests.api.families import FUNCTIONS, TRANSFORMATIONS
from tests.api.matching import assert_matches
from tinyjax import Array, ShapedArray, ir
from tinyjax.errors import ChoiceError, InputError, StaticArgumentError

SCALAR = ShapedArray((), "float64")
Point = namedtuple("Point", ["x", "y"])


def shown(f: Callable[..., object], *args: object) -> str:
    closed = tj.make_jaxpr(f)(*args)
    ir.typecheck(closed)
    return str(closed)


# What is printed.


def test_example_of_the_design() -> None:
    assert shown(lambda x: 2.0 * x, SCALAR) == "{ lambda ; a:f64[]. let b:f64[] = mul 2.0 a in (b,) }"


def test_nested_calls_are_indented() -> None:
    @tj.jit
    def inner(x: Array) -> Array:
        return tnp.sin(x) * 2.0

    assert shown(lambda x: inner(x) + 1.0, SCALAR) == (
        "{ lambda ; a:f64[]. let\n"
        "    b:f64[] = call[\n"
        "      function_name=inner\n"
        "      jaxpr={ lambda ; a:f64[]. let\n"
        "          b:f64[] = sin a\n"
        "          c:f64[] = mul b 2.0\n"
        "        in (c,) }\n"
        "    ] a\n"
        "    c:f64[] = add b 1.0\n"
        "  in (c,) }"
    )


# Omnistaging.


def test_operations_on_constants_are_staged() -> None:
    assert shown(lambda: tnp.multiply(2.0, 2.0)) == "{ lambda ; . let a:~f64[] = mul 2.0 2.0 in (a,) }"
    assert shown(lambda x: tnp.sin(3.0), SCALAR) == "{ lambda ; a:f64[]. let b:~f64[] = sin 3.0 in (b,) }"


def test_operations_on_closed_over_arrays_are_staged() -> None:
    table = tnp.asarray(np.arange(3.0))
    closed = tj.make_jaxpr(lambda: tnp.sum(table * 2.0))()
    assert [eqn.primitive.name for eqn in closed.eqns] == ["mul", "reduce_sum"]
    assert len(closed.consts) == 1


def test_operations_under_other_transformations_are_staged() -> None:
    def sine_of_constant(y: Array) -> Array:
        return tnp.sin(2.0) * y

    closed = tj.make_jaxpr(tj.grad(sine_of_constant))(1.0)
    assert [eqn.primitive.name for eqn in closed.eqns].count("sin") == 1
    inner = tj.make_jaxpr(lambda: tj.vmap(lambda x: tnp.sin(2.0) * x)(np.arange(3.0)))()
    assert [eqn.primitive.name for eqn in inner.eqns] == ["sin", "mul"]


def test_nothing_is_computed() -> None:
    seen: list[object] = []

    def f(x: Array) -> Array:
        y = tnp.sin(x)
        seen.append(y)
        return y

    tj.make_jaxpr(f)(1.0)
    assert not isinstance(seen[0], type(tnp.asarray(1.0)))


# Constants.


def test_closed_over_arrays_are_constants_once_each() -> None:
    table, other = np.arange(3.0), np.arange(3.0)
    closed = tj.make_jaxpr(lambda x: (x + table) * table - other)(1.0)
    assert len(closed.consts) == 2, "by identity, not by value"
    assert str(closed).startswith("{ lambda a:f64[3] b:f64[3]; c:~f64[]. let")
    assert_matches(tj.eval_jaxpr(closed, (), 2.0), [jnp.asarray((2.0 + table) * table - other)])


def test_constants_are_copied() -> None:
    table = np.arange(3.0)
    closed = tj.make_jaxpr(lambda x: x + table)(1.0)
    table[:] = 100.0
    assert_matches(tj.eval_jaxpr(closed, (), 1.0), [jnp.asarray([1.0, 2.0, 3.0])])


def test_constants_of_inner_functions_are_hoisted() -> None:
    table = tnp.asarray(np.arange(3.0))
    inner = tj.jit(lambda x: x * table)
    closed = tj.make_jaxpr(lambda x: inner(x) + inner(x) + table)(1.0)
    assert len(closed.consts) == 1
    ir.typecheck(closed)


@pytest.mark.parametrize(
    ("value", "text"),
    [
        (2.0, "2.0"),
        (2, "2"),
        (True, "True"),
        (1j, "1j"),
        (np.float32(2), "2.0:f32[]"),
        (np.asarray(2.0), "2.0:f64[]"),
        (tnp.asarray(np.float32(2)), "2.0:f32[]"),
        (np.asarray(2.0).astype(jnp.bfloat16), "2.0:bf16[]"),
        (float("nan"), "nan"),
        (-0.0, "-0.0"),
    ],
)
def test_scalars_are_literals(value: object, text: str) -> None:
    closed = tj.make_jaxpr(lambda: value)()
    assert closed.consts == ()
    assert str(closed) == f"{{ lambda ; . let  in ({text},) }}"


# Arguments.


def test_abstract_arguments() -> None:
    expected = tj.make_jaxpr(tnp.sin)(np.zeros((2, 3), np.float32))
    for argument in (
        ShapedArray((2, 3), "float32"),
        jax.ShapeDtypeStruct((2, 3), jnp.float32),
        jnp.zeros((2, 3), jnp.float32),
        tnp.zeros((2, 3), "float32"),
    ):
        assert tj.make_jaxpr(tnp.sin)(argument) == expected
    weak = tj.make_jaxpr(tnp.sin)(1.0)
    assert weak.in_avals == (ShapedArray((), float, weak_type=True),)
    assert tj.make_jaxpr(tnp.sin)(jax.ShapeDtypeStruct((), jnp.float64, weak_type=True)) == weak


def test_trees_in_and_out() -> None:
    def f(point: Point, rest: dict[str, Array], nothing: None) -> object:
        return {"sum": point.x + point.y, "rest": [rest["b"], (rest["a"], nothing)], "point": point}

    closed, shape = tj.make_jaxpr(f, return_shape=True)(Point(1.0, np.ones(2)), {"b": 2, "a": True}, None)
    assert [str(aval) for aval in closed.in_avals] == ["~f64[]", "f64[2]", "bool[]", "~i64[]"]
    assert shape == {
        "sum": ShapedArray((2,), float),
        "rest": [ShapedArray((), int, weak_type=True), (ShapedArray((), bool), None)],
        "point": Point(ShapedArray((), float, weak_type=True), ShapedArray((2,), float)),
    }


def test_keyword_arguments() -> None:
    closed = tj.make_jaxpr(lambda x, *, scale: x * scale)(np.ones(2), scale=3.0)
    assert [str(aval) for aval in closed.in_avals] == ["f64[2]", "~f64[]"]


def test_static_arguments() -> None:
    def power(x: Array, n: int) -> Array:
        return x if n == 1 else x * power(x, n - 1)

    assert len(tj.make_jaxpr(power, static_argnums=1)(1.0, 4).eqns) == 3
    assert len(tj.make_jaxpr(power, static_argnums=-1)(1.0, 4).eqns) == 3
    assert len(tj.make_jaxpr(power, static_argnames="n")(1.0, n=4).eqns) == 3
    assert len(tj.make_jaxpr(power, static_argnames="n")(1.0, 4).eqns) == 3
    with pytest.raises(StaticArgumentError, match="must be hashable; got a list"):
        tj.make_jaxpr(power, static_argnums=1)(1.0, [4])


def test_forwarded_duplicated_and_missing_outputs() -> None:
    assert shown(lambda x: (x, x, 1.0), SCALAR) == "{ lambda ; a:f64[]. let  in (a, a, 1.0) }"
    assert shown(lambda x: None, SCALAR) == "{ lambda ; a:f64[]. let  in () }"
    assert shown(lambda: ()) == "{ lambda ; . let  in () }"


def test_of_a_traced_value() -> None:
    """The type of a traced argument is enough; a traced value that is closed over isn't."""
    closed: list[tj.ClosedJaxpr] = []

    def f(x: Array) -> Array:
        closed.append(tj.make_jaxpr(tnp.sin)(x))
        return x

    tj.vmap(f)(tnp.arange(3.0))
    assert str(closed[0]) == "{ lambda ; a:f64[]. let b:f64[] = sin a in (b,) }"
    with pytest.raises(InputError, match=r"closes over Tracer\(~f64\[\], jvp: dual\(1., .*closure_convert"):
        tj.grad(lambda x: tj.make_jaxpr(lambda y: x * y)(1.0))(1.0)


# Where equations come from.


def test_source_lines() -> None:
    def f(x: Array) -> Array:
        y = tnp.sin(x)
        return y * 2.0

    first = f.__code__.co_firstlineno
    closed = tj.make_jaxpr(f)(1.0)
    sources = [eqn.source for eqn in closed.eqns]
    assert [source and (source.file, source.line) for source in sources] == [
        (__file__, first + 1),
        (__file__, first + 2),
    ]


def test_derivatives_point_to_the_primal_line() -> None:
    def f(x: Array) -> Array:
        return tnp.sin(x) * x

    line = f.__code__.co_firstlineno + 1
    for transformed in (tj.grad(f), tj.grad(tj.jit(f)), tj.grad(lambda x: tnp.sum(tj.vmap(f)(x * tnp.ones(2))))):
        closed = tj.make_jaxpr(transformed)(1.0)
        for jaxpr in ir.nested_programs(closed.jaxpr):
            for eqn in jaxpr.eqns:
                assert eqn.source is not None
                assert eqn.source.file == __file__
                if eqn.primitive.name in ("cos", "sin"):
                    assert eqn.source.line == line


# Programs as values.


@pytest.mark.parametrize("function", FUNCTIONS)
def test_traced_twice_equal(function: str) -> None:
    f = FUNCTIONS[function][0]
    one, two = tj.make_jaxpr(f)(SCALAR), tj.make_jaxpr(f)(SCALAR)
    assert one is not two
    assert one == two
    assert hash(one) == hash(two)
    assert ir.content_hash(one) == ir.content_hash(two)
    assert one != tj.make_jaxpr(f)(1.0)


def test_names_do_not_count() -> None:
    def f(x: Array) -> Array:
        unused = x
        return unused + x

    assert tj.make_jaxpr(f)(1.0) == tj.make_jaxpr(lambda some: some + some)(1.0)


def test_sign_of_zero_and_dtype_count() -> None:
    programs = [tj.make_jaxpr(lambda x, c=c: x * c)(SCALAR) for c in (0.0, -0.0, np.float64(0.0))]
    for (i, one), (j, two) in product(enumerate(programs), repeat=2):
        assert (one == two) == (i == j)


# Running programs.


@pytest.mark.parametrize("names", [("jit",), ("grad", "jit"), ("vmap", "grad"), ("jvp", "linearize")], ids=".".join)
@pytest.mark.parametrize("function", FUNCTIONS)
def test_programs_of_transformations_compute_the_same(function: str, names: tuple[str, ...]) -> None:
    f = FUNCTIONS[function][0]
    for name in reversed(names):
        f = TRANSFORMATIONS[name][0](f)
    closed = tj.make_jaxpr(f)(SCALAR)
    ir.typecheck(closed)
    x = np.float64(0.3)
    np.testing.assert_allclose(tj.eval_jaxpr(closed, (), x)[0], f(tnp.asarray(x)), rtol=1e-12)
    np.testing.assert_allclose(tj.eval_jaxpr(closed.jaxpr, closed.consts, x)[0], f(tnp.asarray(x)), rtol=1e-12)


def test_eval_jaxpr_can_be_transformed() -> None:
    closed = tj.make_jaxpr(lambda x: tnp.sin(x) * 2.0)(SCALAR)

    def f(x: Array) -> Array:
        return tj.eval_jaxpr(closed, (), x)[0]

    x = tnp.asarray(np.float64(0.3))
    np.testing.assert_allclose(tj.grad(f)(x), 2 * np.cos(x))
    np.testing.assert_allclose(tj.jit(tj.grad(tj.grad(f)))(x), -2 * np.sin(x))
    np.testing.assert_allclose(tj.vmap(f)(tnp.arange(3.0)), 2 * np.sin(np.arange(3.0)))
    assert tj.make_jaxpr(f)(x) == closed


def test_eval_jaxpr_of_collectives_in_scope() -> None:
    from tinyjax import lax

    closed: list[tj.ClosedJaxpr] = []
    tj.vmap(lambda x: closed.append(tj.make_jaxpr(lambda y: lax.psum(y, "i"))(1.0)), axis_name="i")(np.ones(3))
    found = tj.vmap(lambda x: tj.eval_jaxpr(closed[0], (), 1.0)[0] + x, axis_name="i")(np.arange(3.0))
    np.testing.assert_array_equal(found, [3.0, 4.0, 5.0])
    with pytest.raises(NameError, match="unbound axis name: 'i'"):
        tj.eval_jaxpr(closed[0], (), 1.0)


def test_eval_jaxpr_checks_its_arguments() -> None:
    closed = tj.make_jaxpr(lambda x, y: x + y)(SCALAR, SCALAR)
    for args in ((1.0,), (1.0, np.ones(2)), (1.0, np.float32(1)), (1.0, 1)):
        with pytest.raises(InputError, match=r"the program takes \(x: f64\[\], y: f64\[\]\), got"):
            tj.eval_jaxpr(closed, (), *args)


def test_eval_jaxpr_shares_no_memory() -> None:
    x = np.ones(3)
    (y,) = tj.eval_jaxpr(tj.make_jaxpr(lambda x: x)(x), (), x)
    x[:] = 2.0
    np.testing.assert_array_equal(y, np.ones(3))


def test_eval_shape() -> None:
    def f(x: Array, *, y: dict[str, Array]) -> object:
        return {"a": tnp.outer(x, y["v"]), "b": None}

    found = tj.eval_shape(f, ShapedArray((2,), "float32"), y={"v": jax.ShapeDtypeStruct((3,), jnp.float32)})
    assert found == {"a": ShapedArray((2, 3), "float32"), "b": None}


def test_partial_and_callable_objects() -> None:
    class Scale:
        def __call__(self, x: Array) -> Array:
            return x * 2.0

    expected = tj.make_jaxpr(lambda x: x * 2.0)(1.0)
    assert tj.make_jaxpr(Scale())(1.0) == expected
    assert tj.make_jaxpr(partial(lambda k, x: x * k, 2.0))(1.0) == expected


def test_name() -> None:
    for module, sine in ((jax, jnp.sin), (tj, tnp.sin)):
        assert module.make_jaxpr(sine).__name__ == "make_jaxpr(sin)"


# Named axes.


def test_axes_that_nothing_maps_have_names() -> None:
    def f(lax: types.ModuleType) -> Callable[[Any], Any]:
        return lambda x: lax.psum(lax.axis_index("j") + x, ("i", "j"))

    env = [("i", 4), ("j", 2)]
    theirs = jax.make_jaxpr(f(jax.lax), axis_env=env)(1.0)
    ours, shape = tj.make_jaxpr(f(tj.lax), axis_env=env, return_shape=True)(1.0)
    ir.typecheck(ours)
    assert [eqn.primitive.name for eqn in ours.eqns if eqn.primitive.name != "psum"] == [
        eqn.primitive.name for eqn in theirs.eqns if eqn.primitive.name != "psum"
    ]
    assert shape == ShapedArray((), "float64", weak_type=True)
    wrong: list[Any] = [("i", 4), [("i", "4")], [("i",)], [("i", 0)], 4]
    for axes in wrong:
        with pytest.raises(ChoiceError, match=r'axis_env has pairs of a name and a size, \[\("i", 4\)\], got'):
            tj.make_jaxpr(lambda x: x, axis_env=axes)


def test_what_makes_programs_is_named_after_its_function() -> None:
    class Model:
        def apply(self, x: Any) -> Any:
            return x

    for f in (Model().apply, Model.apply):
        ours, theirs = tj.make_jaxpr(f), jax.make_jaxpr(f)
        assert (ours.__name__, ours.__qualname__) == (theirs.__name__, theirs.__qualname__)
