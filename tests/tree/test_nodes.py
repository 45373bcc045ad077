"""Classes as nodes of trees: registration, its errors, and the advice where it is missing."""

from __future__ import annotations

import dataclasses
import re
from collections import OrderedDict, defaultdict
from collections.abc import Callable, Iterable
from typing import Any, NamedTuple

import attrs
import jax
import numpy as np
import pytest
from jax.flatten_util import ravel_pytree as ravel_in_jax
from typing_extensions import override

import tinyjax as tj
import tinyjax.numpy as tnp
from tinyjax import tree
from tinyjax.errors import InputError, TreeError
from tinyjax.flatten_util import ravel_pytree

X = np.array([1.0, 2.0, 3.0])


class Plain:
    """Taken apart by functions."""

    def __init__(self, w: Any, b: Any, name: str) -> None:
        self.w, self.b, self.name = w, b, name


tree.register_pytree_node(
    Plain, lambda x: ((x.w, x.b), x.name), lambda name, children: Plain(children[0], children[1], name)
)


class Keyed:
    """The same, with keys."""

    def __init__(self, w: Any, b: Any, name: str) -> None:
        self.w, self.b, self.name = w, b, name


tree.register_pytree_with_keys(
    Keyed,
    lambda x: (((tree.GetAttrKey("w"), x.w), (tree.DictKey("b"), x.b)), x.name),
    lambda name, children: Keyed(children[0], children[1], name),
)


@tree.register_pytree_node_class
class Methods:
    """By methods."""

    def __init__(self, w: Any, b: Any, name: str) -> None:
        self.w, self.b, self.name = w, b, name

    def tree_flatten(self) -> tuple[tuple[Any, ...], str]:
        return (self.w, self.b), self.name

    @classmethod
    def tree_unflatten(cls, aux_data: str, children: Iterable[Any]) -> Methods:
        w, b = children
        return cls(w, b, aux_data)


@tree.register_pytree_with_keys_class
class KeyedMethods:
    """By methods, with keys."""

    def __init__(self, w: Any, b: Any, name: str) -> None:
        self.w, self.b, self.name = w, b, name

    def tree_flatten_with_keys(self) -> tuple[list[tuple[Any, Any]], str]:
        return [(tree.SequenceKey(7), self.w), (tree.GetAttrKey("b"), self.b)], self.name

    @classmethod
    def tree_unflatten(cls, aux_data: str, children: Iterable[Any]) -> KeyedMethods:
        w, b = children
        return cls(w, b, aux_data)


@tree.register_dataclass
@dataclasses.dataclass
class Data:
    """A dataclass, by a decorator."""

    w: Any
    b: Any
    name: str = dataclasses.field(metadata={"static": True})


class Fields:
    """No dataclass, but a constructor that takes the fields."""

    def __init__(self, *, w: Any, b: Any, name: str) -> None:
        self.w, self.b, self.name = w, b, name


tree.register_dataclass(Fields, data_fields=["w", "b"], meta_fields=["name"])


@tree.register_attrs
@attrs.frozen(cache_hash=True)
class Attrs:
    """An attrs class, by a decorator, whose fields are checked when it is made."""

    w: Any = attrs.field(converter=tnp.asarray)
    b: Any = attrs.field()
    name: str = attrs.field(metadata={"static": True})
    _private: Any = attrs.field(default=None)

    @b.validator
    def _check(self, _: object, value: object) -> None:
        assert np.shape(self.w) == np.shape(np.asarray(value))


@attrs.define(slots=False)
class Dictionary:
    """An attrs class without slots."""

    w: Any
    b: Any
    name: str
    seen: list[int] = attrs.field(factory=list, eq=False)


tree.register_attrs(Dictionary, data_fields=["w", "b"], meta_fields=["name"], drop_fields=["seen"])

