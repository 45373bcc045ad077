"""`cond` and `switch`: functions of which a value chooses one."""

from __future__ import annotations

import enum
from collections.abc import Callable, Sequence
from typing import Any, TypeVar, final, overload

import numpy as np
from attrs import frozen
from typing_extensions import TypeVarTuple, Unpack

from tinyjax.arrays.elementwise import constant_like, convert
from tinyjax.arrays.promotion import result_type
from tinyjax.contexts.cells import written
from tinyjax.contexts.staging import StagingContext, stage
from tinyjax.control.branches import with_types
from tinyjax.control.cond import Cond
from tinyjax.control.manual import Scope
from tinyjax.errors import ChoiceError, InputError
from tinyjax.ir.aval import ShapedArray
from tinyjax.ir.dtypes import BOOL, COMPLEXES, FLOAT0, INT32, INTEGERS, integer_limits
from tinyjax.ir.interpret import interpret
from tinyjax.ir.program import Atom, Jaxpr
from tinyjax.ir.shapes import Axes
from tinyjax.ir.varying import axes_of, union
from tinyjax.lax import bodies
from tinyjax.lax.binary import ne
from tinyjax.lax.binding import sequence, varied
from tinyjax.lax.carried_cells import same_cells
from tinyjax.lax.explicit import of_arguments
from tinyjax.lax.signatures import AnyTree, Arrays2, Arrays3, Class, K, Pair, Triple
from tinyjax.lax.within import known, runs_by_python
from tinyjax.primitives.selection import clamp
from tinyjax.refs.lending import closing_over_refs
from tinyjax.tracing import tree
from tinyjax.tracing.array import Array, ArrayLike
from tinyjax.tracing.concrete import ConcreteArray, as_array
from tinyjax.tracing.core import bind
from tinyjax.tracing.functions import FlatFunction, check_callable, flatten_arguments, located
from tinyjax.tracing.programs import Traced

_R = TypeVar("_R", bound=AnyTree)
_S = TypeVar("_S", bound=AnyTree)
_T = TypeVar("_T")
_U = TypeVar("_U", bound=AnyTree)
_Ts = TypeVarTuple("_Ts")


class _Missing(enum.Enum):
    """Stands for an argument that wasn't given, where None is one."""

    MISSING = enum.auto()


@overload
def cond(
    pred: ArrayLike, true_fun: Callable[[Array], ArrayLike], false_fun: Callable[[Array], ArrayLike], x: ArrayLike, /
) -> Array: ...
@overload
def cond(
    pred: ArrayLike,
    true_fun: Callable[[Array, Array], ArrayLike],
    false_fun: Callable[[Array, Array], ArrayLike],
    x: ArrayLike,
    y: ArrayLike,
    /,
) -> Array: ...
@overload
def cond(
    pred: ArrayLike,
    true_fun: Callable[[Array, Array, Array], ArrayLike],
    false_fun: Callable[[Array, Array, Array], ArrayLike],
    x: ArrayLike,
    y: ArrayLike,
    z: ArrayLike,
    /,
) -> Array: ...
@overload
def cond(
    pred: ArrayLike,
    true_fun: Callable[[Unpack[_Ts]], ArrayLike],
    false_fun: Callable[[Unpack[_Ts]], ArrayLike],
    *operands: *_Ts,
) -> Array: ...
@overload
def cond(
    pred: ArrayLike, true_fun: Callable[[_T], ArrayLike], false_fun: Callable[[_T], ArrayLike], *, operand: _T
) -> Array: ...
@overload
def cond(
    pred: ArrayLike, true_fun: Callable[[Array], _R], false_fun: Callable[[Array], _S], x: ArrayLike, /
) -> _R | _S: ...
@overload
def cond(
    pred: ArrayLike,
    true_fun: Callable[[Array, Array], _R],
    false_fun: Callable[[Array, Array], _S],
    x: ArrayLike,
    y: ArrayLike,
    /,
) -> _R | _S: ...
@overload
def cond(
    pred: ArrayLike,
    true_fun: Callable[[Array, Array, Array], _R],
    false_fun: Callable[[Array, Array, Array], _S],
    x: ArrayLike,
    y: ArrayLike,
    z: ArrayLike,
    /,
) -> _R | _S: ...
@overload
def cond(
    pred: ArrayLike, true_fun: Callable[[Unpack[_Ts]], _R], false_fun: Callable[[Unpack[_Ts]], _S], *operands: *_Ts
) -> _R | _S: ...
@overload
def cond(pred: ArrayLike, true_fun: Callable[[_T], _R], false_fun: Callable[[_T], _S], *, operand: _T) -> _R | _S: ...
def cond(
    pred: ArrayLike,
    true_fun: Callable[..., Any],
    false_fun: Callable[..., Any],
    *operands: object,
    operand: object = _Missing.MISSING,
) -> Any:
    """`true_fun(*operands) if pred else false_fun(*operands)`, also where `pred` is traced.

    Both functions are traced, and only the chosen one runs. They take trees of arrays and return trees of the same
    structure, shapes and dtypes; a weakly typed result takes the type of the other one. They may close over traced
    values.

    Args:
      pred: a scalar: bool, or a number, which counts as true unless it is 0.
      true_fun: what is applied if `pred` holds.
      false_fun: what is applied otherwise.
      operands: the arguments, trees of arrays.
      operand: the only argument, by name, as in older programs.

    Raises:
      InputError: `pred` is no scalar, or complex; the types of the results differ.
      TreeError: the structures of the results differ.

    >>> cond(True, lambda x: x + 1.0, lambda x: x * 10.0, 3.0)
    Array(4., dtype=float64, weak_type=True)
    """
    operands = _all_operands("cond", operands, operand)
    check_callable("cond", true_fun)
    check_callable("cond", false_fun)
    index = _scalar("cond", "the predicate", pred)
    if index.aval.dtype in COMPLEXES:
        raise InputError(f"cond: the predicate must be a bool, an integer or a float, got {index.aval}")
    if index.aval.dtype != BOOL:
        index = ne(index, constant_like(index, 0))
    if runs_by_python() and known(index):
        return _applied("cond", true_fun if np.asarray(index) else false_fun, operands)
    names = ("true_fun", "false_fun")
    staged = _stage("cond", (true_fun, false_fun), names, operands, index.aval.varying)
    outs = bind(Cond(staged.branches[::-1]), convert(index, INT32), *staged.operands)
    return staged.results.results(outs, staged.written)


