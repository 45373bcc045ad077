"""Registration of classes as nodes of trees, in JAX's registry: so they are trees for JAX and its libraries too."""

from __future__ import annotations

import dataclasses
import inspect
from collections.abc import Callable, Hashable, Iterable, Iterator, Sequence
from contextlib import contextmanager
from operator import attrgetter
from typing import Any, Final, Protocol, TypeAlias, TypeVar  # Any: of users' own nodes

import attrs
import numpy as np

from tinyjax.errors import TreeError
from tinyjax.tracing.array import Array
from tinyjax.tracing.tree import tree_util

T = TypeVar("T")
Class = TypeVar("Class", bound=type[Any])
Aux = TypeVar("Aux", bound=Hashable)
#: The children of a node, each with its key.
KeyedChildren: TypeAlias = Iterable[tuple[Any, Any]]

#: Where attrs keeps the hash of an object of a class with `cache_hash`.
_CACHED_HASH: Final = "_attrs_cached_hash"
_FACTORY: Final[object] = type(attrs.Factory(list))


class Flattens(Protocol):
    """A class that says itself how it is taken apart and put together."""

    def tree_flatten(self) -> tuple[Iterable[Any], Any]: ...
    @classmethod
    def tree_unflatten(cls, aux_data: Any, children: Iterable[Any], /) -> Any: ...


class FlattensWithKeys(Protocol):
    """The same with a key for each child."""

    def tree_flatten_with_keys(self) -> tuple[Iterable[tuple[Any, Any]], Any]: ...
    @classmethod
    def tree_unflatten(cls, aux_data: Any, children: Iterable[Any], /) -> Any: ...


Flattening = TypeVar("Flattening", bound=type[Flattens])
KeyedFlattening = TypeVar("KeyedFlattening", bound=type[FlattensWithKeys])


def register_pytree_node(
    nodetype: type[T],
    flatten_func: Callable[[T], tuple[Iterable[Any], Aux]],
    unflatten_func: Callable[[Aux, Any], T],
    flatten_with_keys_func: Callable[[T], tuple[KeyedChildren, Aux]] | None = None,
) -> None:
    """Makes the instances of a class nodes of trees; those of its subclasses are not.

    `flatten_func` gives the children and what else there is to know, which must be hashable and comparable, as programs
    are found by it; `unflatten_func` takes these, in the other order. It must accept any objects as children.
    `flatten_with_keys_func` gives pairs of keys and children, for paths in messages and `map_with_path`. A TreeError if
    the class is a node already.

    >>> class Interval:
    ...     def __init__(self, low, high):
    ...         self.low, self.high = low, high
    >>> register_pytree_node(
    ...     Interval, lambda x: ((x.low, x.high), None), lambda _, children: Interval(*children)
    ... )
    >>> from tinyjax import tree
    >>> tree.leaves({"x": Interval(1.0, 2.0)})
    [1.0, 2.0]
    """
    _check("register_pytree_node", nodetype)
    for what, function in (("flatten_func", flatten_func), ("unflatten_func", unflatten_func)):
        if not callable(function):
            raise TreeError(f"register_pytree_node: {what} must be a function, got {function!r}")
    with _once("register_pytree_node", nodetype):
        tree_util().register_pytree_node(nodetype, flatten_func, unflatten_func, flatten_with_keys_func)


def register_pytree_with_keys(
    nodetype: type[T],
    flatten_with_keys: Callable[[T], tuple[KeyedChildren, Aux]],
    unflatten_func: Callable[[Aux, Any], T],
    flatten_func: Callable[[T], tuple[Iterable[Any], Aux]] | None = None,
) -> None:
    """The same as `register_pytree_node`, by a function that gives keys too; `flatten_func` may save time."""
    _check("register_pytree_with_keys", nodetype)
    with _once("register_pytree_with_keys", nodetype):
        tree_util().register_pytree_with_keys(nodetype, flatten_with_keys, unflatten_func, flatten_func)


def register_pytree_node_class(cls: Flattening) -> Flattening:
    """Registers a class, as a decorator, that has methods `tree_flatten()` and `tree_unflatten(aux_data, children)`."""
    _check("register_pytree_node_class", cls)
    _needs("register_pytree_node_class", cls, "tree_flatten", "tree_unflatten")
    with _once("register_pytree_node_class", cls):
        tree_util().register_pytree_node_class(cls)
    return cls


def register_pytree_with_keys_class(cls: KeyedFlattening) -> KeyedFlattening:
    """Registers a class, as a decorator, that has methods `tree_flatten_with_keys()` and `tree_unflatten(aux_data,
    children)`."""
    _check("register_pytree_with_keys_class", cls)
    _needs("register_pytree_with_keys_class", cls, "tree_flatten_with_keys", "tree_unflatten")
    with _once("register_pytree_with_keys_class", cls):
        tree_util().register_pytree_with_keys_class(cls)
    return cls


