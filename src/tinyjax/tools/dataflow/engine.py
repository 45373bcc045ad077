"""The walk over a program, forwards or backwards, that an analysis is; and what comes of it."""

from __future__ import annotations

from collections.abc import Callable, Iterator, Mapping, Sequence
from functools import partial
from types import MappingProxyType
from typing import Final, Generic, TypeAlias, final

from attrs import frozen
from typing_extensions import override

from tinyjax.collecting import collecting_seldom
from tinyjax.errors import DataflowError
from tinyjax.interpreters.base import Expansions
from tinyjax.ir.holding import AnyProgram, checked
from tinyjax.ir.primitive import Primitive
from tinyjax.ir.printing.display import Block
from tinyjax.ir.printing.shown import Shown
from tinyjax.ir.program import Atom, Eqn, Jaxpr, Var
from tinyjax.ir.rules import RuleTable
from tinyjax.stack import with_room
from tinyjax.tools.dataflow.lattice import Lattice, T

#: No loop goes round more often than this.
_MOST_ROUNDS: Final = 10_000


@final
@frozen(eq=False, repr=False)
class Flow(Shown, Generic[T]):
    """What an analysis found out about a program: a fact for each of its variables, and the same for programs within.

    `facts` are in the order of `Var.index`; `outs` are those of the outputs. A program that is applied in several
    places has a Flow for each: facts there may differ.
    """

    jaxpr: Jaxpr
    facts: tuple[T, ...]
    outs: tuple[T, ...]
    nested: Mapping[int, Mapping[int, Flow[T]]]

    @property
    def ins(self) -> tuple[T, ...]:
        """The facts about the inputs."""
        return self.facts[: len(self.jaxpr.invars)]

    def of(self, variable: Var) -> T:
        """The fact about a variable of this program."""
        return self.facts[variable.index]

    def within(self, position: int) -> Mapping[int, Flow[T]]:
        """What was found in the programs of the equation at this position, by their numbers among its `subjaxprs`.

        Programs that never run, such as branches that can't be taken, are missing. Where the equation's primitive is
        defined by others and has no rule, number 0 is its decomposition.
        """
        return self.nested.get(position, {})

    def walk(self) -> Iterator[Flow[T]]:
        """This record and all within, each once, outer ones first."""
        seen: set[int] = set()
        pending = [self]
        while pending:
            flow = pending.pop()
            if id(flow) not in seen:
                seen.add(id(flow))
                yield flow
                pending += [inner for flows in flow.nested.values() for inner in flows.values()]

    @override
    def _blocks(self) -> Iterator[Block]:
        from tinyjax.tools.dataflow.display import flow_blocks

        yield from flow_blocks(self, "fact", lambda _, fact: str(fact))


@final
class Walk(Generic[T]):
    """What a rule of an analysis can use: the lattice, and the analysis of the programs within its equation."""

    __slots__ = ("_engine", "_found", "lattice")

    def __init__(self, engine: _Engine[T]) -> None:
        self.lattice: Final = engine.lattice
        self._engine = engine
        self._found: dict[int, Flow[T]] = {}

    def apply(self, jaxpr: Jaxpr, facts: Sequence[T], number: int = 0) -> tuple[T, ...]:
        """Analyses a program that the equation applies. Forward: from facts about its inputs to those about its
        outputs; backward the other way round.

        `number` is that of the program among the `subjaxprs` of the primitive. The last analysis under a number is what
        the record shows: in a loop, the one that has settled.
        """
        flow = with_room(partial(self._engine.flow, jaxpr, tuple(facts)))
        self._found[number] = flow
        return flow.outs if self._engine.forward else flow.ins

    def settle(self, eqn: Eqn, before: Sequence[T], after: Sequence[T], rounds: int) -> list[T]:
        """The facts to go into the next round of a loop with: these and those joined, and widened if it takes long."""
        lattice = self.lattice
        joined = list(map(lattice.join, before, after))
        if rounds >= lattice.patience:
            joined = list(map(lattice.widen, before, joined))
        if rounds > _MOST_ROUNDS:
            raise DataflowError(
                f"the facts about {_described(eqn)} keep changing after {_MOST_ROUNDS} rounds. If facts can grow "
                f"without end, define `widen` of {type(lattice).__name__}; and check that join(a, b) covers a and b."
            )
        return joined

    def taken(self) -> Mapping[int, Flow[T]] | None:
        """What was found in programs within the equation, which is done with now."""
        if not self._found:
            return None
        found, self._found = self._found, {}
        return MappingProxyType(dict(sorted(found.items())))


#: Rules take the primitive, the walk, the equation, and facts about its operands (forward) or results (backward). They
#: return facts about its results (forward) or operands (backward).
Rules: TypeAlias = RuleTable[[Walk[T], Eqn, Sequence[T]], Sequence[T]]