@overload
def switch(index: ArrayLike, branches: Sequence[Callable[[Array], ArrayLike]], x: ArrayLike, /) -> Array: ...
@overload
def switch(
    index: ArrayLike, branches: Sequence[Callable[[Array, Array], ArrayLike]], x: ArrayLike, y: ArrayLike, /
) -> Array: ...
@overload
def switch(
    index: ArrayLike,
    branches: Sequence[Callable[[Array, Array, Array], ArrayLike]],
    x: ArrayLike,
    y: ArrayLike,
    z: ArrayLike,
    /,
) -> Array: ...
@overload
def switch(index: ArrayLike, branches: Sequence[Callable[[*_Ts], ArrayLike]], *operands: *_Ts) -> Array: ...
@overload
def switch(index: ArrayLike, branches: Sequence[Callable[[_T], ArrayLike]], *, operand: _T) -> Array: ...
@overload
def switch(index: ArrayLike, branches: Sequence[Callable[[Array], Pair]], x: ArrayLike, /) -> Arrays2: ...
@overload
def switch(index: ArrayLike, branches: Sequence[Callable[[*_Ts], Pair]], *operands: *_Ts) -> Arrays2: ...
@overload
def switch(index: ArrayLike, branches: Sequence[Callable[[Array], Triple]], x: ArrayLike, /) -> Arrays3: ...
@overload
def switch(index: ArrayLike, branches: Sequence[Callable[[*_Ts], Triple]], *operands: *_Ts) -> Arrays3: ...
@overload
def switch(
    index: ArrayLike, branches: Sequence[Callable[[*_Ts], tuple[Array, _U]]], *operands: *_Ts
) -> tuple[Array, _U]: ...
@overload
def switch(
    index: ArrayLike, branches: Sequence[Callable[[*_Ts], tuple[_U, Array]]], *operands: *_Ts
) -> tuple[_U, Array]: ...
@overload
def switch(index: ArrayLike, branches: Sequence[Callable[[_R], _R]], tree: _R, /) -> _R: ...
@overload
def switch(index: ArrayLike, branches: Sequence[Callable[[Array], dict[K, _T]]], x: ArrayLike, /) -> dict[K, _T]: ...
@overload
def switch(index: ArrayLike, branches: Sequence[Callable[[*_Ts], dict[K, _T]]], *operands: *_Ts) -> dict[K, _T]: ...
@overload
def switch(index: ArrayLike, branches: tuple[Callable[[Array], _R], ...], x: ArrayLike, /) -> _R: ...
@overload
def switch(index: ArrayLike, branches: tuple[Callable[[*_Ts], _R], ...], *operands: *_Ts) -> _R: ...
@overload  # of a list of lambdas, type checkers wouldn't find any result if the ones above took lists too
def switch(index: ArrayLike, branches: Sequence[Callable[[Array], Class]], x: ArrayLike, /) -> Any: ...
@overload
def switch(
    index: ArrayLike, branches: Sequence[Callable[[Array, *_Ts], Class]], x: ArrayLike, /, *operands: *_Ts
) -> Any: ...
def switch(
    index: ArrayLike,
    branches: Sequence[Callable[..., Any]],
    *operands: object,
    operand: object = _Missing.MISSING,
) -> Any:
    """`branches[index](*operands)`, also where `index` is traced. An index out of range names the nearest branch.

    All functions are traced, and only the chosen one runs. What they return must agree as for `cond`.

    Args:
      index: an integer scalar.
      branches: at least one function.
      operands: the arguments, trees of arrays.
      operand: the only argument, by name, as in older programs.

    Raises:
      InputError: `index` is no integer scalar; there are no branches; the types of the results differ.
      TreeError: the structures of the results differ.

    >>> switch(7, [lambda x: x, lambda x: -x], 3.0)
    Array(-3., dtype=float64, weak_type=True)
    """
    operands = _all_operands("switch", operands, operand)
    if not (branches := sequence("what switch takes for its branches", branches)):
        raise ChoiceError("switch needs at least one branch, got none")
    for branch in branches:
        check_callable("switch", branch)
    which = _scalar("switch", "the index", index)
    dtype = which.aval.dtype
    if dtype not in INTEGERS:
        raise InputError(f"switch: the index must be an integer, got {which.aval}")
    if len(branches) == 1:
        return _applied("switch", branches[0], operands)
    last = min(len(branches) - 1, integer_limits(dtype)[1])
    (which,) = bind(clamp, constant_like(which, 0), which, constant_like(which, last))
    if runs_by_python() and known(which):
        return _applied("switch", branches[int(which)], operands)
    return _chosen("switch", convert(which, INT32), branches, operands)


