"""Inverse functions: a program solved for the inputs that aren't known.

This interpreter goes through a program backwards as well as forwards: an equation whose operands are known is applied,
and one whose outputs are known is solved for its operands, by a rule in `INVERSE_RULES`, until all inputs are known.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from typing import TYPE_CHECKING, Any, TypeAlias, final

from attrs import frozen

from tinyjax.api.arguments import as_tuple, resolve_position
from tinyjax.api.make_jaxpr import abstractify
from tinyjax.control.loops import While
from tinyjax.errors import InputError, TreeError
from tinyjax.interpreters.base import expansion
from tinyjax.interpreters.hidden import Hidden, open_frame, staged
from tinyjax.ir.aval import ShapedArray
from tinyjax.ir.context import Context
from tinyjax.ir.merging import completed, staged_operands
from tinyjax.ir.program import Atom, Eqn, Jaxpr, Var
from tinyjax.ir.rules import RuleTable
from tinyjax.stack import with_room
from tinyjax.tracebacks import filtered
from tinyjax.tracing import tree
from tinyjax.tracing.array import Array
from tinyjax.tracing.concrete import as_array
from tinyjax.tracing.frames import OpenFrame
from tinyjax.tracing.functions import FlatFunction, check_callable, describe
from tinyjax.tracing.programs import trace

if TYPE_CHECKING:
    from jax.tree_util import PyTreeDef


@final
@frozen
class Unknown:
    """A value that is to be found."""

    aval: ShapedArray


Partly: TypeAlias = Hidden | Unknown
#: A rule takes the primitive, the context, the outputs, and the operands; it returns the operands, None for those that
#: are known already or can't be found.
InverseRules: TypeAlias = RuleTable[[Context[Hidden], Sequence[Hidden], Sequence[Partly]], Sequence[Hidden | None]]
INVERSE_RULES: InverseRules = RuleTable("Inverse", name="tinyjax.interpreters.INVERSE_RULES")


@final
class Solution:
    """The values of a program's variables, as far as they are known. It grows while they are found."""

    __slots__ = ("_ctx", "_extra", "_found", "_left")

    def __init__(self, ctx: Context[Hidden], jaxpr: Jaxpr, ins: Sequence[Partly], outs: Sequence[Partly]) -> None:
        self._ctx = ctx
        self._found: dict[int, Hidden] = {}
        self._extra = 0
        self._learn(jaxpr.invars, ins)
        self._learn(jaxpr.outvars, outs)
        eqns = [eqn for eqn in jaxpr.eqns if not self._apply(eqn)]
        while True:
            left = [eqn for eqn in reversed(eqns) if not self._solve(eqn) and not self._apply(eqn)]
            left = [eqn for eqn in reversed(left) if not self._apply(eqn)]
            if len(left) == len(eqns):
                divided = next(((i, rest) for i, eqn in enumerate(left) if (rest := self._divide(eqn))), None)
                if divided is None:
                    break
                left[divided[0]] = divided[1]
            eqns = left
        self._left = eqns

    def _learn(self, atoms: Sequence[Atom], values: Sequence[Partly | None]) -> bool:
        """Notes the values; whether all of these atoms are known then."""
        for atom, value in zip(atoms, values, strict=True):
            if isinstance(atom, Var) and value is not None and not isinstance(value, Unknown):
                self._found.setdefault(atom.index, value)
        return all(map(self.known, atoms))

    def known(self, atom: Atom) -> bool:
        return not isinstance(atom, Var) or atom.index in self._found

    def read(self, atom: Atom) -> Hidden:
        return self._found[atom.index] if isinstance(atom, Var) else self._ctx.constant(atom)

    def _apply(self, eqn: Eqn) -> bool:
        """Finds the outputs, if all operands are known."""
        if not all(map(self.known, eqn.invars)):
            return False
        if not all(map(self.known, eqn.outvars)):
            self._learn(eqn.outvars, self._ctx.bind(eqn.primitive, *map(self.read, eqn.invars)))
        return True

    def _divide(self, eqn: Eqn) -> Eqn | None:
        """Finds those outputs of a program within that are known from some of its inputs alone, such as the counter of
        a loop. Returns an equation for the others; None if that finds nothing."""
        known = list(map(self.known, eqn.invars))
        if all(known) or not eqn.primitive.applied_programs:
            return None
        split = eqn.primitive.partial_eval(tuple(not mark for mark in known))
        if split is None or all(map(self.known, _marked(eqn.outvars, split.unknown_out, False))):
            return None
        passed = _marked(eqn.invars, known, True)
        if split.known_inputs is not None:
            passed = [eqn.invars[i] for i in split.known_inputs]
        outs = self._ctx.bind(split.known, *map(self.read, passed))
        first = _marked(eqn.outvars, split.unknown_out, False)
        self._learn(first, outs[: len(first)])
        if isinstance(eqn.primitive, While):  # the rest isn't divided: its rule takes the loop as a whole
            return eqn
        residuals = map(self._named, outs[len(first) :])
        operands = staged_operands(split, eqn.invars, _marked(eqn.invars, known, False), residuals)
        rest = [var for var, mark in zip(eqn.outvars, split.unknown_out, strict=True) if mark]
        return Eqn(split.staged, tuple(operands), tuple(rest), eqn.source)

    def _named(self, value: Hidden) -> Var:
        """A variable that stands for a value, which is none of the program's own."""
        self._extra += 1
        var = Var(-self._extra, self._ctx.aval(value))
        self._found[var.index] = value
        return var

    def _solve(self, eqn: Eqn) -> bool:
        """Finds the operands, if all outputs are known. An equation for which there is no rule is left."""
        if not all(map(self.known, eqn.outvars)):
            return False
        if type(eqn.primitive) not in INVERSE_RULES:
            return self._solve_expanded(eqn)
        args: list[Partly] = [self.read(atom) if self.known(atom) else Unknown(atom.aval) for atom in eqn.invars]
        return self._learn(
            eqn.invars, INVERSE_RULES.apply(eqn.primitive, self._ctx, list(map(self.read, eqn.outvars)), args)
        )

    def _solve_expanded(self, eqn: Eqn) -> bool:
        """The same, for a primitive that is defined by others."""
        program = expansion(eqn)
        if program is None:
            return False
        args: list[Partly] = [self.read(atom) if self.known(atom) else Unknown(atom.aval) for atom in eqn.invars]
        inner = Solution(self._ctx, program, args, list(map(self.read, eqn.outvars)))
        return self._learn(eqn.invars, [inner.read(var) if inner.known(var) else None for var in program.invars])

    def all_of(self, atoms: Sequence[Atom]) -> list[Hidden]:
        """The values of these atoms; an error that names an equation that couldn't be solved if one isn't known."""
        if all(map(self.known, atoms)):
            return list(map(self.read, atoms))
        for eqn in reversed(self._left):
            if all(map(self.known, eqn.outvars)):
                where = "" if eqn.source is None else f" ({eqn.source})"
                if type(eqn.primitive) not in INVERSE_RULES and expansion(eqn) is None:
                    raise INVERSE_RULES.missing_rule(type(eqn.primitive))
                raise InputError(
                    f"inverse: {eqn.primitive.name!r}{where} can't be solved: its result is known, but more than one "
                    f"of its operands isn't, or it doesn't determine them.\n  {eqn}"
                )
        unknown = ", ".join(str(atom.aval) for atom in atoms if not self.known(atom))
        raise InputError(f"inverse: the results don't determine all inputs: {unknown} can't be found")