NODES: list[tuple[Callable[[], Any], list[str]]] = [
    (lambda: Plain(X, 2 * X, "n"), ["[<flat index 0>]", "[<flat index 1>]"]),
    (lambda: Keyed(X, 2 * X, "n"), [".w", "['b']"]),
    (lambda: Methods(X, 2 * X, "n"), ["[<flat index 0>]", "[<flat index 1>]"]),
    (lambda: KeyedMethods(X, 2 * X, "n"), ["[7]", ".b"]),
    (lambda: Data(X, 2 * X, "n"), [".w", ".b"]),
    (lambda: Fields(w=X, b=2 * X, name="n"), [".w", ".b"]),
    (lambda: Attrs(X, 2 * X, "n"), [".w", ".b"]),
    (lambda: Dictionary(X, 2 * X, "n"), [".w", ".b"]),
]


def energy(node: Any) -> tj.Array:
    assert node.name == "n"
    return tnp.sum(node.w * node.w * node.b)


@pytest.mark.parametrize(("make", "paths"), NODES, ids=lambda x: type(x()).__name__ if callable(x) else "")
def test_nodes_go_through_everything(make: Callable[[], Any], paths: list[str]) -> None:
    node = make()
    leaves, structure = tree.flatten(node)
    assert [np.asarray(leaf).tolist() for leaf in leaves] == [X.tolist(), (2 * X).tolist()]
    assert type(tree.unflatten(structure, leaves)) is type(node)
    assert [tree.keystr(path) for path, _ in tree.leaves_with_path(node)] == paths
    # JAX sees the same node.
    assert jax.tree.structure(node) == structure
    jitted, plain, mapped = tj.jit(tj.grad(energy))(node), tj.grad(energy)(node), tj.vmap(lambda x: x)(node)
    for found in (jitted, plain):
        assert type(found) is type(node)
        assert found.name == "n"
        np.testing.assert_allclose(found.w, 2 * X * 2 * X)
        np.testing.assert_allclose(found.b, X * X)
    assert mapped.name == "n"
    assert mapped.b.shape == (3,)
    assert tj.eval_shape(lambda x: x, node).w == tj.ShapedArray((3,), float)
    carried, _ = tj.lax.scan(lambda c, _: (tree.map(lambda x: 2 * x, c), None), node, None, 3)
    np.testing.assert_allclose(carried.b, 16 * X)


def test_attrs_nodes_are_put_together_without_their_constructor() -> None:
    node = Attrs(X, 2 * X, "n", private=X)
    found = tree.map(lambda x: "leaf", node)
    assert (found.w, found.b, found._private, found.name) == ("leaf", "leaf", "leaf", "n")
    assert hash(found) == hash(tree.map(lambda x: "leaf", node))
    dropped = Dictionary(1.0, 2.0, "n", [1])
    again = tree.map(lambda x: x, dropped)
    assert again == dropped
    assert again.seen == []
    assert again.seen is not tree.map(lambda x: x, dropped).seen


def test_structures_differ_by_what_is_static() -> None:
    assert tree.structure(Attrs(X, X, "n")) == tree.structure(Attrs(2.0, 2.0, "n"))
    assert tree.structure(Attrs(X, X, "n")) != tree.structure(Attrs(X, X, "m"))
    count = []

    @tj.jit
    def f(x: Attrs) -> Any:
        count.append(x.name)
        return x.w

    for name in ("n", "m", "n"):
        f(Attrs(X, X, name))
    assert count == ["n", "m"]


def test_static_nodes() -> None:
    @tree.register_static
    @dataclasses.dataclass(frozen=True)
    class Config:
        size: int

    assert tree.leaves({"c": Config(3), "x": 1}) == [1]
    np.testing.assert_allclose(tj.jit(lambda c, x: x * c.size)(Config(3), 2.0), 6.0)


