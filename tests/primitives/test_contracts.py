"""Rules of a user's primitives that return something wrong: they say so, wherever they run, and right ones run."""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from typing import ClassVar, Final, TypeAlias, TypeVar, cast, final

import numpy as np
import pytest
from attrs import frozen
from typing_extensions import override

import tinyjax as tj
import tinyjax.numpy as tnp
from tinyjax import hlo, lax, transforms
from tinyjax.control.composite import Composite
from tinyjax.errors import ContractError, InputError, MissingRuleError, TypingError
from tinyjax.interpreters import INTERVAL_RULES, bounds
from tinyjax.interpreters.intervals import Interval
from tinyjax.ir.aval import ShapedArray
from tinyjax.ir.context import Context
from tinyjax.ir.dtypes import HostArray
from tinyjax.ir.effects import Effects
from tinyjax.ir.primitive import BatchAxis, Outputs, Primitive, Split, UndefPrimal, Zero
from tinyjax.ir.rules import RuleTable
from tinyjax.primitives.conversion import convert
from tinyjax.primitives.elementwise import add, mul
from tinyjax.primitives.structure import reduce_sum
from tinyjax.tracing.concrete import as_array
from tinyjax.tracing.core import bind

V = TypeVar("V")
T = TypeVar("T")


@frozen
class Twice(Primitive):
    """twice(x, y) = 2x, and whether y is positive: linear in x, and not in y. Every rule is right."""

    name: ClassVar[str] = "twice"

    @override
    def type_of(self, *avals: ShapedArray) -> tuple[ShapedArray, ...]:
        x, y = avals
        return x, ShapedArray(y.shape, np.bool_)

    @override
    def evaluate(self, *args: HostArray) -> tuple[HostArray, ...]:
        x, y = args
        return np.add(x, x), np.greater(y, 0)

    @override
    def jvp(self, ctx: Context[V], primals: Sequence[V], tangents: Sequence[V | Zero]) -> Outputs[V]:
        out, positive = ctx.bind(self, *primals)
        tangent = tangents[0]
        if not isinstance(tangent, Zero):
            tangent = ctx.bind(self, tangent, primals[1])[0]
        return [out, positive], [tangent, Zero(ctx.aval(positive).tangent)]

    @override
    def batch(
        self, ctx: Context[V], axis: BatchAxis, args: Sequence[V], axes: Sequence[int | None]
    ) -> tuple[Sequence[V], Sequence[int | None]]:
        return ctx.bind(self, *args), list(axes)

    @override
    def transpose(
        self, ctx: Context[V], cotangents: Sequence[V | Zero], args: Sequence[V | UndefPrimal]
    ) -> Sequence[V | Zero | None]:
        x, y = args
        assert isinstance(x, UndefPrimal)
        assert not isinstance(y, UndefPrimal)
        ct = cotangents[0]
        return [ct if isinstance(ct, Zero) else ctx.bind(self, ct, y)[0], None]


#: What is done to what a rule returns. It gets the context too, if the rule has one.
Mistake: TypeAlias = Callable[[object, Context[object]], object]


@final
@frozen
class Spoilt(Twice):
    """The same with one rule spoilt: it returns what the mistake makes of the right thing."""

    rule: str
    mistake: str
    plain: ClassVar[bool] = False
    called: ClassVar[list[str]] = []

    def _spoilt(self, rule: str, found: T, ctx: Context[V] | None = None) -> T:
        if rule != self.rule:
            return found
        self.called.append(rule)
        mistake = MISTAKES[self.rule][self.mistake]
        return cast(T, mistake(found, cast("Context[object]", ctx)))

    @override
    def type_of(self, *avals: ShapedArray) -> tuple[ShapedArray, ...]:
        return self._spoilt("type_of", super().type_of(*avals))

    @override
    def evaluate(self, *args: HostArray) -> tuple[HostArray, ...]:
        return self._spoilt("evaluate", super().evaluate(*args))

    @override
    def jvp(self, ctx: Context[V], primals: Sequence[V], tangents: Sequence[V | Zero]) -> Outputs[V]:
        return self._spoilt("jvp", super().jvp(ctx, primals, tangents), ctx)

    @override
    def batch(
        self, ctx: Context[V], axis: BatchAxis, args: Sequence[V], axes: Sequence[int | None]
    ) -> tuple[Sequence[V], Sequence[int | None]]:
        return self._spoilt("batch", super().batch(ctx, axis, args, axes), ctx)

    @override
    def transpose(
        self, ctx: Context[V], cotangents: Sequence[V | Zero], args: Sequence[V | UndefPrimal]
    ) -> Sequence[V | Zero | None]:
        found = super().transpose(ctx, cotangents, args)
        return self._spoilt("transpose", found, ctx)

    @override
    def partial_eval(self, unknown: tuple[bool, ...]) -> Split | None:
        # Staged whole: what is known is passed on.
        first = tuple(i for i, mark in enumerate(unknown) if not mark)
        known = Nothing(len(first))
        order = tuple(range(len(unknown))) if unknown == (False, True) else (1, 0)
        return self._spoilt("partial_eval", Split(known, self, (True, True), first, order))


