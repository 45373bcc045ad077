"""Inlining: the equations of what is called, instead of the call."""

from __future__ import annotations

from collections import Counter
from collections.abc import Callable, Iterator
from typing import Final, TypeAlias, final

from attrs import frozen
from typing_extensions import override

from tinyjax.ir.holding import AnyProgram, ProgramT, as_closed, changed
from tinyjax.ir.primitive import Primitive
from tinyjax.ir.program import Atom, Eqn, Jaxpr
from tinyjax.ir.rules import RuleTable
from tinyjax.ir.traverse import nested_programs
from tinyjax.ir.verify import verify
from tinyjax.transforms.arguments import function, whole
from tinyjax.transforms.rebuild import Rebuilding, bottom_up, read


@final
@frozen
class Inlinable:
    """A program that computes, from the same operands, what a primitive does. `transparent`: and that is all there is
    to the primitive. Otherwise it has a derivative of its own, say, which inlining gives up."""

    jaxpr: Jaxpr
    transparent: bool


#: What can be inlined, and the program that it stands for.
INLINING: Final[RuleTable[[], Inlinable]] = RuleTable("Inlining", name="tinyjax.transforms.INLINING")
#: Says of an equation whether to inline it.
Choice: TypeAlias = Callable[[Eqn], bool]
#: Programs of so many equations are long.
_LONG: Final = 1000


def inline(program: ProgramT, where: Choice | None = None) -> ProgramT:
    """The program with the equations of calls in the place of the calls, also within the programs in it.

        { lambda ; a:f64[]. let b:f64[] = call[jaxpr={ lambda ; a:f64[]. let b:f64[] = sin a in (b,) }] a in (b,) }
        { lambda ; a:f64[]. let b:f64[] = sin a in (b,) }

    `where` chooses among the equations that can be inlined: by default, all calls. A `where` of your own is also asked
    about `custom_jvp`, `custom_vjp`, `custom_vmap` and `checkpoint`, which are only the function then: without its rule
    or its policy. What is called n times is there n times afterwards, so calls of calls of calls can make a large
    program.
    """

    if where is not None:
        function("inline: where", where)

    def flat(jaxpr: Jaxpr) -> Jaxpr:
        return bottom_up(jaxpr, lambda inner: inner, before=lambda inner: _flat(inner, where))

    return changed(program, "inline", flat)


def once_or_small(program: AnyProgram, size: int = 4) -> Choice:
    """A choice for `inline`: calls of what one equation of the program calls, and calls of at most `size` equations.

    The program grows by at most `size` for each of its equations.
    """
    largest = whole("once_or_small: size", size)
    closed = as_closed(program, "once_or_small")
    verify(closed)
    jaxpr = closed.jaxpr
    calls = _Calls()
    sites: Counter[_Distinct] = Counter()
    nested = nested_programs(jaxpr, _Distinct)
    for each in nested:
        sites.update(map(_Distinct, each.inner))
    sizes: dict[_Distinct, int] = {}

    def choice(eqn: Eqn) -> bool:
        callee = calls.of(eqn.primitive)
        if callee is None:
            return False
        key = _Distinct(callee)
        return sites[key] == 1 or sizes.get(key, 0) <= largest

    for each in nested[:-1]:
        # Its size after inlining.
        found = [(_Distinct(callee), choice(eqn)) for eqn in each.eqns
                 if (callee := calls.of(eqn.primitive)) is not None]  # fmt: skip
        sizes[_Distinct(each)] = len(each.eqns) + sum(sizes[callee] - 1 for callee, chosen in found if chosen)
    return choice


@final
class _Distinct:
    """A program as a key, which is its value; long ones are rarely as long as another one, and hashed by that."""

    __slots__ = ("_hash", "_program")

    def __init__(self, program: Jaxpr) -> None:
        self._program = program
        size = len(program.eqns)
        self._hash = hash(program) if size < _LONG else size

    @override
    def __hash__(self) -> int:
        return self._hash

    @override
    def __eq__(self, other: object) -> bool:
        return isinstance(other, _Distinct) and self._program == other._program


@final
class _Calls:
    """What equations call, if they do nothing else: looked up once for a class whether there is anything to call."""

    __slots__ = ("_rules",)

    def __init__(self) -> None:
        self._rules: dict[type[Primitive], Callable[[Primitive], Inlinable] | None] = {}

    def found(self, primitive: Primitive) -> Inlinable | None:
        """What can be inlined in its place."""
        cls = type(primitive)
        if cls not in self._rules:
            self._rules[cls] = INLINING.find(cls)
        rule = self._rules[cls]
        return None if rule is None else rule(primitive)

    def of(self, primitive: Primitive) -> Jaxpr | None:
        """The program."""
        found = self.found(primitive)
        return found.jaxpr if found is not None and found.transparent else None


def _flat(jaxpr: Jaxpr, where: Choice | None) -> Jaxpr:
    """The program with the equations of what it calls, what that calls, and so on."""
    calls = _Calls()
    called: dict[int, Inlinable | None] = {}  # by the identity of primitives, which the programs keep alive

    def chosen(eqn: Eqn) -> Inlinable | None:
        which = id(eqn.primitive)
        found = called[which] if which in called else called.setdefault(which, calls.found(eqn.primitive))
        return found if found is not None and (found.transparent if where is None else where(eqn)) else None

    first = next((i for i, eqn in enumerate(jaxpr.eqns) if chosen(eqn) is not None), None) if jaxpr.inner else None
    if first is None:
        return jaxpr
    ctx = Rebuilding(jaxpr.invars)
    env: list[Atom] = [*jaxpr.invars, *ctx.kept(jaxpr.eqns[:first])]
    # The program at hand and those which call it: its variables so far, what is left of it, and the call's line.
    path: list[tuple[list[Atom], Iterator[Eqn], Jaxpr, Eqn | None]] = [(env, iter(jaxpr.eqns[first:]), jaxpr, None)]
    while True:
        env, left, program, call = path[-1]
        for eqn in left:
            ins = read(env, eqn.invars)
            found = chosen(eqn)
            if found is not None:
                callee = found.jaxpr
                args = [ctx.converted(arg, var.aval) for arg, var in zip(ins, callee.invars, strict=True)]
                path.append((args, iter(callee.eqns), callee, eqn))
                break
            if eqn.source is None and call is not None and call.source is not None:
                env += ctx.emit(eqn.primitive, ins, [var.aval for var in eqn.outvars], call.source)
            else:
                env += ctx.again(eqn, ins)
        else:
            path.pop()
            outs = read(env, program.outvars)
            if call is None:
                return ctx.finish(outs)
            path[-1][0].extend(outs)