@final
class _Engine(Generic[T]):
    """One analysis. Each program is walked once for each list of facts that it is entered with."""

    def __init__(self, lattice: Lattice[T], rules: Rules[T], forward: bool) -> None:
        self.lattice: Final = lattice
        self.forward: Final = forward
        self._rules = rules
        self._default = rules.find(Primitive)
        self._by_class: dict[type[Primitive], Callable[[Primitive, Walk[T], Eqn, Sequence[T]], Sequence[T]]] = {}
        self._expansions = Expansions()
        self._flows: dict[tuple[Jaxpr, int, tuple[T, ...]], Flow[T]] = {}

    def flow(self, jaxpr: Jaxpr, facts: tuple[T, ...]) -> Flow[T]:
        key = (jaxpr, jaxpr.lines, facts)
        found = self._flows.get(key)
        if found is None:
            found = self._flows[key] = self._forward(jaxpr, facts) if self.forward else self._backward(jaxpr, facts)
        return found

    def _forward(self, jaxpr: Jaxpr, ins: tuple[T, ...]) -> Flow[T]:
        _check_number("the inputs", jaxpr.invars, ins)
        constant, walk = self.lattice.constant, Walk(self)
        facts = list(ins)
        nested: dict[int, Mapping[int, Flow[T]]] = {}

        def fact(atom: Atom) -> T:
            return facts[atom.index] if isinstance(atom, Var) else constant(atom)

        for position, eqn in enumerate(jaxpr.eqns):
            facts += self._apply(walk, eqn, [fact(atom) for atom in eqn.invars], len(eqn.outvars))
            taken = walk.taken()
            if taken is not None:
                nested[position] = taken
        return Flow(jaxpr, tuple(facts), tuple(map(fact, jaxpr.outvars)), MappingProxyType(nested))

    def _backward(self, jaxpr: Jaxpr, outs: tuple[T, ...]) -> Flow[T]:
        _check_number("the outputs", jaxpr.outvars, outs)
        lattice, walk = self.lattice, Walk(self)
        facts = [lattice.bottom(var.aval) for var in jaxpr.invars]
        facts += [lattice.bottom(var.aval) for eqn in jaxpr.eqns for var in eqn.outvars]
        nested: dict[int, Mapping[int, Flow[T]]] = {}

        def reach(atoms: Sequence[Atom], found: Sequence[T]) -> None:
            for atom, fact in zip(atoms, found, strict=True):
                if isinstance(atom, Var):
                    facts[atom.index] = lattice.join(facts[atom.index], fact)

        reach(jaxpr.outvars, outs)
        for position in range(len(jaxpr.eqns) - 1, -1, -1):
            eqn = jaxpr.eqns[position]
            reach(eqn.invars, self._apply(walk, eqn, [facts[var.index] for var in eqn.outvars], len(eqn.invars)))
            taken = walk.taken()
            if taken is not None:
                nested[position] = taken
        return Flow(jaxpr, tuple(facts), outs, MappingProxyType(nested))

    def _apply(self, walk: Walk[T], eqn: Eqn, facts: Sequence[T], expected: int) -> Sequence[T]:
        cls = type(eqn.primitive)
        rule = self._by_class.get(cls)
        if rule is None:
            rule = self._rules.find(cls)
            if rule is None:
                raise self._rules.missing_rule(cls)
            self._by_class[cls] = rule
        if rule is self._default and cls.expand is not Primitive.expand:
            expanded = self._expansions.of(eqn)
            if expanded is not None:
                return walk.apply(expanded, facts)
        found = rule(eqn.primitive, walk, eqn, facts)
        if len(found) != expected:
            raise DataflowError(
                f"the {self._rules.kind} rule for '{cls.name}' in {self._rules.name} returned {len(found)} facts about "
                f"{_described(eqn)}, but there are {expected} {'results' if self.forward else 'operands'}"
            )
        return found


def _described(eqn: Eqn) -> str:
    return f"{eqn.primitive.name}" + ("" if eqn.source is None else f" at {eqn.source}")


def _check_number(what: str, variables: Sequence[Atom], facts: Sequence[object]) -> None:
    if len(variables) != len(facts):
        raise DataflowError(f"{len(facts)} facts about {what} of a program that has {len(variables)}")


@collecting_seldom
def forward(program: AnyProgram, lattice: Lattice[T], rules: Rules[T], inputs: Sequence[T] | None = None) -> Flow[T]:
    """What is true of each variable of a program, if `inputs` are true of its inputs: facts flow with the values.

    Without `inputs`, the bottom of each. The constants of a ClosedJaxpr are facts by `Lattice.constant`. Facts are
    carried round loops until they change no more, and joined where branches meet. A primitive without a rule is walked
    by its decomposition, or else falls to the rule for `Primitive`; see `forward_rules`.

    A DataflowError if the number of facts is wrong, or if a loop doesn't settle.
    """
    closed = checked(program, "forward")
    jaxpr, consts = closed.jaxpr, closed.consts
    given = [lattice.bottom(var.aval) for var in jaxpr.invars[len(consts) :]] if inputs is None else inputs
    engine = _Engine(lattice, rules, forward=True)
    return with_room(partial(engine.flow, jaxpr, (*map(lattice.constant, consts), *given)))


@collecting_seldom
def backward(program: AnyProgram, lattice: Lattice[T], rules: Rules[T], outputs: Sequence[T] | None = None) -> Flow[T]:
    """What is true of each variable of a program, if `outputs` are true of its outputs: facts flow against the values,
    from what is computed to what it is computed from, and are joined where a variable is read more than once.

    Otherwise like `forward`; see `backward_rules`.
    """
    jaxpr = checked(program, "backward").jaxpr
    given = [lattice.bottom(atom.aval) for atom in jaxpr.outvars] if outputs is None else outputs
    engine = _Engine(lattice, rules, forward=False)
    return with_room(partial(engine.flow, jaxpr, tuple(given)))
