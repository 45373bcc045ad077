"""How programs of JAX become ours: equation by equation, programs within programs without recursion."""

from __future__ import annotations

from collections import Counter
from collections.abc import Callable, Generator, Sequence
from typing import Final, TypeAlias, TypeVar, final

import jax
from attrs import field, frozen
from jax.extend.core import ClosedJaxpr as JaxClosedJaxpr
from jax.extend.core import Jaxpr as JaxJaxpr
from jax.extend.core import JaxprEqn
from jax.extend.core import Literal as JaxLiteral
from jax.extend.core import Var as JaxVar

from tinyjax.api.make_jaxpr import make_jaxpr
from tinyjax.backend import jax_programs
from tinyjax.contexts.staging import StagingContext
from tinyjax.control.call import Call
from tinyjax.control.callbacks import DebugCallback, IOCallback, PureCallback
from tinyjax.control.custom_derivatives import CustomJvp, CustomVjp
from tinyjax.control.recursion import Enclosing
from tinyjax.errors import TinyjaxError, TypingError, UnsupportedError
from tinyjax.interop.host_calls import JaxCallback, vmap_method
from tinyjax.interop.jax_context import struct
from tinyjax.interop.keys import HOLDING, ON_KEYS
from tinyjax.interop.missing import missing
from tinyjax.interop.parameters import generic
from tinyjax.interop.policies import from_jax_policy
from tinyjax.interop.rules import bwd_program, fwd_program, jvp_program
from tinyjax.interop.types import constant_of, type_of
from tinyjax.ir.aval import ShapedArray
from tinyjax.ir.dtypes import KEY, SUPPORTED, UINT32
from tinyjax.ir.interpret import interpret
from tinyjax.ir.literals import python_scalar
from tinyjax.ir.primitive import Primitive
from tinyjax.ir.program import Atom, Jaxpr, Literal
from tinyjax.ir.shared_types import array_type
from tinyjax.ir.tangents import has_tangent
from tinyjax.ir.text.registry import Record
from tinyjax.ir.type_lists import all_match, listed
from tinyjax.primitives.constant import Constant
from tinyjax.primitives.conversion import convert
from tinyjax.primitives.keys import RandomUnwrap, RandomWrap
from tinyjax.random.rejection import random_gamma
from tinyjax.registered.jax_expansions import EXPANSIONS, STANDARD

T = TypeVar("T")
#: How many rules of one function, each for other arguments, are imported within each other.
_MAX_DEPTH: Final = 4


@final
@frozen(eq=False)
class OpenRule:
    """A rule that is being imported. `key` and `body` tell whose it is; `seen` collects the equations in it that apply
    the function itself, which `recursive` allows to stand for it."""

    key: tuple[object, ...]
    body: Jaxpr
    recursive: bool = True
    seen: list[JaxprEqn] = field(factory=list)


@final
@frozen(eq=False)
class Request:
    """A program to import. Without `consts`, its constants become its first inputs. `rules` are those it is a part of,
    innermost first."""

    jaxpr: JaxJaxpr
    consts: tuple[object, ...] | None
    rules: tuple[OpenRule, ...]


#: A computation that asks for programs within the one that it imports.
Step: TypeAlias = Generator[Request, Jaxpr, T]


