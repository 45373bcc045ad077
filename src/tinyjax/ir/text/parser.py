"""Reads programs as they are printed: the other direction of `printer`. Also those that JAX prints.

The grammar, in which a line that is indented further continues an equation:

    text      = {"let" name "=" (program | array) "in"} program
    program   = "{" "lambda" {binder ["=" array]} ";" {binder} "." "let" {equation} "in" "(" {atom} ")" "}"
    equation  = [{binder} "="] primitive ["[" {key "=" value} "]"] {atom}
    binder    = name ":" type
    atom      = name | number [":" type]

What JAX writes of Refs, `a:f32[] <- b[0]`, is read as values: see `refs`.

Every equation is typed as soon as it is read, so what comes out is a valid program.
"""

from __future__ import annotations

from collections.abc import Generator, Mapping, Sequence
from functools import partial
from typing import NoReturn, TypeAlias, TypeVar, final

from attrs import evolve, field, frozen

from tinyjax.collecting import collecting_seldom
from tinyjax.errors import InputError
from tinyjax.ir.aval import ShapedArray
from tinyjax.ir.declared import check_field
from tinyjax.ir.program import Atom, ClosedJaxpr, Jaxpr
from tinyjax.ir.program_value import well_typed
from tinyjax.ir.text.body import Binder, Body, Head, Known
from tinyjax.ir.text.lexer import Tokens
from tinyjax.ir.text.refs import read_place
from tinyjax.ir.text.registry import STANDARD, Record, Registry, Unreadable, unread
from tinyjax.ir.text.scalars import read_string
from tinyjax.ir.text.scope import Scope
from tinyjax.ir.text.values_parser import Rule, guarded, run, value
from tinyjax.ir.text.written import Stateful, stateful_in
from tinyjax.ir.type_lists import all_match, listed
from tinyjax.ir.value import ConcreteValue

T = TypeVar("T")
#: Part of a rule.
Steps: TypeAlias = "Generator[Rule, object, T]"


@collecting_seldom
def parse(text: str, registry: Registry | None = None, *, file: str | None = None) -> Jaxpr:
    """The program that a text is of: `parse(str(jaxpr)) == jaxpr`. Also reads what JAX prints.

    Primitives are those of `registry`: of `ir.STANDARD` unless another one is given. Constants of a closed program
    become the first inputs; `parse_closed` reads their arrays. With `file`, equations point to its lines. A ParseError,
    which shows the place, if the text is not that of a well-typed program.

    >>> parse("{ lambda ; x:f32[3]. let y:f32[3] = mul x 2.0:f32[] in (y,) }")
    { lambda ; a:f32[3]. let b:f32[3] = mul a 2.0:f32[] in (b,) }
    """
    reader = _Text(Tokens(text, file), registry or STANDARD)
    jaxpr, consts = reader.whole()
    if consts:
        reader.fail_at_start("the text has arrays for its constants; ir.parse_closed reads them")
    return jaxpr


@collecting_seldom
def parse_closed(
    text: str,
    registry: Registry | None = None,
    *,
    consts: Sequence[ConcreteValue] | None = None,
    file: str | None = None,
) -> ClosedJaxpr:
    """The closed program that a text is of: `parse_closed(format_closed(closed)) == closed`.

    `consts` are the constants of a text that has only their types, such as `str(closed)` and what JAX prints.
    """
    reader = _Text(Tokens(text, file), registry or STANDARD)
    jaxpr, arrays = reader.whole()
    types = reader.constants
    if consts is not None:
        if arrays:
            raise InputError("the text has arrays for its constants, so no `consts` are needed")
        arrays = tuple(consts)
    found = [const.aval for const in arrays]
    if not all_match(found, types):
        raise InputError(
            f"the program needs constants of types {listed(types)}, got {listed(found)}. Pass them as `consts`, or "
            "print the program by ir.format_closed, which writes them."
        )
    return ClosedJaxpr(jaxpr, arrays)