def test_static_nodes_that_have_no_hash() -> None:
    @tree.register_static
    class Options(dict[str, int]):
        pass

    theirs: Any = type("Theirs", (dict,), {})
    jax.tree_util.register_static(theirs)

    function = tj.jit(lambda options, x: x * options["size"])
    for size in (3, 4, 3):
        assert (
            tree.leaves({"c": Options(size=size), "x": 1}) == jax.tree.leaves({"c": theirs(size=size), "x": 1}) == [1]
        )
        assert function(Options(size=size), 2.0) == 2.0 * size
        assert tj.grad(lambda x, size=size: function(Options(size=size), x))(2.0) == size
    assert tree.structure(Options(size=3)) == tree.structure(Options(size=3)) != tree.structure(Options(size=4))
    assert (
        jax.tree.structure(theirs(size=3)) == jax.tree.structure(theirs(size=3)) != jax.tree.structure(theirs(size=4))
    )
    assert tj.vmap(lambda options, x: x * options["size"])(Options(size=5), np.ones(2)).tolist() == [5.0, 5.0]


class Single(NamedTuple):
    x: Any


def plain() -> Any:
    return type("New", (), {})


def data(*names: str) -> Any:
    return dataclasses.make_dataclass("New", names)


def attr(*names: str) -> Any:
    return attrs.make_class("New", names)


def keyed(_: Any) -> Any:
    return (), None


def unkeyed(*_: Any) -> Any:
    return None


def test_a_class_of_numbers_can_be_static() -> None:
    @tree.register_static
    class Size(int):
        pass

    assert tree.leaves((Size(3), 4)) == [4]
    assert tj.jit(lambda size, x: x * size)(Size(3), 2.0) == 6.0


def test_a_named_tuple_becomes_another_node_once() -> None:
    class Pair(NamedTuple):
        child: Any
        rest: Any

    assert tree.leaves(Pair(1, 2)) == [1, 2]
    tree.register_pytree_node(Pair, lambda p: ((p.child,), p.rest), lambda rest, children: Pair(children[0], rest))
    assert tree.leaves(Pair(1, 2)) == jax.tree.leaves(Pair(1, 2)) == [1]
    assert tree.map(lambda x: -x, Pair(1, 2)) == Pair(-1, 2)
    for register in (tree.register_static, lambda cls: tree.register_pytree_node(cls, keyed, unkeyed)):
        with pytest.raises(TreeError, match="Pair is registered already"):
            register(Pair)


@pytest.mark.parametrize(
    ("register", "message"),
    [
        (lambda: tree.register_pytree_node(Plain, keyed, unkeyed), "Plain is registered already, here or with JAX"),
        (lambda: tree.register_dataclass(Data), "Data is registered already"),
        (lambda: tree.register_attrs(Attrs), "Attrs is registered already"),
        (lambda: tree.register_pytree_node_class(Methods), "Methods is registered already"),
        (lambda: tree.register_pytree_with_keys_class(KeyedMethods), "is registered already"),
        (lambda: tree.register_pytree_with_keys(OrderedDict, keyed, unkeyed), "collections.OrderedDict is registered"),
        (lambda: tree.register_static(dict), "builtins.dict is registered already"),
        (lambda: tree.register_static(float), "float is a leaf, not a node"),
        (lambda: tree.register_static(np.ndarray), "ndarray is a leaf"),
        (lambda: tree.register_static(tj.Array), "Array is a leaf"),
        (lambda: tree.register_dataclass(plain()), "New is no dataclass; name data_fields and meta_fields"),
        (lambda: tree.register_dataclass(attr("x")), "New is no dataclass; use register_attrs"),
        (lambda: tree.register_attrs(plain()), "New is no attrs class; decorate it by attrs.frozen"),
        (lambda: tree.register_attrs(data("x")), "no attrs class; use register_dataclass"),
        (lambda: tree.register_attrs(attr("x"), ["y"], []), "New has no field y; it has x"),
        (lambda: tree.register_attrs(attr("x", "y"), ["y"], []), "register_attrs: x of New is missing: every field"),
        (lambda: tree.register_attrs(attr("x"), ["x"], ["x"]), "x of New is named twice"),
        (lambda: tree.register_attrs(attr("x"), ["x"]), "come together, and meta_fields is missing"),
        (lambda: tree.register_attrs(attr("x"), "x", []), r"is a sequence of names, got 'x'; write \('x',\)"),
        (lambda: tree.register_attrs(attr("x", "y"), drop_fields=["x"]), "New.x is dropped, but has no default"),
        (lambda: tree.register_dataclass(data("x", "y"), ["x"], []), "y of New is missing"),
        (lambda: tree.register_pytree_node_class(plain()), "New has no method tree_flatten and tree_unflatten"),
    ],
)
def test_errors_of_registration(register: Callable[[], object], message: str) -> None:
    with pytest.raises(TreeError, match=message):
        register()


