"""What to do with an object that might be a node of a tree, but whose class isn't registered as one: code that runs."""

from __future__ import annotations

import dataclasses
import inspect
import types
from collections.abc import Sequence
from typing import Final

import attrs
import numpy as np

from tinyjax.tracing import tree

#: No trees, whatever their attributes.
_NO_NODES: Final = (
    str,
    bytes,
    type,
    types.ModuleType,
    types.FunctionType,
    types.MethodType,
    types.GeneratorType,
    np.ndarray,
    np.generic,
    BaseException,
)


def how_to_register(x: object) -> str:
    """How the class of an object becomes a node of trees, or what takes the type of an array; "" where neither makes
    sense."""
    try:
        return _hint(x)
    except Exception:  # noqa: BLE001 (of a user's attributes; there is an error to report already)
        return ""


def _hint(x: object) -> str:
    cls = type(x)
    if hasattr(x, "shape") and hasattr(x, "dtype"):
        return " It is the type of an array: what needs no elements, as eval_shape, takes it as an argument."
    if isinstance(x, list | tuple | dict) and cls.__module__ != "builtins":
        return _as_container(cls)
    names = _attributes(x)
    if names is None:
        return ""
    data = [name for name in names if _is_data(getattr(x, name, None))]
    meta = [name for name in names if name not in data]
    parents = [parent.__name__ for parent in cls.__mro__[1:-1] if tree.tree_util().is_tree_node(parent)]
    why = f" ({parents[0]} is registered, but a class inherits no registration)" if parents else ""
    return f"\n\n{cls.__name__} isn't registered as a node of trees{why}. This does it:\n\n{_code(cls, data, meta)}"


def _attributes(x: object) -> list[str] | None:
    """The fields of an object, or its attributes; None if it has none to speak of."""
    cls = type(x)
    if isinstance(x, _NO_NODES) or cls.__module__ == "builtins":
        return None
    if dataclasses.is_dataclass(cls):
        return [field.name for field in dataclasses.fields(cls) if field.init]
    if attrs.has(cls):
        return [field.name for field in attrs.fields(cls)]
    return list(vars(x)) if getattr(x, "__dict__", None) else None


def _is_data(value: object) -> bool:
    """Whether something is an array, or a tree with arrays, or one whose class isn't registered either."""
    leaves = tree.flatten(value)[0]
    return not leaves or any(_is_array(leaf) or _attributes(leaf) is not None for leaf in leaves)


def _is_array(leaf: object) -> bool:
    return isinstance(leaf, int | float | complex | np.ndarray | np.generic) or hasattr(leaf, "dtype")


def _code(cls: type, data: Sequence[str], meta: Sequence[str]) -> str:
    """The registration: of a dataclass, an attrs class, or one whose constructor takes its attributes, in one line."""
    name = cls.__name__
    fields = f", data_fields={list(data)}, meta_fields={list(meta)}"
    if dataclasses.is_dataclass(cls):
        return f"    tinyjax.tree.register_dataclass({name}{fields if meta else ''})"
    if attrs.has(cls):
        return f"    tinyjax.tree.register_attrs({name}{fields if meta else ''})"
    if set(_constructor(cls)) == {*data, *meta}:
        return f"    tinyjax.tree.register_dataclass({name}{fields})"
    return (
        f"    def flatten(node):\n"
        f"        return [getattr(node, name) for name in {list(data)}], tuple(getattr(node, name) for name in "
        f"{list(meta)})\n\n"
        f"    def unflatten(meta, data):\n"
        f"        node = object.__new__({name})\n"
        f"        node.__dict__.update(zip({[*data, *meta]}, [*data, *meta]))\n"
        f"        return node\n\n"
        f"    tinyjax.tree.register_pytree_node({name}, flatten, unflatten)"
    )


def _constructor(cls: type) -> list[str]:
    """The names of the arguments that the constructor takes; none if they can't all be given by name."""
    try:
        parameters = inspect.signature(cls).parameters.values()
    except (TypeError, ValueError):
        return []
    by_name = (inspect.Parameter.POSITIONAL_OR_KEYWORD, inspect.Parameter.KEYWORD_ONLY)
    return [p.name for p in parameters] if all(p.kind in by_name for p in parameters) else []


def _as_container(cls: type) -> str:
    """A subclass of a list, tuple or dict, which JAX looks at as a leaf."""
    name = cls.__name__
    if issubclass(cls, dict):
        flatten, unflatten = (
            "lambda x: (tuple(x.values()), tuple(x))",
            f"lambda keys, values: {name}(zip(keys, values))",
        )
    else:
        flatten, unflatten = "lambda x: (tuple(x), None)", f"lambda _, items: {name}(items)"
    return (
        f"\n\n{name} isn't registered as a node of trees, as a class inherits no registration. This does it:\n\n"
        f"    tinyjax.tree.register_pytree_node({name}, {flatten}, {unflatten})"
    )