def register_static(cls: Class) -> Class:
    """Registers a class, as a decorator, whose instances are nodes without children: `jit` takes them as they are.

    They must be comparable by value, as programs are found by them, and should not change afterwards.
    """
    _check("register_static", cls)
    with _once("register_static", cls):
        tree_util().register_static(cls)
    return cls


def register_dataclass(
    nodetype: Class,
    data_fields: Sequence[str] | None = None,
    meta_fields: Sequence[str] | None = None,
    drop_fields: Sequence[str] = (),
) -> Class:
    """Registers a dataclass, also as a decorator: its fields are the children.

    Those which `dataclasses.field(metadata={"static": True})` marks, or which are named in `meta_fields`, are not: they
    must be hashable, and belong to the structure, as names and sizes do. With `data_fields` and `meta_fields`, the
    class may also be any whose constructor takes its attributes by name. `drop_fields` are left to their defaults.
    Children are put back by the constructor, which must accept any objects. A TreeError if fields are missing, or the
    class is a node already.

    >>> import dataclasses
    >>> @register_dataclass
    ... @dataclasses.dataclass
    ... class Layer:
    ...     weights: object
    ...     name: str = dataclasses.field(metadata={"static": True})
    >>> from tinyjax import tree
    >>> tree.map(lambda x: 2 * x, Layer(3.0, "dense"))
    Layer(weights=6.0, name='dense')
    """
    _check("register_dataclass", nodetype)
    data, meta = _given("register_dataclass", data_fields, meta_fields)
    is_dataclass = dataclasses.is_dataclass(nodetype)
    if data is None or meta is None:
        if not is_dataclass:
            advice = "use register_attrs" if attrs.has(nodetype) else "name data_fields and meta_fields"
            raise TreeError(f"register_dataclass: {nodetype.__name__} is no dataclass; {advice}")
        fields = [field for field in dataclasses.fields(nodetype) if field.name not in drop_fields]
        for field in fields:
            if not field.init:
                raise TreeError(
                    f"register_dataclass: {nodetype.__name__}.{field.name} is no argument of the constructor "
                    "(init=False), so nodes that are put together again lose what it holds: name it in drop_fields, if "
                    "they may"
                )
        data = tuple(field.name for field in fields if not field.metadata.get("static", False))
        meta = tuple(field.name for field in fields if field.metadata.get("static", False))
    own = dataclasses.fields(nodetype) if is_dataclass else ()
    known = {field.name for field in own if field.init or field.name in drop_fields} if is_dataclass else None
    _check_fields("register_dataclass", nodetype, data, meta, drop_fields, known)
    tree_util().register_dataclass(nodetype, data, meta, drop_fields)
    return nodetype


def register_attrs(
    nodetype: Class,
    data_fields: Sequence[str] | None = None,
    meta_fields: Sequence[str] | None = None,
    drop_fields: Sequence[str] = (),
) -> Class:
    """Registers an attrs class, also as a decorator: its fields are the children.

    Those which `attrs.field(metadata={"static": True})` marks, or which are named in `meta_fields`, are not: they must
    be hashable, and belong to the structure. A node is put together again field by field: converters, validators and
    `__attrs_post_init__` don't run, which expect arrays where there may be anything. `drop_fields` are left to their
    defaults. A TreeError if fields are missing, or the class is a node already.

    >>> import attrs
    >>> @register_attrs
    ... @attrs.frozen
    ... class Layer:
    ...     weights: object
    ...     name: str = attrs.field(metadata={"static": True})
    >>> from tinyjax import tree
    >>> tree.map(lambda x: 2 * x, Layer(3.0, "dense"))
    Layer(weights=6.0, name='dense')
    """
    _check("register_attrs", nodetype)
    fields = {field.name: field for field in _attrs_fields(nodetype)}
    data, meta = _given("register_attrs", data_fields, meta_fields)
    if data is None or meta is None:
        kept = [field for field in fields.values() if field.name not in drop_fields]
        data = tuple(field.name for field in kept if not field.metadata.get("static", False))
        meta = tuple(field.name for field in kept if field.metadata.get("static", False))
    _check_fields("register_attrs", nodetype, data, meta, drop_fields, set(fields))
    dropped = [(name, fields[name].default) for name in drop_fields]
    for name, default in dropped:
        if default is attrs.NOTHING:
            raise TreeError(f"register_attrs: {nodetype.__name__}.{name} is dropped, but has no default")

    register = tree_util()
    keys = tuple(map(register.GetAttrKey, data))
    names = (*data, *meta)
    read_data, read_meta = _reader(data), _reader(meta)
    caches_hash = _CACHED_HASH in getattr(getattr(nodetype.__hash__, "__code__", None), "co_names", ())
    put = object.__setattr__

    def flatten(node: object) -> tuple[tuple[object, ...], tuple[object, ...]]:
        return read_data(node), read_meta(node)

    def flatten_with_keys(node: object) -> tuple[tuple[tuple[object, object], ...], tuple[object, ...]]:
        return tuple(zip(keys, read_data(node), strict=True)), read_meta(node)

    def unflatten(aux: tuple[object, ...], children: Iterable[object]) -> object:
        node: object = object.__new__(nodetype)
        for name, value in zip(names, (*children, *aux), strict=True):
            put(node, name, value)
        for name, default in dropped:
            put(node, name, _default(default, node))
        if caches_hash:
            put(node, _CACHED_HASH, None)
        return node

    register.register_pytree_node(nodetype, flatten, unflatten, flatten_with_keys)
    return nodetype