def _marked(atoms: Sequence[Atom], marks: Sequence[bool], wanted: bool) -> list[Atom]:
    """The atoms whose mark is this one."""
    return [atom for atom, mark in zip(atoms, marks, strict=True) if mark is wanted]


def inverted(jaxpr: Jaxpr, known_in: Sequence[bool], known_out: Sequence[bool]) -> Jaxpr:
    """The program that takes the known inputs, then the known outputs, and returns the unknown inputs, then the unknown
    outputs."""
    given = [*_marked(jaxpr.invars, known_in, True), *_marked(jaxpr.outvars, known_out, True)]
    asked = [*_marked(jaxpr.invars, known_in, False), *_marked(jaxpr.outvars, known_out, False)]

    def run(ctx: Context[Hidden], values: list[Hidden]) -> Sequence[Hidden]:
        rest = iter(values)

        def partly(atoms: Sequence[Atom], marks: Sequence[bool]) -> list[Partly]:
            return [next(rest) if mark else Unknown(atom.aval) for atom, mark in zip(atoms, marks, strict=True)]

        return Solution(ctx, jaxpr, partly(jaxpr.invars, known_in), partly(jaxpr.outvars, known_out)).all_of(asked)

    return with_room(lambda: staged([atom.aval for atom in given], run))


