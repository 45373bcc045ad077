"""Functions of JAX that have derivatives of their own, as ours: their rules are asked in advance, and imported."""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from contextlib import AbstractContextManager
from typing import Final, Protocol, TypeAlias, TypeVar, final

import jax
import numpy as np
from attrs import field, frozen
from jax.extend.core import ClosedJaxpr as JaxClosedJaxpr
from jax.extend.core import JaxprEqn
from jax.extend.core import Var as JaxVar

from tinyjax.api.rules.cases import choices
from tinyjax.backend import jax_programs, jax_rules
from tinyjax.backend.jax_rules import TracedRule
from tinyjax.control.custom_derivatives import CustomJvp, CustomVjp
from tinyjax.control.exported import CallExported
from tinyjax.control.recursion import Enclosing, JvpCase, Refusal, refusal_of
from tinyjax.errors import TinyjaxError, UnsupportedError
from tinyjax.interop.adopted import Adopted, adopted
from tinyjax.interop.jax_context import struct
from tinyjax.interop.open_rules import OpenRule, OpenRules, Shared
from tinyjax.interop.requests import Given, Request, Step, request
from tinyjax.interop.rules import bwd_program, fwd_program, jvp_program, with_captured
from tinyjax.ir.aval import ShapedArray
from tinyjax.ir.dtypes import BOOL, Scalar
from tinyjax.ir.primitive import Primitive
from tinyjax.ir.program import Atom, Jaxpr, Literal
from tinyjax.ir.tangents import has_tangent, spread_marks
from tinyjax.ir.traverse import holds_programs, nested_programs

T = TypeVar("T")
PrimitiveT = TypeVar("PrimitiveT", bound=Primitive)


class Alone(Protocol):
    """Imports what is no part of another program; an UnsupportedError says what is missing."""

    def program(self, closed: JaxClosedJaxpr) -> Jaxpr: ...

    def entered(self) -> AbstractContextManager[None]: ...

    def primitive(self, step: Step[PrimitiveT]) -> PrimitiveT: ...


#: What calls have become, by what equal ones have in common.
Known: TypeAlias = Shared[Primitive]
#: How many rules of one function, each for other arguments, are imported within each other.
_MAX_DEPTH: Final = 4
#: The same for reverse mode, each of which is several times as large as the one that it is within, and for functions
#: with more equations or with programs in them; others are asked when they are needed, unless what they close over has
#: to be there.
_MAX_REVERSE: Final = 2
_MAX_LARGE: Final = 1
_SMALL: Final = 16
#: Of how many arguments every choice is asked about in advance, if the rule tells zeros apart; and not within rules.
_MAX_CHOICES: Final = 2


def derived(
    eqn: JaxprEqn, args: list[Atom], env: Mapping[JaxVar, Atom], rules: OpenRules, alone: Alone, known: Known
) -> Step[tuple[Primitive, list[Atom]]]:
    """The primitive for a call of a function with a derivative of its own, and its operands: those of the equation,
    and what the rules close over. `env` has what has been computed so far. A rule that knows some of the choices only
    of what is differentiated with respect to is asked when one is needed; what it says is imported `alone`. What
    doesn't depend on where the call is becomes `known`, and stands for equal calls."""
    body = yield request(eqn.params["call_jaxpr"], rules)
    own = rules.apart()
    try:
        return (yield from _as_derived(eqn, body, args, env, own, alone, known))
    finally:
        rules.met.update(own.met)


def _as_derived(
    eqn: JaxprEqn, body: Jaxpr, args: list[Atom], env: Mapping[JaxVar, Atom], rules: OpenRules, alone: Alone,
    known: Known,
) -> Step[tuple[Primitive, list[Atom]]]:  # fmt: skip
    """The same, for a call of a `body`."""
    key = (jax_rules.rules_of(eqn), body, alone)
    found = None if rules.rules else known.get(key, rules)  # within no rule, it is what an equal call was
    if found is not None:
        return found, args
    own_key = jax_rules.rule_key(eqn)
    open_already = [rule for _, rule in rules.of(own_key)]
    around = [var for rule in open_already for var in rule.closed_over]
    call = _Call(eqn, body, env, own_key, [var for var in dict.fromkeys(around) if var in env])
    within = _within_itself(call, rules)
    if within is not None:
        primitive, operands = within
        return primitive, [*(env[var] for var in operands), *args]
    if not around and (len(open_already) >= _most_within_itself(call) or _is_up_to_jax(call)):
        return adopted(eqn, body, body.out_avals, alone, _AskedLater(alone)), args
    if rules.rules and not call.closed_over and (found := known.get(key, rules)) is not None:
        return found, args
    primitive = yield from (_custom_jvp(call, rules, None) if call.forward else _custom_vjp(call, rules, None))
    if not call.closed_over and not primitive.refused:
        known.put(key, rules, primitive)
    n = call.captured
    if call.symbolic and primitive.refused and not primitive.special and not call.closed_over:
        return adopted(eqn, body, body.out_avals, alone, _AskedLater(alone)), args
    return primitive, [*args[:n], *(env[var] for var in call.closed_over), *args[n:]]


