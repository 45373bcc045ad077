"""Lowering as an interpretation: values are SSA names, and applying a primitive writes lines of StableHLO."""

from __future__ import annotations

import json
from collections import ChainMap, deque
from collections.abc import Callable, Sequence
from typing import NoReturn, TypeAlias, final

import numpy as np
from attrs import frozen
from typing_extensions import override

from tinyjax.contexts.watching import Seen, Watcher
from tinyjax.errors import LeakedTracerError, MissingRuleError
from tinyjax.hlo.called import ORDER, PLACE, HostCall, Place
from tinyjax.hlo.keys import PAIRS, divided, in_words
from tinyjax.hlo.manual import ManualMesh
from tinyjax.hlo.regular import Constants, is_regular
from tinyjax.hlo.text import READABLE_SIZE, dense_text, identifier, results_text, scalar_text, type_text, types_text
from tinyjax.ir import contracts
from tinyjax.ir.aval import ShapedArray
from tinyjax.ir.context import Context
from tinyjax.ir.dtypes import BOOL, UINT8, UINT64, DType, Scalar
from tinyjax.ir.effects import must_stay
from tinyjax.ir.interpret import interpret
from tinyjax.ir.primitive import Primitive
from tinyjax.ir.program import Jaxpr, Literal
from tinyjax.ir.result_types import result_types
from tinyjax.ir.roles import Foreign
from tinyjax.ir.rules import RuleTable
from tinyjax.ir.shapes import Shape
from tinyjax.ir.shared_types import array_type
from tinyjax.ir.source import SourceCursor, is_our_function
from tinyjax.ir.traverse import subjaxprs
from tinyjax.ir.value import ConcreteValue
from tinyjax.meshes.mesh import AbstractMesh, Mesh


@final
@frozen
class SSA:
    """A value of the StableHLO program: its name, such as %12, and its type."""

    name: str
    aval: ShapedArray


#: Writes the inside of a region: from its parameters to what it returns.
Body: TypeAlias = Callable[["LoweringContext", Sequence[SSA]], Sequence[SSA]]
#: A rule takes the primitive, the context to write to, the operands, and the types of the results.
Rule: TypeAlias = Callable[[Primitive, "LoweringContext", Sequence[SSA], Sequence[ShapedArray]], Sequence[SSA]]
LoweringRules: TypeAlias = RuleTable[["LoweringContext", Sequence[SSA], Sequence[ShapedArray]], Sequence[SSA]]


@final
class Module:
    """The functions of a module while it is written: one for each distinct program that is called."""

    __slots__ = (
        "_found",
        "_functions",
        "_numbers",
        "_rules",
        "foreign",
        "host_calls",
        "meshes",
        "on_call",
        "pending",
        "places",
        "watcher",
    )

    def __init__(self, rules: LoweringRules, watcher: Watcher | None = None, located: bool = False) -> None:
        self._rules = rules
        #: Where operations are from, by the numbers that the text has for them; None: it has none.
        self.places: list[Place] | None = [] if located else None
        #: Who notes which rules are applied, if anybody does.
        self.watcher: Watcher | None = watcher
        #: Called when a program has asked for a function. Where somebody watches, it writes the function right away, so
        #: that what is noted is within what asked for it.
        self.on_call: Callable[[], None] = lambda: None
        #: What compiled programs call on the host; the text refers to them by these numbers.
        self.host_calls: dict[HostCall, int] = {}
        self._found: dict[type[Primitive], Rule] = {}
        #: Functions that are called but not written yet. A list of work, so nesting needs no recursion.
        self.pending: deque[tuple[str, Jaxpr, ManualMesh | None, Constants]] = deque()
        self._functions: dict[tuple[Jaxpr, ManualMesh | None, Constants, int], str] = {}
        #: Functions that were given as text, by the name of the one that is called.
        self.foreign: dict[str, str] = {}
        #: The meshes that the text refers to, and their names.
        self.meshes: dict[Mesh, str] = {}
        #: How many functions were asked for by each name; a name with a number counts as asked for too.
        self._numbers: dict[str, int] = {"main": 1}

    def rule(self, cls: type[Primitive]) -> Rule:
        """The rule for a class of primitives; a MissingRuleError if there is none."""
        found = self._found.get(cls)
        if found is None:
            found = self._rules.find(cls)
            if found is None:
                raise self._rules.missing_rule(cls)
            if not is_our_function(found):
                found = _checked(found, self._rules.entry(cls))
            self._found[cls] = found
        return found

    def applied(self, cls: type[Primitive]) -> str:
        """What lowers primitives of a class, for the watcher."""
        return self._rules.entry(cls) or f"{cls.__name__}.expand"

    def host_call(self, call: HostCall) -> int:
        """The number of a call of the host."""
        return self.host_calls.setdefault(call, len(self.host_calls))

    def mesh(self, mesh: Mesh) -> str:
        """The name of a mesh in the text, which has neither devices nor types of axes."""
        count, axes = len(self.meshes), AbstractMesh(mesh.axis_sizes, mesh.axis_names)
        return self.meshes.setdefault(axes, f"mesh_{count}" if count else "mesh")

    def function(self, jaxpr: Jaxpr, name: str, manual: ManualMesh | None = None, consts: Constants = ()) -> str:
        """The name of the function that computes `jaxpr`: `name`, with a number if that is taken. `manual`: where it is
        called, if it communicates there itself. `consts`: inputs that it knows."""
        # Equal programs may be from different lines.
        key = jaxpr, manual, consts, 0 if self.places is None else id(jaxpr)
        known = self._functions.get(key)
        if known is not None:
            return known
        name = base = identifier(name)
        while name in self._numbers:
            number = self._numbers[base]
            self._numbers[base] = number + 1
            name = f"{base}_{number}"
        self._numbers[name] = 1
        self._functions[key] = name
        self.pending.append((name, jaxpr, manual, consts))
        return name


