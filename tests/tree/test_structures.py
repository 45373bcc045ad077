"""One level of trees and structures of structures, against `jax.tree_util`; functions as nodes."""

from __future__ import annotations

import dataclasses
from collections import OrderedDict, defaultdict, namedtuple
from typing import Any, Final

import jax
import numpy as np
import pytest

import tinyjax as tj
import tinyjax.numpy as tnp
from tinyjax import tree
from tinyjax.errors import TreeError

Pair = namedtuple("Pair", "x y")
NODES: Final[dict[str, Any]] = {
    "tuple": (1, (2, 3)),
    "list": [1, [2], None],
    "dict": {"b": 1, "a": {"c": 2}},
    "ordered": OrderedDict(b=1, a=2),
    "default": defaultdict(int, b=1, a=2),
    "named": Pair(1, (2,)),
    "none": None,
    "partial": tree.Partial(max, 1, key=2),
    "empty": (),
}


@pytest.mark.parametrize("name", NODES)
def test_one_level(name: str) -> None:
    node = NODES[name]
    assert tree.flatten_one_level(node) == jax.tree_util.flatten_one_level(node)
    keyed, _ = tree.flatten_one_level_with_keys(node)
    whole = jax.tree_util.tree_flatten_with_path(node, is_leaf=lambda x: x is not node)[0]
    assert list(keyed) == [(key, child) for (key,), child in whole]
    if name != "named":  # where JAX gives all children the name of the first
        assert list(keyed) == list(jax.tree_util.flatten_one_level_with_keys(node)[0])
    structure = tree.structure(node)
    assert tree.treedef_children(structure) == jax.tree_util.treedef_children(structure)
    assert tree.treedef_is_leaf(structure) is jax.tree_util.treedef_is_leaf(structure)
    assert tree.is_tree_node(type(node)) is jax.tree_util.is_tree_node(type(node)) is True


@pytest.mark.parametrize("leaf", [1.0, np.ones(2), "a"])
def test_leaves(leaf: object) -> None:
    assert tree.treedef_is_leaf(tree.structure(leaf))
    assert not tree.is_tree_node(type(leaf))
    for function in (tree.flatten_one_level, tree.flatten_one_level_with_keys):
        with pytest.raises(TreeError, match=r"takes a node of a tree; .* is a leaf"):
            function(leaf)


def test_fields_that_constructors_do_not_take() -> None:
    """What they hold would be lost without a word: they are dropped if somebody says so."""

    @dataclasses.dataclass
    class Counted:
        x: Any
        y: int = tree.static(default=42)
        calls: int = dataclasses.field(default=0, init=False)

    with pytest.raises(TreeError, match=r"Counted\.calls is no argument of the constructor .*name it in drop_fields"):
        tree.register_dataclass(Counted)
    tree.register_dataclass(Counted, drop_fields=("calls",))
    assert tree.leaves(Counted(1.0)) == [1.0]
    assert tree.map(lambda x: 2 * x, Counted(1.0, 3)) == Counted(2.0, 3)


def test_fields_may_say_that_they_are_not_static() -> None:
    assert tree.static(metadata={"static": False}).metadata == {"static": False}


@pytest.mark.parametrize("items", [[1, 2.0], [1, None], [(1,)], [], [np.ones(2)], [{}]])
def test_all_leaves(items: list[Any]) -> None:
    assert tree.all_leaves(items) is jax.tree_util.all_leaves(items)


def test_all_leaves_as_chosen() -> None:
    assert tree.all_leaves([(1, 2)], is_leaf=lambda x: isinstance(x, tuple))


def test_tuples_of_structures() -> None:
    structures = [tree.structure(node) for node in NODES.values()]
    assert tree.treedef_tuple(structures) == tree.structure(tuple(NODES.values()))


def test_functions_with_arguments_are_nodes() -> None:
    add = tree.Partial(tnp.add, np.float64(1.0))
    assert tj.jit(lambda f, x: f(x))(add, 2.0) == 3.0
    gradient = tj.grad(lambda f: f(2.0) ** 2)(add)
    assert isinstance(gradient, tree.Partial)
    assert gradient.args[0] == 6.0


def test_static_fields() -> None:
    @tree.register_dataclass
    @dataclasses.dataclass
    class Layer:
        weights: Any
        name: str = tree.static(default="dense", metadata={"unit": "m"})

    assert tree.leaves(Layer(3.0)) == [3.0]
    assert dataclasses.fields(Layer)[1].metadata == {"unit": "m", "static": True}


def test_the_registry_is_jaxs() -> None:
    registry = tj.tree_util.default_registry
    assert registry is jax.tree_util.default_registry
    leaves, structure = registry.flatten({"x": 1.0, "y": (2.0, None)})
    assert (leaves, structure) == tj.tree.flatten({"x": 1.0, "y": (2.0, None)})