@final
@frozen
class _AskedLater:
    """The rule of a function that closes over nothing, asked when it is needed: what is differentiated with respect to
    is known then."""

    alone: Alone

    def __call__(self, eqn: JaxprEqn, body: Jaxpr, given: tuple[bool, ...]) -> Primitive:
        call = _Call(eqn, body, {}, jax_rules.rule_key(eqn))
        own = given[call.captured :]
        moving = tuple(mark for mark, aval in zip(own, call.args, strict=True) if has_tangent(aval))
        if call.forward:
            return self.alone.primitive(_custom_jvp(call, OpenRules(), moving))
        return self.alone.primitive(_custom_vjp(call, OpenRules(), moving))


@final
@frozen(eq=False)
class _Call:
    """A call of such a function."""

    eqn: JaxprEqn
    body: Jaxpr
    env: Mapping[JaxVar, Atom]
    #: What calls of the same function have in common.
    key: tuple[object, ...]
    #: What of the program around it the rules close over: one after another, as it is found.
    closed_over: list[JaxVar] = field(factory=list)

    @property
    def forward(self) -> bool:
        """Whether its rule is for forward mode."""
        return self.eqn.primitive.name == "custom_jvp_call"

    @property
    def name(self) -> str:
        return jax_programs.function_name(self.eqn.params["call_jaxpr"])

    @property
    def captured(self) -> int:
        """How many of its first operands the function closes over."""
        return int(self.eqn.params["num_consts"])

    @property
    def symbolic(self) -> bool:
        """Whether the rule tells apart what is known to be zero."""
        return bool(self.eqn.params.get("symbolic_zeros", False))

    @property
    def args(self) -> tuple[ShapedArray, ...]:
        """The types of the arguments, without those of what it closes over."""
        return self.body.in_avals[self.captured :]

    @property
    def all_captured(self) -> list[ShapedArray]:
        """The types of what the function and its rules close over."""
        return [*self.body.in_avals[: self.captured], *(self.env[var].aval for var in self.closed_over)]

    @property
    def whole_body(self) -> Jaxpr:
        """The function's program, which takes also what the rules close over."""
        return with_captured(self.body, self.captured, self.all_captured[self.captured :])

    def asked(self, rule: TracedRule, rules: OpenRules) -> tuple[Request, list[int]]:
        """For the program of a rule, whose first inputs are what it closes over: given by their places."""
        consts: list[object] = []
        places: list[int] = []
        for const in rule.consts:
            found = jax_rules.value_or_variable(const)
            if isinstance(found, JaxVar) and found in self.env:
                if found not in self.closed_over:
                    self.closed_over.append(found)
                places.append(self.closed_over.index(found))
                consts.append(Given(found))
            elif isinstance(found, JaxVar | jax.core.Tracer):
                raise _RefusedError(
                    UnsupportedError(
                        f"the rule of {self.name!r} closes over a traced value that isn't there where {self.name!r} is "
                        "applied; pass it as an argument"
                    )
                )
            else:
                consts.append(found)
        # What only another of its rules closes over, that one needs where this one applies the function again.
        passed = [i for i in range(len(self.closed_over)) if i not in places]
        wanted = Request(rule.jaxpr, tuple(consts), rules, None, tuple(self.closed_over[i] for i in passed))
        return wanted, [self.captured + place for place in (*places, *passed)]


