"""The pattern-rewrite kit: what matches, what is replaced, and what is refused."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from typing import ClassVar, Final, final

import numpy as np
import pytest
from attrs import frozen
from typing_extensions import override

import tinyjax as tj
import tinyjax.numpy as tnp
from tests.golden import Golden
from tests.transforms.checks import F64, VECTOR, program, run
from tests.transforms.test_dce import Emit, Noise
from tinyjax import Array, ShapedArray, ir, lax, transforms
from tinyjax.contexts.staging import stage
from tinyjax.errors import InputError, RewriteError
from tinyjax.ir import Atom, Context, HostArray, Jaxpr, Primitive
from tinyjax.primitives.elementwise import Add, Elementwise, Mul, Neg, Sub, add, mul, neg
from tinyjax.primitives.exponential import Exp, Log
from tinyjax.primitives.selection import SelectN
from tinyjax.primitives.sorting import Sort
from tinyjax.primitives.structure import ReduceSum, Transpose
from tinyjax.primitives.trigonometric import Cos, Sin, cos, sin
from tinyjax.transforms import AnyLiteral, Match, Number, Rewrite, Several, pattern, rewrite, variables


@final
@frozen
class MultiplyAdd(Primitive):
    """x * y + z."""

    name: ClassVar[str] = "multiply_add"

    @override
    def type_of(self, *avals: ShapedArray) -> tuple[ShapedArray, ...]:
        return (add.type_of(mul.type_of(*avals[:2])[0], avals[2])[0],)

    @override
    def evaluate(self, *args: HostArray) -> tuple[HostArray, ...]:
        x, y, z = args
        return (np.asarray(np.add(np.multiply(x, y), z)),)


x, y, z = variables("x y z")
c, d = AnyLiteral("c"), AnyLiteral("d")
product = pattern(Mul, x, y)
FUSE: Final = Rewrite("fuse", pattern(Add, product, z), lambda ctx, m: ctx.bind(MultiplyAdd(), m[x], m[y], m[z])[0])


def names(jaxpr: Jaxpr) -> list[str]:
    return [eqn.primitive.name for eqn in jaxpr.eqns]


def fused(f: Callable[..., object], *avals: ShapedArray) -> Jaxpr:
    j = program(f, *avals)
    result = rewrite(j, [FUSE])
    assert ir.typecheck(result) == j.type
    args = [np.linspace(0.5, 1.5, aval.size).reshape(aval.shape) for aval in avals]
    for one, other in zip(run(result, args), run(j, args), strict=True):
        np.testing.assert_array_equal(one, other)
    return result


def test_golden(golden: Golden) -> None:
    def f(a: Array, b: Array) -> object:
        kept = a * b
        inner = tj.jit(lambda u: tnp.sin(u) * b + 1.0)
        total, _ = lax.scan(lambda carry, row: (carry * a + row, None), b, tnp.ones(3) * 2.0)
        return b + a * 2.0, kept + 1.0, kept, inner(a), total

    j = program(f, F64, F64)
    result = fused(f, F64, F64)
    golden("rewrite", f"{j}\n\n{result}")


def test_either_order_and_shapes() -> None:
    assert names(fused(lambda a, b, v: (a * b + v, v + b * a), F64, F64, VECTOR)) == ["multiply_add"] * 2
    assert names(fused(lambda a, b: a * b + a * a, F64, F64)) == ["mul", "multiply_add"]


def test_what_is_used_elsewhere_stays() -> None:
    assert names(fused(lambda a, b: (a * b + 1.0, tnp.sin(a * b)), F64, F64)) == ["multiply_add", "mul", "sin"]

    def shared(a: Array, b: Array) -> object:
        p = a * b
        return p + 1.0, tnp.sin(p)

    assert names(fused(shared, F64, F64)) == ["mul", "add", "sin"]
    returned = fused(lambda a, b: (p := a * b, p + 1.0), F64, F64)
    assert names(returned) == ["mul", "add"]
    # Twice in the same sum isn't elsewhere, but there is no z that isn't the product itself.
    assert names(fused(lambda a, b: (p := a * b) + p, F64, F64)) == ["mul", "add"]


def test_rules_with_shared_parts() -> None:
    keep = Rewrite("fuse", FUSE.pattern, FUSE.replacement, shared=True)
    j = program(lambda a, b: (p := a * b, p + 1.0), F64, F64)
    assert names(rewrite(j, [keep])) == ["mul", "multiply_add"]


def test_reads_are_counted_as_the_program_changes() -> None:
    """The product is read by two sums, but rewriting the first takes one reader away: exp(log(s)) = s, say."""
    undo = Rewrite("undo", pattern(Exp, pattern(Log, x)), lambda ctx, m: m[x])

    def f(a: Array, b: Array) -> Array:
        return tnp.exp(tnp.log(a * b)) + 1.0

    assert names(rewrite(program(f, F64, F64), [FUSE, undo])) == ["multiply_add"]


def test_literals_numbers_and_guards() -> None:
    def halved(ctx: Context[Atom], m: Match) -> Atom:
        return m[x]

    rules = [
        Rewrite("times two", pattern(Mul, x, 2), halved),
        Rewrite("plus small", pattern(Add, x, c), lambda ctx, m: m[x], lambda m: abs(m.scalar(c)) < 1e-6),
        Rewrite("minus itself", pattern(Sub, x, x), lambda ctx, m: neg(ctx, m[x])),
        Rewrite("floats only", pattern(Neg, x), lambda ctx, m: m[x], lambda m: m.aval(x).dtype.kind == "f"),
    ]
    j = program(lambda a: (a * 2.0, 2.0 * a, a * 3.0, a + 1e-9, a + 1e-3, a - a, a - 1.0), F64)
    assert names(rewrite(j, rules)) == ["mul", "add", "sub"]
    assert Number(0).value == 0
    integers = program(lambda n: -n, ShapedArray((), "int64"))
    assert rewrite(integers, rules) is integers


def test_parameters_and_the_primitives_found() -> None:
    inner = pattern(Transpose, x)
    outer = pattern(Transpose, inner, where=lambda found: found.permutation[0] == 2)

    def composed(ctx: Context[Atom], m: Match) -> Atom:
        first, second = m.primitive(inner), m.primitive(outer)
        return ctx.bind(Transpose(tuple(first.permutation[i] for i in second.permutation)), m[x])[0]

    def f(a: Array) -> object:
        turned = lax.transpose(a, (1, 0, 2))
        again = lax.transpose(a, (1, 0, 2))
        return lax.transpose(turned, (2, 0, 1)), lax.transpose(again, (0, 2, 1))

    j = program(f, ShapedArray((2, 3, 4), "float64"))
    result = rewrite(j, [Rewrite("compose", outer, composed)])
    assert ir.typecheck(result) == j.type
    assert names(result) == ["transpose"] * 3
    assert [eqn.params["permutation"] for eqn in result.eqns] == [(1, 0, 2), (2, 1, 0), (0, 2, 1)]


def test_base_classes_and_the_rest_of_the_operands() -> None:
    rest = Several("rest")
    seen: list[tuple[str, int]] = []

    def look(ctx: Context[Atom], m: Match) -> None:
        seen.append((m.root.name, len(m.all(rest))))

    j = program(lambda a, b: tnp.where(a > 0.0, -a, a * b), F64, F64)
    assert rewrite(j, [Rewrite("look", pattern(Elementwise, x, rest), look)]) is j
    assert seen == [("gt", 1), ("neg", 0), ("mul", 1), ("select_n", 2)]
    seen.clear()
    # After any number of operands of their own, which may be patterns.
    for parts in ([x, y, rest], [x, y, z, rest], [x, pattern(Neg, y), rest]):
        assert rewrite(j, [Rewrite("look", pattern(SelectN, *parts), look)]) is j
    assert seen == [("select_n", 1), ("select_n", 0)]


def test_several_results() -> None:
    def both(ctx: Context[Atom], m: Match) -> Sequence[Atom]:
        return [m[x], m[y]]

    j = program(lambda a, b: lax.sort((a, b)), VECTOR, VECTOR)
    assert rewrite(j, [Rewrite("unsort", pattern(Sort, x, y), both)]).eqns == ()
    second = Rewrite("second", pattern(Neg, pattern(Sort, x, y, output=1)), lambda ctx, m: m[y], shared=True)
    k = program(lambda a, b: [-v for v in lax.sort((a, b))], VECTOR, VECTOR)
    assert names(rewrite(k, [second])) == ["sort", "neg"]


def test_another_result_that_is_read_elsewhere_keeps_the_equation() -> None:
    """It would be computed twice; a rule with `shared` doesn't mind."""

    def second(shared: bool) -> Rewrite:
        return Rewrite("second", pattern(Neg, pattern(Sort, x, y, output=1)), lambda ctx, m: m[y], shared=shared)

    def one(a: Array, b: Array) -> Array:
        return -lax.sort((a, b))[1]

    def both(a: Array, b: Array) -> tuple[Array, Array]:
        first, other = lax.sort((a, b))
        return -other, tnp.sin(first)

    assert names(rewrite(program(one, VECTOR, VECTOR), [second(False)])) == []
    j = program(both, VECTOR, VECTOR)
    assert rewrite(j, [second(False)]) is j
    assert names(rewrite(j, [second(True)])) == ["sort", "sin"]