@final
@frozen
class Nothing(Primitive):
    """Takes operands, and returns nothing."""

    count: int
    name: ClassVar[str] = "nothing"

    @override
    def type_of(self, *avals: ShapedArray) -> tuple[ShapedArray, ...]:
        return ()

    @override
    def evaluate(self, *args: HostArray) -> tuple[HostArray, ...]:
        return ()


def lower_on_host(
    primitive: Primitive, ctx: hlo.LoweringContext, args: Sequence[hlo.SSA], types: Sequence[ShapedArray]
) -> Sequence[hlo.SSA]:
    return hlo.on_host(primitive, ctx, args, types)


for cls in (Twice, Nothing):
    hlo.CPU_RULES[cls] = lower_on_host


def _pair(found: object) -> tuple[Sequence[object], Sequence[object]]:
    assert isinstance(found, tuple)
    first, second = found
    return list(first), list(second)


def _shorter(ctx: Context[object], x: object) -> object:
    """The sum over the last axis: of another shape."""
    return reduce_sum(ctx, x, (ctx.aval(x).ndim - 1,))


def _as_float32(ctx: Context[object], x: object) -> object:
    return convert(ctx, x, np.dtype("float32"))


def _first(change: Callable[[Context[object], object], object]) -> Mistake:
    """The first entry of a sequence is changed."""

    def spoil(found: object, ctx: Context[object]) -> object:
        entries = list(cast("Sequence[object]", found))
        return [change(ctx, entries[0]), *entries[1:]]

    return spoil


def _outs(change: Mistake) -> Mistake:
    return lambda found, ctx: (change(_pair(found)[0], ctx), _pair(found)[1])


def _seconds(change: Mistake) -> Mistake:
    return lambda found, ctx: (_pair(found)[0], change(_pair(found)[1], ctx))


#: For what holds values of a context.
VALUES: Final[dict[str, Mistake]] = {
    "None": lambda found, ctx: None,
    "a generator": lambda found, ctx: (x for x in cast("Sequence[object]", found)),
    "a bare value": lambda found, ctx: cast("Sequence[object]", found)[0],
    "too few": lambda found, ctx: cast("Sequence[object]", found)[1:],
    "too many": lambda found, ctx: [*cast("Sequence[object]", found), None],
    "a number": _first(lambda ctx, x: 2.0),
    "NumPy": _first(lambda ctx, x: np.ones(3)),
    "an Array": _first(lambda ctx, x: tnp.ones(3)),
    "UndefPrimal": _first(lambda ctx, x: UndefPrimal(ShapedArray((3,), "float64"))),
    "another shape": _first(_shorter),
    "another dtype": _first(_as_float32),
}
ZERO_OF_A_SCALAR: Final = _first(lambda ctx, x: Zero(ShapedArray((), "float32")))

