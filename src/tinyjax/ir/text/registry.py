"""Which classes the names in a written program stand for: how text, files and JAX's programs become primitives.

A registry is passed in explicitly. `STANDARD` has the library's own primitives; the packages that define them fill it
when they are imported, as they fill tables of rules. `STANDARD.extended(...)` is a registry with a user's classes too.
"""

from __future__ import annotations

import enum
from collections.abc import Callable, Iterator, Mapping, Sequence
from types import MappingProxyType
from typing import Final, TypeAlias, TypeVar, final

import attrs
from attrs import field, frozen

from tinyjax.deferred import EXPERIMENTAL, FILL_REGISTRY
from tinyjax.errors import RegistryError
from tinyjax.ir.aval import ShapedArray
from tinyjax.ir.primitive import Primitive
from tinyjax.ir.program import Jaxpr
from tinyjax.ir.text.fields import HELD_TYPES
from tinyjax.ir.text.written import (
    Member,
    Record,
    RefRule,
    Unreadable,
    WithValues,
    build,
    member,
    member_of_value,
    unread,
)

__all__ = [
    "STANDARD",
    "Converter",
    "Expander",
    "Member",
    "Reader",
    "Record",
    "RecordReader",
    "Registry",
    "Unreadable",
    "build",
    "unread",
]

T = TypeVar("T")
#: Makes a primitive of the parameters written for it, the types of its operands and the declared types of its results.
#: The parameters are values of the kinds that programs hold; besides, what is left unread: `Record`, `Member` and
#: `Unreadable`.
Reader: TypeAlias = Callable[[Mapping[str, object], Sequence[ShapedArray], Sequence[ShapedArray]], Primitive]
#: Makes a parameter of the fields of a record; those without a name are a tuple, under the name "".
RecordReader: TypeAlias = Callable[[Mapping[str, object]], object]
#: What to apply to each operand, in order, before the primitive, for operands of these types.
Converter: TypeAlias = Callable[[Sequence[ShapedArray]], Sequence[Sequence[Primitive]]]
#: The program that stands for a primitive: like a `Reader`, but several equations.
Expander: TypeAlias = Callable[[Mapping[str, object], Sequence[ShapedArray], Sequence[ShapedArray]], Jaxpr | None]
#: Names that mean something else in text.
_TAKEN: Final = frozenset({"array", "dtype", "inf", "nan", "type"})


@final
@frozen(eq=False)
class _Tables:
    """Classes and functions by name."""

    primitives: dict[str, type[Primitive]] = field(factory=dict)
    classes: dict[str, type] = field(factory=dict)
    readers: dict[str, Reader] = field(factory=dict)
    record_readers: dict[str, RecordReader] = field(factory=dict)
    converters: dict[str, Converter] = field(factory=dict)
    expanders: dict[str, Expander] = field(factory=dict)
    ref_rules: dict[str, RefRule] = field(factory=dict)


