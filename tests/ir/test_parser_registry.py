"""The registry: the standard one has all of the library's primitives, and users extend it."""

from __future__ import annotations

import enum
import importlib
import pkgutil
import typing
from collections.abc import Iterator
from typing import ClassVar, final

import attrs
import pytest
from attrs import frozen

import tinyjax
import tinyjax.contexts
import tinyjax.control
import tinyjax.interpreters
import tinyjax.primitives
from tests.ir.examples import Emit, Mode, Window
from tinyjax import ir
from tinyjax.control.checkpoint import Policy
from tinyjax.errors import ParameterError, RegistryError, UnsupportedError
from tinyjax.ir import Effect, Opaque, Primitive, Record, Registry, ShapedArray
from tinyjax.ir.text.registry import Member, Unreadable

F32 = ShapedArray((2, 3), "float32")


def _subclasses(cls: type) -> Iterator[type]:
    found: list[type] = cls.__subclasses__()
    for sub in found:
        yield sub
        yield from _subclasses(sub)


def _own(base: type) -> list[type]:
    """The concrete attrs classes of the library that derive from a class."""
    for package in (tinyjax.primitives, tinyjax.control, tinyjax.contexts, tinyjax.interpreters):
        for module in pkgutil.iter_modules(package.__path__):
            importlib.import_module(f"{package.__name__}.{module.name}")
    return [
        cls
        for cls in dict.fromkeys(_subclasses(base))
        if cls.__module__.startswith(("tinyjax.primitives", "tinyjax.control"))
        and not getattr(cls, "__abstractmethods__", None)
        and getattr(importlib.import_module(cls.__module__), cls.__name__, None) is cls
    ]


def test_all_primitives_are_registered_and_have_names_of_their_own() -> None:
    concrete = [cls for cls in _own(Primitive) if isinstance(getattr(cls, "name", None), str)]
    assert len(concrete) > 100
    names = [cls.name for cls in concrete if issubclass(cls, Primitive)]
    assert len(set(names)) == len(names)
    for cls in concrete:
        assert issubclass(cls, Primitive)
        assert ir.STANDARD.primitive(cls.name) is cls
        assert ir.STANDARD.class_named(cls.__name__) is cls


def _classes_in(hint: object) -> Iterator[type]:
    if isinstance(hint, type) and not typing.get_args(hint):
        yield hint
    for item in typing.get_args(hint):
        yield from _classes_in(item)


def test_all_records_and_enumerations_in_parameters_are_registered() -> None:
    todo: list[type] = [cls for cls in ir.STANDARD if attrs.has(cls)]
    seen: set[type] = set(todo)
    while todo:
        for hint in typing.get_type_hints(todo.pop()).values():
            for cls in _classes_in(hint):
                if cls.__module__.startswith("tinyjax.ir") or not (attrs.has(cls) or issubclass(cls, enum.Enum)):
                    continue
                if cls in seen or getattr(cls, "__abstractmethods__", None) or issubclass(cls, Opaque | Effect):
                    continue
                if not issubclass(cls, Primitive):
                    assert ir.STANDARD.name_of(cls) == cls.__name__
                seen.add(cls)
                todo += [cls] if attrs.has(cls) else []
    assert all(ir.STANDARD.name_of(cls) for cls in _own(Policy) if not issubclass(cls, Opaque))


def test_extending_leaves_the_standard_alone() -> None:
    registry = ir.STANDARD.extended(Emit, Mode)
    assert "emit" in registry
    assert "emit" not in ir.STANDARD
    assert registry.primitive("emit") is Emit
    assert registry.class_named("Mode") is Mode
    assert registry.name_of(Emit) == "Emit"
    assert "mul" in registry.extended(Window)
    assert list(registry)[-2:] == [Emit, Mode]
    with pytest.raises(RegistryError, match=r"the class tests\.ir\.examples\.Emit is not in the registry.*extended\(E"):
        ir.STANDARD.name_of(Emit)


def test_what_a_registry_refuses() -> None:
    @final
    @frozen
    class Sin(Primitive):
        name: ClassVar[str] = "another_sin"

    @final
    @frozen
    class MySin(Primitive):
        name: ClassVar[str] = "sin"

    array = enum.Enum("array", ["A"])
    with pytest.raises(RegistryError, match=r"the name Sin of .* is taken: rename the class"):
        ir.STANDARD.extended(Sin)
    with pytest.raises(RegistryError, match="are both primitives called 'sin': rename one of them"):
        ir.STANDARD.extended(MySin)
    with pytest.raises(RegistryError, match="the name array"):
        Registry().extended(array)
    with pytest.raises(RegistryError, match="int is no primitive, attrs class or enumeration"):
        ir.STANDARD.extended(int)
    assert Registry().extended(MySin).primitive("sin") is MySin


def test_reading_plain_values() -> None:
    numbers = Record("GatherDimensionNumbers", (("offset_dims", (1,)), ("collapsed_slice_dims", (0,)),
                                                ("start_index_map", (0,))))  # fmt: skip
    params = {"dimension_numbers": numbers, "slice_sizes": (1, 3), "mode": Member("GatherScatterMode", "CLIP")}
    gather = ir.STANDARD.read("gather", params, [F32, ShapedArray((5, 1), "int32")])
    assert str(gather.type_of(F32, ShapedArray((5, 1), "int32"))[0]) == "f32[5,3]"
    assert gather.params["mode"] is not params["mode"]
    shape = ir.STANDARD.read("broadcast_in_dim", {}, [ShapedArray((), "float32")], [F32])
    assert shape.params["shape"] == (2, 3)
    (none, broadcast) = ir.STANDARD.conversions("add", [F32, ShapedArray((1, 3), "float32")])
    assert none == ()
    assert broadcast[0].type_of(ShapedArray((1, 3), "float32")) == (F32,)
    assert ir.STANDARD.conversions("add", [F32, ShapedArray((), "float32")]) == [(), ()]
    assert ir.STANDARD.conversions("dot_general", [F32]) == [()]


def test_what_reading_refuses() -> None:
    with pytest.raises(RegistryError, match="no primitive 'dft'"):
        ir.STANDARD.read("dft", {}, [])
    with pytest.raises(ParameterError, match=r"'axes' of primitive 'reduce_sum' must be tuple\[int, ...\], got 3"):
        ir.STANDARD.read("reduce_sum", {"axes": 3}, [F32])
    with pytest.raises(UnsupportedError, match=r"out_sharding=x\] is not supported: only out_sharding=None is"):
        ir.STANDARD.read("reduce_sum", {"axes": (), "out_sharding": "x"}, [F32])
    with pytest.raises(ParameterError, match=r"'axis' of primitive 'cumsum' can't be read: nothing is known of <f>"):
        ir.STANDARD.read("cumsum", {"axis": Unreadable("<f>")}, [F32])
    with pytest.raises(ParameterError, match="nothing is known of Window"):
        ir.STANDARD.read("cumsum", {"axis": (Record("Window"),)}, [F32])


def test_readers_of_a_user() -> None:
    registry = ir.STANDARD.extended(
        Emit, readers={"shout": lambda params, in_avals, out_avals: Emit(str(params["where"]).lower())}
    )
    jaxpr = ir.parse("{ lambda ; . let shout[where=HERE] in () }", registry)
    assert jaxpr.eqns[0].primitive == Emit("here")
