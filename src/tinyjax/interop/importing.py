"""How programs of JAX become ours: equation by equation, programs within programs without recursion."""

from __future__ import annotations

from collections import Counter
from collections.abc import Callable, Iterator, Mapping, Sequence
from contextlib import contextmanager, nullcontext
from typing import TypeVar, final

import jax
from attrs import evolve, field, frozen
from jax.extend.core import ClosedJaxpr as JaxClosedJaxpr
from jax.extend.core import Jaxpr as JaxJaxpr
from jax.extend.core import JaxprEqn
from jax.extend.core import Literal as JaxLiteral
from jax.extend.core import Var as JaxVar

from tinyjax.backend import jax_equations, jax_programs
from tinyjax.contexts.casts import cast_operands
from tinyjax.contexts.staging import StagingContext, stage
from tinyjax.control.call import Call
from tinyjax.control.composite_call import entries
from tinyjax.errors import TinyjaxError, TypingError, UnsupportedError
from tinyjax.interop.adopted import Applied, adopted, implementation
from tinyjax.interop.calls_of_exported import called
from tinyjax.interop.custom_rules import Known, PrimitiveT, derived
from tinyjax.interop.hi_primitives import imported as hi_primitive
from tinyjax.interop.host_calls import calling_host
from tinyjax.interop.jax_context import struct
from tinyjax.interop.keys import HOLDING, ON_KEYS
from tinyjax.interop.linear_calls import transposable
from tinyjax.interop.missing import lacks_of, missing, refuse
from tinyjax.interop.open_rules import OpenRules, Shared
from tinyjax.interop.parameters import generic
from tinyjax.interop.policies import Asked, asked, from_jax_policy
from tinyjax.interop.read_before import ReadBefore, Reading, key_of, only_program
from tinyjax.interop.requests import Done, Given, Region, Request, Step, region_of, request, resumed
from tinyjax.interop.rules import no_bits
from tinyjax.interop.shardings import lying
from tinyjax.interop.types import constant_of, type_of
from tinyjax.ir.aval import ShapedArray
from tinyjax.ir.dtypes import FLOAT0, KEYS, SUPPORTED, UINT32
from tinyjax.ir.interpret import interpret
from tinyjax.ir.literals import python_scalar
from tinyjax.ir.primitive import Primitive
from tinyjax.ir.program import Atom, Jaxpr, Literal
from tinyjax.ir.shapes import REDUCED, as_axes
from tinyjax.ir.shared_types import array_type
from tinyjax.ir.text.registry import Record
from tinyjax.ir.traverse import holds_programs, programs_of
from tinyjax.ir.type_lists import all_match, listed
from tinyjax.ir.varying import without
from tinyjax.primitives.constant import Constant
from tinyjax.primitives.conversion import convert
from tinyjax.primitives.keys import RandomUnwrap, RandomWrap, impl_of
from tinyjax.registered.jax_expansions import EXPANSIONS, STANDARD
from tinyjax.transforms.subtracted_maxima import subtracted_maxima

T = TypeVar("T")