# The advice.


class Args:
    def __init__(self, w: Any, name: str) -> None:
        self.w, self.name = w, name


class Made:
    def __init__(self) -> None:
        self.w, self.name = np.ones(3), "n"


@dataclasses.dataclass
class Unregistered:
    w: Any


@dataclasses.dataclass
class Named:
    w: Any
    name: str = "n"


@attrs.frozen
class Frozen:
    w: Any
    name: str = "n"


class Mapping(dict[str, Any]):
    @property
    def w(self) -> Any:
        return self["w"]


class Sequence(list[Any]):
    @property
    def w(self) -> Any:
        return self[0]


class Child(Data):
    """Its parent is registered."""


@pytest.mark.parametrize(
    ("make", "transform"),
    [
        (lambda: Args(X, "n"), tj.jit),
        (Made, tj.grad),
        (lambda: Unregistered(X), tj.vmap),
        (lambda: Named(X), tj.jit),
        (lambda: Frozen(X), tj.make_jaxpr),
        (lambda: Mapping(w=X), tj.linearize),
        (lambda: Sequence([X]), tj.jit),
        (lambda: Child(X, X, "n"), tj.jit),
    ],
)
def test_the_advice_is_code_that_runs(make: Callable[[], Any], transform: Callable[..., Any]) -> None:
    node = make()

    def f(x: Any) -> tj.Array:
        return tnp.sum(x.w)

    def run() -> object:
        return transform(f, node) if transform is tj.linearize else transform(f)(node)

    with pytest.raises(InputError, match="is not an array") as caught:
        run()
    message = str(caught.value)
    code = "\n".join(line[4:] for line in message.splitlines() if line.startswith("    "))
    assert f"{type(node).__name__} isn't registered as a node of trees" in message
    assert not isinstance(node, Child) or "(Data is registered, but a class inherits no registration)" in message
    exec(code, {"tinyjax": tj, type(node).__name__: type(node)})  # noqa: S102
    run()
    assert tree.leaves(node)


@pytest.mark.parametrize("thing", ["text", len, lambda: 1, {1, 2}, object(), np.random.default_rng(0), np])
def test_no_advice_where_there_is_none(thing: object) -> None:
    with pytest.raises(InputError, match="is not an array") as caught:
        tj.jit(lambda x: x)(thing)
    assert "register" not in str(caught.value)


def test_advice_never_fails() -> None:
    class Odd:
        def __init__(self) -> None:
            self.me = self

        @override
        def __getattribute__(self, name: str) -> Any:
            if name == "__dict__":
                raise OSError
            return super().__getattribute__(name)

    class Cycle:
        def __init__(self) -> None:
            self.me = self

    for x in (Odd(), Cycle()):
        with pytest.raises(InputError, match="is not an array"):
            tj.jit(lambda x: x)(x)


# Operations on trees, against jax's.

TREES: list[Any] = [
    1.0,
    None,
    (),
    [1, (2, None), {"b": 3, "a": [4, 5]}],
    OrderedDict([("z", 1), ("a", (2, 3))]),
    defaultdict(list, {"q": [1, 2], "p": 3}),
    Single((1, {"k": 2})),
    {"n": Data(1, [2, 3], "n"), "m": Attrs(4, 5, "m")},
]