def _within_itself(call: _Call, rules: OpenRules) -> tuple[Primitive, Sequence[JaxVar]] | None:
    """What stands for a call, if this is within its own rule, or if rules for ever new arguments are nested too
    deeply; and what it takes before the operands: all that the rule closes over."""
    body, n = call.body, call.captured
    open_already = rules.of(call.key)
    for level, rule in open_already:
        reached = all(var in call.env for var in rule.closed_over)
        if rule.recursive and rule.body == body and not n and reached:
            rule.seen.append(call.eqn)
            return Enclosing(call.name, level, body.out_avals), tuple(rule.closed_over)
    if len(open_already) < _MAX_DEPTH:
        return None
    if call.forward:
        return CustomJvp(call.name, body, None, n), ()
    return CustomVjp(call.name, body, None, None, (), n), ()


def _most_within_itself(call: _Call) -> int:
    """How many rules of one function are imported within each other that close over nothing."""
    eqns = call.body.eqns
    if len(eqns) > _SMALL or any(holds_programs(eqn.primitive) for eqn in eqns):
        return _MAX_LARGE
    exported = any(isinstance(eqn.primitive, CallExported) for eqn in eqns)  # it has only as many derivatives
    return _MAX_DEPTH if call.forward or exported else _MAX_REVERSE


def _is_up_to_jax(call: _Call) -> bool:
    """Whether the function's program holds primitives that JAX is asked about later, as those of solvers; then its
    rules may be, too, if they close over nothing: programs without such primitives are whole."""
    programs = nested_programs(call.body, key=id)
    opaque = any(isinstance(eqn.primitive, Adopted) for program in programs for eqn in program.eqns)
    return opaque and not jax_rules.may_close_over_traced(call.eqn)


def _custom_jvp(call: _Call, rules: OpenRules, only: tuple[bool, ...] | None) -> Step[CustomJvp]:
    """With the rule for all choices of arguments, as far as there is one; or with that for the `only` one."""
    found: list[tuple[tuple[bool, ...], _Rule]] = []
    refused: list[Refusal] = []
    moving = sum(map(has_tangent, call.args))

    def ask(given: tuple[bool, ...]) -> Step[None]:
        zeros = [call.symbolic and not mark for mark in spread_marks(given, call.args)]
        try:
            rule = yield from _closed_under(call, lambda eqn, opened: importing(eqn, opened, zeros), rules)
        except _RefusedError as error:
            refused.extend(error.refusals(given))
        else:
            found.append((given, rule))

    def importing(eqn: JaxprEqn, opened: OpenRule, zeros: list[bool]) -> Step[_Rule]:
        rule = _traced(lambda: jax_rules.jvp_rule(eqn, zeros))
        wanted, places = call.asked(rule, rules.within(opened))
        program = yield wanted
        return _Rule(program, tuple(places), tuple(zeros), rule.out_zeros)

    whole = (True,) * moving
    several = only is None and call.symbolic and moving <= _MAX_CHOICES and not rules.any()
    closed_over = -1
    while len(call.closed_over) > closed_over:  # once more, if a later one has found more of it
        closed_over = len(call.closed_over)
        found.clear()
        refused.clear()
        for given in choices(moving) if several else [only or whole]:
            yield from ask(given)
    outs = call.body.out_avals
    general, special = None, []
    for given, rule in found:
        nonzero = tuple(not zero for zero, aval in zip(rule.out_zeros, outs, strict=True) if has_tangent(aval))
        marks = tuple(True for _ in nonzero) if given == whole else nonzero
        program = jvp_program(rule.program, call.all_captured, rule.places, call.args, outs, rule.zeros,
                              rule.out_zeros, marks)  # fmt: skip
        if given == whole:
            general = program
        else:
            special.append(JvpCase(given, program, marks))
    return CustomJvp(
        call.name, call.whole_body, general, len(call.all_captured), tuple(special) or None, tuple(refused) or None
    )