MISTAKES: Final[dict[str, dict[str, Mistake]]] = {
    "type_of": {
        "None": lambda found, ctx: None,
        "a bare type": lambda found, ctx: cast("Sequence[object]", found)[0],
        "a list": lambda found, ctx: list(cast("Sequence[object]", found)),
        "a generator": lambda found, ctx: (x for x in cast("Sequence[object]", found)),
        "a shape": lambda found, ctx: ((3,), (3,)),
    },
    "evaluate": {
        "None": lambda found, ctx: None,
        "a bare array": lambda found, ctx: cast("Sequence[object]", found)[0],
        "a list": lambda found, ctx: list(cast("Sequence[object]", found)),
        "too few": lambda found, ctx: cast("Sequence[object]", found)[1:],
        "too many": lambda found, ctx: (*cast("Sequence[object]", found), 1.0),
        "another shape": lambda found, ctx: (np.zeros(7), *cast("Sequence[object]", found)[1:]),
        "another dtype": lambda found, ctx: (
            np.asarray(cast("Sequence[HostArray]", found)[0], np.float32),
            *cast("Sequence[object]", found)[1:],
        ),
        "a None within": lambda found, ctx: (None, *cast("Sequence[object]", found)[1:]),
    },
    "jvp": {
        "None": lambda found, ctx: None,
        "no pair": lambda found, ctx: (*_pair(found)[0], *_pair(found)[1]),
        **{f"outputs: {name}": _outs(change) for name, change in VALUES.items()},
        **{f"tangents: {name}": _seconds(change) for name, change in VALUES.items()},
        "outputs: Zero": _outs(ZERO_OF_A_SCALAR),
        "tangents: another Zero": _seconds(ZERO_OF_A_SCALAR),
        "tangents: of a bool": _seconds(lambda found, ctx: [cast("Sequence[object]", found)[0]] * 2),
    },
    "batch": {
        "None": lambda found, ctx: None,
        **{f"outputs: {name}": _outs(change) for name, change in VALUES.items()},
        **{
            f"axes: {name}": _seconds(change)
            for name, change in {
                "None": lambda found, ctx: None,
                "a bare axis": lambda found, ctx: 0,
                "too few": lambda found, ctx: [0],
                "no number": lambda found, ctx: ["first", None],
                "negative": _first(lambda ctx, at: -1),
                "out of range": _first(lambda ctx, at: 9),
                "another": _first(lambda ctx, at: 1),
                "unmapped": _first(lambda ctx, at: None),
                "the other way round": lambda found, ctx: [
                    None if at is not None else 0 for at in cast("Sequence[object]", found)
                ],
            }.items()
        },
    },
    "transpose": {
        **VALUES,
        "another Zero": ZERO_OF_A_SCALAR,
        "None for what is linear": _first(lambda ctx, x: None),
        "a cotangent of what isn't": lambda found, ctx: [cast("Sequence[object]", found)[0]] * 2,
    },
    "partial_eval": {
        "no Split": lambda found, ctx: (1, 2),
        "no primitive": lambda found, ctx: Split(cast(Primitive, None), mul, (True, True), (1,)),
        "another count": lambda found, ctx: Split(Nothing(1), mul, (True,), (1,)),
        "another primitive": lambda found, ctx: Split(Nothing(1), add, (True, True), (1,), (1, 0)),
        "other operands": lambda found, ctx: Split(Nothing(1), mul, (True, True), ()),
        "an unknown residual": lambda found, ctx: Split(Nothing(1), mul, (True, True), (0, 1)),
        "a residual too many": lambda found, ctx: Split(Nothing(1), cast(Split, found).staged, (True, True), (1, None)),
        "an order out of range": lambda found, ctx: Split(Nothing(1), mul, (True, True), (1,), (0, 5)),
        "an output that isn't made": lambda found, ctx: Split(Nothing(1), mul, (True, False), (1,)),
    },
}

X, Y = np.array([1.0, 2.0, 3.0]), np.array([1.0, -1.0, 2.0])
Function: TypeAlias = Callable[..., tj.Array]


def applied(primitive: Primitive) -> Function:
    def f(x: tj.ArrayLike, y: tj.ArrayLike = Y) -> tj.Array:
        return bind(primitive, as_array(x), as_array(y))[0]

    return f


def summed(f: Function) -> Function:
    return lambda x: tnp.sum(f(x))


def batch_of(x: HostArray) -> HostArray:
    return np.stack([x, x])


