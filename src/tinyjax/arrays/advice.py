"""What can't be done with values that aren't known: which error each use of one raises, and what to write instead.

An advice is made of the user's own code where its source is there: of `np.sin(x)`, `tinyjax.numpy.sin(x)`. What stands
between backquotes runs in the place of the code that failed.
"""

from __future__ import annotations

import ast
import linecache
import math
import sys
from collections.abc import Callable, Mapping, Sequence
from pathlib import Path
from types import FrameType
from typing import Final, final

import numpy as np
from attrs import frozen

from tinyjax.arrays.expressions import choice_at, expression_at, text_at
from tinyjax.arrays.slice_advice import of_slice
from tinyjax.deferred import NUMPY_FUNCTIONS
from tinyjax.errors import (
    ConcretizationError,
    NonConcreteBooleanIndexError,
    TracerArrayConversionError,
    TracerBoolConversionError,
    TracerIntegerConversionError,
    TracerShardingError,
)
from tinyjax.ir.aval import ShapedArray
from tinyjax.ir.source import is_internal
from tinyjax.tracebacks import is_helper


@final
@frozen(eq=False)
class Use:
    """A use of a value that isn't known.

    `code` is the user's expression, if its source is there, and `frame` the frame that it is in. `by_library`: one of
    the library's functions wanted the number, not Python or NumPy. `static` says how to make the value static.
    """

    aval: ShapedArray
    code: ast.expr | None
    frame: FrameType | None
    by_library: bool
    static: str


@final
@frozen(eq=False)
class Wanted:
    """What is wanted of a value: in words, the error if it can't be had, and what to use instead."""

    what: str
    error: type[ConcretizationError]
    advise: Callable[[Use], str]
    #: Whether others than this library and Python would compute with it.
    elsewhere: bool = False


def use_of(aval: ShapedArray, static: str) -> Use:
    """The use of a value that the user's code is at."""
    frame: FrameType | None = sys._getframe(1)
    while frame is not None and frame.f_code.co_filename in _BETWEEN:
        frame = frame.f_back
    by_library = frame is not None and is_internal(frame.f_code)
    while frame is not None and (is_internal(frame.f_code) or is_helper(frame.f_code.co_filename)):
        frame = frame.f_back
    return Use(aval, None if frame is None else expression_at(frame), frame, by_library, static)


#: Where the library asks an array for its elements on behalf of others.
_ROOT: Final = Path(__file__).parent.parent
_BETWEEN: Final = frozenset(
    str(_ROOT / name)
    for name in (
        "arrays/advice.py",
        "arrays/conversions.py",
        "tracing/concrete.py",
        "tracing/core.py",
        "tracing/messages/unknown.py",
        "tracebacks.py",
    )
)


# What to use instead.


def _of_branch(use: Use) -> str:
    code = use.code
    if use.by_library:
        return of_size(use)
    if use.frame is not None and not isinstance(code, ast.Compare) and not _asks(code):
        code = choice_at(use.frame) or code
    if isinstance(code, ast.BoolOp):
        name = "logical_and" if isinstance(code.op, ast.And) else "logical_or"
        return f"Use `{_joined(name, code.values)}`."
    if isinstance(code, ast.UnaryOp) and isinstance(code.op, ast.Not):
        return f"Use `tinyjax.numpy.logical_not({ast.unparse(code.operand)})`."
    if isinstance(code, ast.Compare) and len(code.ops) > 1:
        operands = [code.left, *code.comparators]
        pairs = zip(operands, code.ops, operands[1:], strict=False)
        return f"Use `{_joined('logical_and', [ast.Compare(left, [op], [right]) for left, op, right in pairs])}`."
    if isinstance(code, ast.Compare) and isinstance(code.ops[0], ast.In):
        found, among = ast.unparse(code.left), ast.unparse(code.comparators[0])
        return f"Use `tinyjax.numpy.any(tinyjax.numpy.asarray({among}) == {found})`."
    if isinstance(code, ast.IfExp):
        values = ", ".join(map(ast.unparse, (code.test, code.body, code.orelse)))
        return f"Use `tinyjax.numpy.where({values})`."
    if isinstance(code, ast.Call) and isinstance(code.func, ast.Name) and code.func.id in _BUILTINS:
        name = _BUILTINS[code.func.id]
        if name in ("maximum", "minimum") and len(code.args) != 2:
            name = code.func.id
        return f"Use `tinyjax.numpy.{name}({_arguments(code)})`."
    text = "x" if code is None else ast.unparse(code)
    if _statement(use) == "while":
        return "Use tinyjax.lax.while_loop, as in `tinyjax.lax.while_loop(lambda i: i < 3, lambda i: i + 1, 0)`."
    if use.aval.shape:
        return f"Use `tinyjax.numpy.where({text}, 1.0, 0.0)`, with your values, to choose for each element."
    return (
        f"Use `tinyjax.lax.cond({text}, lambda: 1.0, lambda: 0.0)`, with your branches, or "
        f"`tinyjax.numpy.where({text}, 1.0, 0.0)`; for a loop, tinyjax.lax.while_loop."
    )


