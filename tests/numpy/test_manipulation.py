"""Other shapes and orders, joins and splits, against jax.numpy."""

from __future__ import annotations

import jax
import jax.numpy as jnp
import numpy as np
import pytest

import tinyjax.numpy as tnp
from tests.numpy.oracle import Function, agree, check, compare, numbers, weak
from tinyjax import make_jaxpr
from tinyjax.errors import ShapeError, UnsupportedError
from tinyjax.numpy.signatures import PadMode

CALLS: dict[str, tuple[tuple[int, ...], tuple[object, ...]]] = {
    "reshape": ((2, 6), ((3, -1),)),
    "reshape ": ((2, 6), (12,)),
    "reshape  ": ((2, 6), ((4, 3), "F")),
    "ravel": ((2, 3), ()),
    "ravel ": ((2, 3), ("F",)),
    "squeeze": ((1, 2, 1), ()),
    "squeeze ": ((1, 2, 1), (-1,)),
    "expand_dims": ((2, 3), ((0, -1),)),
    "expand_dims ": ((2, 3), (1,)),
    "broadcast_to": ((2, 1), ((3, 2, 4),)),
    "atleast_1d": ((), ()),
    "atleast_2d": ((3,), ()),
    "atleast_3d": ((3,), ()),
    "atleast_3d ": ((2, 3), ()),
    "permute_dims": ((2, 3, 4), ((2, 0, 1),)),
    "transpose": ((2, 3, 4), ()),
    "transpose ": ((2, 3, 4), ((0, -1, 1),)),
    "matrix_transpose": ((2, 3, 4), ()),
    "swapaxes": ((2, 3, 4), (0, -1)),
    "moveaxis": ((2, 3, 4), (0, -1)),
    "moveaxis ": ((2, 3, 4, 5), ((0, 2), (3, 1))),
    "flip": ((2, 3), ()),
    "flip ": ((2, 3), ((0, -1),)),
    "fliplr": ((2, 3), ()),
    "flipud": ((2, 3), ()),
    "rot90": ((2, 3), ()),
    "rot90 ": ((2, 3, 4), (2, (0, 2))),
    "rot90  ": ((2, 3), (-1,)),
    "rot90   ": ((2, 3), (4,)),
    "roll": ((2, 3), (2,)),
    "roll ": ((2, 3), (-1, 1)),
    "roll  ": ((2, 3), ((1, 2), (0, 1))),
    "roll   ": ((2, 3), (1, (0, 1))),
    "roll    ": ((2, 0), (1, 1)),
    "repeat": ((2, 3), (2,)),
    "repeat ": ((2, 3), (3, -1)),
    "tile": ((2, 3), (2,)),
    "tile ": ((2, 3), ((2, 1, 3),)),
    "tile  ": ((2, 3), ((),)),
    "diagonal": ((3, 4), (1,)),
    "diagonal ": ((3, 4, 2), (-1, 2, 0)),
    "diagonal  ": ((2, 2), (5,)),
    "split": ((6, 2), (3,)),
    "split ": ((6, 2), ([1, 4],)),
    "array_split": ((7, 2), (3,)),
    "vsplit": ((4, 2), (2,)),
    "hsplit": ((2, 4), (2,)),
    "hsplit ": ((4,), (2,)),
    "dsplit": ((1, 2, 4), ([1],)),
    "unstack": ((2, 3), ()),
    "pad": ((2, 3), (1,)),
    "pad ": ((2, 3), ((1, 2),)),
    "pad  ": ((2, 3), (((0, 1), (2, 0)),)),
    "trace": ((3, 4, 2), (1,)),
}
UNEQUAL: dict[str, tuple[object, ...]] = {
    "concatenate": (),
    "concatenate ": (1,),
    "concatenate  ": (None,),
    "concat": (),
    "vstack": (),
    "hstack": (),
    "dstack": (),
    "column_stack": (),
    "stack": (),
    "stack ": (-1,),
}


def _call(function: Function, arguments: tuple[object, ...]) -> Function:
    return lambda x: function(x, *arguments)


@pytest.mark.sweep
@pytest.mark.parametrize("dtype", ["float32", "int8", "bool", "complex64"])
def test_shapes_and_orders(dtype: str) -> None:
    for shape in {shape for shape, _ in CALLS.values()}:
        calls: dict[str, tuple[Function, Function]] = {}
        for key, (own, arguments) in CALLS.items():
            if own == shape:
                name = key.strip()
                calls[key] = _call(getattr(tnp, name), arguments), _call(getattr(jnp, name), arguments)
        x = numbers(dtype, *shape)
        compare(calls, [x], [x])


def test_weak_types_stay() -> None:
    for key in ("flip", "transpose", "repeat", "tile", "pad", "roll", "split", "diagonal"):
        shape, arguments = CALLS[key]
        ours, theirs = weak(2.0, *shape)
        agree(getattr(tnp, key)(ours, *arguments), getattr(jnp, key)(theirs, *arguments), key)


@pytest.mark.sweep
@pytest.mark.parametrize("dtypes", [("float32", "int8"), ("int32", "int64"), ("bool", "bool")])
def test_joins(dtypes: tuple[str, str]) -> None:
    x, y = numbers(dtypes[0], 2, 3), numbers(dtypes[1], 2, 3)
    for key, arguments in UNEQUAL.items():
        name = key.strip()
        check(name, [x, y], *arguments)
        if key != "concatenate ":
            agree(getattr(tnp, name)(tnp.asarray(x), *arguments), getattr(jnp, name)(jnp.asarray(x), *arguments), key)


