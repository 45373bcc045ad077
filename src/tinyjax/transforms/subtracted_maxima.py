"""Maxima that are only subtracted before exponentials are added up, as in softmax: those of nan may be numbers."""

from __future__ import annotations

from collections.abc import Collection, Mapping, Sequence
from heapq import heappush
from types import MappingProxyType
from typing import Final, TypeAlias, final
from typing import Literal as Literal_

from attrs import evolve, frozen

from tinyjax.ir.dtypes import FLOATS
from tinyjax.ir.primitive import Primitive
from tinyjax.ir.program import Eqn, Jaxpr, Literal, Var
from tinyjax.ir.program_value import well_typed
from tinyjax.primitives.arithmetic import Abs, Div, Max
from tinyjax.primitives.conversion import StopGradient
from tinyjax.primitives.elementwise import Add, Sub
from tinyjax.primitives.exponential import Exp, Log
from tinyjax.primitives.reductions import NanMode, ReduceMax
from tinyjax.primitives.rounding import IsFinite
from tinyjax.primitives.selection import SelectN
from tinyjax.primitives.structure import ReduceSum, Transpose
from tinyjax.transforms.followed_axes import SHAPING, Followed, shaped
from tinyjax.transforms.readers import in_order, readers_of
from tinyjax.transforms.rebuild import bottom_up

#: What follows from a maximum: the maximum itself, or something in its place; whether that is finite; what it was
#: subtracted from; the exponentials of that; their sum; and its logarithm.
Kind: TypeAlias = Literal_["shift", "finite", "shifted", "exp", "sum", "log"]
#: One of each for a row of the operand.
_OF_ROWS: Final = frozenset({"shift", "finite", "sum", "log"})
#: What is nan where the sum of exponentials is, and has such derivatives.
_NAN: Final = "nan"
#: What follows by a function of one operand.
_FOLLOWING: Final[Mapping[tuple[type[Primitive], Kind], Kind]] = MappingProxyType(
    {(IsFinite, "shift"): "finite", (Exp, "shifted"): "exp", (Abs, "sum"): "sum", (Log, "sum"): "log"}
)


def subtracted_maxima(jaxpr: Jaxpr) -> Jaxpr:
    """The program, and those within it, with `NanMode.EITHER` for the maxima of softmaxes, which JAX's programs don't
    say it of ([017](docs/decisions/017-extremes-that-keep-nan.md)).

        { lambda ; a:f64[3]. let b:f64[] = reduce_max[axes=(0,)] a; c:f64[3] = sub a b; d:f64[3] = exp c;
            e:f64[] = reduce_sum[axes=(0,)] d; f:f64[3] = div d e in (f,) }
        { lambda ; a:f64[3]. let b:f64[] = reduce_max[axes=(0,) nan_mode=NanMode.EITHER] a; … in (f,) }

    Whatever follows from such a maximum is read together with the sum of the exponentials, which is nan where there is
    a nan: an exponential is divided by it; the logarithm of it, whose derivative is nan, too, is added to the maximum,
    or subtracted from what the maximum was subtracted from. Whoever reads something else leaves the maximum as it is.
    """
    return bottom_up(jaxpr, _own)


def _own(jaxpr: Jaxpr) -> Jaxpr:
    maxima = [i for i, eqn in enumerate(jaxpr.eqns) if _forgets_nothing(eqn)]
    if not maxima:
        return jaxpr
    readers = readers_of(jaxpr.eqns)
    results = {atom.index for atom in jaxpr.outvars if isinstance(atom, Var)}
    found = {i: jaxpr.eqns[i] for i in maxima if _Following(jaxpr.eqns, readers, results).only_shifts(jaxpr.eqns[i])}
    if not found:
        return jaxpr
    eqns = list(jaxpr.eqns)
    for i, eqn in found.items():
        assert isinstance(eqn.primitive, ReduceMax)
        eqns[i] = Eqn(evolve(eqn.primitive, nan_mode=NanMode.EITHER), eqn.invars, eqn.outvars, eqn.source)
    return well_typed(Jaxpr(jaxpr.invars, tuple(eqns), jaxpr.outvars, names=jaxpr.names))


def _forgets_nothing(eqn: Eqn) -> bool:
    return type(eqn.primitive) is ReduceMax and eqn.primitive.nan_mode is None and eqn.invars[0].aval.dtype in FLOATS


@final
@frozen
class _Value:
    """What follows from a maximum, and where the operand's axes are in it."""

    kind: Kind
    axes: Followed = ()