def _attrs_fields(cls: type) -> Sequence[attrs.Attribute[object]]:
    if not attrs.has(cls):
        advice = "use register_dataclass" if dataclasses.is_dataclass(cls) else "decorate it by attrs.frozen"
        raise TreeError(f"register_attrs: {cls.__name__} is no attrs class; {advice}")
    found: Sequence[attrs.Attribute[object]] = attrs.fields(cls)
    return found


def _default(default: object, node: object) -> object:
    if type(default) is not _FACTORY:
        return default
    factory: Callable[..., object] = getattr(default, "factory")  # noqa: B009 (attrs says that it is what it makes)
    return factory(node) if getattr(default, "takes_self", False) else factory()


def _reader(names: tuple[str, ...]) -> Callable[[object], tuple[object, ...]]:
    """A function that reads these attributes."""
    if len(names) > 1:
        return attrgetter(*names)
    return lambda node: tuple([getattr(node, name) for name in names])


# What is checked before JAX's registry is touched.


def is_node(cls: type) -> bool:
    """Whether instances of a class are nodes of trees."""
    known: bool = tree_util().is_tree_node(cls)
    return known or _is_named_tuple(cls)


def _check(what: str, cls: object) -> None:
    """A TreeError unless this is a class that can become a node."""
    if not inspect.isclass(cls):
        raise TreeError(f"{what} registers classes, got {cls!r}")
    # Subclasses of Python's numbers may be nodes: it is the class itself that is looked up.
    if issubclass(cls, Array | np.ndarray | np.generic) or cls in (bool, int, float, complex, str):
        raise TreeError(f"{what}: {cls.__name__} is a leaf, not a node")
    # A named tuple is a node, and may be made another one, once: JAX tells.
    if tree_util().is_tree_node(cls) and not _is_named_tuple(cls):
        raise _twice(what, cls)


@contextmanager
def _once(what: str, cls: type) -> Iterator[None]:
    """Scope this, JAX is told of a class."""
    try:
        yield
    except ValueError as error:
        raise (_twice(what, cls) if _is_named_tuple(cls) else error) from None


def _is_named_tuple(cls: type) -> bool:
    return issubclass(cls, tuple) and hasattr(cls, "_fields")


def _twice(what: str, cls: type) -> TreeError:
    return TreeError(
        f"{what}: {cls.__module__}.{cls.__qualname__} is registered already, here or with JAX; "
        "a class is registered once"
    )


def _needs(what: str, cls: type, *methods: str) -> None:
    missing = [name for name in methods if not hasattr(cls, name)]
    if missing:
        raise TreeError(f"{what}: {cls.__name__} has no method {' and '.join(missing)}")


def _given(
    what: str, data_fields: Sequence[str] | None, meta_fields: Sequence[str] | None
) -> tuple[tuple[str, ...] | None, tuple[str, ...] | None]:
    """The lists of fields: both, or none."""
    for name, fields in (("data_fields", data_fields), ("meta_fields", meta_fields)):
        if isinstance(fields, str):
            raise TreeError(f"{what}: {name} is a sequence of names, got {fields!r}; write ({fields!r},)")
    if (data_fields is None) != (meta_fields is None):
        missing = "data_fields" if data_fields is None else "meta_fields"
        raise TreeError(f"{what}: data_fields and meta_fields come together, and {missing} is missing; it may be ()")
    if data_fields is None or meta_fields is None:
        return None, None
    return tuple(data_fields), tuple(meta_fields)


def _check_fields(
    what: str,
    cls: type,
    data: tuple[str, ...],
    meta: tuple[str, ...],
    dropped: Sequence[str],
    known: set[str] | None,
) -> None:
    """A TreeError unless each field is named once. `known`: those that the class has, where it says so."""
    if isinstance(dropped, str):
        raise TreeError(f"{what}: drop_fields is a sequence of names, got {dropped!r}; write ({dropped!r},)")
    named = [*data, *meta, *dropped]
    twice = sorted({name for name in named if named.count(name) > 1})
    if twice:
        raise TreeError(f"{what}: {', '.join(twice)} of {cls.__name__} is named twice")
    if known is None:
        return
    unknown = [name for name in named if name not in known]
    if unknown:
        raise TreeError(f"{what}: {cls.__name__} has no field {', '.join(unknown)}; it has {', '.join(sorted(known))}")
    missing = sorted(known.difference(named))
    if missing:
        raise TreeError(
            f"{what}: {', '.join(missing)} of {cls.__name__} is missing: every field belongs to data_fields, "
            "meta_fields or drop_fields"
        )