#: Where rules run.
USES: Final[dict[str, Callable[[Function], object]]] = {
    "eager": lambda f: f(X),
    "jit": lambda f: tj.jit(f)(X),
    "make_jaxpr": lambda f: tj.make_jaxpr(f)(X, Y),
    "jvp": lambda f: tj.jvp(f, (X,), (X,)),
    "jit of jvp": lambda f: tj.jit(lambda x: tj.jvp(f, (x,), (x,)))(X),
    "jvp of jvp": lambda f: tj.jvp(lambda x: tj.jvp(f, (x,), (X,))[1], (X,), (X,)),
    "linearize": lambda f: tj.linearize(f, X)[1](X),
    "grad": lambda f: tj.grad(summed(f))(X),
    "grad of jit": lambda f: tj.grad(tj.jit(summed(f)))(X),
    "vmap": lambda f: tj.vmap(f)(batch_of(X), batch_of(Y)),
    "vmap of one": lambda f: tj.vmap(f, in_axes=(0, None))(batch_of(X), Y),
    "vmap of grad": lambda f: tj.vmap(tj.grad(summed(f)))(batch_of(X)),
    "jit of vmap of grad": lambda f: tj.jit(tj.vmap(tj.grad(summed(f))))(batch_of(X)),
    "scan": lambda f: tj.grad(lambda x: tnp.sum(lax.scan(lambda c, _: (f(c), None), x, None, 2)[0]))(X),
    "cond": lambda f: tj.grad(lambda x: tnp.sum(lax.cond(x[0] > 0, f, lambda z: z, x)))(X),
    "while_loop": lambda f: tj.jvp(
        lambda x: lax.while_loop(lambda c: c[0] < 2, lambda c: (c[0] + 1, f(c[1])), (0, x))[1], (X,), (X,)
    ),
    "checkpoint": lambda f: tj.grad(lambda x: tnp.sum(tj.checkpoint(f)(x)))(X),
    "transforms.jvp": lambda f: transforms.jvp(tj.make_jaxpr(f)(X, Y).jaxpr),
    "transforms.batch": lambda f: transforms.batch(tj.make_jaxpr(f)(X, Y).jaxpr, BatchAxis(2), [0, None]),
    "transforms.linearize": lambda f: transforms.linearize(tj.make_jaxpr(f)(X, Y).jaxpr, [True, False]),
    "transforms.partial_eval": lambda f: transforms.partial_eval(tj.make_jaxpr(f)(X, Y).jaxpr, [True, False]),
    "transforms.transpose": lambda f: transforms.transpose(tj.make_jaxpr(f)(X, Y).jaxpr, [True, False]),
}
#: Those which take little time: the others are tried with a few mistakes of each rule.
QUICK: Final = {"eager", "make_jaxpr", "jvp", "grad", "vmap of one", "transforms.partial_eval", "transforms.transpose"}
CASES: Final = [
    (rule, mistake, USES if i < 2 else {name: USES[name] for name in sorted(QUICK)})
    for rule, mistakes in MISTAKES.items()
    for i, mistake in enumerate(mistakes)
]


@pytest.mark.parametrize("use", USES.values(), ids=USES.keys())
def test_right_rules_run(use: Callable[[Function], object]) -> None:
    use(applied(Twice()))


@pytest.mark.parametrize(("rule", "mistake", "uses"), CASES, ids=[f"{rule}: {mistake}" for rule, mistake, _ in CASES])
def test_a_rule_that_returns_something_wrong_says_so_wherever_it_runs(
    rule: str, mistake: str, uses: Mapping[str, Callable[[Function], object]]
) -> None:
    """Whoever runs the rule gets a ContractError; who doesn't, gets on."""
    reached = 0
    for name, use in uses.items():
        Spoilt.called.clear()
        try:
            use(applied(Spoilt(rule, mistake)))
        except ContractError as error:
            message = str(error)
            assert message.startswith(f"`{rule}` of the primitive 'twice' ({__file__}:"), name
            assert "expected" in message
            assert "The operands are" in message
        else:
            assert not Spoilt.called, f"{name} used what the rule returned"
        reached += bool(Spoilt.called)
    assert reached


@final
@frozen
class Choosy(Primitive):
    """Raises what it is given, by `type_of`."""

    error: type[Exception]
    name: ClassVar[str] = "choosy"

    @override
    def type_of(self, *avals: ShapedArray) -> tuple[ShapedArray, ...]:
        raise self.error("no")


@pytest.mark.parametrize("error", [ValueError, IndexError, ZeroDivisionError])
def test_an_exception_in_type_of_keeps_its_kind_and_says_where_it_is_from(error: type[Exception]) -> None:
    with pytest.raises(error, match="no") as info:
        tj.make_jaxpr(lambda x: bind(Choosy(error), as_array(x)))(X)
    (note,) = info.value.__notes__
    assert note.startswith(f"This came from `type_of` of the primitive 'choosy' ({__file__}:")
    assert note.endswith("for operands (f64[3]). To refuse operands, raise tinyjax.errors.TypingError with a reason.")