@final
class _Following:
    """What follows from one maximum in a program, up to sums of exponentials and what is nan with these."""

    def __init__(self, eqns: Sequence[Eqn], readers: Mapping[int, Sequence[int]], results: Collection[int]) -> None:
        self._eqns = eqns
        self._readers = readers
        self._results = results
        self._values: dict[int, _Value] = {}
        self._wholes: dict[int, tuple[int, ...]] = {}  # the operand, and that with its axes permuted

    def only_shifts(self, maximum: Eqn) -> bool:
        """Whether all of it is read together with such a sum."""
        operand = maximum.invars[0]
        if not isinstance(operand, Var) or not isinstance(maximum.primitive, ReduceMax):
            return False
        axes = tuple(range(operand.aval.ndim))
        reduced = frozenset(maximum.primitive.axes)
        self._wholes = {operand.index: axes}
        for i in self._readers[operand.index]:
            primitive = self._eqns[i].primitive
            if isinstance(primitive, Transpose):
                self._wholes[self._eqns[i].outvars[0].index] = tuple(primitive.permutation)
        todo: list[int] = []
        if not self._noted(maximum, _Value("shift", tuple([axis for axis in axes if axis not in reduced])), todo):
            return False
        for at in in_order(todo):
            eqn = self._eqns[at]
            values = [self._values.get(atom.index) if isinstance(atom, Var) else None for atom in eqn.invars]
            found = self._of(eqn, values, reduced)
            if isinstance(found, _Value):
                good = self._noted(eqn, found, todo)
            else:
                # Logarithms are nan as their derivatives are, whoever reads them. Or nobody reads what follows.
                certain = all(value is None or value.kind == "log" for value in values)
                good = found == _NAN or certain or not any(map(self._is_read, eqn.outvars))
            if not good:
                return False
        return any(value.kind == "sum" for value in self._values.values())

    def _is_read(self, var: Var) -> bool:
        return var.index in self._readers or var.index in self._results

    def _noted(self, eqn: Eqn, value: _Value, todo: list[int]) -> bool:
        """Whether what an equation computes may be this, as the program doesn't return it. Its readers follow."""
        (out,) = eqn.outvars
        self._values[out.index] = value
        for reader in self._readers.get(out.index, ()):
            heappush(todo, reader)
        return value.kind == "log" or out.index not in self._results

    def _of(
        self, eqn: Eqn, values: Sequence[_Value | None], reduced: frozenset[int]
    ) -> _Value | Literal_["nan"] | None:
        """What an equation computes that reads some of it; None: something else."""
        kind = type(eqn.primitive)
        match values:
            case [_Value(kind=which) as value] if kind in SHAPING:
                stops = kind is StopGradient and which != "shift"  # a sum whose derivative isn't nan
                return None if stops or which not in _OF_ROWS else _shaped(value, eqn)
            case [_Value(kind="exp") as value] if isinstance(eqn.primitive, ReduceSum):
                left = tuple([axis for at, axis in enumerate(value.axes) if at not in eqn.primitive.axes])
                return _Value("sum", left) if reduced == set(value.axes) - set(left) else None
            case [_Value(kind=which) as value]:
                following = _FOLLOWING.get((kind, which))
                return None if following is None else _Value(following, value.axes)
            case [None, _Value(kind="shift") as shift] if kind is Sub and isinstance(eqn.invars[0], Var):
                whole = _Value("shifted", self._wholes.get(eqn.invars[0].index, ()))
                return whole if _repeats(shift, whole, reduced, eqn) else None
            case [_Value(kind="shifted") as whole, _Value(kind="log") as log] if kind is Sub:
                return _NAN if _repeats(log, whole, reduced, eqn) else None
            case [_Value(kind="exp") as whole, _Value(kind="sum") as total] if kind is Div:
                return _NAN if _repeats(total, whole, reduced, eqn) else None
            case [_Value() as one, _Value() as other] if kind is Add:
                return _NAN if {one.kind, other.kind} == {"log", "shift"} and one.axes == other.axes else None
            case [_Value(kind="finite") as finite, None, _Value(kind="shift") as shift] if kind is SelectN:
                return shift if shift.axes == finite.axes else None
            case [_Value(kind="shift") as shift, None] | [None, _Value(kind="shift") as shift] if kind is Max:
                return shift if any(isinstance(atom, Literal) for atom in eqn.invars) else None
        return None


def _shaped(value: _Value, eqn: Eqn) -> _Value | None:
    """The same in another shape; None: axes aren't what they were."""
    axes = shaped(value.axes, eqn)
    return None if axes is None else evolve(value, axes=axes)


def _repeats(value: _Value, whole: _Value, reduced: frozenset[int], eqn: Eqn) -> bool:
    """Whether a second operand repeats what each row has along what is reduced, where the first has all elements."""
    if not whole.axes:
        return False
    sizes = dict(zip(whole.axes, eqn.invars[0].aval.shape, strict=True))
    if not value.axes:  # one number for all
        return all(size == 1 or axis in reduced for axis, size in sizes.items())
    return len(value.axes) == len(whole.axes) and all(
        sizes[axis] == 1 or own == (None if axis in reduced else axis)
        for own, axis in zip(value.axes, whole.axes, strict=True)
    )