def test_arrays_in_replacements() -> None:
    """A number becomes a literal, an array an equation."""

    def constants(ctx: Context[Atom], m: Match) -> Atom:
        row, number = (ctx.constant(ir.ConcreteValue.of(value)) for value in (np.arange(3.0), np.asarray(2.0)))
        return add(ctx, mul(ctx, m[x], row), number)

    j = program(tnp.sin, VECTOR)
    result = rewrite(j, [Rewrite("constants", pattern(Sin, x), constants)])
    assert ir.typecheck(result) == j.type
    assert names(result) == ["constant", "mul", "add"]
    assert [isinstance(atom, ir.Literal) for atom in result.eqns[-1].invars] == [False, True]
    np.testing.assert_array_equal(run(result, [np.ones(3)])[0], [2.0, 3.0, 4.0])


def test_rules_apply_to_what_rules_bind() -> None:
    sine = Rewrite("sine", pattern(Sin, x), lambda ctx, m: neg(ctx, ctx.bind(cos, m[x])[0]))
    cosine = Rewrite("cosine", pattern(Cos, x), lambda ctx, m: m[x])
    twice = Rewrite("twice", pattern(Neg, pattern(Neg, x)), lambda ctx, m: m[x])
    j = program(lambda a: -tnp.sin(a), F64)
    assert rewrite(j, [sine, cosine, twice]).eqns == ()
    # Also where one replacement binds all of what another rule matches.
    longer = Rewrite("longer", pattern(Sin, x), lambda ctx, m: neg(ctx, neg(ctx, ctx.bind(cos, m[x])[0])))
    assert names(rewrite(program(tnp.sin, F64), [longer, twice])) == ["cos"]