def _custom_vjp(call: _Call, rules: OpenRules, only: tuple[bool, ...] | None) -> Step[CustomVjp]:
    """With the rule for when all arguments are differentiated with respect to, or the `only` ones."""
    args, outs = call.args, call.body.out_avals
    given = tuple(map(has_tangent, args)) if only is None else spread_marks(only, args)

    def forward(eqn: JaxprEqn, opened: OpenRule) -> Step[_Rule]:
        rule, forwarded = _traced(lambda: jax_rules.fwd_rule(eqn, given))
        wanted, places = call.asked(rule, rules.within(opened))
        return _Rule((yield wanted), tuple(places), forwarded=forwarded)

    def backward(eqn: JaxprEqn, opened: OpenRule) -> Step[_Rule]:
        types = fwd.residual_types(call.body)
        _traced(lambda: jax_rules.fwd_rule(eqn, given))  # JAX asks it for the tree of residuals
        cts = [struct(aval) if has_tangent(aval) else aval.shape for aval in outs]
        rule = _traced(lambda: jax_rules.bwd_rule(eqn, list(map(struct, types)), cts, fwd.known()))
        wanted, places = call.asked(rule, rules.within(opened))
        return _Rule((yield wanted), tuple(places), out_zeros=rule.out_zeros)

    try:
        while True:
            closed_over = len(call.closed_over)
            fwd = yield from _closed_under(call, forward, rules)
            bwd = yield from _closed_under(call, backward, rules)
            if len(call.closed_over) == closed_over:  # else once more, with what has been found
                break
    except _RefusedError as error:
        refused = error.refusals((True,) * sum(given))
        return CustomVjp(call.name, call.whole_body, None, None, (), len(call.all_captured), None, refused or None)
    captured = call.all_captured
    return CustomVjp(
        call.name,
        call.whole_body,
        fwd_program(fwd.program, captured, fwd.places, call.captured, args, len(outs), fwd.forwarded),
        bwd_program(bwd.program, captured, bwd.places),
        tuple(not zero for zero in bwd.out_zeros),
        len(captured),
    )


@final
@frozen
class _Rule:
    """The program of a rule, and where among what is captured its first inputs are; for which arguments it takes no
    tangents, for which results or arguments it gives none, and which residuals are operands."""

    program: Jaxpr
    places: tuple[int, ...]
    zeros: tuple[bool, ...] = ()
    out_zeros: tuple[bool, ...] = ()
    forwarded: tuple[int | None, ...] = ()

    def residual_types(self, body: Jaxpr) -> list[ShapedArray]:
        """Of a forward rule, the types of all residuals."""
        own = iter(self.program.out_avals[: len(self.program.outvars) - len(body.outvars)])
        return [next(own) if at is None else body.in_avals[at] for at in self.forwarded]

    def known(self) -> dict[int, Scalar | np.generic]:
        """Of a forward rule, the residuals that are numbers of its program."""
        own = iter(self.program.outvars)
        found = [(i, next(own)) for i, at in enumerate(self.forwarded) if at is None]
        return {
            i: x.value if x.aval.weak_type or x.aval.dtype == BOOL else x.aval.dtype.type(x.value)
            for i, x in found
            if isinstance(x, Literal)
        }


def _closed_under(call: _Call, importing: Callable[[JaxprEqn, OpenRule], Step[_Rule]], rules: OpenRules) -> Step[_Rule]:
    """A rule, in which applications of the function itself are references to it.

    JAX doesn't say that two equations apply one function, but where they were written down and what they compute.
    If the rule of an application within the rule is the same program again, which closes over the same, a reference is
    right.
    """
    key, body = call.key, call.body
    opened = OpenRule(key, body, closed_over=call.closed_over)
    rule = yield from importing(call.eqn, opened)
    alike = jax_rules.rules_of(call.eqn) if opened.seen and not call.closed_over else None
    for eqn in opened.seen:
        if alike is not None and jax_rules.rules_of(eqn) == alike:
            continue  # the same functions are asked
        try:
            same = (yield from importing(eqn, OpenRule(key, body, closed_over=call.closed_over))) == rule
        except _RefusedError:  # as where it closes over what is made within the rule
            same = False
        if not same:
            return (yield from importing(call.eqn, OpenRule(key, body, False, call.closed_over)))
    return rule


class _RefusedError(Exception):
    """The rule raised an error: it is for those who need the derivative."""

    def __init__(self, raised: Exception) -> None:
        super().__init__()
        self.raised = raised

    def refusals(self, given: tuple[bool, ...]) -> tuple[Refusal, ...]:
        """What is kept of it. An error of ours says that there is no rule, as a program that JAX had from us may."""
        without = isinstance(self.raised, TinyjaxError) and not isinstance(self.raised, UnsupportedError)
        return () if without else (refusal_of(given, self.raised),)


def _traced(trace: Callable[[], T]) -> T:
    """The rule, traced by itself."""
    try:
        return trace()
    except (RecursionError, MemoryError):
        raise
    except Exception as error:  # whatever a user's rule raises
        raise _RefusedError(error) from error