@final
class Registry:
    """Classes by name: primitives, and the records and enumerations among their parameters.

    A primitive is read by calling its class with the parameters as fields, unless there is a reader for its name.

    >>> from tinyjax.primitives.structure import ReduceSum
    >>> STANDARD.read("reduce_sum", {"axes": (0, 1)}, [ShapedArray((2, 3), "float32")])
    ReduceSum(axes=(0, 1))
    >>> STANDARD.name_of(ReduceSum), "fourier" in STANDARD
    ('ReduceSum', False)
    """

    __slots__ = ("_fill", "_own", "_tables")

    def __init__(self, parent: Registry | None = None, *, fill: Callable[[], object] | None = None) -> None:
        self._own = _Tables()
        #: What fills the tables, when they are needed.
        self._fill = fill
        #: Its own first, then its parent's.
        self._tables: tuple[_Tables, ...] = (self._own, *(parent.tables if parent is not None else ()))

    @property
    def tables(self) -> tuple[_Tables, ...]:
        """What it consists of; each is filled by who made it only."""
        if self._fill is not None:
            self._fill()
            self._fill = None
        return self._tables

    @property
    def entered(self) -> Mapping[str, type[Primitive]]:
        """The primitives that have been entered so far, by name: for the modules that fill the tables, which can't ask
        for all of them."""
        return MappingProxyType(self._own.primitives)

    def add(self, *classes: type) -> None:
        """Enters primitives, and attrs classes and enumerations that occur among parameters, under their own names.

        Only for who fills a table of their own when their package is imported; everyone else wants `extended`.
        """
        for cls in classes:
            # Much faster than issubclass, which asks all subclasses of an abstract class.
            primitive = Primitive in cls.__mro__
            if not primitive and enum.Enum not in cls.__mro__ and not attrs.has(cls):
                raise RegistryError(f"{cls.__qualname__} is no primitive, attrs class or enumeration")
            name = cls.__name__
            known = next((table.classes[name] for table in self._tables if name in table.classes), None)
            if (known is not None and known is not cls) or name in _TAKEN:
                raise RegistryError(f"the name {name} of {_full_name(cls)} is taken: rename the class")
            if primitive and issubclass(cls, Primitive):
                other = next((t.primitives[cls.name] for t in self._tables if cls.name in t.primitives), None)
                if other is not None and other is not cls:
                    raise RegistryError(
                        f"{_full_name(cls)} and {_full_name(other)} are both primitives called {cls.name!r}: "
                        "rename one of them"
                    )
                self._own.primitives[cls.name] = cls
            self._own.classes[name] = cls

    def read_by(self, *names: str) -> Callable[[Reader], Reader]:
        """A decorator: the function reads the primitives written under these names."""

        def decorate(reader: Reader) -> Reader:
            self._own.readers.update(dict.fromkeys(names, reader))
            return reader

        return decorate

    def read_record_by(self, *names: str) -> Callable[[RecordReader], RecordReader]:
        """A decorator: the function reads the records written under these names."""

        def decorate(reader: RecordReader) -> RecordReader:
            self._own.record_readers.update(dict.fromkeys(names, reader))
            return reader

        return decorate

    def convert_by(self, *names: str) -> Callable[[Converter], Converter]:
        """A decorator: the function says how to convert the operands of the primitives written under these names."""

        def decorate(converter: Converter) -> Converter:
            self._own.converters.update(dict.fromkeys(names, converter))
            return converter

        return decorate

    def expand_by(self, *names: str) -> Callable[[Expander], Expander]:
        """A decorator: the function gives the programs for what is written under these names."""

        def decorate(expander: Expander) -> Expander:
            self._own.expanders.update(dict.fromkeys(names, expander))
            return expander

        return decorate

    def with_refs_by(self, *names: str) -> Callable[[RefRule], RefRule]:
        """A decorator: the function makes equations of values of those that apply these primitives to JAX's Refs."""

        def decorate(rule: RefRule) -> RefRule:
            self._own.ref_rules.update(dict.fromkeys(names, rule))
            return rule

        return decorate

    def extended(self, *classes: type, readers: Mapping[str, Reader] | None = None) -> Registry:
        """A registry that has these classes too, and these readers by the names of what they read. A RegistryError if
        a name is taken."""
        registry = Registry(self)
        registry.add(*classes)
        registry.tables[0].readers.update(readers or {})
        return registry

    def has_reader(self, name: str) -> bool:
        """Whether a function reads this primitive, not its class alone."""
        return self._find_reader(name) is not None or self._find_expander(name) is not None

    def __contains__(self, name: str) -> bool:
        """Whether there is a primitive, a reader or an expansion of this name."""
        tables = (self._find_primitive(name), self._find_reader(name), self._find_expander(name))
        return any(found is not None for found in tables)

    def __iter__(self) -> Iterator[type]:
        """The classes, in the order in which they were entered."""
        for table in reversed(self.tables):
            yield from table.classes.values()

    def primitive(self, name: str) -> type[Primitive]:
        """The primitive of this `name`; a RegistryError if there is none."""
        found = self._find_primitive(name)
        if found is None:
            from difflib import get_close_matches  # only errors need it

            near = get_close_matches(name, [cls.name for cls in self if issubclass(cls, Primitive)], 1)
            hint = f"Did you mean {near[0]!r}? " if near else ""
            raise RegistryError(
                f"there is no primitive {name!r} in the registry. {hint}If it is your own, pass "
                "`registry=ir.STANDARD.extended(TheClass)`."
            )
        return found

    def class_named(self, name: str) -> type:
        """The primitive, record or enumeration whose class has this name; a RegistryError if there is none."""
        found = self._find_class(name)
        if found is None:
            raise RegistryError(
                f"there is no class {name!r} in the registry. If it is your own, pass "
                f"`registry=ir.STANDARD.extended({name})`."
            )
        return found

    def name_of(self, cls: type) -> str:
        """The name by which `class_named` gives this class; a RegistryError if it isn't in the registry."""
        if self._find_class(cls.__name__) is not cls:
            raise RegistryError(
                f"the class {_full_name(cls)} is not in the registry. If it is your own, pass "
                f"`registry=ir.STANDARD.extended({cls.__name__})`."
            )
        return cls.__name__

    def type_named(self, full_name: str) -> type:
        """The class that is itself a parameter, by its module and name: one of the registry's, a number of Python or
        NumPy; a RegistryError if it is none of them."""
        found = HELD_TYPES.get(full_name)
        if found is None:
            found = next((cls for cls in self if _full_name(cls) == full_name), None)
        if found is None:
            raise RegistryError(f"there is no type {full_name!r} in the registry")
        return found

    def read(
        self,
        name: str,
        params: Mapping[str, object],
        in_avals: Sequence[ShapedArray],
        out_avals: Sequence[ShapedArray] = (),
    ) -> Primitive:
        """The primitive written as `name[params]`, applied to operands of these types, with results declared as these.

        A RegistryError if the name is unknown; a ParameterError if the parameters don't fit.
        """
        values = {key: self.resolve(value) for key, value in params.items()}
        reader = self._find_reader(name)
        if reader is not None:
            return reader(values, in_avals, out_avals)
        primitive = build(self.primitive(name), values)
        if not isinstance(primitive, Primitive):
            raise RegistryError(f"{name!r} is no primitive")
        return primitive

    def expansion(
        self,
        name: str,
        params: Mapping[str, object],
        in_avals: Sequence[ShapedArray],
        out_avals: Sequence[ShapedArray] = (),
    ) -> Jaxpr | None:
        """The program to put in the place of `name[params]`, which no primitive of ours is; None if there is none."""
        expander = self._find_expander(name)
        if expander is None:
            return None
        return expander({key: self.resolve(value) for key, value in params.items()}, in_avals, out_avals)

    def conversions(self, name: str, in_avals: Sequence[ShapedArray]) -> Sequence[Sequence[Primitive]]:
        """What to apply to each operand before the primitive, where programs written elsewhere leave it out: JAX's
        elementwise primitives broadcast axes of size 1, and ours don't. The types that `read` is given are those of
        the converted operands."""
        converter = self._find_converter(name)
        return [()] * len(in_avals) if converter is None else converter(in_avals)

    def takes_refs(self, name: str) -> bool:
        """Whether one of JAX's primitives that take Refs has this name."""
        return self._find_ref_rule(name) is not None

    def _find_ref_rule(self, name: str) -> RefRule | None:
        return next((found for table in self.tables if (found := table.ref_rules.get(name)) is not None), None)

    def with_values(
        self, name: str, params: Mapping[str, object], refs: Mapping[int, str], ins: int, outs: int
    ) -> WithValues:
        """The equation of values for one of JAX's with so many operands and results, of which these are Refs; a
        RegistryError if none is known."""
        rule = self._find_ref_rule(name)
        if rule is None:
            raise RegistryError(f"{name} is applied to the Ref {next(iter(refs.values()), '')}, which it can't be")
        return rule(params, refs, ins, outs)

    def resolve(self, value: object) -> object:
        """The value with the records and members that the registry knows in the place of what was written."""
        if isinstance(value, tuple):
            return tuple([self.resolve(item) for item in value])
        if isinstance(value, frozenset):
            return frozenset(self.resolve(item) for item in value)
        if isinstance(value, Member):
            cls = self._find_class(value.enumeration)
            return value if cls is None else member(cls, value.name)
        if isinstance(value, Record):
            fields = tuple([(name, self.resolve(item)) for name, item in value.fields])
            reader = self._find_record_reader(value.name)
            if reader is not None:
                return reader(_by_name(fields))
            cls = self._find_class(value.name)
            if cls is None:
                return Record(value.name, fields)
            if issubclass(cls, enum.Enum):
                return member_of_value(cls, fields)
            return build(cls, dict(fields))
        return value

    def _find_primitive(self, name: str) -> type[Primitive] | None:
        found = next((found for table in self.tables if (found := table.primitives.get(name)) is not None), None)
        return next((cls for cls in _experimental(Primitive) if cls.name == name), None) if found is None else found

    def _find_class(self, name: str) -> type | None:
        found = next((found for table in self.tables if (found := table.classes.get(name)) is not None), None)
        return next((cls for cls in _experimental(object) if cls.__name__ == name), None) if found is None else found

    def _find_reader(self, name: str) -> Reader | None:
        return next((found for table in self.tables if (found := table.readers.get(name)) is not None), None)

    def _find_record_reader(self, name: str) -> RecordReader | None:
        return next((found for table in self.tables if (found := table.record_readers.get(name)) is not None), None)

    def _find_expander(self, name: str) -> Expander | None:
        return next((found for table in self.tables if (found := table.expanders.get(name)) is not None), None)

    def _find_converter(self, name: str) -> Converter | None:
        return next((found for table in self.tables if (found := table.converters.get(name)) is not None), None)


def _by_name(fields: Sequence[tuple[str, object]]) -> Mapping[str, object]:
    """The fields for a reader of records."""
    named = {name: value for name, value in fields if name}
    unnamed = tuple([value for name, value in fields if not name])
    return {"": unnamed, **named} if unnamed else named


def _experimental(base: type[T]) -> Iterator[type[T]]:
    """Classes of `tinyjax.experimental`: every registry finds them by name, none counts them among its own."""
    yield from [cls for cls in EXPERIMENTAL.use() if issubclass(cls, base)]


def _full_name(cls: type) -> str:
    return f"{cls.__module__}.{cls.__qualname__}"


def _fill() -> object:
    return FILL_REGISTRY.use()


#: The library's own primitives, and the classes of their parameters.
STANDARD: Final = Registry(fill=_fill)
