"""How nodes of users' own classes are written down: what belongs to a node but its children, as bytes."""

from __future__ import annotations

import json
from collections import OrderedDict
from collections.abc import Callable, Sequence
from typing import TYPE_CHECKING, Any, Final, TypeVar  # Any: of users' own nodes

from attrs import frozen

from tinyjax.backend.trees import node_of
from tinyjax.errors import FileFormatError, TreeError
from tinyjax.tracing.tree import flatten
from tinyjax.tree.nodes import is_node

if TYPE_CHECKING:
    from jax.tree_util import PyTreeDef

T = TypeVar("T")


@frozen
class Writing:
    """How the nodes of a class are written down, and made again."""

    nodetype: type
    serialized_name: str
    serialize_auxdata: Callable[[Any], bytes]
    deserialize_auxdata: Callable[[bytes], Any]
    #: Makes a node of what was written and children; None: its structure is made as it was registered.
    from_children: Callable[[Any, Sequence[Any]], Any] | None

    def structure(self, data: bytes, children: Sequence[PyTreeDef]) -> PyTreeDef:
        """The structure of such a node."""
        aux = self.deserialize_auxdata(data)
        kind: type = self.nodetype
        if self.from_children is not None:
            _, treedef = flatten(self.from_children(aux, [0] * len(children)))
            node = treedef.node_data()
            kind, aux = (object, None) if node is None else node
            if kind is not self.nodetype or len(treedef.children()) != len(children):
                raise FileFormatError(
                    f"the node {self.serialized_name!r} is another one here: from_children of {self.nodetype.__name__} "
                    f"made a {kind.__name__} of what was written with {len(children)} children"
                )
        return node_of(kind, aux, children)


#: How classes are written down, by class: a table of rules, filled where classes are defined, as JAX's of nodes is.
WRITINGS: Final[dict[type, Writing]] = {}


def writing_of(name: str) -> Writing:
    """How a class with this name in files is made again. A FileFormatError if nobody has said that here."""
    for writing in WRITINGS.values():
        if writing.serialized_name == name:
            return writing
    raise FileFormatError(
        f"its tree has nodes of a class that was written as {name!r}, which isn't known in this process: say which it "
        f"is by tinyjax.export.register_pytree_node_serialization(cls, serialized_name={name!r}, ...)"
    )


def register_pytree_node_serialization(
    nodetype: type[T],
    *,
    serialized_name: str,
    serialize_auxdata: Callable[[Any], bytes],
    deserialize_auxdata: Callable[[bytes], Any],
    from_children: Callable[[Any, Sequence[Any]], Any] | None = None,
) -> type[T]:
    """Says how nodes of a class are written down: in exported functions, and in the manifests of checkpoints.

    The process that reads them says the same. Python's own containers and `OrderedDict` need nothing, and a named tuple
    is said by `register_namedtuple_serialization`.

    Args:
      nodetype: a class that is registered as a node of trees. It is returned, so this can decorate it.
      serialized_name: what the class is called in files, by which it is found when they are read.
      serialize_auxdata: makes bytes of what the class's `flatten` gives along with the children.
      deserialize_auxdata: makes that of the bytes.
      from_children: makes a node of what was written and its children, of which only the structure counts. Unless it is
        given, the structure is that of what was written.

    Raises:
      TreeError: the class is no node, or it or the name has been registered before.

    >>> import tinyjax as tj
    >>> class Affine:
    ...     def __init__(self, w, kind):
    ...         self.w, self.kind = w, kind
    >>> tj.tree.register_pytree_node(Affine, lambda x: ((x.w,), x.kind), lambda kind, c: Affine(*c, kind))
    >>> _ = register_pytree_node_serialization(
    ...     Affine, serialized_name="Affine", serialize_auxdata=str.encode, deserialize_auxdata=bytes.decode
    ... )
    >>> exported = tj.export.export(lambda layer: Affine(layer.w * 2, "doubled"))(Affine(1.5, "plain"))
    >>> y = tj.export.deserialize(exported.serialize()).call(Affine(1.5, "plain"))
    >>> y.kind, y.w
    ('doubled', Array(3., dtype=float64, weak_type=True))
    """
    what = "register_pytree_node_serialization"
    given: object = nodetype
    if not isinstance(given, type) or not is_node(given):
        raise TreeError(f"{what}: {nodetype!r} isn't a node of trees: first tinyjax.tree.register_pytree_node it")
    name_given: object = serialized_name
    if not isinstance(name_given, str):
        raise TreeError(f"{what}: serialized_name must be a string, got {serialized_name!r}")
    if nodetype in _NATIVE or nodetype in WRITINGS:
        said = f" as {WRITINGS[nodetype].serialized_name!r}" if nodetype in WRITINGS else ""
        raise TreeError(f"{what}: how {nodetype.__name__} is written down is known already{said}")
    for other in WRITINGS.values():
        if other.serialized_name == serialized_name:
            raise TreeError(
                f"{what}: {serialized_name!r} is what {other.nodetype.__name__} is called: take another name"
            )
    for name, function in (("serialize_auxdata", serialize_auxdata), ("deserialize_auxdata", deserialize_auxdata)):
        if not callable(function):
            raise TreeError(f"{what}: {name} must be a function, got {function!r}")
    WRITINGS[nodetype] = Writing(nodetype, serialized_name, serialize_auxdata, deserialize_auxdata, from_children)
    return nodetype


def register_namedtuple_serialization(nodetype: type[T], *, serialized_name: str) -> type[T]:
    """Says what a named tuple is called where it is written down; it must have the same fields where it is read.

    Args:
      nodetype: the class, which is returned, so this can decorate it.
      serialized_name: what it is called in files.

    >>> from typing import NamedTuple
    >>> import tinyjax as tj
    >>> class Point(NamedTuple):
    ...     x: object
    ...     y: object
    >>> _ = register_namedtuple_serialization(Point, serialized_name="Point")
    >>> exported = tj.export.export(lambda p: Point(p.y, p.x))(Point(1.0, 2))
    >>> tj.export.deserialize(exported.serialize()).call(Point(1.0, 2)).x
    Array(2, dtype=int64, weak_type=True)
    """
    given: object = nodetype
    fields = getattr(given, "_fields", None)
    if not isinstance(given, type) or not issubclass(given, tuple) or not isinstance(fields, tuple):
        raise TreeError(
            f"register_namedtuple_serialization takes a named tuple's class, got {nodetype!r}; for others there is "
            "register_pytree_node_serialization"
        )
    named = list(fields)

    def make(written: object, children: Sequence[Any]) -> T:
        if written != named:
            raise FileFormatError(f"{serialized_name!r} was written with the fields {written}, but here it has {named}")
        return nodetype(*children)

    return register_pytree_node_serialization(
        nodetype,
        serialized_name=serialized_name,
        serialize_auxdata=lambda _: json.dumps(named).encode(),
        deserialize_auxdata=json.loads,
        from_children=make,
    )


#: Classes that need nothing.
_NATIVE: Final = frozenset({dict, list, tuple, type(None), OrderedDict})
