"""Maxima of programs that are compiled: where all that follows is nan anyway, they may be numbers."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from heapq import heappush
from typing import Final, TypeAlias, final
from typing import Literal as Literal_

from attrs import evolve, frozen

from tinyjax.ir.aval import ShapedArray
from tinyjax.ir.dtypes import BOOL, FLOATS, INEXACT, NARROW_FLOATS
from tinyjax.ir.effects import must_stay
from tinyjax.ir.program import Atom, Eqn, Jaxpr, Literal, Var
from tinyjax.ir.program_value import well_typed
from tinyjax.primitives import arithmetic, elementwise, exponential
from tinyjax.primitives.comparison import Comparison, Ne
from tinyjax.primitives.contractions import DotGeneral
from tinyjax.primitives.conversion import ConvertElementType
from tinyjax.primitives.reductions import NanMode, ReduceMax
from tinyjax.primitives.rounding import IsFinite
from tinyjax.primitives.selection import SelectN
from tinyjax.primitives.structure import BroadcastInDim, ReduceSum
from tinyjax.transforms.followed_axes import SHAPING, Followed, multiplied, shaped
from tinyjax.transforms.readers import in_order, readers_of
from tinyjax.transforms.rebuild import bottom_up

#: How many equations that follow from one maximum are looked at.
_MOST: Final = 512
#: How far back it is looked for what makes an operand nan.
_BACK: Final = 6

#: What keeps the sign of a zero, or turns it.
_SIGNED: Final = frozenset(
    {elementwise.Add, elementwise.Sub, elementwise.Mul, elementwise.Neg, arithmetic.Div, arithmetic.Max, arithmetic.Min,
     ConvertElementType}
)  # fmt: skip
#: What doesn't depend on it.
_UNSIGNED: Final = frozenset({arithmetic.Abs, exponential.Exp, exponential.Exp2, IsFinite})
#: What is nan wherever one of its operands is: of such functions, those of softmaxes and their derivatives.
_KEEPS: Final = _SIGNED | _UNSIGNED - {IsFinite} | {exponential.Log, arithmetic.IntegerPow}
#: What is nan there by its operands, as this goes through them.
_LOOKED_THROUGH: Final = _KEEPS | SHAPING | {ReduceSum, DotGeneral}

#: Not all floats of 8 bits and fewer have a nan.
_WITH_NAN: Final = INEXACT - frozenset(NARROW_FLOATS)
_FALSE: Final = Literal(False, ShapedArray((), BOOL))

#: Whether there is a nan for each row that has one: nowhere for sure, at a place along the axes that the maximum is
#: taken over, everywhere; or everywhere in the logarithm of a sum, which isn't -0.
Nan: TypeAlias = Literal_["none", "some", "all", "log"]


def lost_nans(jaxpr: Jaxpr) -> Jaxpr:
    """The program, and those within it, with `NanMode.EITHER` for maxima of whose nan the results don't depend
    ([017](docs/decisions/017-extremes-that-keep-nan.md)).

    Rows of the operand that have a nan are followed: what is nan for them whichever the maximum is; what differs with
    it, as `exp(x - max(x))` does apart from where x is nan; and that a product of both is nan, or a sum of the latter.
    In this way a softmax that a program writes out is told from other uses, in its derivatives too, which needn't ask
    whether a maximum is nan. For other rows, only the sign of a zero may differ, which exponentials forget.
    """
    return bottom_up(jaxpr, _own)


def _own(jaxpr: Jaxpr) -> Jaxpr:
    maxima = [i for i, eqn in enumerate(jaxpr.eqns) if type(eqn.primitive) is ReduceMax and _is_of_floats(eqn)]
    if not maxima:
        return jaxpr
    program = _Program(jaxpr)
    eqns = list(jaxpr.eqns)
    for i in maxima:
        eqn = eqns[i]
        assert isinstance(eqn.primitive, ReduceMax)
        followed = _Followed(program, eqn, frozenset(eqn.primitive.axes))
        if followed.leave_no_trace():
            eqns[i] = Eqn(evolve(eqn.primitive, nan_mode=NanMode.EITHER), eqn.invars, eqn.outvars, eqn.source)
            for at in followed.questions:
                (out,) = eqns[at].outvars
                eqns[at] = Eqn(BroadcastInDim(out.aval.shape, ()), (_FALSE,), (out,), eqns[at].source)
    return well_typed(Jaxpr(jaxpr.invars, tuple(eqns), jaxpr.outvars, names=jaxpr.names))


def _is_of_floats(eqn: Eqn) -> bool:
    (operand,) = eqn.invars
    return isinstance(operand, Var) and operand.aval.dtype in FLOATS & _WITH_NAN


@final
class _Program:
    """Who reads the variables of a program, what binds them, and which it returns."""

    __slots__ = ("eqns", "makers", "readers", "results")

    def __init__(self, jaxpr: Jaxpr) -> None:
        self.eqns: Sequence[Eqn] = jaxpr.eqns
        self.results: frozenset[int] = frozenset([atom.index for atom in jaxpr.outvars if isinstance(atom, Var)])
        self.readers: Mapping[int, Sequence[int]] = readers_of(jaxpr.eqns)
        self.makers: Mapping[int, Eqn] = {var.index: eqn for eqn in jaxpr.eqns for var in eqn.outvars}


@final
@frozen
class _Value:
    """What follows from a maximum and its operand. Where it has an axis of the operand's, an element follows from one
    row along it, otherwise from all. `same`: whichever the maximum is. `signed`: but for the signs of zeros."""

    axes: Followed
    nan: Nan = "none"
    same: bool = False
    signed: bool = False

    @property
    def is_certain(self) -> bool:
        """Whether it may be read by anything."""
        return self.same and not self.signed


@final
class _Followed:
    """What follows from one maximum over some axes, as far as it may differ. `questions`: the places of equations that
    ask whether it is nan, as its derivative does."""

    def __init__(self, program: _Program, maximum: Eqn, axes: frozenset[int]) -> None:
        (operand,) = maximum.invars
        shape = operand.aval.shape
        self._program = program
        self._maximum = maximum
        self._over = frozenset([axis for axis in axes if shape[axis] > 1])
        self._rows = frozenset([axis for axis in range(len(shape)) if axis not in axes and shape[axis] > 1])
        self._values: dict[int, _Value] = {}
        self._tried: dict[int, int] = {}
        self._itself: set[int] = {out.index for out in maximum.outvars}
        self.questions: list[int] = []
        self._steps = 0
        if isinstance(operand, Var):
            self._values[operand.index] = _Value(tuple(range(len(shape))), "some", same=True)
        self._found = _Value(tuple([axis for axis in range(len(shape)) if axis not in axes]), signed=True)

    def leave_no_trace(self) -> bool:
        """Whether the program's results are the same, but for signs of zeros that nobody sees, whichever it is."""
        todo: list[int] = []
        if not self._over or not self._noted(self._maximum, self._found, todo):
            return False
        for at in in_order(todo):
            eqn = self._program.eqns[at]
            self._steps += 1
            if self._steps > _MOST or must_stay(eqn.primitive.effects):
                return False
            self._look_at(at, eqn)
            values = [self._value(atom, _BACK) for atom in eqn.invars]
            value = self._of(eqn, values)
            if value is None:
                # It has operands that may differ, or the same one in all.
                if all(found is None or found.is_certain for found in values):
                    continue
                if any(found is not None and found.signed for found in values) and not _ignores_signs(eqn):
                    return False
                if all(found is None or found.same for found in values):
                    continue
                value = _Value(())
            if not self._noted(eqn, value, todo):
                return False
        return True

    def _look_at(self, at: int, eqn: Eqn) -> None:
        """Notes what is the maximum itself, in another shape maybe, and where it is asked whether it is nan."""
        is_itself = [isinstance(atom, Var) and atom.index in self._itself for atom in eqn.invars]
        if all(is_itself) and type(eqn.primitive) in SHAPING:
            self._itself.update([out.index for out in eqn.outvars])
        elif all(is_itself) and type(eqn.primitive) is Ne and eqn.invars[0] == eqn.invars[1]:
            self.questions.append(at)

    def _noted(self, eqn: Eqn, value: _Value, todo: list[int]) -> bool:
        """Whether what an equation computes may be this: the program doesn't return what may differ. Who reads that
        follows."""
        for out in eqn.outvars:
            axes = value.axes or (None,) * out.aval.ndim
            self._values[out.index] = evolve(value, axes=axes)
            if not value.is_certain:
                if out.index in self._program.results:
                    return False
                for reader in self._program.readers.get(out.index, ()):
                    heappush(todo, reader)
        return True

    def _value(self, atom: Atom, back: int) -> _Value | None:
        """What an operand is, by so many equations before; None: the same, and it isn't known to be nan."""
        if not isinstance(atom, Var):
            return None
        found = self._values.get(atom.index)
        eqn = self._program.makers.get(atom.index)
        if found is not None or eqn is None or back == 0 or self._tried.get(atom.index, 0) >= back:
            return found
        self._tried[atom.index] = back
        if type(eqn.primitive) in _LOOKED_THROUGH:
            self._steps += 1
            found = self._of(eqn, [self._value(each, back - 1) for each in eqn.invars])
            if found is not None:
                self._values[atom.index] = found
        return found

    def _of(self, eqn: Eqn, values: Sequence[_Value | None]) -> _Value | None:
        """What an equation computes of such operands; None: nothing that is known."""
        primitive = eqn.primitive
        kind = type(primitive)
        if kind in SHAPING:
            (value,) = values
            return None if value is None else self._with_axes(value, shaped(value.axes, eqn))
        if isinstance(primitive, ReduceSum):
            (value,) = values
            return None if value is None else self._summed(value, primitive.axes)
        if isinstance(primitive, DotGeneral):
            sides = [
                None if value is None else self._multiplied(value, which, eqn) for which, value in enumerate(values)
            ]
            return None if any(map(_has_signs, values)) else self._together(sides, eqn)
        if isinstance(primitive, SelectN):
            return self._selected(values, eqn)
        if isinstance(primitive, elementwise.Elementwise | ConvertElementType | Comparison) or (kind in _UNSIGNED):
            if any(map(_has_signs, values)):
                return self._of_signed(eqn, values)
            keeps = kind in _KEEPS and eqn.outvars[0].aval.dtype in _WITH_NAN
            keeps = keeps and not (isinstance(primitive, arithmetic.IntegerPow) and primitive.y == 0)
            found = self._together(values if keeps else list(map(_but_for_nan, values)), eqn)
            is_log = kind is exponential.Log and found is not None and found.nan == "all"
            return evolve(found, nan="log") if found is not None and is_log else found
        return None

    def _of_signed(self, eqn: Eqn, values: Sequence[_Value | None]) -> _Value | None:
        """The same, if zeros of some operand may have either sign."""
        kind = type(eqn.primitive)
        if kind in _UNSIGNED or isinstance(eqn.primitive, Comparison):
            keeps = kind in _KEEPS
            found = self._together(values if keeps else list(map(_but_for_nan, values)), eqn)
            return None if found is None else evolve(found, signed=False)
        if kind not in _SIGNED or (kind is arithmetic.Div and _has_signs(values[1])):
            return None
        found = self._together(values, eqn)
        # The logarithm of a sum is no -0, so what is added to it is a zero of one sign.
        added = kind in (elementwise.Add, elementwise.Sub) and any(
            value is not None and value.nan == "log" for value in values
        )
        return None if found is None else evolve(found, signed=not added)

    def _selected(self, values: Sequence[_Value | None], eqn: Eqn) -> _Value | None:
        """What is chosen among operands: of no element it is known that it is nan."""
        found = self._together(list(map(_but_for_nan, values)), eqn)
        signed = any(map(_has_signs, values))
        return evolve(found, signed=signed) if found is not None else None

    def _together(self, values: Sequence[_Value | None], eqn: Eqn) -> _Value | None:
        """What is computed elementwise: nan where an operand is for the rows from which all that differs follows."""
        there = [value for value in values if value is not None]
        differ = [value for value in there if not value.same]
        ndim = eqn.outvars[0].aval.ndim
        for value in sorted(there, key=lambda value: value.nan == "some"):
            places = self._places(value)
            if value.nan != "none" and all(places.items() <= self._places(each).items() for each in differ):
                everywhere = value.nan != "some"
                axes = value.axes or (None,) * ndim
                return _Value(axes, "all" if everywhere else "some", everywhere or not differ)
        if not differ:
            return None
        common = set.intersection(*[set(self._places(each).items()) for each in differ])
        axes_at = {place: axis for axis, place in common}
        return _Value(tuple([axes_at.get(place) for place in range(ndim)]))

    def _places(self, value: _Value) -> dict[int, int]:
        """Where it has axes that tell rows apart."""
        return {axis: place for place, axis in enumerate(value.axes) if axis is not None and axis in self._rows}

    def _with_axes(self, value: _Value, axes: Followed | None) -> _Value | None:
        """The same in another shape."""
        if axes is not None:
            return evolve(value, axes=axes)
        return None if value.is_certain else evolve(value, axes=(), nan="none", same=False)

    def _over_of(self, axes: Followed) -> frozenset[int]:
        return frozenset([axis for axis in axes if axis is not None and axis in self._over])

    def _added_up(self, value: _Value, axes: Followed) -> _Value:
        """With these axes left after a sum: which is nan if there was a nan at a place that it went over."""
        nan = "all" if value.nan == "some" and not self._over_of(axes) else value.nan
        nan = "all" if nan == "log" else nan
        return _Value(axes, nan, value.same or nan == "all", value.signed)

    def _summed(self, value: _Value, axes: Sequence[int]) -> _Value:
        return self._added_up(value, tuple([axis for at, axis in enumerate(value.axes) if at not in axes]))

    def _multiplied(self, value: _Value, which: int, eqn: Eqn) -> _Value:
        return self._added_up(value, multiplied(value.axes, which, eqn))


def _has_signs(value: _Value | None) -> bool:
    return value is not None and value.signed


def _but_for_nan(value: _Value | None) -> _Value | None:
    """The same, read by what may not be nan where it is: only what may differ counts."""
    return None if value is None or value.same else evolve(value, nan="none")


def _ignores_signs(eqn: Eqn) -> bool:
    return type(eqn.primitive) in _UNSIGNED or isinstance(eqn.primitive, Comparison)
