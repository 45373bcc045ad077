"""What to write instead of a slice whose bounds aren't known: code that runs in its place."""

from __future__ import annotations

import ast
from types import FrameType


def of_slice(code: ast.expr | None, frame: FrameType | None) -> str | None:
    """The advice for `x[i:i + 2]`, or an update of that by `at`; None if the code is no such thing.

    A window that moves has a size that is known, and starts anywhere. A slice whose size isn't known has no type.
    """
    update: str | None = None
    if isinstance(code, ast.Call) and isinstance(code.func, ast.Attribute):  # x.at[i:i + 2].set(value)
        if code.func.attr == "set" and len(code.args) == 1:
            update = ast.unparse(code.args[0])
        code = code.func.value
    if not isinstance(code, ast.Subscript):
        return None
    array, entries = code.value, code.slice.elts if isinstance(code.slice, ast.Tuple) else [code.slice]
    at = isinstance(array, ast.Attribute) and array.attr == "at"
    if isinstance(array, ast.Attribute) and at:
        array = array.value
    slices = [i for i, entry in enumerate(entries) if isinstance(entry, ast.Slice)]
    moving = [i for i in slices if not _is_fixed(entries[i])]
    if len(moving) != 1 or not all(isinstance(entry, ast.Slice) or _is_number(entry) for entry in entries):
        text = "tinyjax.lax.dynamic_update_slice" if at else "tinyjax.lax.dynamic_slice"
        return f"Use {text}, whose sizes are known, and whose starts may be anything." if slices else None
    (place,) = moving
    axis, entry = slices.index(place), entries[place]
    if not isinstance(entry, ast.Slice):
        return None
    others = [item for i, item in enumerate(entries) if i != place]
    name = ast.unparse(array)
    if at and update is not None and all(map(_is_whole, others)) and entry.lower is not None and _size(entry):
        start = ast.unparse(entry.lower)
        return f"Use `tinyjax.lax.dynamic_update_slice_in_dim({name}, {update}, {start}, {axis})`."
    if at:
        return "Use tinyjax.lax.dynamic_update_slice, whose update has a known size, and whose starts may be anything."
    if not all(map(_is_whole, others)):
        rest = [ast.Slice() if i == place else item for i, item in enumerate(entries)]
        name = f"{name}[{ast.unparse(ast.Tuple(rest))[1:-1].strip(',')}]"
    size = _size(entry)
    if size is not None and entry.lower is not None:
        return f"Use `tinyjax.lax.dynamic_slice_in_dim({name}, {ast.unparse(entry.lower)}, {size}, {axis})`."
    if size is None and entry.step is None:
        inside = []
        positions = f"tinyjax.numpy.arange({name}.shape[{axis}])"
        if entry.lower is not None:
            inside.append(f"({positions} >= {ast.unparse(entry.lower)})")
        if entry.upper is not None:
            inside.append(f"({positions} < {ast.unparse(entry.upper)})")
        mask = " & ".join(inside)
        after = getattr(_value(array, frame), "ndim", len(entries)) - len(entries) + len(slices) - axis - 1
        if after > 0:
            mask = f"tinyjax.numpy.reshape({mask}, (-1,{' 1,' * after}))"
        return (
            f"How many elements it takes decides the shape. Use `tinyjax.numpy.where({mask}, {name}, 0)`, with what "
            "the others are to be for 0; or tinyjax.lax.dynamic_slice_in_dim for a size that is known."
        )
    return "Use tinyjax.lax.dynamic_slice, whose sizes are known, and whose starts may be anything."


def _is_whole(entry: ast.expr) -> bool:
    return isinstance(entry, ast.Slice) and entry.lower is entry.upper is entry.step is None


def _is_number(code: ast.expr) -> bool:
    """Whether this is a number in the code, maybe with a sign."""
    return isinstance(code.operand if isinstance(code, ast.UnaryOp) else code, ast.Constant)


def _is_fixed(entry: ast.expr) -> bool:
    """Whether the bounds of a slice are numbers in the code."""
    if not isinstance(entry, ast.Slice):
        return False
    bounds = [bound for bound in (entry.lower, entry.upper, entry.step) if bound is not None]
    return all(map(_is_number, bounds))


def _size(entry: ast.Slice) -> str | None:
    """The size of `i:i + size`, or of `i:size + i`; None if the code doesn't show it."""
    lower, upper = entry.lower, entry.upper
    if lower is None or entry.step is not None or not isinstance(upper, ast.BinOp) or not isinstance(upper.op, ast.Add):
        return None
    start, left, right = ast.dump(lower), ast.dump(upper.left), ast.dump(upper.right)
    return ast.unparse(upper.right) if left == start else ast.unparse(upper.left) if right == start else None


def _value(code: ast.expr, frame: FrameType | None) -> object:
    """What a name stands for in a frame; None if it isn't one."""
    if not isinstance(code, ast.Name) or frame is None:
        return None
    return frame.f_locals.get(code.id, frame.f_globals.get(code.id))