@final
@frozen(eq=False)
class _Shared:
    """What the readers of all parts of a text have in common."""

    registry: Registry
    #: Where the text defines something under this name, and what it is as soon as it has been read.
    places: dict[str, int] = field(factory=dict)
    found: dict[str, object] = field(factory=dict)
    open: set[str] = field(factory=set)
    #: Names of primitives that the registry has.
    names: set[str] = field(factory=set)
    #: Parameters by their text.
    heads: dict[str, Mapping[str, object]] = field(factory=dict)
    known: Known = field(factory=Known)


@final
class _Text:
    """A whole text: definitions, then a program."""

    def __init__(self, tokens: Tokens, registry: Registry) -> None:
        self._tokens = tokens
        self._shared = _Shared(registry)
        self.constants: tuple[ShapedArray, ...] = ()

    def fail_at_start(self, problem: str) -> NoReturn:
        self._tokens.fail(problem, 0)

    def whole(self) -> tuple[Jaxpr, tuple[ConcreteValue, ...]]:
        """The program and the arrays of its constants, if the text has them."""
        tokens = self._tokens
        reader = _Programs(tokens, self._shared, top=True)
        jaxpr = run(reader.after_definitions())
        if tokens.kind != "end":
            tokens.fail(f"expected the end of the text after the program, got {tokens.shown()}")
        if not isinstance(jaxpr, Jaxpr):
            raise TypeError(f"{jaxpr!r} is no program")
        self.constants = reader.constants
        return jaxpr, tuple(reader.arrays)