def inverse(fun: Callable[..., object], argnums: int | Sequence[int] = 0, *, like: Any = None) -> Callable[..., Any]:
    """The function that finds the arguments of `fun` at `argnums` from its result, given the other arguments.

    `inverse(fun)(result, *others)` returns the argument, or a tuple of them if `argnums` is a sequence. `like` is an
    array or a type of what is asked for, or a tree or (for a sequence) tuple of these; by default it is the result.
    Where a result has several origins, it is the principal one that is found: the positive root, the angle nearest 0.

    >>> import tinyjax.numpy as tnp
    >>> inverse(lambda x: tnp.exp(tnp.tanh(x)))(tnp.exp(tnp.tanh(0.5)))
    Array(0.5, dtype=float64, weak_type=True)
    >>> inverse(lambda a, x: a * x, argnums=1)(6.0, 2.0)
    Array(3., dtype=float64, weak_type=True)
    """
    check_callable("inverse", fun)

    @filtered
    def solved(result: Any, *others: Any) -> Any:  # the user's trees
        numbers = as_tuple(argnums)
        count = len(others) + len(numbers)
        chosen = [resolve_position(number, count, "inverse: argnums") for number in numbers]
        asked = result if like is None else like
        templates = (asked,) if isinstance(argnums, int) else tuple(asked)
        if len(set(chosen)) != len(chosen) or len(templates) != len(chosen):
            raise InputError(
                f"inverse: argnums {numbers} ask for {len(set(chosen))} arguments, but "
                f"{'the result' if like is None else '`like`'} has {len(templates)} entries. Say with `like` what "
                "types they have."
            )
        unknown = dict(zip(chosen, templates, strict=True))
        args = tuple(completed(unknown, others, count))
        leaves, treedef = tree.flatten((args, {}))
        marks, _ = tree.flatten(
            tuple(tree.map_leaves(lambda _, mark=i in unknown: mark, arg) for i, arg in enumerate(args))
        )
        flat = FlatFunction(fun, "inverse", treedef)
        found = iter(_solve(flat, describe("inverse", fun), leaves, [mark is True for mark in marks], result))
        answers = {i: tree.map_leaves(lambda _: next(found), arg) for i, arg in enumerate(args) if i in unknown}
        return answers[chosen[0]] if isinstance(argnums, int) else tuple(answers[i] for i in chosen)

    return solved


def _solve(
    flat: FlatFunction, label: str, leaves: Sequence[object], marks: Sequence[bool], result: object
) -> list[Array]:
    """The leaves that are marked as unknown, in order."""
    traced = trace(flat, list(map(abstractify, leaves)))
    outs = _checked(label, result, traced.jaxpr.out_avals, traced.treedef)
    given = [as_array(leaf) for leaf, mark in zip(leaves, marks, strict=True) if not mark]
    n = len(traced.captured)
    asked = [var for var, mark in zip(traced.jaxpr.invars[n:], marks, strict=True) if mark]

    def run(frame: OpenFrame[Hidden]) -> list[Array]:
        rest = iter(map(frame.read, given))
        ins: list[Partly] = list(map(frame.read, traced.captured))
        ins += [
            Unknown(var.aval) if mark else next(rest) for var, mark in zip(traced.jaxpr.invars[n:], marks, strict=True)
        ]
        solution = Solution(frame.context, traced.jaxpr, ins, list(map(frame.read, outs)))
        return list(map(frame.wrap, solution.all_of(asked)))

    return open_frame([*traced.captured, *given, *outs], run, traced.jaxpr.effects)


def _checked(label: str, result: object, avals: Sequence[ShapedArray], treedef: PyTreeDef) -> list[Array]:
    """The leaves of the result, which must be of the tree and the types that the function returns."""
    found, found_tree = tree.flatten(result)
    if found_tree != treedef:
        raise TreeError(f"{label}: the function returns {tree.shown(treedef)}, got {tree.shown(found_tree)}")
    arrays = list(map(as_array, found))
    for array, aval in zip(arrays, avals, strict=True):
        if not array.aval.matches(aval):
            raise InputError(
                f"{label}: the function returns {aval} for inputs of these types, got {array.aval}. Say with `like` "
                "what types the inputs have."
            )
    return arrays