@final
class Importer:
    """Imports one program. Programs that JAX shares are imported once; what is missing is marked in its place."""

    __slots__ = ("_asked", "_done", "_implemented", "_kept", "_known", "_read_before", "_region", "_types", "types")

    def __init__(self) -> None:
        #: Types that are missing, by the places where they are met.
        self.types: Counter[str] = Counter()
        self._done: Shared[Jaxpr] = Shared()
        self._known: Known = Shared()
        self._types: dict[object, ShapedArray] = {}  # ours, by JAX's
        self._read_before = ReadBefore()
        self._implemented: dict[tuple[object, ...], JaxClosedJaxpr] = {}  # what other libraries' primitives compute
        self._kept: list[Request] = []  # what `_done` identifies by id
        self._region: Region | None = None  # what the program that goes on now is within
        self._asked: Asked | None = None  # what is asked about its equations

    def run(self, wanted: Request) -> Jaxpr:
        """The program."""
        return subtracted_maxima(self._found(wanted))

    def finish(self, step: Step[T], region: Region | None = None) -> T:
        """What comes of something that asks for programs."""
        found: Jaxpr | None = None
        while True:
            self._region = region
            wanted = resumed(step, found, region)
            if isinstance(wanted, Done):
                return wanted.value
            found = self._found(wanted if wanted.region is not None else evolve(wanted, region=region))

    def _found(self, first: Request) -> Jaxpr:
        stack = [self._begun(first)]
        found: Jaxpr | None = None
        while True:
            step, current, own = stack[-1]
            self._region, self._asked = current.region, current.asked
            wanted = resumed(step, found, current.region)
            if isinstance(wanted, Done):
                stack.pop()
                found = self._read_before.shared(wanted.value)
                self._done.put(current.key, own, found)
                current.rules.met.update(own.met)
                if not stack:
                    return found
                continue
            wanted = evolve(wanted, region=wanted.region or current.region, asked=wanted.asked or current.asked)
            found = self._done.get(wanted.key, wanted.rules)
            if found is None:
                stack.append(self._begun(wanted))

    def _begun(self, wanted: Request) -> tuple[Step[Jaxpr], Request, OpenRules]:
        """What imports a program, for what, and what tells which rules that meets."""
        self._kept.append(wanted)
        own = wanted.rules.apart()
        return self._program(evolve(wanted, rules=own)), wanted, own

    def _program(self, wanted: Request) -> Step[Jaxpr]:
        jaxpr = wanted.jaxpr
        if jax_equations.has_refs(jaxpr):
            return (yield from self._without_refs(wanted))
        ctx = StagingContext()
        env: dict[JaxVar, Atom] = {}
        # From JAX 0.11 on a rule's program has among its inputs what stands beside it as its constants.
        ins = (*jaxpr.constvars, *jaxpr.invars)
        fed, taken = ins[: len(wanted.consts)], ins[len(wanted.consts) :]
        for var, const in zip(fed, wanted.consts, strict=True):
            if isinstance(const, Given):
                env[var] = ctx.argument(self._type(var.aval, "inputs"))
                if const.variable is not None:
                    env[const.variable] = env[var]
        for var in (*wanted.passed, *taken):
            env[var] = ctx.argument(self._type(var.aval, "inputs"))
        for var, const in zip(fed, wanted.consts, strict=True):
            if not isinstance(const, Given):
                env[var] = self._constant(ctx, const, self._type(var.aval, "constants"))
        for eqn in jaxpr.eqns:
            ctx.cursor.source = self._read_before.line(eqn)
            args = [env[x] if isinstance(x, JaxVar) else self._operand(ctx, env, x) for x in eqn.invars]
            key = key_of(eqn, args)
            known = None if self._asked is not None else self._read_before.get(key)
            if known is None or (known.program is not None and not self._holds(eqn, known.program, wanted.rules)):
                outs = yield from self._equation(ctx, eqn, args, env, wanted.rules, key)
            else:
                for i, converting in known.steps:
                    (args[i],) = ctx.bind(converting, args[i])
                outs = ctx.bind(known.primitive, *args)
            env.update(zip(eqn.outvars, outs, strict=True))
        ctx.cursor.source = None
        results = []
        for atom in jaxpr.outvars:
            aval, out = self._type(atom.aval, "results"), self._operand(ctx, env, atom)
            results.append(convert(ctx, out, out.aval.dtype, aval.weak_type) if _weaker(out, aval) else out)
        return ctx.finish(results).jaxpr

    def _without_refs(self, wanted: Request) -> Step[Jaxpr]:
        """A program that makes places and writes to them, as one that passes values on."""
        program = yield request(jax_equations.without_refs(wanted.jaxpr), wanted.rules)
        types = program.in_avals[: len(wanted.consts)]

        def run(ctx: StagingContext, ins: Sequence[Atom]) -> Sequence[Atom]:
            given = iter((*ins[: len(taken)], *ins[len(taken) + len(passed) :]))
            consts = [
                next(given) if isinstance(const, Given) else self._constant(ctx, const, aval)
                for const, aval in zip(wanted.consts, types, strict=True)
            ]
            return interpret(ctx, program, [*consts, *given])

        taken = [aval for const, aval in zip(wanted.consts, types, strict=True) if isinstance(const, Given)]
        passed = [self._type(var.aval, "inputs") for var in wanted.passed]
        return stage([*taken, *passed, *program.in_avals[len(types) :]], run)

    def _equation(
        self, ctx: StagingContext, eqn: JaxprEqn, args: list[Atom], env: Mapping[JaxVar, Atom],
        rules: OpenRules, key: object,
    ) -> Step[Sequence[Atom]]:  # fmt: skip
        name = eqn.primitive.name
        expected = [self._type(var.aval, name) for var in eqn.outvars]
        noted: list[Reading] = []
        try:
            outs = yield from self._applied(ctx, eqn, args, expected, env, rules, noted)
            found = [out.aval for out in outs]
            if all_match(found, expected):
                laid = lying(ctx, eqn, outs)
                if noted and laid is outs:
                    self._read_before.note(key, eqn, noted[0])
                return laid if self._asked is None else self._asked.named(ctx, eqn, laid)
            raise TypingError(f"it gives {listed(found)}, but in JAX {listed(expected)}")
        except (TinyjaxError, LookupError) as error:
            what = name if isinstance(error, _NoSuchPrimitiveError) else f"{name}: {first_line(error)}"
            return ctx.bind(missing(what, expected, jax_programs.line_of(eqn)), *args)

    def _applied(
        self, ctx: StagingContext, eqn: JaxprEqn, args: list[Atom], expected: Sequence[ShapedArray],
        env: Mapping[JaxVar, Atom], rules: OpenRules, noted: list[Reading],
    ) -> Step[Sequence[Atom]]:  # fmt: skip
        """The results of an equation. What equal ones are is noted, if it is the same for all."""
        name = eqn.primitive.name
        if expected and all(aval.dtype.kind == "V" and aval.dtype == FLOAT0 for aval in expected) and not eqn.effects:
            return [no_bits(ctx, aval) for aval in expected]
        if name in ("random_wrap", "random_unwrap", "random_clone") and [arg.aval for arg in args] == list(expected):
            return args  # keys that are arrays of integers already
        spelled_out = jax_programs.random_function(eqn)
        if spelled_out is not None:
            args = [ctx.bind(RandomUnwrap(), arg)[0] if arg.aval.dtype in KEYS else arg for arg in args]
            program = yield self._spelled_out(spelled_out, args, rules)
            outs = ctx.bind(Call(name, program), *args)
            return [ctx.bind(RandomWrap(impl_of(aval.dtype)), out)[0] if aval.dtype in KEYS else out
                    for out, aval in zip(outs, expected, strict=True)]  # fmt: skip
        primitive: Primitive
        if name in ("custom_jvp_call", "custom_vjp_call"):
            primitive, args = yield from derived(eqn, args, env, rules, _Alone(self._region), self._known)
        elif name == "pvary":
            wanted = [
                as_axes((*without(arg.aval.axes, [REDUCED + n for n in eqn.params["axes"]]), *eqn.params["axes"]))
                for arg in args
            ]
            return cast_operands(ctx, args, wanted)  # where JAX's types don't say that a value varies, ours may
        elif name == "custom_vmap_call":
            program = yield request(eqn.params["call"], rules)
            primitive = adopted(eqn, program, expected, _Alone(self._region))
        elif name in ("pure_callback", "io_callback", "debug_callback", "debug_print"):
            primitive = calling_host(eqn, tuple(expected))
        elif name == "call_exported":
            return called(ctx, eqn, args, expected)
        elif name == "call_hi_primitive":
            primitive = hi_primitive(eqn, [arg.aval for arg in args], expected, _Alone(self._region))
        elif name == "custom_lin":
            raise UnsupportedError("forward mode of a custom_vjp function, which JAX can't run; take its vjp")
        elif name == "linear_call":
            primitive, args = yield from transposable(eqn, args, rules)
        else:
            params = yield from self._parameters(eqn, rules)
            if name in EXPANSIONS:
                return EXPANSIONS[name](ctx, {key: STANDARD.resolve(value) for key, value in params.items()}, args)
            avals = [arg.aval for arg in args]
            expanded = STANDARD.expansion(name, params, avals, expected)
            if expanded is not None:
                return interpret(ctx, expanded, args)
            if name not in STANDARD:
                program = yield request(self._implementation(eqn, args), rules)
                return ctx.bind(adopted(eqn, program, expected, _Alone(self._region)), *args)
            steps = [(i, step) for i, steps in enumerate(STANDARD.conversions(name, avals)) for step in steps]
            for i, step in steps:
                (args[i],) = ctx.bind(step, args[i])
            primitive = STANDARD.read(name, params, [arg.aval for arg in args], expected)
            primitive = self._read_before.shared_primitive(primitive)
            only = params["jaxpr"] if self._region is None and only_program(eqn) is not None else None
            held = only if isinstance(only, Jaxpr) else None
            if held is not None or not holds_programs(primitive):
                noted.append(Reading(tuple(steps), primitive, tuple(avals), held))
            return ctx.bind(primitive, *args)
        return ctx.bind(self._read_before.shared_primitive(primitive), *args)

    def _holds(self, eqn: JaxprEqn, program: Jaxpr, rules: OpenRules) -> bool:
        """Whether the program of an equation is this one here, within these rules."""
        found = only_program(eqn)
        return found is not None and self._done.get(request(found, rules, self._region).key, rules) is program

    def _implementation(self, eqn: JaxprEqn, args: Sequence[Atom]) -> JaxClosedJaxpr:
        """What a primitive that another library has defined for JAX computes: traced once for equal equations."""
        avals = tuple([arg.aval for arg in args])
        key = (Applied(eqn), avals, self._region)
        found = self._implemented.get(key)
        if found is None:
            try:
                found = self._implemented[key] = implementation(eqn, avals)
            except LookupError:
                raise _NoSuchPrimitiveError from None
        return found

    def _spelled_out(self, function: Callable[..., object], args: Sequence[Atom], rules: OpenRules) -> Request:
        closed = jax.make_jaxpr(function)(*[struct(arg.aval) for arg in args])
        return request(closed, rules)

    # Parameters.

    def _parameters(self, eqn: JaxprEqn, rules: OpenRules) -> Step[dict[str, object]]:
        name, params = eqn.primitive.name, dict(eqn.params)
        groups = jax_programs.scan_groups(params) if name == "scan" else None
        if groups is not None:
            del params["ft_in"], params["ft_out"]
            params |= {"num_consts": groups[0], "num_carry": groups[1]}
        params.pop("result_avals", None)  # which the results have
        if name != "scatter":  # the name says how elements are combined
            params.pop("update_jaxpr", None)
        values: dict[str, object] = {}
        for key, value in params.items():
            if key == "policy":
                values[key] = from_jax_policy(value)
            elif key == "impl":  # of keys: a tuple of functions
                values[key] = generic(value)
            elif key == "attributes" and name in ("composite", "ffi_call"):
                values[key] = entries(name, jax_equations.attributes(eqn))
            elif key == "jaxpr" and ("policy" in params or name == "shard_map"):
                values[key] = yield evolve(request(value, rules, region_of(eqn)), asked=asked(params))
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

    def _value(self, value: object, rules: OpenRules) -> Step[object]:
        if isinstance(value, JaxJaxpr | JaxClosedJaxpr):
            return (yield request(value, rules))
        if isinstance(value, tuple | list):
            items = []
            for item in value:
                items.append((yield from self._value(item, rules)))  # noqa: PERF401 (a generator asks in between)
            names = getattr(value, "_fields", None)
            return (
                tuple(items) if names is None else Record(type(value).__name__, tuple(zip(names, items, strict=True)))
            )
        return generic(value)

    # Operands and types.

    def _type(self, aval: object, place: str) -> ShapedArray:
        try:
            found = self._types.get(aval)
            if found is None:
                found = self._types[aval] = type_of(aval)
            return found
        except (TinyjaxError, TypeError, AttributeError):
            self.types[f"{place} of type {aval}"] += 1
            return array_type((), UINT32)

    def _operand(self, ctx: StagingContext, env: dict[JaxVar, Atom], atom: JaxVar | JaxLiteral) -> Atom:
        if isinstance(atom, JaxVar):
            return env[atom]
        key, known = self._read_before.literal(atom)
        if known is None:
            found = self._constant(ctx, atom.val, self._type(atom.aval, "literals"))
            if isinstance(found, Literal):
                self._read_before.note_literal(key, found)
            return found
        return known

    def _constant(self, ctx: StagingContext, value: object, aval: ShapedArray) -> Atom:
        found = constant_of(value, aval)
        if aval.shape == () and aval.dtype in SUPPORTED:
            return Literal(python_scalar(jax_programs.scalar_of(found.data), aval.dtype), aval)
        return ctx.bind(Constant(found))[0]