def test_a_refusal_stays_as_it_is() -> None:
    with pytest.raises(TypingError, match=r"^no$") as info:
        tj.make_jaxpr(lambda x: bind(Choosy(TypingError), as_array(x)))(X)
    assert not hasattr(info.value, "__notes__")


@final
@frozen
class OfOne(Primitive):
    """Takes one operand, and says so by its signature."""

    name: ClassVar[str] = "of_one"

    @override
    def type_of(self, x: ShapedArray) -> tuple[ShapedArray, ...]:
        return (x,)


def test_another_number_of_operands_is_told() -> None:
    message = (
        "the primitive 'of_one' was applied to 2 operands, \\(f64\\[3\\], f64\\[3\\]\\), but its `type_of` .* takes"
    )
    with pytest.raises(TypingError, match=message):
        tj.make_jaxpr(lambda x: bind(OfOne(), as_array(x), as_array(x)))(X)


@final
@frozen
class Vague(Primitive):
    """Without types: only what doesn't need them is checked."""

    name: ClassVar[str] = "vague"

    @override
    def evaluate(self, *args: HostArray) -> tuple[HostArray, ...]:
        return args

    @override
    def jvp(self, ctx: Context[V], primals: Sequence[V], tangents: Sequence[V | Zero]) -> Outputs[V]:
        return primals, tangents[:-1]


def test_what_has_no_types_is_checked_as_far_as_can_be() -> None:
    def f(x: tj.ArrayLike) -> tuple[tj.Array, ...]:
        return bind(Vague(), as_array(x), as_array(x))

    assert len(f(X)) == 2
    with pytest.raises(ContractError, match="returned 1 tangents; expected 2"):
        tj.jvp(f, (X,), (X,))
    with pytest.raises(MissingRuleError):
        tj.make_jaxpr(f)(X)


@final
@frozen
class Changeable(Primitive):
    """Of another shape where the elements are negative: what depends on elements is checked each time."""

    name: ClassVar[str] = "changeable"
    plain: ClassVar[bool] = True

    @override
    def type_of(self, *avals: ShapedArray) -> tuple[ShapedArray, ...]:
        return avals

    @override
    def evaluate(self, *args: HostArray) -> tuple[HostArray, ...]:
        (x,) = args
        return (x[np.greater_equal(x, 0)],)


def test_a_rule_that_was_right_once_may_be_wrong_for_other_elements() -> None:
    np.testing.assert_array_equal(np.asarray(bind(Changeable(), as_array(X))[0]), X)
    np.testing.assert_array_equal(np.asarray(bind(Changeable(), as_array(X))[0]), X)
    with pytest.raises(ContractError, match=r"shape \(2,\) and dtype float64 as output 0; expected f64\[3\]"):
        bind(Changeable(), as_array(Y))


@final
@frozen
class Odd(Primitive):
    """Declares effects that are none."""

    name: ClassVar[str] = "odd"

    @property
    @override
    def effects(self) -> Effects:
        return cast(Effects, {"prints"})

    @override
    def type_of(self, *avals: ShapedArray) -> tuple[ShapedArray, ...]:
        return avals


class Mine(Composite):
    """One of the library's, taken over."""

    built_in = True


def test_weak_types_and_subclasses_of_the_librarys_primitives() -> None:
    """Whether a result is weak is no part of the contract; a class of a user's is one, whatever it derives from."""
    (out,) = bind(Twice(), as_array(2.0), as_array(1.0))[:1]
    assert out.aval.weak_type
    assert not Spoilt.built_in
    assert not Mine.built_in
    assert Composite.built_in


def test_the_effects_of_a_primitive_are_checked_too() -> None:
    with pytest.raises(ContractError, match=r"`effects` of the primitive 'odd'.* is a set; expected a frozenset"):
        tj.eval_shape(lambda x: bind(Odd(), as_array(x)), X)


@pytest.mark.parametrize(
    "args", [(2.0, 3.0), (np.float64(2.0), 3.0), (np.array(2.0), as_array(3.0)), (2.0, np.array(3.0))]
)
def test_bind_takes_numbers_and_numpy_arrays(args: tuple[tj.ArrayLike, ...]) -> None:
    assert float(bind(mul, *args)[0]) == 6
    x, y = args
    assert float(tj.jit(lambda a: bind(mul, a, y)[0])(x)) == 6
    assert float(tj.grad(lambda a: bind(mul, y, a)[0])(x)) == 3
    np.testing.assert_array_equal(tj.vmap(lambda a: bind(mul, a, x)[0])(np.array([1.0, 2.0])), [2, 4])
    with pytest.raises(InputError, match="'x'"):
        bind(mul, "x", 2.0)  # type: ignore[arg-type]


