"""Dependence, against changing inputs and seeing which values change."""

from __future__ import annotations

from hypothesis import given, settings
from hypothesis import strategies as st

from tests.tools.control_steps import IN_AVALS, control_programs, inputs, run_all
from tinyjax import Array, ShapedArray, custom_jvp, custom_vjp, lax, linearize, make_jaxpr
from tinyjax import numpy as tnp
from tinyjax.contexts.staging import StagingContext
from tinyjax.control.call import Call
from tinyjax.control.scan import Scan
from tinyjax.ir import Atom, ConcreteValue, Jaxpr, Var
from tinyjax.primitives.elementwise import add
from tinyjax.tools.dataflow import Dependence, dependence
from tinyjax.transforms import linearize as linearize_program

F32 = ShapedArray((), "float32")
VEC = ShapedArray((4,), "float32")


@given(control_programs(), inputs(), inputs(), st.sampled_from(range(len(IN_AVALS))))
@settings(max_examples=80, deadline=None)
def test_what_changes_with_an_input_depends_on_it(
    jaxpr: Jaxpr, args: list[ConcreteValue], others: list[ConcreteValue], changed: int
) -> None:
    found = dependence(jaxpr)
    first = run_all(jaxpr, args)
    second = run_all(jaxpr, [others[i] if i == changed else arg for i, arg in enumerate(args)])
    variables = [*jaxpr.invars, *(var for eqn in jaxpr.eqns for var in eqn.outvars)]
    for var, before, after in zip(variables, first, second, strict=True):
        if before != after:
            assert changed in found.of(var)
    for number, atom in enumerate(jaxpr.outvars):
        assert found.outputs[number] == found.of(atom)
        assert all((number in outputs) == (i in found.outputs[number]) for i, outputs in enumerate(found.inputs))


def sets(found: Dependence) -> list[set[int]]:
    return list(map(set, found.outputs))


def unrolled(primitive: Scan, jaxpr: Jaxpr, length: int) -> Jaxpr:
    """The first iterations of the same loop, without arrays, as calls one after the other: the carries."""
    ctx = StagingContext()
    ins: list[Atom] = [ctx.argument(var.aval) for var in jaxpr.invars]
    consts, carry, _ = primitive.operands(ins)
    for _ in range(length):
        carry = ctx.bind(Call("body", primitive.jaxpr), *consts, *carry)[: primitive.num_carry]
    return ctx.finish(carry).jaxpr


@st.composite
def shifting_loops(draw: st.DrawFn) -> Jaxpr:
    """Loops whose carries change places, are added up, or are left alone."""
    n = draw(st.integers(1, 5))
    body = StagingContext()
    ins: list[Atom] = [body.argument(F32) for _ in range(n + 1)]
    outs: list[Atom] = []
    for _ in range(n):
        chosen = draw(st.lists(st.sampled_from(ins), min_size=1, max_size=2))
        outs.append(chosen[0] if len(chosen) == 1 else body.bind(add, *chosen)[0])
    ctx = StagingContext()
    operands = [ctx.argument(F32) for _ in range(n + 1)]
    loop = Scan(body.finish([*outs, ins[1]]).jaxpr, draw(st.integers(0, 13)), False, 1, n)
    return ctx.finish(ctx.bind(loop, *operands)).jaxpr


@given(shifting_loops())
@settings(max_examples=80, deadline=None)
def test_after_a_scan_dependence_is_that_of_its_length(jaxpr: Jaxpr) -> None:
    (eqn,) = jaxpr.eqns
    assert isinstance(eqn.primitive, Scan)
    *last, stacked = dependence(jaxpr).outputs
    carries = [dependence(unrolled(eqn.primitive, jaxpr, n)).outputs for n in range(eqn.primitive.length + 1)]
    assert tuple(last) == carries[-1]
    assert stacked == frozenset().union(*[before[0] for before in carries[:-1]])


def test_stacked_results_depend_on_all_that_came_before() -> None:
    def f(a: Array, b: Array, c: Array) -> object:
        return lax.scan(lambda s, _: ((s[1], s[2], s[2]), s[0]), (a, b, c), None, length=2)

    found = dependence(make_jaxpr(f)(F32, F32, F32))
    # The last carries are c, c, c; what is stacked is a, then b.
    assert sets(found) == [{2}, {2}, {2}, {0, 1}]


def test_long_loops_take_few_steps() -> None:
    def f(a: Array, b: Array) -> object:
        return lax.scan(lambda s, _: ((s[1], s[0]), None), (a, b), None, length=10**12 + 1)[0]

    assert sets(dependence(make_jaxpr(f)(F32, F32))) == [{1}, {0}]