@final
class LoweringContext(Context[SSA]):
    """Writes the body of one function, line by line. Rules call `emit` and the shorthands after it."""

    __slots__ = (
        "_broadcasts",
        "_constants",
        "_count",
        "_order",
        "_place",
        "callees",
        "compared",
        "cursor",
        "lines",
        "made",
        "manual",
        "module",
        "regular",
        "words",
    )

    def __init__(self, module: Module, first_number: int = 0, manual: ManualMesh | None = None) -> None:
        self.cursor: SourceCursor = SourceCursor()
        self.module: Module = module
        #: The mesh on which what is written communicates itself, within a `shard_map`.
        self.manual: ManualMesh | None = manual
        self.lines: list[str] = []
        #: The functions that this one calls, in order.
        self.callees: dict[str, None] = {}
        #: What has made iotas and broadcasts, by their names, and of what.
        self.made: dict[str, tuple[Primitive, Sequence[SSA]]] = {}
        #: The names of comparisons, which way they go, and of what.
        self.compared: dict[str, tuple[str, SSA, SSA]] = {}
        #: The names of constants that XLA takes for an iota or a broadcast before it looks into calls.
        self.regular: dict[str, ConcreteValue] = {}
        #: The words of keys, by the names of these.
        self.words: ChainMap[str, SSA] = ChainMap()
        self._count = first_number
        self._order: SSA | None = None
        #: The name of the place of what is being written, if the module has any.
        self._place: str = ""
        self._constants: dict[Literal, SSA] = {}
        self._broadcasts: dict[tuple[str, Shape], str] = {}

    @property
    def is_divided(self) -> bool:
        """Whether XLA divides what is written among devices: then a sum over everything is a message to all of them."""
        manual = self.manual
        return bool(self.module.meshes) and (manual is None or len(manual.axes) < manual.mesh.ndim)

    @override
    def bind(self, primitive: Primitive, *args: SSA) -> tuple[SSA, ...]:
        watcher = self.module.watcher
        if watcher is None:
            return self._lower(primitive, args)
        rule = self.module.applied(type(primitive))
        with watcher.step("lowering", primitive, rule, list(map(_seen, args))) as outputs:
            outs = self._lower(primitive, args)
            outputs.extend(map(_seen, outs))
        return outs

    def _lower(self, primitive: Primitive, args: Sequence[SSA]) -> tuple[SSA, ...]:
        try:
            rule = self.module.rule(type(primitive))
        except MissingRuleError as error:
            expanded = contracts.expand(primitive, self, args)
            if expanded is not None:
                return tuple(expanded)
            if self.cursor.source is not None:
                error.add_note(f"The equation comes from {self.cursor.source}.")
            raise
        start, source, around = len(self.lines), self.cursor.source, self._place
        if self.module.places is not None:
            self._place = f"{PLACE}{len(self.module.places)}"
            self.module.places.append((primitive, source))
        outs = tuple(rule(primitive, self, args, result_types(primitive, [arg.aval for arg in args])))
        if self._place:
            self._name_lines(start, self._place)
        elif source is not None and source.scope:
            self._name_lines(start, f"{source.scope}/{primitive.name}")
        self._place = around
        return outs

    def _name_lines(self, start: int, name: str) -> None:
        """Says of operations where they are from, as the compiler's messages and profiles show it."""
        for i in range(start, len(self.lines)):
            if ' loc("' not in self.lines[i].rpartition("\n")[2]:  # one of a rule that has bound another primitive
                self.lines[i] += f" loc({json.dumps(name)})"

    @override
    def constant(self, value: ConcreteValue | Literal) -> SSA:
        if isinstance(value, Literal):
            found = self._constants.get(value)
            if found is None:
                text = f"dense<{scalar_text(value.value, value.aval.dtype)}> : {type_text(value.aval)}"
                found = self._constants[value] = self.emit(f"stablehlo.constant {text}", value.aval)
            return found
        aval, elements = value.aval, np.asarray(value.data)
        regular = is_regular(elements)
        if aval.dtype == BOOL and aval.size > READABLE_SIZE and not regular:  # the bytes of booleans aren't portable
            x = self.constant(ConcreteValue(elements.view(UINT8), array_type(aval.shape, UINT8)))
            return self.emit(f"stablehlo.convert {x.name} : ({type_text(x.aval)}) -> {type_text(aval)}", aval)
        found = self.emit(f"stablehlo.constant dense<{dense_text(elements)}> : {type_text(aval)}", aval)
        if regular:
            self.regular[found.name] = value
        return found

    @override
    def aval(self, value: SSA) -> ShapedArray:
        return value.aval

    @override
    def holds(self, value: object) -> bool:
        return isinstance(value, SSA)

    @override
    def lift(self, value: Foreign) -> NoReturn:
        raise LeakedTracerError(
            f"a traced value of type {value.aval} can't enter StableHLO text. Make it an argument of the program."
        )

    def fresh(self) -> str:
        """A name that this function doesn't use yet."""
        count = self._count
        self._count = count + 1
        return f"%{count}"

    def emit(self, operation: str, aval: ShapedArray) -> SSA:
        """Writes an operation with one result, of this type."""
        name = self.fresh()
        self.lines.append(f"    {name} = {operation}")
        return SSA(name, aval)

    def emit_many(self, operation: str, avals: Sequence[ShapedArray]) -> tuple[SSA, ...]:
        """Writes an operation with as many results as `avals`."""
        if len(avals) == 1:
            return (self.emit(operation, avals[0]),)
        if not avals:
            self.lines.append(f"    {operation}")
            return ()
        name = self.fresh()
        self.lines.append(f"    {name}:{len(avals)} = {operation}")
        return tuple(SSA(f"{name}#{i}", aval) for i, aval in enumerate(avals))

    def scalar(self, value: Scalar, dtype: DType) -> SSA:
        """A scalar constant."""
        return self.constant(Literal.of(value, dtype))

    def known(self, x: SSA) -> Literal | None:
        """The scalar that x is, if this function has it as a constant."""
        return next((literal for literal, constant in self._constants.items() if constant is x), None)

    def full(self, value: Scalar, aval: ShapedArray) -> SSA:
        """An array of this type, filled with one value."""
        return SSA(self.filled(self.scalar(value, aval.dtype), aval.shape), aval)

    def filled(self, x: SSA, shape: Shape) -> str:
        """The name of x; for a scalar x where the shape isn't a scalar's, that of x repeated to fill it."""
        if x.aval.shape == shape or x.aval.shape != ():
            return x.name
        key = (x.name, shape)
        found = self._broadcasts.get(key)
        if found is None:
            aval = array_type(shape, x.aval.dtype)
            operation = f"stablehlo.broadcast_in_dim {x.name}, dims = [] : ({type_text(x.aval)}) -> {type_text(aval)}"
            found = self._broadcasts[key] = self.emit(operation, aval).name
        return found

    def region(self, avals: Sequence[ShapedArray], body: Body, end: str = "stablehlo.return") -> str:
        """The text of a region: a block with parameters of these types, which returns what `body` makes of them.

        The body may bind primitives. It can use values from outside only in a region of an operation that allows it,
        such as `stablehlo.case` and `stablehlo.while`. `end` is what returns from it.
        """
        inner = LoweringContext(self.module, self._count, self.manual)
        inner._order, inner.words = self._order, self.words.new_child()
        args = [SSA(inner.fresh(), aval) for aval in avals]
        inner.cursor.source = self.cursor.source
        outs = body(inner, args)
        if self._place:
            inner._name_lines(0, self._place)
        self._count = inner._count  # names must be new within the whole function
        self.callees |= inner.callees
        parameters = ", ".join([f"{arg.name}: {type_text(arg.aval)}" for arg in args])
        header = f"    ^bb0({parameters}):\n" if args else ""
        lines = "\n".join([*inner.lines, inner.results(end, outs)]).replace("\n", "\n  ")
        return f"({{\n{header}  {lines}\n    }})"

    def run(self, jaxpr: Jaxpr, args: Sequence[SSA], name: str) -> Sequence[SSA]:
        """Writes the equations of a program here, or, if it holds programs itself, a call of the function that computes
        it: however deep programs nest, regions don't."""
        if any(map(subjaxprs, [eqn.primitive for eqn in jaxpr.eqns])):
            return self.call(jaxpr, name, args)
        return interpret(self, jaxpr, args)

    def results(self, keyword: str, outs: Sequence[SSA]) -> str:
        """The line that ends a block and says what it returns."""
        if not outs:
            return f"    {keyword}"
        names, types = ", ".join([out.name for out in outs]), ", ".join([type_text(out.aval) for out in outs])
        return f"    {keyword} {names} : {types}"

    def call(self, jaxpr: Jaxpr, name: str, args: Sequence[SSA]) -> Sequence[SSA]:
        """Writes a call of the function that computes `jaxpr`, which the module will contain once."""
        known = tuple([self.regular.get(arg.name) for arg in args]) if self.regular else ()  # written in there
        function = self.module.function(jaxpr, name, self.manual, known if any(known) else ())
        self.callees[function] = None
        self.module.on_call()
        args, avals = self.apart([arg for arg in args if arg.name not in self.regular]), in_words(jaxpr.out_avals)
        ordered = must_stay(jaxpr.effects)
        if ordered:
            args, avals = [self.order(), *args], (ORDER, *avals)
        operands = ", ".join([arg.name for arg in args])
        signature = f"{types_text([arg.aval for arg in args])} -> {results_text(avals)}"
        outs = self.emit_many(f"func.call @{function}({operands}) : {signature}", avals)
        return self.together(self.after_effects(outs) if ordered else outs, jaxpr.out_avals)

    def apart(self, values: Sequence[SSA]) -> list[SSA]:
        """The values, but the words of keys of two words, as functions and loops take them and return them."""
        return [self.words_of(x) if x.aval.dtype in PAIRS else x for x in values]

    def words_of(self, key: SSA) -> SSA:
        """The words of keys of two words, along a new last axis."""
        if key.name not in self.words:
            self.words[key.name] = divided(self, SSA(key.name, array_type(key.aval.shape, UINT64)))
        return self.words[key.name]

    def together(self, values: Sequence[SSA], avals: Sequence[ShapedArray]) -> list[SSA]:
        """The values of these types of what `apart` made of them."""
        return [self.key_of(x, aval) if aval.dtype in PAIRS else x for x, aval in zip(values, avals, strict=True)]

    def key_of(self, x: SSA, aval: ShapedArray) -> SSA:
        """The keys with these words. Those that only their words are asked for don't reach the compiled program."""
        key = self.emit(f"stablehlo.bitcast_convert {x.name} : ({type_text(x.aval)}) -> {type_text(aval)}", aval)
        self.words[key.name] = x
        return key

    def order(self) -> SSA:
        """What the next effect takes, so that it comes after those before it."""
        return self.scalar(0, ORDER.dtype) if self._order is None else self._order

    def after_effects(self, outs: Sequence[SSA]) -> Sequence[SSA]:
        """The values but the first. That makes the effects that follow wait for what returned it."""
        self._order = outs[0]
        return outs[1:]


def _checked(rule: Rule, entry: str | None) -> Rule:
    """A user's rule, whose results are looked at."""

    def lower(
        primitive: Primitive, ctx: LoweringContext, args: Sequence[SSA], types: Sequence[ShapedArray]
    ) -> Sequence[SSA]:
        found = rule(primitive, ctx, args, types)
        return contracts.by_table(entry, rule, primitive, ctx, args, found, typed=True)

    return lower


def _seen(value: SSA) -> Seen:
    return Seen(value.aval, None, f"{value.name}:{value.aval}")
