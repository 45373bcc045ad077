"""Constant folding: equations whose operands are known are computed once, while the program is transformed."""

from __future__ import annotations

from collections.abc import Callable, Iterator, Sequence
from typing import Final, final

import numpy as np

from tinyjax.contexts.evaluation import EvalContext
from tinyjax.errors import InputError
from tinyjax.ir.dtypes import SUPPORTED
from tinyjax.ir.holding import ProgramT, changed
from tinyjax.ir.parameters import Opaque
from tinyjax.ir.primitive import Primitive
from tinyjax.ir.program import Atom, ClosedJaxpr, Eqn, Jaxpr, Literal, Var
from tinyjax.ir.rules import RuleTable
from tinyjax.ir.shared_types import array_type
from tinyjax.ir.traverse import holds_programs, record_values
from tinyjax.ir.value import ConcreteValue
from tinyjax.primitives.annotations import Name, OptimizationBarrier
from tinyjax.primitives.constant import Constant
from tinyjax.primitives.conversion import conversion
from tinyjax.primitives.platforms import PlatformIndex
from tinyjax.primitives.shaping import Iota
from tinyjax.primitives.structure import BroadcastInDim
from tinyjax.transforms.arguments import whole
from tinyjax.transforms.decided import SHORTCUTS, ShortcutRule
from tinyjax.transforms.rebuild import Rebuilding, bottom_up, count_vars, literal_of, on_closed, read

#: By default nothing is folded that takes or makes an array of more elements.
MAX_SIZE: Final = 1024
#: Whether equations that apply a primitive may be folded. True without a rule.
FOLDING: Final[RuleTable[[], bool]] = RuleTable("Folding", name="tinyjax.transforms.FOLDING")
FOLDING[OptimizationBarrier] = lambda primitive: False
FOLDING[PlatformIndex] = lambda primitive: False  # the program may run elsewhere
FOLDING[Name] = lambda primitive: False  # lists of residuals know the value by it

_EVALUATION: Final = EvalContext()


def fold_constants(program: ProgramT, *, max_size: int = MAX_SIZE) -> ProgramT:
    """The program with what is known of it computed, by the primitives' own evaluation.

        { lambda ; a:f64[]. let b:f64[] = sin 0.0; c:f64[] = add b 1.0; d:f64[] = mul a c in (d,) }
        { lambda ; a:f64[]. let b:f64[] = mul a 1.0 in (b,) }

    Scalars become literals, arrays become `constant` equations where they are read, or a `broadcast_in_dim` of a
    literal if all their elements are the same. In a closed program, the constants are known too. Nothing is folded

    - that takes or makes an array of more than `max_size` elements,
    - that only repeats or counts, as `broadcast_in_dim` and `iota` do, unless something is computed from it,
    - that has effects, calls a Python function, holds a program, or fails to evaluate.

    A `cond` whose index is known becomes the branch. The results are those of evaluation with NumPy; a compiled program
    may round the last digit of, say, `sin` in another way.
    """
    if whole("fold_constants: max_size", max_size) < 1:
        raise InputError(f"fold_constants: max_size must be at least 1, got {max_size}")

    def closed(program: ClosedJaxpr) -> ClosedJaxpr:
        return on_closed(program, lambda jaxpr: _folded(jaxpr, program.consts, max_size))

    return changed(program, "fold_constants", lambda jaxpr: _folded(jaxpr, (), max_size), closed)


def _folded(jaxpr: Jaxpr, consts: Sequence[ConcreteValue], max_size: int) -> Jaxpr:
    within = bottom_up(jaxpr, *_each_once(lambda program: _Folding(program, (), max_size).run()))
    return _Folding(within, consts, max_size).run() if consts else within


def _each_once(change: Callable[[Jaxpr], Jaxpr]) -> tuple[Callable[[Jaxpr], Jaxpr], Callable[[Jaxpr], Jaxpr]]:
    """What to do with a program after those within it, and what before: to change it before, so that what is taken out
    of programs that stand in each other is moved once; and again only if something within it has changed."""
    kept: dict[int, Jaxpr] = {}

    def before(program: Jaxpr) -> Jaxpr:
        changed = change(program)
        kept[id(changed)] = changed
        return changed

    return (lambda program: program if id(program) in kept else change(program)), before