#: What a decomposition or a rule in a table may do to what it should return.
OUTPUTS: Final[dict[str, Mistake]] = {
    name: VALUES[name]
    for name in ("None", "a generator", "a bare value", "too few", "too many", "a number", "an Array")
}


@final
@frozen
class Sums(Composite):
    """Two sums, spoilt."""

    mistake: str
    name: ClassVar[str] = "sums"

    @override
    def decompose(self, ctx: Context[V], *args: V) -> Sequence[V]:
        (x,) = args
        found = [*ctx.bind(add, x, x), *ctx.bind(add, x, x)]
        if self.mistake == "none":
            return found
        return cast("Sequence[V]", OUTPUTS[self.mistake](found, cast("Context[object]", ctx)))


@pytest.mark.parametrize("mistake", sorted(OUTPUTS.keys() - {"too few"}))
def test_decompositions_are_checked(mistake: str) -> None:
    bind(Sums("none"), X)
    for use in (
        lambda f: f(X),
        lambda f: tj.jit(f)(X),
        lambda f: tj.make_jaxpr(f)(X),
        lambda f: tj.jvp(f, (X,), (X,)),
        lambda f: tj.grad(lambda x: tnp.sum(f(x)))(X),
        lambda f: tj.vmap(f)(batch_of(X)),
    ):
        with pytest.raises(ContractError, match=rf"`decompose` of the primitive 'sums' \({__file__}:\d+\) returned"):
            use(lambda x: bind(Sums(mistake), x)[0])


@final
@frozen
class Pair(Primitive):
    """Its operand, twice."""

    name: ClassVar[str] = "pair"

    @override
    def type_of(self, *avals: ShapedArray) -> tuple[ShapedArray, ...]:
        return avals * 2


def pair(x: tj.ArrayLike) -> tuple[tj.Array, ...]:
    return bind(Pair(), x)


@pytest.mark.parametrize("mistake", sorted(OUTPUTS.keys() | {"another shape"}))
def test_lowering_rules_are_checked(mistake: str) -> None:
    rules = RuleTable("Translation", name="mine", parent=hlo.RULES)

    @rules.register(Pair)
    def lower(
        primitive: Pair, ctx: hlo.LoweringContext, args: Sequence[hlo.SSA], types: Sequence[ShapedArray]
    ) -> Sequence[hlo.SSA]:
        found = [*args, *args]
        return cast("Sequence[hlo.SSA]", VALUES[mistake](found, cast("Context[object]", ctx)))

    program = tj.make_jaxpr(pair)(X)
    with pytest.raises(
        ContractError, match=rf"the rule `mine\[Pair\]` \({__file__}:\d+\) for the primitive 'pair' ret"
    ):
        hlo.lower(program, rules=rules)
    rules[Pair] = lambda primitive, ctx, args, types: [*args, *args]
    assert "return %arg0, %arg0" in hlo.lower(program, rules=rules)


@pytest.mark.parametrize("mistake", ["None", "a generator", "a bare value", "too few", "too many"])
def test_rules_of_interpreters_are_checked(mistake: str) -> None:
    entries = dict(INTERVAL_RULES.own)
    try:

        @INTERVAL_RULES.register(Pair)
        def bounds_of_pair(primitive: Pair, ctx: object, args: Sequence[Interval]) -> Sequence[Interval]:
            found = [*args, *args]
            return cast("Sequence[Interval]", VALUES[mistake](found, cast("Context[object]", ctx)))

        with pytest.raises(ContractError, match=r"`tinyjax.interpreters.INTERVAL_RULES\[Pair\]` \(.* returned"):
            bounds(pair)(X, X + 1)
    finally:
        INTERVAL_RULES.own.clear()
        INTERVAL_RULES.own.update(entries)


def test_what_jit_evaluates_on_the_host_is_checked() -> None:
    """XLA calls it, and the error comes through."""
    with pytest.raises(ContractError, match=r"`evaluate` of the primitive 'twice' .* returned None; expected a tuple"):
        np.asarray(tj.jit(applied(Spoilt("evaluate", "None")))(X))
