"""Rewriting: equations that match a pattern are replaced by others.

A rule looks for a pattern of equations, and says what to compute instead:

>>> from tinyjax.primitives.elementwise import Neg
>>> from tinyjax.transforms.patterns import pattern, variables
>>> (x,) = variables("x")
>>> twice_negated = Rewrite("twice negated", pattern(Neg, pattern(Neg, x)), lambda ctx, match: match[x])
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from itertools import pairwise
from typing import Final, TypeAlias, final

from attrs import frozen
from typing_extensions import override

from tinyjax.contexts.casts import cast_operands
from tinyjax.errors import InputError, RewriteError
from tinyjax.ir.aval import ShapedArray
from tinyjax.ir.context import Context
from tinyjax.ir.effects import must_stay
from tinyjax.ir.holding import ProgramT, changed
from tinyjax.ir.primitive import Primitive
from tinyjax.ir.printing.printer import format_eqn
from tinyjax.ir.program import Atom, Eqn, Jaxpr, Literal, Var
from tinyjax.ir.result_types import result_types
from tinyjax.ir.type_lists import all_match, listed
from tinyjax.ir.value import ConcreteValue
from tinyjax.ir.varying import UnevenError
from tinyjax.primitives.conversion import convert
from tinyjax.transforms.patterns import AnyLiteral, Apply, Match, Number, Several, orders
from tinyjax.transforms.rebuild import (
    Rebuilding,
    bottom_up,
    constant_atom,
    count_reads,
    read,
    without_unread,
)

#: How often rules may apply, one after the other, to what becomes of one equation.
_LIMIT: Final = 100
#: What to compute instead: a value for the one result of the equation, or as many as it has results. None: the equation
#: stays after all.
Replacement: TypeAlias = Callable[[Context[Atom], Match], "Atom | Sequence[Atom] | None"]


@final
@frozen
class Rewrite:
    """A rule: what matches `pattern`, and the guard `where`, is replaced by what `replacement` binds.

    Equations that the pattern reaches through operands must be read by nothing else, so that replacing them saves
    something; with `shared` they may be, and stay then. Equations with effects never match.
    """

    name: str
    pattern: Apply[Primitive]
    replacement: Replacement
    where: Callable[[Match], bool] | None = None
    shared: bool = False


def rewrite(program: ProgramT, rules: Sequence[Rewrite]) -> ProgramT:
    """The program with equations replaced that match a rule, also within the programs in it.

        { lambda ; a:f64[]. let b:f64[] = neg a; c:f64[] = neg b; d:f64[] = sin c in (d,) }      # neg (neg x) -> x
        { lambda ; a:f64[]. let b:f64[] = sin a in (b,) }

    Equations are visited in order, and the first rule that matches applies; then rules are tried on what it bound. What
    nothing reads any more disappears. The time is that of trying, for each equation, the rules for its primitive.

    A replacement must have the shape and dtype of what it replaces, else there is a RewriteError; if only the weak mark
    differs, it is converted. There is one too if rules go on applying to each other's results.
    """
    given: object = rules
    found = [rule for rule in given if isinstance(rule, Rewrite)] if isinstance(given, Sequence) else None
    if found is None or len(found) != len(rules):
        raise InputError(f"rewrite: rules is a tuple or list of `tinyjax.transforms.Rewrite`, not {rules!r}")
    return changed(program, "rewrite", Rewriter(found))


@final
@frozen
class _Order:
    """One order of operands of a rule's pattern. `heads` rules out most equations at once: it has the positions of the
    operands that are computed by a certain class of primitives, or are literals (None)."""

    rule: Rewrite
    pattern: Apply[Primitive]
    heads: tuple[tuple[int, type[Primitive] | None], ...]
    arity: int | None


def _order(rule: Rewrite, pattern: Apply[Primitive]) -> _Order:
    heads: list[tuple[int, type[Primitive] | None]] = []
    several = False
    for i, operand in enumerate(pattern.operands):
        match operand:
            case Apply():
                heads.append((i, operand.primitive))
            case AnyLiteral() | Number():
                heads.append((i, None))
            case Several():
                several = True
            case _:
                pass
    return _Order(rule, pattern, tuple(heads), None if several else len(pattern.operands))


@final
class Rewriter:
    """Rules, arranged by the primitive that their patterns end in: to rewrite one program after another with."""

    __slots__ = ("_found", "_orders")

    def __init__(self, rules: Sequence[Rewrite]) -> None:
        self._orders = tuple(_order(rule, pattern) for rule in rules for pattern in orders(rule.pattern))
        self._found: dict[type[Primitive], tuple[_Order, ...]] = {}

    def __call__(self, jaxpr: Jaxpr) -> Jaxpr:
        """The program, rewritten at every depth."""
        return bottom_up(jaxpr, self.rewrite_one)

    def rewrite_one(self, jaxpr: Jaxpr) -> Jaxpr:
        """The program, rewritten without those within it."""
        return _Rewriting(jaxpr, self).run()

    def orders_for(self, cls: type[Primitive]) -> tuple[_Order, ...]:
        """Those that can match an equation of this primitive."""
        found = self._found.get(cls)
        if found is None:
            found = tuple(order for order in self._orders if issubclass(cls, order.pattern.primitive))
            self._found[cls] = found
        return found


@final
class _Rewriting(Context[Atom]):
    """One program being rewritten. As a context, what replacements bind on: rules are tried on that too."""

    __slots__ = ("_applied", "_ctx", "_jaxpr", "_producers", "_reads", "_rewriter", "cursor")

    def __init__(self, jaxpr: Jaxpr, rewriter: Rewriter) -> None:
        self._jaxpr = jaxpr
        self._rewriter = rewriter
        self._ctx = Rebuilding(jaxpr.invars)
        self.cursor = self._ctx.cursor
        self._producers: list[Eqn | None] = [None] * len(jaxpr.invars)
        #: How often each variable of the new program is read, by what is there and by what is still to come.
        self._reads: list[int] = []
        #: The rules that have been applied to the equation at hand.
        self._applied: list[str] = []

    def run(self) -> Jaxpr:
        jaxpr = self._jaxpr
        if not any(self._rewriter.orders_for(cls) for cls in {type(eqn.primitive) for eqn in jaxpr.eqns}):
            return jaxpr
        ctx, producers = self._ctx, self._producers
        counts = count_reads(jaxpr)
        reads = self._reads
        reads += counts[: len(jaxpr.invars)]
        env: list[Atom] = list(jaxpr.invars)
        changed = False
        for eqn in jaxpr.eqns:
            ins = read(env, eqn.invars)
            found = None
            candidates = self._rewriter.orders_for(type(eqn.primitive))
            if candidates:
                self._applied.clear()
                ctx.cursor.source = eqn.source
                found = self._replaced(eqn, ins, candidates)
            if found is None:
                outs = ctx.again(eqn, ins)
                added = ctx.eqns[-1]
                for old in eqn.outvars:
                    producers.append(added)
                    reads.append(counts[old.index])
                env += outs
            else:
                changed = True
                for old, atom in zip(eqn.outvars, found, strict=True):
                    if isinstance(atom, Var):
                        reads[atom.index] += counts[old.index]
                env += found
        if not changed:
            return jaxpr
        return without_unread(ctx.finish(read(env, jaxpr.outvars)))

    def _producer(self, var: Var) -> Eqn | None:
        return self._producers[var.index]

    def _replaced(self, eqn: Eqn, ins: tuple[Atom, ...], candidates: Sequence[_Order]) -> Sequence[Atom] | None:
        """The values that rules put in the place of an equation, which is not there yet, but whose operands are."""
        producers = self._producers
        root: Eqn | None = None
        for order in candidates:
            if order.arity is not None and order.arity != len(ins):
                continue
            for i, cls in order.heads:
                if i >= len(ins):
                    break
                atom = ins[i]
                if cls is None:
                    if not isinstance(atom, Literal):
                        break
                elif isinstance(atom, Literal):
                    break
                else:
                    maker = producers[atom.index]
                    if maker is None or not isinstance(maker.primitive, cls):
                        break
            else:
                if root is None:
                    root = Eqn(eqn.primitive, ins, eqn.outvars, eqn.source)
                found = self._apply(order, root)
                if found is not None:
                    return found
        return None

    def _apply(self, order: _Order, root: Eqn) -> list[Atom] | None:
        rule = order.rule
        if root.primitive.effects and must_stay(root.primitive.effects):
            return None
        match = Match(self._producer, [out.aval for out in root.outvars])
        if not order.pattern.matches_eqn(root, match) or not (rule.shared or self._only_read_here(match)):
            return None
        if any(must_stay(eqn.primitive.effects) for eqn in match.eqns.values()):
            return None
        if rule.where is not None and not rule.where(match):
            return None
        self._applied.append(rule.name)
        if len(self._applied) > _LIMIT:
            raise RewriteError(self._endless(root))
        source = self.cursor.source
        result = rule.replacement(self, match)
        self.cursor.source = source
        if result is None:
            self._applied.pop()
            return None
        results = [result] if isinstance(result, Var | Literal) else list(result)
        read_on = [atom.index for atom in results if isinstance(atom, Var)]
        for index in read_on:
            self._reads[index] += 1
        self._no_longer_read(root)
        for index in read_on:
            self._reads[index] -= 1
        return self._typed(rule, root, results)

    def _only_read_here(self, match: Match) -> bool:
        """Whether what the equations of the match compute is read by these equations only, and not by a variable."""
        # The root comes last, and its results may be read by anything.
        inner = list(match.eqns.values())[:-1]
        return all(self._reads[out.index] == match.reads.get(out.index, 0) for eqn in inner for out in eqn.outvars)

    def _no_longer_read(self, root: Eqn) -> None:
        """Counts the operands of an equation that is replaced as read once less; and so on, if nothing reads them."""
        pending = [root]
        while pending:
            for atom in pending.pop().invars:
                if isinstance(atom, Var):
                    self._reads[atom.index] -= 1
                    maker = self._producers[atom.index]
                    if maker is not None and all(self._reads[out.index] == 0 for out in maker.outvars):
                        pending.append(maker)

    def _typed(self, rule: Rewrite, root: Eqn, results: Sequence[Atom]) -> list[Atom]:
        """The results, which must be of the types of the outputs that they replace."""
        found, expected = [atom.aval for atom in results], [out.aval for out in root.outvars]
        if not all_match(found, expected):
            raise RewriteError(
                f"the rule {rule.name!r} replaces results of types {listed(expected)} by {listed(found)}:\n\n"
                f"    {format_eqn(root)}"
            )
        return [convert(self, atom, aval.dtype, aval.weak_type) for atom, aval in zip(results, expected, strict=True)]

    def _endless(self, root: Eqn) -> str:
        recent = self._applied[-8:]
        shown = recent[-1:] if all(a == b for a, b in pairwise(recent)) else sorted(set(recent))
        what = "the rule" if len(shown) == 1 else "the rules"
        goes = "goes" if len(shown) == 1 else "go"
        names = " and ".join(map(repr, shown))
        return (
            f"{what} {names} {goes} on applying to what becomes of one equation: {_LIMIT} times until this one. A rule "
            f"must not match what rules make of it.\n\n    {format_eqn(root)}"
        )

    @override
    def bind(self, primitive: Primitive, *args: Atom) -> tuple[Atom, ...]:
        try:
            avals = result_types(primitive, [arg.aval for arg in args])
        except UnevenError as uneven:
            return self.bind(primitive, *cast_operands(self, args, uneven.wanted))
        reads = self._reads
        for arg in args:
            if isinstance(arg, Var):
                reads[arg.index] += 1
        candidates = self._rewriter.orders_for(type(primitive))
        if candidates:
            at = len(self._producers)
            outs = tuple([Var(at + i, aval) for i, aval in enumerate(avals)])
            found = self._replaced(Eqn(primitive, args, outs, self.cursor.source), args, candidates)
            if found is not None:
                return tuple(found)
        outs = self._ctx.emit(primitive, args, avals, self.cursor.source)
        self._producers += [self._ctx.eqns[-1]] * len(outs)
        reads += [0] * len(outs)
        return outs

    @override
    def constant(self, value: ConcreteValue | Literal) -> Atom:
        return constant_atom(self, value)

    @override
    def aval(self, value: Atom) -> ShapedArray:
        return value.aval