@final
class Importer:
    """Imports one program. Programs that JAX shares are imported once; what is missing is marked in its place."""

    __slots__ = ("_done", "_kept", "types")

    def __init__(self) -> None:
        #: Types that are missing, by the places where they are met.
        self.types: Counter[str] = Counter()
        self._done: dict[tuple[object, ...], Jaxpr] = {}
        self._kept: list[Request] = []  # what `_done` identifies by id

    def run(self, jaxpr: JaxJaxpr) -> Jaxpr:
        """The program; its constants feed the first inputs."""
        stack = [(self._program(Request(jaxpr, None, ())), Request(jaxpr, None, ()))]
        found: Jaxpr | None = None
        while True:
            step, request = stack[-1]
            try:
                wanted = next(step) if found is None else step.send(found)
            except StopIteration as stop:
                stack.pop()
                result: Jaxpr = stop.value
                self._done[_key(request)] = found = result
                if not stack:
                    return result
                continue
            found = self._done.get(_key(wanted))
            if found is None:
                self._kept.append(wanted)
                stack.append((self._program(wanted), wanted))

    def _program(self, request: Request) -> Step[Jaxpr]:
        jaxpr = request.jaxpr
        ctx = StagingContext()
        env: dict[JaxVar, Atom] = {}
        inputs = [*jaxpr.constvars, *jaxpr.invars] if request.consts is None else jaxpr.invars
        for var in inputs:
            env[var] = ctx.argument(self._type(var.aval, "inputs"))
        if request.consts is not None:
            for var, const in zip(jaxpr.constvars, request.consts, strict=True):
                env[var] = self._constant(ctx, const, self._type(var.aval, "constants"))
        for eqn in jaxpr.eqns:
            ctx.cursor.source = jax_programs.line_of(eqn)
            args = [self._read(ctx, env, atom) for atom in eqn.invars]
            outs = yield from self._equation(ctx, eqn, args, request.rules)
            env.update(zip(eqn.outvars, outs, strict=True))
        ctx.cursor.source = None
        results = []
        for atom in jaxpr.outvars:
            aval, out = self._type(atom.aval, "results"), self._read(ctx, env, atom)
            results.append(convert(ctx, out, out.aval.dtype, aval.weak_type) if _weaker(out, aval) else out)
        return ctx.finish(results).jaxpr

    def _equation(
        self, ctx: StagingContext, eqn: JaxprEqn, args: list[Atom], rules: tuple[OpenRule, ...]
    ) -> Step[Sequence[Atom]]:
        name = eqn.primitive.name
        expected = [self._type(var.aval, name) for var in eqn.outvars]
        try:
            outs = yield from self._applied(ctx, eqn, args, expected, rules)
            found = [out.aval for out in outs]
            if all_match(found, expected):
                return outs
            raise TypingError(f"it gives {listed(found)}, but in JAX {listed(expected)}")
        except (TinyjaxError, LookupError) as error:
            what = name if isinstance(error, _NoSuchPrimitiveError) else f"{name}: {first_line(error)}"
            return ctx.bind(missing(what, expected, jax_programs.line_of(eqn)), *args)

    def _applied(
        self, ctx: StagingContext, eqn: JaxprEqn, args: list[Atom], expected: Sequence[ShapedArray],
        rules: tuple[OpenRule, ...],
    ) -> Step[Sequence[Atom]]:  # fmt: skip
        """The results of an equation."""
        name = eqn.primitive.name
        if name in ("random_wrap", "random_unwrap", "random_clone") and [arg.aval for arg in args] == list(expected):
            return args  # keys that are arrays of integers already
        spelled_out = jax_programs.random_function(eqn)
        if spelled_out is not None:
            args = [ctx.bind(RandomUnwrap(), arg)[0] if arg.aval.dtype == KEY else arg for arg in args]
            program = yield self._spelled_out(spelled_out, args, rules)
            outs = ctx.bind(Call(name, program), *args)
            return [ctx.bind(RandomWrap(), out)[0] if aval.dtype == KEY else out
                    for out, aval in zip(outs, expected, strict=True)]  # fmt: skip
        primitive: Primitive
        if name == "random_gamma" and args[0].aval.dtype == KEY:
            return _gamma(ctx, bool(eqn.params["log_space"]), args)
        if name == "custom_jvp_call":
            primitive = yield from self._custom_jvp(eqn, rules)
        elif name == "custom_vjp_call":
            primitive = yield from self._custom_vjp(eqn, rules)
        elif name in ("pure_callback", "io_callback", "debug_callback"):
            primitive = _callback(eqn, tuple(expected))
        else:
            params = yield from self._parameters(eqn, rules)
            if name in EXPANSIONS:
                return EXPANSIONS[name](ctx, {key: STANDARD.resolve(value) for key, value in params.items()}, args)
            avals = [arg.aval for arg in args]
            expanded = STANDARD.expansion(name, params, avals, expected)
            if expanded is not None:
                return interpret(ctx, expanded, args)
            if name not in STANDARD:
                raise _NoSuchPrimitiveError
            for i, steps in enumerate(STANDARD.conversions(name, avals)):
                for step in steps:
                    (args[i],) = ctx.bind(step, args[i])
            primitive = STANDARD.read(name, params, [arg.aval for arg in args], expected)
        return ctx.bind(primitive, *args)

    def _spelled_out(
        self, function: Callable[..., object], args: Sequence[Atom], rules: tuple[OpenRule, ...]
    ) -> Request:
        closed = jax.make_jaxpr(function)(*[struct(arg.aval) for arg in args])
        return _request(closed, rules)

    # Parameters.

    def _parameters(self, eqn: JaxprEqn, rules: tuple[OpenRule, ...]) -> Step[dict[str, object]]:
        name, params = eqn.primitive.name, dict(eqn.params)
        groups = jax_programs.scan_groups(params) if name == "scan" else None
        if groups is not None:
            del params["ft_in"], params["ft_out"]
            params |= {"num_consts": groups[0], "num_carry": groups[1]}
        params.pop("update_jaxpr", None)
        values: dict[str, object] = {}
        for key, value in params.items():
            if key == "policy":
                values[key] = from_jax_policy(value)
            elif key == "impl":  # of keys: a tuple of functions
                values[key] = generic(value)
            else:
                values[key] = yield from self._value(value, rules)
        if "policy" in params:
            values["name"] = jax_programs.function_name(params["jaxpr"])
        keys = [atom.aval for atom in (*eqn.invars, *eqn.outvars) if jax_programs.is_foreign_key(atom.aval)]
        if keys and name not in HOLDING:
            if name not in ON_KEYS:
                raise UnsupportedError("on typed keys")
            ndim = jax_programs.key_ndim(keys[0])
            return dict(ON_KEYS[name](values, ndim, jax_programs.key_shape(keys[0])[ndim:]))
        return values

    def _value(self, value: object, rules: tuple[OpenRule, ...]) -> Step[object]:
        if isinstance(value, JaxJaxpr | JaxClosedJaxpr):
            return (yield _request(value, rules))
        if isinstance(value, tuple | list):
            items = []
            for item in value:
                items.append((yield from self._value(item, rules)))  # noqa: PERF401 (a generator asks in between)
            names = getattr(value, "_fields", None)
            return (
                tuple(items) if names is None else Record(type(value).__name__, tuple(zip(names, items, strict=True)))
            )
        return generic(value)

    # Custom derivatives.

    def _custom_jvp(self, eqn: JaxprEqn, rules: tuple[OpenRule, ...]) -> Step[Primitive]:
        body, name, n, known = yield from self._custom(eqn, rules)
        if known is not None:
            return known
        key = jax_programs.rule_key(eqn)

        def importing(source: JaxprEqn, opened: OpenRule) -> Step[Jaxpr]:
            rule = _traced(name, lambda: jax_programs.jvp_rule(source))
            program = yield Request(rule.jaxpr, _concrete(name, rule.consts), (opened, *rules))
            captured, args = body.in_avals[:n], body.in_avals[n:]
            return jvp_program(program, captured, args, body.out_avals, rule.out_zeros)

        try:
            derived = yield from self._closed_under(eqn, key, body, importing)
        except _NoRuleError:
            return CustomJvp(name, body, None, n)
        return CustomJvp(name, body, derived, n)

    def _custom_vjp(self, eqn: JaxprEqn, rules: tuple[OpenRule, ...]) -> Step[Primitive]:
        body, name, n, known = yield from self._custom(eqn, rules)
        if known is not None:
            return known
        key = jax_programs.rule_key(eqn)
        captured, args, outs = body.in_avals[:n], body.in_avals[n:], body.out_avals
        returned: list[bool] = []

        def forward(source: JaxprEqn, opened: OpenRule) -> Step[Jaxpr]:
            rule, forwarded = _traced(name, lambda: jax_programs.fwd_rule(source))
            program = yield Request(rule.jaxpr, _concrete(name, rule.consts), (opened, *rules))
            return fwd_program(program, captured, args, len(outs), forwarded)

        def backward(source: JaxprEqn, opened: OpenRule) -> Step[Jaxpr]:
            residuals = [struct(aval) for aval in fwd.out_avals[len(outs) :]]
            _traced(name, lambda: jax_programs.fwd_rule(source))  # JAX asks it for the tree of residuals
            cts = [struct(aval) if has_tangent(aval) else aval.shape for aval in outs]
            rule = _traced(name, lambda: jax_programs.bwd_rule(source, residuals, cts))
            returned[:] = [not zero for zero in rule.out_zeros]
            program = yield Request(rule.jaxpr, _concrete(name, rule.consts), (opened, *rules))
            return bwd_program(program, captured)

        try:
            fwd = yield from self._closed_under(eqn, key, body, forward)
            bwd = yield from self._closed_under(eqn, key, body, backward)
        except _NoRuleError:
            return CustomVjp(name, body, None, None, (), n)
        return CustomVjp(name, body, fwd, bwd, tuple(returned), n)

    def _custom(self, eqn: JaxprEqn, rules: tuple[OpenRule, ...]) -> Step[tuple[Jaxpr, str, int, Primitive | None]]:
        """The function's program, its name, how many of its first operands it closes over; and what stands for it, if
        this is within its own rule, or if rules for ever new arguments are nested too deeply."""
        body = yield _request(eqn.params["call_jaxpr"], rules)
        name, n = jax_programs.function_name(eqn.params["call_jaxpr"]), int(eqn.params["num_consts"])
        key = jax_programs.rule_key(eqn)
        for level, rule in enumerate(rules):
            if rule.recursive and rule.key == key and rule.body == body and not n:
                rule.seen.append(eqn)
                return body, name, n, Enclosing(name, level, body.out_avals)
        if sum(rule.key == key for rule in rules) >= _MAX_DEPTH:
            jvp = eqn.primitive.name == "custom_jvp_call"
            return body, name, n, CustomJvp(name, body, None, n) if jvp else CustomVjp(name, body, None, None, (), n)
        return body, name, n, None

    def _closed_under(
        self,
        eqn: JaxprEqn,
        key: tuple[object, ...],
        body: Jaxpr,
        importing: Callable[[JaxprEqn, OpenRule], Step[Jaxpr]],
    ) -> Step[Jaxpr]:
        """The program of a rule, in which applications of the function itself are references to it.

        JAX doesn't say that two equations apply one function, but where they were written down and what they compute.
        If the rule of an application within the rule is the same program again, a reference is right.
        """
        opened = OpenRule(key, body)
        program = yield from importing(eqn, opened)
        if opened.seen:
            again = yield from importing(opened.seen[0], OpenRule(key, body))
            if again != program:
                program = yield from importing(eqn, OpenRule(key, body, recursive=False))
        return program

    # Operands and types.

    def _type(self, aval: object, place: str) -> ShapedArray:
        try:
            return type_of(aval)
        except (TinyjaxError, TypeError, AttributeError):
            self.types[f"{place} of type {aval}"] += 1
            return array_type((), UINT32)

    def _read(self, ctx: StagingContext, env: dict[JaxVar, Atom], atom: JaxVar | JaxLiteral) -> Atom:
        if isinstance(atom, JaxVar):
            return env[atom]
        return self._constant(ctx, atom.val, self._type(atom.aval, "literals"))

    def _constant(self, ctx: StagingContext, value: object, aval: ShapedArray) -> Atom:
        found = constant_of(value, aval)
        if aval.shape == () and aval.dtype in SUPPORTED:
            return Literal(python_scalar(jax_programs.scalar_of(found.data), aval.dtype), aval)
        return ctx.bind(Constant(found))[0]