def _applied(what: str, function: Callable[..., Any], operands: Sequence[object]) -> Any:
    """What a function returns for arrays, run by Python."""
    arrays, treedef = flatten_arguments(function, operands, {})
    return FlatFunction(function, what, treedef)(arrays).tree()


def _chosen(what: str, index: Array, branches: Sequence[Callable[..., Any]], operands: Sequence[object]) -> Any:
    """The result of the branch at an index, which is an int32 in range."""
    names = [f"branch {i}" for i in range(len(branches))]
    staged = _stage(what, branches, names, operands, index.aval.varying)
    return staged.results.results(bind(Cond(staged.branches), index, *staged.operands), staged.written)


def _all_operands(what: str, operands: tuple[object, ...], operand: object) -> tuple[object, ...]:
    if operand is _Missing.MISSING:
        return operands
    if operands:
        raise InputError(f"{what}: operands are given by position, or one by the name `operand`, but not both")
    return (operand,)


def _scalar(what: str, role: str, x: object) -> Array:
    try:
        array = as_array(x)
    except InputError as error:
        raise InputError(f"{what}: {role} must be a scalar: {error}") from None
    if array.aval.shape != ():
        raise InputError(
            f"{what}: {role} must be a scalar, got {array.aval}. To choose element by element, use select."
        )
    return array


@final
@frozen(eq=False)
class _Staged:
    """Functions as programs of one type, the arrays that they are applied to, how their results look, and which cells
    one of them writes to."""

    branches: tuple[Jaxpr, ...]
    operands: tuple[Array, ...]
    results: Traced
    written: list[bool]