@pytest.mark.parametrize("x", TREES, ids=repr)
def test_operations_agree_with_jax(x: Any) -> None:
    assert tree.leaves(x) == jax.tree.leaves(x)
    assert tree.structure(x) == jax.tree.structure(x)
    assert tree.flatten(x) == jax.tree.flatten(x)
    assert tree.leaves_with_path(x) == jax.tree.leaves_with_path(x)
    assert tree.flatten_with_path(x) == jax.tree.flatten_with_path(x)
    assert tree.all(x) == jax.tree.all(x)
    assert tree.reduce(lambda a, b: a + b, x, 0) == jax.tree.reduce(lambda a, b: a + b, x, 0)
    assert tree.reduce_associative(lambda a, b: f"({a}{b})", x, identity="") == jax.tree.reduce_associative(
        lambda a, b: f"({a}{b})", x, identity=""
    )
    pairs: list[tuple[Callable[..., Any], Callable[..., Any]]] = [
        (tree.map, jax.tree.map),
        (tree.map_with_path, jax.tree.map_with_path),
    ]
    for ours, theirs in pairs:
        f: Callable[..., Any] = lambda *args: tuple(map(str, args))  # noqa: E731
        assert ours(f, x, x) == theirs(f, x, x)
        deeper = jax.tree.map(lambda leaf: [leaf, leaf], x)
        assert ours(f, x, deeper) == theirs(f, x, deeper)
        stop: Callable[[Any], bool] = lambda node: isinstance(node, tuple) or node is None  # noqa: E731
        assert ours(f, x, x, is_leaf=stop) == theirs(f, x, x, is_leaf=stop)
    deeper = jax.tree.map(lambda leaf: [leaf, (leaf, None)], x)
    assert tree.broadcast(x, deeper) == jax.tree.broadcast(x, deeper)
    inner = jax.tree.structure([0, 0])
    swapped = jax.tree.map(lambda leaf: [leaf, -leaf], x)
    outer = jax.tree.structure(x)
    if not jax.tree.leaves(x):
        assert tree.transpose(outer, inner, swapped) == [x, x]  # where jax fails
    else:
        assert tree.transpose(outer, inner, swapped) == jax.tree.transpose(outer, inner, swapped)
        assert tree.transpose(outer, None, swapped) == jax.tree.transpose(outer, None, swapped)


def test_is_leaf_that_takes_paths() -> None:
    x = {"a": [1, 2], "b": [3]}
    stop: Callable[..., bool] = lambda path, node: tree.keystr(path) == "['a']"  # noqa: E731
    for ours, theirs in ((tree.leaves_with_path, jax.tree.leaves_with_path),):
        assert ours(x, stop, True) == theirs(x, stop, True)
    f: Callable[..., Any] = lambda path, leaf: (tree.keystr(path), leaf)  # noqa: E731
    ours_mapped = tree.map_with_path(f, x, is_leaf=stop, is_leaf_takes_path=True)
    assert ours_mapped == jax.tree.map_with_path(f, x, is_leaf=stop, is_leaf_takes_path=True)


@pytest.mark.parametrize(
    ("call", "message"),
    [
        (lambda: tree.map(max, [1, 2], [1]), r"tree.map: the first tree and another tree must have the same structure"),
        (lambda: tree.map(max, {"a": 1}, {"b": 1}), r"differ at \['a'\]"),
        (lambda: tree.map(max, [1], (1,)), "tree.map"),
        (lambda: tree.map_with_path(max, [1, 2], [1]), "tree.map_with_path: the first tree and"),
        (lambda: tree.broadcast([1, 2], [1]), "tree.broadcast"),
        (lambda: tree.reduce(max, ()), "tree.reduce: a tree without leaves needs an initializer"),
        (lambda: tree.reduce_associative(max, ()), "needs an identity"),
        (lambda: tree.unflatten(tree.structure([0]), [1, 2]), "a tree of 1 leaves can't have 2"),
        (lambda: tree.transpose(tree.structure([0, 0]), tree.structure(0), [1]), "tree.transpose"),
        (lambda: tree.transpose(tree.structure(()), None, ()), "without leaves needs an inner_treedef"),
    ],
)
def test_errors_of_operations(call: Callable[[], object], message: str) -> None:
    with pytest.raises(TreeError, match=message):
        call()


def test_keys_are_those_of_jax() -> None:
    for name in ("DictKey", "SequenceKey", "GetAttrKey", "FlattenedIndexKey", "PyTreeDef"):
        assert getattr(tree, name) is getattr(jax.tree_util, name)
    with pytest.raises(AttributeError, match="no attribute 'Nothing'"):
        getattr(tree, "Nothing")  # noqa: B009