@pytest.mark.sweep
def test_joins_of_vectors_and_scalars() -> None:
    x, y = np.arange(3), np.arange(3.0)
    for name in ("vstack", "hstack", "dstack", "column_stack"):
        agree(getattr(tnp, name)([x, y]), getattr(jnp, name)([x, y]), name)
        agree(getattr(tnp, name)([1, 2.0]), getattr(jnp, name)([1, 2.0]), name)
    agree(tnp.stack([1.0, 2]), jnp.stack([jnp.asarray(1.0), jnp.asarray(2)]))
    check("concatenate", [x, y], dtype="float32")
    check("stack", [x, y], dtype="int8")


@pytest.mark.parametrize("mode", ["edge", "reflect", "symmetric", "wrap"])
@pytest.mark.parametrize("width", [0, 1, (3, 7), ((0, 2), (5, 0))])
def test_padding_with_what_is_there(mode: PadMode, width: int) -> None:
    for shape in ((2, 3), (1, 1), (4, 1)):
        x = numbers("int32", *shape)
        agree(tnp.pad(x, width, mode), jnp.asarray(np.pad(x, width, mode)))


def test_padding_with_constants() -> None:
    x = numbers("int32", 2, 3)
    for values in (7, (1, 2), ((1, 2), (3, 4)), 2.5):
        check("pad", x, ((1, 0), (2, 1)), constant_values=values)
    check("pad", x, 1, "empty")


def test_wrapping_is_a_join_of_few_slices() -> None:
    jaxpr = make_jaxpr(lambda x: tnp.pad(x, 300, "wrap"))(np.zeros(100))
    assert len(jaxpr.eqns) <= 8


def test_broadcasting_arrays() -> None:
    x, y = numbers("float32", 2, 1), np.arange(3)
    check("broadcast_arrays", x, y, 1)
    assert tnp.broadcast_shapes((2, 1), 3, (1, 1, 1)) == (1, 2, 3)
    check("atleast_1d", 1, x)


def test_splitting_from_the_end() -> None:
    x = numbers("float32", 2, 6)
    agree(tnp.split(x, (2, -1), 1), [jnp.asarray(part) for part in np.split(x, (2, -1), 1)])


@pytest.mark.parametrize("name", ["split", "array_split", "vsplit", "hsplit", "dsplit"])
def test_splitting_at_the_elements_of_a_vector(name: str) -> None:
    x, at = numbers("float32", 3, 3, 3), np.array([1, 2], np.uint8)
    for positions in (at, at[:0], tnp.asarray(at)):
        agree(getattr(tnp, name)(x, positions), getattr(jnp, name)(x, np.asarray(positions)))
    agree(getattr(tnp, name)(x, np.array(3)), getattr(jnp, name)(x, 3))
    with pytest.raises(ShapeError, match=r"a position is an integer, got np.float64\(1.5\)"):
        getattr(tnp, name)(x, np.array([1.5]))


@pytest.mark.parametrize(
    ("name", "arguments", "message"),
    [
        ("reshape", ((4,),), r"can't give f64\[2,3\] the shape \(4,\)"),
        ("reshape", ((4, -1),), r"f64\[2,3\] can't have the shape \(4, -1\): 6 isn't a multiple of 4"),
        ("reshape", ((-1, -1),), "one may be -1"),
        ("squeeze", (0,), "not all of size 1"),
        ("expand_dims", (4,), "axis 4 is out of range"),
        ("broadcast_to", ((2, 4),), r"an array of shape \(2, 3\) can't be broadcast to shape \(2, 4\)"),
        ("broadcast_to", ((3,),), r"can't be broadcast to shape \(3,\)"),
        ("transpose", ((0, 0),), r"\(0, 0\) is not a permutation"),
        ("moveaxis", ((0, 1), 0), "as many axes"),
        ("flip", (2,), "flip: axis 2 is out of range for an array with 2 axes"),
        ("rot90", (1, (1, 1)), "rot90 needs two axes"),
        ("roll", ((1, 2), (0, 1, 0)), "as many shifts as axes"),
        ("repeat", (-1,), "repeats is at least 0"),
        ("split", (2, 1), r"2 equal parts can't be made of axis 1 of f64\[2,3\]"),
        ("split", ([3, 1], 1), "the indices must be in order"),
        ("array_split", (0,), "at least one part"),
        ("pad", (-1,), "at least 0"),
        ("diagonal", (0, 1, 1), "axis1 and axis2 must be two axes"),
    ],
)
def test_shape_errors(name: str, arguments: tuple[object, ...], message: str) -> None:
    with pytest.raises(ShapeError, match=message):
        getattr(tnp, name)(np.zeros((2, 3)), *arguments)


def test_joining_errors() -> None:
    x, y = np.zeros((2, 3)), np.zeros((3, 2))
    with pytest.raises(ShapeError, match="at least one array"):
        tnp.stack([])
    with pytest.raises(ShapeError, match=r"must have one shape, got f64\[2,3\], f64\[3,2\]"):
        tnp.stack([x, y])
    with pytest.raises(ShapeError, match="differ in other axes than axis 0"):
        tnp.concatenate([x, y])
    with pytest.raises(ShapeError, match="scalars have no axis"):
        tnp.concatenate([1, 2])
    with pytest.raises(UnsupportedError, match="mode 'nearest' is not supported"):
        getattr(tnp, "pad")(x, 1, "nearest")  # noqa: B009  # mypy refuses it
    with pytest.raises(UnsupportedError, match="order is 'C' or 'F'"):
        tnp.reshape(x, 6, "K")


def test_reshape_in_a_staged_function() -> None:
    def f(x: jax.Array) -> object:
        return tnp.reshape(tnp.asarray(x), (3, 2)).T

    assert "reshape" in str(make_jaxpr(f)(np.zeros(6)))