def _stage(
    what: str,
    functions: Sequence[Callable[..., object]],
    names: Sequence[str],
    operands: Sequence[object],
    varying: Axes,
) -> _Staged:
    """Stages functions of the same arguments. What they close over becomes operands: of each the same. All of it varies
    along the axes of a mesh along which devices choose for themselves (`varying`): sums over these, which derivatives
    have where it doesn't, are for all devices to take part in, so they belong outside."""
    functions, operands = closing_over_refs(functions, operands)
    arrays, treedef = flatten_arguments(functions[0], operands, {})
    arrays = [varied(array, varying) for array in arrays]
    avals = [array.aval for array in arrays]
    lies = of_arguments(arrays)
    scope = Scope(varying=varying)
    traced = same_cells([bodies.stage(what, f, treedef, avals, scope, lies=lies, writes=True) for f in functions])
    arrays = [array for array in arrays if array.aval.dtype != FLOAT0]
    described = [f"{name}, {located(f)}," for name, f in zip(names, functions, strict=True)]
    for other, name in zip(traced[1:], described[1:], strict=True):
        if other.treedef != traced[0].treedef:
            first, found = (f"the result of {which.rstrip(',')}" for which in (described[0], name))
            tree.check_same_structure(what, traced[0].treedef, other.treedef, first, found)
    captured: dict[int, Array] = {}
    for branch in traced:
        for array in branch.captured:
            captured.setdefault(_identity(array), array)
    positions = {key: i for i, key in enumerate(captured)}
    result_avals = _joined_types(what, traced, names, described)
    arrays = [*(varied(array, varying) for array in captured.values()), *arrays]
    arrays += [varied(cell.current(), varying) for cell in traced[0].cells]
    in_avals = [array.aval for array in arrays]
    branches = [
        with_types(
            _with_inputs(branch.jaxpr, in_avals, [positions[_identity(array)] for array in branch.captured]),
            result_avals,
        )
        for branch in traced
    ]
    writes = [written(branch.jaxpr, len(branch.cells)) for branch in traced]
    return _Staged(tuple(branches), tuple(arrays), traced[0], [any(marks) for marks in zip(*writes, strict=True)])


def _identity(array: Array) -> int:
    """A key for what a function closes over: the same for each use of the same array."""
    return id(array.value.data if isinstance(array, ConcreteArray) else array)


def _with_inputs(jaxpr: Jaxpr, avals: Sequence[ShapedArray], leading: Sequence[int]) -> Jaxpr:
    """The program with inputs of these types: its own first ones are at `leading` among them, the others come last."""
    if len(avals) == len(jaxpr.invars) and list(leading) == list(range(len(leading))):
        return jaxpr
    rest = len(avals) - (len(jaxpr.invars) - len(leading))

    def run(ctx: StagingContext, ins: list[Atom]) -> Sequence[Atom]:
        return interpret(ctx, jaxpr, [*(ins[i] for i in leading), *ins[rest:]])

    return stage(avals, run)


def _joined_types(
    what: str, traced: Sequence[Traced], names: Sequence[str], described: Sequence[str]
) -> list[ShapedArray]:
    """The types of the results, the same for all functions; an InputError that lists the results that can't agree.
    `names` are those of the functions, and `described` say where each is defined, too."""
    wrong: list[str] = []
    joined: list[ShapedArray] = []
    paths = tree.paths(traced[0].treedef)
    if any(branch.erased.keys() != traced[0].erased.keys() for branch in traced):
        raise InputError(
            f"{what}: some results have dtype float0 in one function and another dtype in another one, of "
            f"{' '.join(described).rstrip(',')}"
        )
    kept = [path for i, path in enumerate(paths) if i not in traced[0].erased] + [""] * len(traced[0].cells)
    for path, avals in zip(kept, zip(*[branch.jaxpr.out_avals for branch in traced], strict=True), strict=True):
        aval = _join(avals)
        if aval is None:
            first = {found: names[avals.index(found)] for found in avals}
            shown = ", ".join(f"{found} from {name}" for found, name in first.items())
            wrong.append(f"  {path or 'the result'}: {shown}")
        else:
            joined.append(aval)
    if wrong:
        lines = "\n".join(wrong)
        raise InputError(
            f"{what}: {' '.join(described[:-1])} and {described[-1]} must return the same types, but differ:\n{lines}\n"
            "Convert the results of one of them, for example with astype or reshape."
        )
    return joined


def _join(avals: Sequence[ShapedArray]) -> ShapedArray | None:
    """The one type of results of these types. Weakly typed ones take the dtype of the others."""
    strong = [aval for aval in avals if not aval.weak_type]
    first = strong[0] if strong else avals[0]
    for aval in avals:
        adapts = aval.weak_type and result_type([first, aval]) == (first.dtype, False)
        if aval.shape != first.shape or (aval.dtype != first.dtype and not adapts):
            return None
    return first.varying_over(union(axes_of(avals)))