def _asks(code: ast.expr | None) -> bool:
    """Whether a function of Python's asks for the value, not what stands around its result."""
    return isinstance(code, ast.Call) and isinstance(code.func, ast.Name) and code.func.id in {"bool", *_BUILTINS}


def _joined(name: str, values: Sequence[ast.expr]) -> str:
    text = ast.unparse(values[0])
    for value in values[1:]:
        text = f"tinyjax.numpy.{name}({text}, {ast.unparse(value)})"
    return text


#: Python's own functions that compare, and what does the same for arrays.
_BUILTINS: Final[Mapping[str, str]] = {
    "max": "maximum",
    "min": "minimum",
    "sorted": "sort",
    "any": "any",
    "all": "all",
}


def _of_number(use: Use) -> str:
    code = use.code
    if use.by_library:
        return of_size(use)
    if isinstance(code, ast.Call):
        function = _resolved(code.func, use.frame)
        if function in (int, float, complex) and len(code.args) == 1:
            kind = code.func.id if isinstance(code.func, ast.Name) else "float"
            return f"Use `tinyjax.numpy.asarray({_arguments(code)}, {kind})`, which stays an array."
        if isinstance(code.func, ast.Attribute) and code.func.attr in ("item", "tolist"):
            text = ast.unparse(code.func.value)
            return f"Use the array itself, `{text}`." if code.func.attr == "item" else f"Use `list({text})`, of arrays."
        name = getattr(function, "__name__", "")
        if getattr(math, name, None) is function and name:
            return _counterpart(_MATH.get(name, name), code) or _ITSELF
    return _ITSELF


_ITSELF: Final = "Use the array itself: it computes like a number, and `x.astype(float)` converts its elements."
#: Functions of `math` that arrays have under another name.
_MATH: Final[Mapping[str, str]] = {"pow": "power", "fsum": "sum"}


def _of_numpy(use: Use) -> str:
    code = use.code
    if use.by_library:
        return ""
    if isinstance(code, ast.Subscript):
        return _of_subscript(code)
    if isinstance(code, ast.Call):
        function = _resolved(code.func, use.frame)
        name = getattr(function, "__name__", "")
        home = getattr(np, name, None)
        if name and (home is function or isinstance(function, np.ufunc)):
            found = _counterpart(name, code)
            if found is not None:
                return found
    shape, dtype = use.aval.shape, use.aval.dtype.name
    return (
        "Use the functions of tinyjax.numpy. One of NumPy's runs as a callback, with the type of its result: "
        f"`tinyjax.pure_callback(numpy.asarray, tinyjax.ShapedArray({shape}, '{dtype}'), x, vmap_method='sequential')`."
    )


def _of_index(use: Use) -> str:
    code = use.code
    if use.by_library:
        return of_slice(code, use.frame) or of_size(use)
    if isinstance(code, ast.Call) and _resolved(code.func, use.frame) is range:
        bounds = [ast.unparse(arg) for arg in code.args[:2]]
        lower, upper = bounds if len(bounds) == 2 else ("0", *bounds)
        loop = f"tinyjax.lax.fori_loop({lower}, {upper}, lambda i, total: total + i, 0)"
        return f"Use tinyjax.lax.fori_loop, as in `{loop}`."
    if isinstance(code, ast.Subscript):
        return _of_subscript(code)
    return f"Where Python needs an integer, it must be known. {use.static}".rstrip()


def _of_subscript(code: ast.Subscript) -> str:
    return f"Use `tinyjax.numpy.asarray({ast.unparse(code.value)})[{ast.unparse(code.slice)}]`."


def of_size(use: Use) -> str:
    """What to do where the library needs a number."""
    return f"Sizes, axes and other parameters must be known when the program is traced. {use.static}".rstrip()


def _of_hash(use: Use) -> str:
    code = use.code
    if isinstance(code, ast.Compare) and isinstance(code.ops[0], ast.In) and not use.by_library:
        found, among = ast.unparse(code.left), ast.unparse(code.comparators[0])
        return f"Use `tinyjax.numpy.any(tinyjax.numpy.asarray(list({among})) == {found})`."
    if isinstance(code, ast.Subscript):
        key = ast.unparse(code.slice)
        return (
            f"Look up arrays by position instead, or choose with tinyjax.lax.switch, as in "
            f"`tinyjax.lax.switch(tinyjax.numpy.asarray({key}, int), [lambda: 1.0, lambda: 2.0])`. {use.static}"
        ).rstrip()
    return f"A key must be known, such as a shape or a static argument. {use.static}".rstrip()