@final
class _Programs:
    """Reads the programs at one place of a text, and those within them."""

    def __init__(self, tokens: Tokens, shared: _Shared, top: bool = False) -> None:
        self.tokens = tokens
        self.registry = shared.registry
        self._shared = shared
        self._top = top
        self.constants: tuple[ShapedArray, ...] = ()
        self.arrays: list[ConcreteValue] = []

    def after_definitions(self) -> Rule:
        """Definitions, then a program, which is read first."""
        tokens = self.tokens
        while tokens.kind == "word" and tokens.text == "let":
            tokens.advance()
            self._note_definition()
        found = yield self.program()
        for name in self._shared.places:
            yield self._definition(name)
        return found

    def nested(self) -> Rule:
        """The same within a parameter: the names are known there only, and those around it aren't."""
        shared = evolve(self._shared, places={}, found={}, open=set())
        return (yield _Programs(self.tokens, shared).after_definitions())

    def _note_definition(self) -> None:
        """Remembers where `name = ... in` is, and goes past it: it is read when it is used, which may be before."""
        tokens, shared = self.tokens, self._shared
        name, start = tokens.text, tokens.start
        if tokens.kind not in ("word", "reference"):
            tokens.fail(f"expected a name to define, got {tokens.shown()}")
        if name in shared.places:
            tokens.fail(f"{name} is defined twice")
        tokens.advance()
        tokens.take("=")
        shared.places[name] = tokens.start
        depth = 0
        while depth or tokens.text != "in" or tokens.kind != "word":
            if tokens.kind == "end":
                tokens.fail(f"the definition of {name} has no end; it is written `let {name} = ... in`", start)
            if tokens.kind == "call" or (tokens.kind == "mark" and tokens.text in "([{"):
                depth += 1
            elif tokens.kind == "mark" and tokens.text in ")]}":
                depth -= 1
            tokens.advance()
        tokens.advance()

    def defined(self, name: str) -> Rule | None:
        """What a definition calls so."""
        return self._definition(name) if name in self._shared.places else None

    def _definition(self, name: str) -> Rule:
        shared = self._shared
        if name not in shared.found:
            place = shared.places[name]
            if name in shared.open:
                self.tokens.fail(f"{name} is defined by itself", place)
            shared.open.add(name)
            tokens = Tokens(self.tokens.source, self.tokens.file, place)
            shared.found[name] = yield value(_Programs(tokens, shared), "")
            if tokens.text != "in":
                tokens.fail(f"expected 'in' after the definition of {name}, got {tokens.shown()}")
        return shared.found[name]

    def program(self) -> Rule:
        """A program, at its opening brace."""
        tokens = self.tokens
        tokens.take("{", "a program: '{ lambda ...'")
        top, self._top = self._top, False
        tokens.take("lambda")
        scope = Scope(tokens, within=not top)
        constants: list[ShapedArray] = []
        while tokens.at_binder():
            place = tokens.start
            aval = scope.bind()
            if not top:
                tokens.fail(
                    "a program within a program has no constants (binders before ';'): make them inputs, after ';', "
                    "and operands of the equation",
                    place,
                )
            constants.append(aval)
            if tokens.skip("="):
                yield self._array(aval)
        if not tokens.skip(";"):
            tokens.fail(f"expected a binder such as 'a:f32[3]', or ';', got {tokens.shown()}")
        if top:
            self.constants = tuple(constants)
            if self.arrays and len(self.arrays) < len(constants):
                tokens.fail("some constants have arrays and others don't")
        while tokens.at_binder():
            scope.bind()
        if not tokens.skip("."):
            tokens.fail(f"expected a binder such as 'a:f32[3]', or '.', got {tokens.shown()}")
        tokens.take("let")
        invars = tuple(scope.invars)
        body = Body(tokens, scope, self.registry, self._shared.known)
        while not tokens.at_outputs():
            yield from self._equation(body)
            tokens.skip(";")
        tokens.advance()
        tokens.take("(", "the outputs: '(a, b)'")
        outs: list[Atom] = []
        while not tokens.skip(")"):
            outs.append(body.atom())
            if not tokens.skip(",") and tokens.text != ")":
                tokens.fail(f"expected ',' or ')', got {tokens.shown()}")
        tokens.take("}")
        refs, last = scope.last
        found = well_typed(Jaxpr(invars, tuple(body.eqns), (*outs, *last)))
        return Stateful(found, refs) if refs and not top else found

    def _array(self, aval: ShapedArray) -> Steps[None]:
        at = self.tokens.start
        array = yield value(self, "")
        if not isinstance(array, ConcreteValue):
            self.tokens.fail("expected the constant's array, written array(type, [elements]), or its name", at)
        if not array.aval.matches(aval):
            self.tokens.fail(f"the array is {array.aval}, but the constant is declared {aval}", at)
        self.arrays.append(array)

    def _equation(self, body: Body) -> Steps[None]:
        tokens = self.tokens
        first = tokens.start
        binders: list[Binder] = []
        while tokens.at_binder():
            binders.append((tokens.start, *body.scope.binder()))
        if (tokens.kind == "arrow" or tokens.text == ",") if len(binders) == 1 else not binders and tokens.at_store():
            self._at_ref(body, binders, first)
            return
        if binders and not tokens.skip("="):
            tokens.fail(f"expected a binder such as 'a:f32[3]', or '=', got {tokens.shown()}")
        at, name = tokens.start, tokens.text
        if not binders and (tokens.kind == "key" or tokens.before_mark("=")):
            name = name.rstrip("=")
            tokens.fail(f"{name} has no type: results are written '{name}:f32[3] = ...'")
        if tokens.kind == "string":
            name = str(guarded(tokens, at, lambda: read_string(tokens.text)))
        elif tokens.kind != "word":
            what = "a primitive" if binders else "an equation, or 'in' and the outputs"
            tokens.fail(f"expected {what}, got {tokens.shown()}")
        tokens.advance()
        if name not in self._shared.names:
            if name not in self.registry and not self.registry.takes_refs(name):
                guarded(tokens, at, lambda: self.registry.primitive(name))
            self._shared.names.add(name)
        head = yield from self._head(name, at)
        refs: dict[int, str] = {}
        operands = self._operands(body, first, refs)
        if refs or stateful_in(head.params):
            body.append_with_refs(head, binders, operands, refs, first)
        else:
            body.append(head, binders, operands, first)

    def _at_ref(self, body: Body, binders: Sequence[Binder], first: int) -> None:
        """Where a Ref is read or written: `a:f32[] <- b[0]`, `b[0] <- a`, `b[0] += a`, `c:f32[], b[0] <- b[0], a`."""
        tokens, scope = self.tokens, body.scope
        swapped = tokens.skip(",")
        if not binders or swapped:
            place = read_place(tokens, scope)
            adding = tokens.text == "+"
            tokens.advance()
            if adding:
                tokens.take("=")
            if swapped:
                body.read_ref(read_place(tokens, scope), binders[0], first)
                tokens.take(",")
            body.write_ref(place, scope.atom("a value"), first, adding=adding)
            return
        tokens.advance()
        body.read_ref(read_place(tokens, scope), binders[0], first)

    def _head(self, name: str, at: int) -> Steps[Head]:
        """The parameters of a primitive, if it has any."""
        tokens, heads = self.tokens, self._shared.heads
        if tokens.kind != "mark" or tokens.text != "[" or tokens.start != tokens.before:
            return Head(name, {}, name, at)
        place, simple = tokens.start, tokens.simple_brackets()
        spelled = name + simple if simple else ""
        params = heads.get(spelled) if simple else None
        if params is not None:
            tokens.seek(place + len(simple))
            return Head(name, params, spelled, at)
        places: dict[str, int] = {}
        params = yield from self._params(name, places)
        if simple:
            heads[spelled] = params
        return Head(name, params, spelled, at, places)

    def _operands(self, body: Body, first: int, refs: dict[int, str]) -> tuple[Atom, ...]:
        """The operands of the equation that begins at `first`: what is on its line or indented further. Those that are
        Refs are noted."""
        tokens = self.tokens
        operands: list[Atom] = []
        while tokens.kind in ("word", "number", "complex", "void") and not tokens.at_outputs():
            if tokens.starts_line() and tokens.column(tokens.start) <= tokens.column(first):
                break
            if body.scope.is_ref(tokens.text):
                refs[len(operands)] = tokens.text
            operands.append(body.atom("an operand"))
        return tuple(operands)

    def _params(self, primitive: str, places: dict[str, int]) -> Steps[Mapping[str, object]]:
        """The parameters of a primitive, in brackets; and, in `places`, where each begins."""
        tokens, registry = self.tokens, self.registry
        tokens.advance()
        params: dict[str, object] = {}
        while not tokens.skip("]"):
            start, key = tokens.start, tokens.text[:-1]
            if tokens.kind != "key":
                tokens.fail(f"expected a parameter such as 'axis=0', or ']', got {tokens.shown()}")
            if key in params:
                tokens.fail(f"the parameter {key!r} is given twice")
            places[key] = start
            tokens.advance()
            at = tokens.start
            raw = yield value(self, key)
            found = params[key] = guarded(tokens, at, partial(registry.resolve, raw))
            if primitive in registry and not registry.has_reader(primitive) and not stateful_in({key: found}):
                self._check_param(primitive, key, found, start, at)
        return params

    def _check_param(self, primitive: str, key: str, found: object, start: int, at: int) -> None:
        tokens, registry = self.tokens, self.registry
        cls = registry.primitive(primitive)
        left = unread(found)
        if isinstance(left, Record):
            guarded(tokens, at, lambda: registry.class_named(left.name))
        if isinstance(left, Unreadable):
            why = "text can't hold" if left.text.startswith("<") else "this is no value:"
            tokens.fail(f"the parameter {key!r} can't be read: {why} {left}", at)
        if left is not None:
            guarded(tokens, at, lambda: registry.class_named(str(left).partition(".")[0]))
        guarded(tokens, start, lambda: check_field(cls, f"primitive {primitive!r}", key, found))