def test_while_loops_depend_on_what_ends_them() -> None:
    def f(n: Array, x: Array, y: Array) -> object:
        return lax.while_loop(lambda c: c[0] < n, lambda c: (c[0] + 1, c[2], c[2], c[3]), (0, x, y, x))

    found = dependence(make_jaxpr(f)(ShapedArray((), "int64"), F32, F32))
    counter, first, second, untouched = sets(found)
    assert (counter, first, untouched) == ({0}, {0, 1, 2}, {1})
    assert second == {2}  # returned as it is, however often the loop goes round


def test_branches() -> None:
    def f(p: Array, x: Array, y: Array) -> object:
        return lax.cond(p, lambda x, y: (x, x, 1.0), lambda x, y: (x, y, 1.0), x, y)

    found = dependence(make_jaxpr(f)(ShapedArray((), "bool"), F32, F32))
    assert sets(found) == [{1}, {0, 1, 2}, set()]


def test_a_known_index_chooses_one_branch() -> None:
    f = make_jaxpr(lambda x, y: lax.cond(True, lambda x, y: x, lambda x, y: y, x, y))(F32, F32)
    assert sets(dependence(f)) == [{0}]


def test_custom_rules_do_not_count_but_for_what_they_are_the_derivative_of() -> None:
    @custom_vjp
    def f(x: Array, y: Array, z: Array) -> object:
        return x * y

    f.defvjp(lambda x, y, z: (x * y, (x, y)), lambda res, ct: (ct * res[1], ct * res[0], 0.0 * ct))
    jaxpr = make_jaxpr(f)(F32, F32, F32).jaxpr
    assert sets(dependence(jaxpr)) == [{0, 1}]
    linear = linearize_program(jaxpr).linear
    # Residuals, and the three tangents; that of z has cotangents 0 * ct, so syntactically it counts.
    names = [eqn.primitive.name for eqn in linear.eqns]
    assert names == ["custom_lin"]
    assert sets(dependence(linear)) == [{0, 1, 2, 3, 4}]

    @custom_jvp
    def g(x: Array, y: Array) -> object:
        return x

    g.defjvp(lambda primals, tangents: (primals[0], tangents[1]))
    assert sets(dependence(make_jaxpr(g)(F32, F32))) == [{0}]


def test_constants_have_no_number_and_empty_arrays_depend_on_nothing() -> None:
    weights = tnp.ones(4)
    closed = make_jaxpr(lambda x: (x * weights, x[:0], weights))(VEC)
    assert sets(dependence(closed)) == [{len(closed.consts)}, set(), set()]


def test_sorting_and_barriers_keep_arrays_apart() -> None:
    def f(key: Array, a: Array, b: Array) -> object:
        return *lax.sort((key, a, b), num_keys=1), *lax.optimization_barrier((a, b))

    assert sets(dependence(make_jaxpr(f)(VEC, VEC, VEC))) == [{0}, {0, 1}, {0, 2}, {1}, {2}]


def test_each_program_is_walked_once() -> None:
    """Sixty programs, each of which calls the next one twice, with its operands the other way round too."""
    ctx = StagingContext()
    x, y = ctx.argument(F32), ctx.argument(F32)
    program = ctx.finish([ctx.bind(add, x, x)[0], y]).jaxpr
    for _ in range(60):
        ctx = StagingContext()
        x, y = ctx.argument(F32), ctx.argument(F32)
        first = ctx.bind(Call("f", program), x, y)
        second = ctx.bind(Call("f", program), *reversed(first))
        program = ctx.finish(second).jaxpr
    found = dependence(program)
    assert sets(found) in ([{1}, {0}], [{0}, {1}])
    assert len(list(found.flow.walk())) == 61


def test_within_programs_sets_are_of_their_own_inputs() -> None:
    closed = make_jaxpr(lambda x, y: lax.cond(x > 0.0, lambda y: (y, 1.0), lambda y: (2.0, y), y))(F32, F32)
    position = next(i for i, eqn in enumerate(closed.eqns) if eqn.primitive.name == "cond")
    branches = dependence(closed).within(position)
    assert sorted(branches) == [0, 1]
    assert {tuple(map(tuple, branch.outputs)) for branch in branches.values()} == {((0,), ()), ((), (0,))}


def test_linear_programs_of_functions() -> None:
    _, push = linearize(lambda x, y: (x * x, y), 2.0, 3.0)
    found = dependence(make_jaxpr(push)(1.0, 1.0))
    assert [len(inputs) for inputs in found.outputs] == [1, 1]


def test_literals_depend_on_nothing() -> None:
    closed = make_jaxpr(lambda x: (1.0, x))(F32)
    found = dependence(closed)
    assert found.of(closed.jaxpr.outvars[0]) == frozenset()
    assert isinstance(closed.jaxpr.outvars[1], Var)