def _of_mask(use: Use) -> str:
    code = use.code
    array, mask, value = "x", "mask", "0"
    if isinstance(code, ast.Call) and isinstance(code.func, ast.Attribute):  # x.at[mask].set(value)
        if code.func.attr == "set" and code.args:
            value = ast.unparse(code.args[0])
        code = code.func.value
    if isinstance(code, ast.Subscript) and not isinstance(code.slice, ast.Tuple):
        array, mask = ast.unparse(code.value), ast.unparse(code.slice)
    if array.endswith(".at"):
        return f"Use `tinyjax.numpy.where({mask}, {value}, {array.removesuffix('.at')})`."
    return (
        f"How many elements it chooses decides the shape. Use `tinyjax.numpy.where({mask}, {array}, 0)`, with what the "
        "others are to be for 0."
    )


def _of_text(use: Use) -> str:
    code = None if use.frame is None else text_at(use.frame)
    if code is not None:
        text = ""
        values: list[ast.expr] = []
        for part in code.values:
            if isinstance(part, ast.FormattedValue):
                spec = _constant(part.format_spec)
                text += f"{{:{spec}}}" if spec else "{}"
                values.append(part.value)
            else:
                text += str(ast.literal_eval(part)).replace("{", "{{").replace("}", "}}")
        arguments = ", ".join([repr(text), *map(ast.unparse, values)])
        return f"Use `tinyjax.debug.print({arguments})`, which prints when the program runs."
    return "Use `tinyjax.debug.print('{}', x)`, which prints when the program runs."


def _constant(spec: ast.expr | None) -> str:
    """How a value is to be formatted, if that isn't computed."""
    parts = spec.values if isinstance(spec, ast.JoinedStr) else []
    return "".join(str(part.value) for part in parts if isinstance(part, ast.Constant))


def _of_nothing(use: Use) -> str:
    return ""


def _of_sharding(use: Use) -> str:
    return "tinyjax.typeof(x) shows what is known while a function is traced."


# The user's code.


def _arguments(call: ast.Call) -> str:
    return ", ".join([*map(ast.unparse, call.args), *(ast.unparse(keyword) for keyword in call.keywords)])


def _counterpart(name: str, call: ast.Call) -> str | None:
    """What does for arrays what a function of NumPy or `math` does, if there is such."""
    found = getattr(NUMPY_FUNCTIONS.use(), name, None)
    return (
        f"Use `tinyjax.numpy.{name}({_arguments(call)})`." if callable(found) and not isinstance(found, type) else None
    )


def _resolved(code: ast.expr, frame: FrameType | None) -> object:
    """What a name with dots stands for in a frame; None if it isn't one."""
    if isinstance(code, ast.Attribute):
        return getattr(_resolved(code.value, frame), code.attr, None)
    if not isinstance(code, ast.Name) or frame is None:
        return None
    for names in (frame.f_locals, frame.f_globals, frame.f_builtins):
        if code.id in names:
            found: object = names[code.id]
            return found
    return None


def _statement(use: Use) -> str:
    """The first word of the line that a frame is at."""
    if use.frame is None:
        return ""
    line = linecache.getline(use.frame.f_code.co_filename, use.frame.f_lineno, use.frame.f_globals)
    return line.split(maxsplit=1)[0] if line.strip() else ""


BRANCH: Final = Wanted("decide a branch (bool)", TracerBoolConversionError, _of_branch)
INT: Final = Wanted("be converted to int", ConcretizationError, _of_number)
FLOAT: Final = Wanted("be converted to float", ConcretizationError, _of_number)
COMPLEX: Final = Wanted("be converted to complex", ConcretizationError, _of_number)
ITEM: Final = Wanted("be converted to a Python scalar", ConcretizationError, _of_number)
LIST: Final = Wanted("be converted to a list", ConcretizationError, _of_number)
BYTES: Final = Wanted("be converted to bytes", ConcretizationError, _of_number)
TEXT: Final = Wanted("be converted to text", ConcretizationError, _of_text)
NUMPY: Final = Wanted("be converted to a NumPy array", TracerArrayConversionError, _of_numpy, elsewhere=True)
INDEX: Final = Wanted("be used as an index or size", TracerIntegerConversionError, _of_index)
HASH: Final = Wanted("be hashed, so it can't be a key or a static argument", ConcretizationError, _of_hash)
MASK: Final = Wanted("be used as a boolean mask", NonConcreteBooleanIndexError, _of_mask)
DELETED: Final = Wanted("be deleted", ConcretizationError, _of_nothing)
ADDRESS: Final = Wanted("be asked where it is in memory", ConcretizationError, _of_nothing)
DEVICE: Final = Wanted("be on a device", ConcretizationError, _of_nothing)
SHARDING: Final = Wanted("lie on devices", TracerShardingError, _of_sharding)
JAX: Final = Wanted("be converted to a jax.Array", TracerArrayConversionError, _of_nothing, elsewhere=True)
DLPACK: Final = Wanted("be shared through DLPack", TracerArrayConversionError, _of_nothing, elsewhere=True)