@final
@frozen
class _Alone:
    """Imports what is no part of another program, but may be within a region as one is, and refuses it as a whole. JAX
    has 64-bit types as it had them when the program around it was imported."""

    region: Region | None
    x64: bool = field(factory=jax_programs.x64_enabled)

    @contextmanager
    def entered(self) -> Iterator[None]:
        with jax.enable_x64(self.x64), nullcontext() if self.region is None else self.region.entered():
            yield

    def program(self, closed: JaxClosedJaxpr) -> Jaxpr:
        importer = Importer()
        with jax.enable_x64(self.x64):
            program = importer.run(request(closed, OpenRules(), self.region))
        refuse("from_jax", lacks_of(program, importer.types))
        return program

    def primitive(self, step: Step[PrimitiveT]) -> PrimitiveT:
        importer = Importer()
        with jax.enable_x64(self.x64):
            made = importer.finish(step, self.region)
        for program in programs_of(made):
            refuse("from_jax", lacks_of(program, importer.types))
        return made


class _NoSuchPrimitiveError(UnsupportedError):
    """There is nothing by this name here."""


def first_line(error: Exception) -> str:
    return next(iter(str(error).splitlines()), type(error).__name__)


def _weaker(out: Atom, aval: ShapedArray) -> bool:
    return out.aval.weak_type != aval.weak_type and out.aval.matches(aval)