def test_effects_never_match() -> None:
    drop = Rewrite("drop", pattern(Emit, x), lambda ctx, m: m[x])
    through = Rewrite("through", pattern(Neg, pattern(Emit, x)), lambda ctx, m: m[x])
    j = stage([F64], lambda ctx, ins: ctx.bind(neg, *ctx.bind(Emit(Noise()), *ins)))
    assert rewrite(j, [drop, through]) is j


def test_a_replacement_of_another_type_is_refused() -> None:
    wrong = Rewrite("wrong", pattern(ReduceSum, x), lambda ctx, m: m[x])
    with pytest.raises(RewriteError, match=r"the rule 'wrong' replaces results of types \(f64\[\]\) by \(f64\[3\]\):"):
        rewrite(program(tnp.sum, VECTOR), [wrong])
    none = Rewrite("none", pattern(Sin, x), lambda ctx, m: [])
    with pytest.raises(RewriteError, match=r"replaces results of types \(f64\[\]\) by \(\)"):
        rewrite(program(tnp.sin, F64), [none])


def test_rules_that_never_end_are_refused() -> None:
    there = Rewrite("there", pattern(Sin, x), lambda ctx, m: ctx.bind(cos, m[x])[0])
    back = Rewrite("back", pattern(Cos, x), lambda ctx, m: ctx.bind(sin, m[x])[0])
    with pytest.raises(RewriteError, match="the rules 'back' and 'there' go on applying"):
        rewrite(program(tnp.sin, F64), [there, back])
    swap = Rewrite("swap", pattern(Add, x, y), lambda ctx, m: ctx.bind(add, m[y], m[x])[0])
    with pytest.raises(RewriteError, match="the rule 'swap' goes on applying"):
        rewrite(program(lambda a, b: a + b, F64, F64), [swap])