@final
class _Folding:
    """One program being folded. What is known is written down only where something unknown reads it."""

    def __init__(self, jaxpr: Jaxpr, consts: Sequence[ConcreteValue], max_size: int) -> None:
        self._jaxpr = jaxpr
        self._max_size = max_size
        self._ctx = Rebuilding(jaxpr.invars)
        # By the variables' old numbers, which go on for the programs that are spliced in.
        self._env: dict[int, Atom] = dict(enumerate(jaxpr.invars))
        self._known: dict[int, ConcreteValue] = {}
        self._repeating: dict[int, Eqn] = {}
        self._stands_for: dict[int, Atom] = {}
        self._next = count_vars(jaxpr)
        self._foldable: dict[type[Primitive], bool] = {}
        self._shortcuts: dict[type[Primitive], ShortcutRule | None] = {}
        self._changed = False
        for i, const in enumerate(consts):
            if const.aval == jaxpr.invars[i].aval and const.aval.size <= max_size and const.on_host:
                self._known[i] = const

    def run(self) -> Jaxpr:
        work: list[Iterator[Eqn]] = [iter(self._jaxpr.eqns)]
        known = self._known
        while work:
            eqn = next(work[-1], None)
            if eqn is None:
                work.pop()
                continue
            if self._stands_for:
                eqn = Eqn(eqn.primitive, self._resolved(eqn.invars), eqn.outvars, eqn.source)
            for atom in eqn.invars:
                if isinstance(atom, Var) and atom.index not in known:
                    break
            else:
                if self._fold(eqn):
                    continue
            program = self._shortcut(eqn)
            if program is not None:
                work.append(self._spliced(eqn, program))
                continue
            ins = tuple([self._atom(atom) for atom in eqn.invars])
            for old, new in zip(eqn.outvars, self._ctx.again(eqn, ins), strict=True):
                self._env[old.index] = new
        if not self._changed:
            return self._jaxpr
        return self._ctx.finish([self._atom(atom) for atom in self._resolved(self._jaxpr.outvars)])

    def _resolved(self, atoms: Sequence[Atom]) -> tuple[Atom, ...]:
        stands_for = self._stands_for
        return tuple([stands_for.get(atom.index, atom) if isinstance(atom, Var) else atom for atom in atoms])

    def _fold(self, eqn: Eqn) -> bool:
        """Computes the outputs of an equation whose operands are all known; whether that went well."""
        primitive = eqn.primitive
        for out in eqn.outvars:
            if out.aval.size > self._max_size or out.aval.dtype not in SUPPORTED:
                return False
        if not self._may_fold(primitive):
            return False
        values = [
            self._known[atom.index] if isinstance(atom, Var) else _EVALUATION.constant(atom) for atom in eqn.invars
        ]
        try:
            results = _EVALUATION.bind(primitive, *values)
        except Exception:  # noqa: BLE001 (whatever it is, it shall happen when the program runs)
            return False
        if [result.aval for result in results] != [out.aval for out in eqn.outvars]:
            return False
        repeating = isinstance(primitive, BroadcastInDim | Iota | Constant)
        for out, result in zip(eqn.outvars, results, strict=True):
            self._known[out.index] = result
            if repeating:
                self._repeating[out.index] = eqn
        self._changed = self._changed or not repeating
        return True

    def _may_fold(self, primitive: Primitive) -> bool:
        cls = type(primitive)
        if cls not in self._foldable:
            rule = FOLDING.find(cls)
            self._foldable[cls] = rule is None or rule(primitive)
        return (
            self._foldable[cls]
            and not primitive.effects
            and not holds_programs(primitive)
            and not any(isinstance(value, Opaque) for _, value in record_values(primitive))
        )

    def _shortcut(self, eqn: Eqn) -> Jaxpr | None:
        cls = type(eqn.primitive)
        if cls not in self._shortcuts:
            self._shortcuts[cls] = SHORTCUTS.find(cls)
        rule = self._shortcuts[cls]
        if rule is None:
            return None
        scalars: list[Literal | None] = []
        for atom in eqn.invars:
            value = self._known.get(atom.index) if isinstance(atom, Var) else _EVALUATION.constant(atom)
            scalars.append(literal_of(value) if value is not None and value.aval.shape == () else None)
        return rule(eqn.primitive, scalars)

    def _spliced(self, eqn: Eqn, program: Jaxpr) -> Iterator[Eqn]:
        """The equations of a program that stands for an equation, with numbers that are free."""
        self._changed = True
        at = self._next
        self._next = at + count_vars(program)
        new: list[Atom] = [Var(at + var.index, var.aval) for var in program.invars]
        for i, (operand, var) in enumerate(zip(eqn.invars, program.invars, strict=True)):
            if operand.aval == var.aval:
                new[i] = operand
            else:
                converted = Var(at + i, var.aval)
                yield Eqn(conversion(var.aval.dtype, var.aval.weak_type), (operand,), (converted,), eqn.source)
        for inner in program.eqns:
            outs = tuple([Var(at + out.index, out.aval) for out in inner.outvars])
            yield Eqn(inner.primitive, read(new, inner.invars), outs, inner.source or eqn.source)
            new += outs
        for out, result in zip(eqn.outvars, read(new, program.outvars), strict=True):
            if result.aval == out.aval:
                self._stands_for[out.index] = self._resolved([result])[0]
            else:
                yield Eqn(conversion(out.aval.dtype, out.aval.weak_type), (result,), (out,), eqn.source)

    def _atom(self, atom: Atom) -> Atom:
        """An atom in the new program, where what is known is written down if it isn't yet."""
        if isinstance(atom, Literal):
            return atom
        pending: list[Eqn] = []
        while (found := self._env.get(atom.index)) is None:
            eqn = self._repeating.get(atom.index)
            value = self._known[atom.index]
            if eqn is None or value.aval.shape == ():
                found = self._env[atom.index] = self._written(value)
                break
            pending.append(eqn)
            if not eqn.invars:
                break
            (operand,) = eqn.invars
            if isinstance(operand, Literal):
                found = operand
                break
            atom = operand
        for eqn in reversed(pending):
            ins = () if found is None else (found,)
            (found,) = self._ctx.again(eqn, ins)
            self._env[eqn.outvars[0].index] = found
        # Either it was there, or one of the loops has made it.
        return atom if found is None else found

    def _written(self, value: ConcreteValue) -> Atom:
        if value.aval.shape == ():
            return literal_of(value)
        elements = np.asarray(value.data)
        self._ctx.cursor.source = None
        if elements.size and elements.tobytes() == elements.ravel()[:1].tobytes() * elements.size:
            scalar = ConcreteValue(elements.ravel()[0:1].reshape(()), array_type((), value.dtype, value.aval.weak_type))
            return self._ctx.bind(BroadcastInDim(value.shape, ()), literal_of(scalar))[0]
        return self._ctx.constant(value)