def _gamma(ctx: StagingContext, log_space: bool, args: Sequence[Atom]) -> Sequence[Atom]:
    """What is no primitive here: a loop, with a derivative in the second operand."""
    closed = make_jaxpr(lambda key, a: random_gamma(key, a, log_space))(*[arg.aval for arg in args])
    consts = [ctx.bind(Constant(const))[0] for const in closed.consts]
    return ctx.bind(Call("random_gamma", closed.jaxpr), *consts, *args)


class _NoSuchPrimitiveError(UnsupportedError):
    """There is nothing by this name here."""


class _NoRuleError(UnsupportedError):
    """The rule refuses to be traced, with an error of ours: there is none."""


def first_line(error: Exception) -> str:
    return next(iter(str(error).splitlines()), type(error).__name__)


def _weaker(out: Atom, aval: ShapedArray) -> bool:
    return out.aval.weak_type != aval.weak_type and out.aval.matches(aval)


def _request(program: JaxJaxpr | JaxClosedJaxpr, rules: tuple[OpenRule, ...]) -> Request:
    jaxpr = program.jaxpr if isinstance(program, JaxClosedJaxpr) else program
    return Request(jaxpr, tuple(getattr(program, "consts", ())), rules)


def _key(request: Request) -> tuple[object, ...]:
    consts = None if request.consts is None else tuple(map(id, request.consts))
    return id(request.jaxpr), consts, tuple(map(id, request.rules))


def _traced(name: str, trace: Callable[[], T]) -> T:
    """The rule, traced by itself."""
    try:
        return trace()
    except TinyjaxError as error:
        raise _NoRuleError(str(error)) from error
    except jax_programs.TRACING_ERRORS as error:
        raise UnsupportedError(f"the rule of {name!r} can't be traced by itself: {first_line(error)}") from error


def _concrete(name: str, consts: Sequence[object]) -> tuple[object, ...]:
    if any(isinstance(const, jax.core.Tracer) for const in consts):
        raise UnsupportedError(f"the rule of {name!r} closes over a traced value; pass it as an argument")
    return tuple(consts)


def _callback(eqn: JaxprEqn, results: tuple[ShapedArray, ...]) -> Primitive:
    params = eqn.params
    function = JaxCallback(params["callback"])
    if eqn.primitive.name == "pure_callback":
        return PureCallback(function, results, vmap_method(params["vmap_method"]))
    if eqn.primitive.name == "io_callback":
        return IOCallback(function, results, bool(params["ordered"]))
    return DebugCallback(function, results)