def test_wrong_patterns_are_refused() -> None:
    with pytest.raises(InputError, match="Several must be the last operand of a pattern"):
        pattern(Add, Several("rest"), x)
    with pytest.raises(InputError, match="Several must be the last operand of a pattern"):
        pattern(SelectN, x, Several("rest"), y)
    with pytest.raises(InputError, match="a commutative pattern has two operands, got 1 for Sin"):
        pattern(Sin, x, commutative=True)
    unknown = Rewrite("unknown", pattern(Sin, x), lambda ctx, m: m[y])
    with pytest.raises(RewriteError, match="'y' is no part of the pattern that was matched"):
        rewrite(program(tnp.sin, F64), [unknown])
    other = Rewrite("other", pattern(Sin, x), lambda ctx, m: ctx.bind(m.primitive(product), m[x], m[x])[0])
    with pytest.raises(RewriteError, match="'Mul' is no part of the pattern"):
        rewrite(program(tnp.sin, F64), [other])
    integer = Rewrite("integer", pattern(Mul, x, c), lambda ctx, m: m[x], lambda m: m.integer(c) == 2)
    with pytest.raises(RewriteError, match=r"the pattern's 'c' is 2.0, no integer"):
        rewrite(program(lambda a: a * 2.0, F64), [integer])


def test_order_matters_unless_it_is_commutative() -> None:
    first = Rewrite("first", pattern(Sub, c, x), lambda ctx, m: m[x])
    j = program(lambda a: (a - 1.0, 1.0 - a), F64)
    assert [str(eqn.invars[1]) for eqn in rewrite(j, [first]).eqns] == [str(j.eqns[0].invars[1])]
    strict = Rewrite("strict", pattern(Add, c, x, commutative=False), lambda ctx, m: m[x])
    k = program(lambda a: a + 1.0, F64)
    assert isinstance(k.eqns[0].invars[1], ir.Literal)
    assert rewrite(k, [strict]) is k


def test_sources_are_those_of_what_is_replaced() -> None:
    j = program(lambda a, b: a * b + 1.0, F64, F64)
    (eqn,) = rewrite(j, [FUSE]).eqns
    assert eqn.source == j.eqns[1].source


def test_derivatives_of_the_worked_example() -> None:
    """The rules of `simplify` are rules of this kit."""
    rules = (*transforms.EXACT_RULES, *transforms.ARRAY_RULES)
    assert all(isinstance(rule, Rewrite) for rule in rules)
    j = program(lambda a: tnp.negative(tnp.negative(a * 1.0)), F64)
    assert rewrite(j, rules) == transforms.simplify(j)