def test_paths_of_nodes_that_take_only_arrays() -> None:
    """Messages name leaves also where a constructor refuses what isn't an array."""

    @tree.register_dataclass
    @dataclasses.dataclass
    class Strict:
        x: Any
        y: Any

        def __post_init__(self) -> None:
            if isinstance(self.x, int):
                raise TypeError("no array")

    @tj.jit
    def f(p: Any) -> Any:
        return p

    with pytest.raises(InputError, match=re.escape("argument p['s'][1] of f: 'text' of type str is not an array")):
        f({"s": Strict(X, "text")})


# Vectors.

RAVELED: list[Any] = [
    {"w": X, "b": 2.0},
    [np.ones((2, 3), np.float32), (np.zeros((), np.float32), None)],
    [np.ones(2, np.int32), np.array([True, False]), np.float32(3)],
    (np.arange(3, dtype=np.int64), np.ones(2, np.complex64)),
    Data(np.ones((2, 0)), X, "n"),
    np.float64(3.0),
]


@pytest.mark.parametrize("x", RAVELED, ids=lambda x: str(jax.tree.structure(x)))
def test_ravel_agrees_with_jax(x: Any) -> None:
    with jax.enable_x64(True):
        expected, back = ravel_in_jax(x)
        vector, unravel = ravel_pytree(x)
        assert vector.dtype == expected.dtype
        assert not vector.aval.weak_type
        np.testing.assert_array_equal(vector, expected)
        ours, theirs = unravel(vector), back(expected)
    assert tree.structure(ours) == tree.structure(x)
    for a, b in zip(tree.leaves(ours), tree.leaves(theirs), strict=True):
        assert a.dtype == b.dtype
        assert a.shape == b.shape
        np.testing.assert_array_equal(a, b)


def test_ravel_in_transformations() -> None:
    x: Any = {"w": X, "b": 2.0}
    vector, unravel = tree.ravel(x)

    def f(v: Any) -> tj.Array:
        found = unravel(v)
        return tnp.sum(found["w"] * found["b"])

    np.testing.assert_allclose(tj.jit(tj.grad(f))(vector), [6.0, 2.0, 2.0, 2.0])
    np.testing.assert_allclose(tj.vmap(f)(tnp.stack([vector, 2 * vector])), [12.0, 48.0])
    gradient = tj.jit(lambda t: tree.ravel(tj.grad(lambda t: t["b"] * tnp.sum(t["w"]))(t))[0])(x)
    np.testing.assert_allclose(gradient, [6.0, 2.0, 2.0, 2.0])
    again, same = tree.ravel({"w": 2 * X, "b": 1.0})
    assert same == unravel
    assert hash(same) == hash(unravel)
    assert again.shape == vector.shape
    y = np.ones(2)
    kept, _ = tree.ravel(y)
    y[:] = 5.0
    assert kept.tolist() == [1.0, 1.0]


def test_empty_trees_ravel() -> None:
    vector, unravel = tree.ravel({"a": None, "b": ()})
    assert vector.aval == tj.ShapedArray((0,), "float32")
    assert unravel(vector) == {"a": None, "b": ()}


def test_unravel_checks() -> None:
    _, unravel = tree.ravel([np.ones(2, np.float32), np.ones(1, np.int32)])
    with pytest.raises(tj.TinyjaxError, match=r"unravel: the tree has 3 elements: .* not f64\[2\]"):
        unravel(np.ones(2))
    with pytest.raises(InputError, match=r"must have dtype float64|must have dtype float32"):
        unravel(np.ones(3, np.float16))
    _, unravel = tree.ravel([np.ones(2, np.float32)])
    assert unravel(np.ones(2, np.float16))[0].dtype == np.float16
    with pytest.raises(InputError, match=re.escape("ravel: the leaf[0]['a']: 'text' of type str is not an array")):
        tree.ravel([{"a": "text"}])
