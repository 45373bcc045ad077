"""What a program says of a sum yet to be made, said where its terms come from.

Gradients are constrained when they are whole. Where they are put together of products in loops, branches and functions,
or added up, the products are what devices have terms of:

{ lambda ; a:f64[4,8,2@x] b:f64[4,2@x,8]. let
    c:f64[4,8,8] = scan[jaxpr={ lambda ; a:f64[8,2@x] b:f64[2@x,8]. let c:f64[8,8] = dot_general a b in (c,) } ...] a b
    d:f64[4,8,8] = sharding_constraint[P(unreduced={'x'})] c
  in (d,) }

The constraint is put into the loop, too, so that nothing is summed there.
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import Final, TypeAlias, final

from attrs import evolve

from tinyjax.control.call import Calling
from tinyjax.control.cond import Cond
from tinyjax.control.custom_derivatives import CustomCall
from tinyjax.control.loops import While
from tinyjax.control.scan import Scan
from tinyjax.ir.primitive import Primitive
from tinyjax.ir.program import Atom, Eqn, Jaxpr, Literal, Var
from tinyjax.ir.shapes import as_axes, marked
from tinyjax.meshes.mesh import Mesh
from tinyjax.primitives.resharding import ShardingConstraint
from tinyjax.propagation.control import PROGRAMS
from tinyjax.propagation.propagate import lies_of_variables, propagate, results_of
from tinyjax.propagation.specs import Lies, Open, Site, Summed, parts_of, pinned, replicated
from tinyjax.propagation.summands import makers_of, natural, sums_over, unreduced_of
from tinyjax.transforms.rebuild import Rebuilding, count_reads, read

#: What holds programs into which a constraint on results can be put.
_HOLDERS: Final = (Scan, While, Cond, Calling, CustomCall)
#: The axes of the mesh along which sums are yet to be made.
_Names: TypeAlias = frozenset[str]


def sunk(jaxpr: Jaxpr, ins: Sequence[Lies], mesh: Mesh) -> Jaxpr:
    """The program, whose inputs lie so, with further constraints. Itself, if there is nothing to say."""
    said = {names for eqn in jaxpr.eqns if (names := _names_said(eqn))}
    for names in sorted(said, key=sorted):
        jaxpr = _Sinking(jaxpr, ins, mesh, names).result()
    return jaxpr


def _names_said(eqn: Eqn) -> _Names:
    primitive = eqn.primitive
    return primitive.sharding.spec.unreduced if isinstance(primitive, ShardingConstraint) else frozenset()


@final
class _Sinking:
    """A program whose sums along some axes of the mesh are looked for."""

    def __init__(self, jaxpr: Jaxpr, ins: Sequence[Lies], mesh: Mesh, names: _Names) -> None:
        self._jaxpr, self._mesh, self._names = jaxpr, mesh, names
        self._lies: list[Lies] = lies_of_variables(jaxpr, ins, mesh)
        self._reads: list[int] = count_reads(jaxpr)
        self._makers = makers_of(jaxpr)
        #: How a variable lies whose terms devices have if nobody makes the sum.
        self._terms: dict[int, Summed] = {}
        for eqn in jaxpr.eqns:
            self._look(eqn)
        #: What is said of variables, of operands of equations, and the primitives of equations that change.
        self._of: dict[int, Summed] = {}
        self._before: dict[tuple[int, int], Summed] = {}
        self._changed: dict[int, Primitive] = {}

    def result(self) -> Jaxpr:
        """The program that says it."""
        for at in reversed(range(len(self._jaxpr.eqns))):
            self._visit(at, self._jaxpr.eqns[at])
        if not (self._of or self._before):
            return self._jaxpr
        grown = Rebuilding(self._jaxpr.invars, self._jaxpr.names)
        env: list[Atom] = list(grown.invars)
        for at, eqn in enumerate(self._jaxpr.eqns):
            grown.cursor.source = eqn.source
            args = list(read(env, eqn.invars))
            for i, arg in enumerate(args):
                if (lies := self._before.get((at, i))) is not None:
                    args[i] = self._constrained(grown, arg, lies)
            for var, out in zip(eqn.outvars, grown.again(eqn, tuple(args), self._changed.get(at)), strict=True):
                lies = self._of.get(var.index)
                env.append(out if lies is None else self._constrained(grown, out, lies))
        return grown.finish(read(env, self._jaxpr.outvars))

    def terms_of(self, atom: Atom) -> Summed | None:
        """How a value lies that nothing else reads, if devices may have terms of it."""
        return self._terms.get(atom.index) if isinstance(atom, Var) and self._reads[atom.index] == 1 else None

    def _constrained(self, ctx: Rebuilding, x: Atom, lies: Summed) -> Atom:
        return ctx.bind(ShardingConstraint(pinned(lies, self._mesh)), x)[0]

    def _where(self, atom: Atom) -> Lies:
        return self._lies[atom.index] if isinstance(atom, Var) else replicated(atom.aval)

    def _held(self, atom: Atom) -> bool:
        """Whether it is known to be a sum."""
        return not self._names.difference(unreduced_of(self._where(atom)))

    # Where terms may be: from the first equation to the last.

    def _look(self, eqn: Eqn) -> None:
        primitive = eqn.primitive
        if isinstance(primitive, _HOLDERS):
            for var, lies in zip(eqn.outvars, self._inside(eqn), strict=True):
                if lies is not None:
                    self._terms[var.index] = lies
            return
        operands = [self._where(atom) for atom in eqn.invars]
        if sums_over(eqn, operands, self._names, self._makers) is not None:
            parts = natural(eqn, operands)
            self._terms[eqn.outvars[0].index] = Summed(parts, self._axes())
            return
        group = self._group(eqn)
        if group is None:
            return
        for i in group:
            summed = self._as_terms(eqn.invars[i])
            if summed is None:
                return
            operands[i] = summed
        found = results_of(Site(self._mesh, eqn, ("",) * len(operands)), eqn, operands)
        for var, each in zip(eqn.outvars, found, strict=True):
            if isinstance(each, Summed) and not self._names.difference(unreduced_of(each)):
                self._terms[var.index] = each

    def _axes(self) -> tuple[str, ...]:
        return marked((), as_axes(sorted(self._names)), ())

    def _as_terms(self, atom: Atom) -> Lies | None:
        """How an operand lies once it is a sum; None if it isn't known how it lies."""
        lies = self._where(atom)
        if self._held(atom) or _is_zero(atom):
            return lies
        found = self.terms_of(atom)
        if found is not None or isinstance(lies, Open) or unreduced_of(lies):
            return found
        return Summed(
            tuple([tuple([n for n in part if n not in self._names]) for part in parts_of(lies)]), self._axes()
        )

    def _group(self, eqn: Eqn) -> Sequence[int] | None:
        """The operands in which an equation is linear, if one of them comes of terms."""
        primitive = eqn.primitive
        if isinstance(primitive, ShardingConstraint) or PROGRAMS.find(type(primitive)) is not None:
            return None
        for group in primitive.linear_in(len(eqn.invars)):
            if any(self.terms_of(eqn.invars[i]) is not None for i in group):
                return group
        return None

    def _inside(self, eqn: Eqn) -> list[Summed | None]:
        """The same of the results of programs within an equation."""
        primitive, operands = eqn.primitive, [self._where(atom) for atom in eqn.invars]
        columns: list[list[Summed | None]] = []
        for jaxpr, ins in self._run(eqn, primitive, operands)[1].items():
            given = list(ins)
            if isinstance(primitive, Scan | While):  # what is added up is a sum from the start
                consts = primitive.num_consts if isinstance(primitive, Scan) else primitive.body_nconsts
                for i in range(_carries(eqn)):
                    if isinstance(given[consts + i], Open):
                        given[consts + i] = self._as_terms(eqn.invars[_first(eqn) + i]) or given[consts + i]
            inner = _Sinking(jaxpr, given, self._mesh, self._names)
            columns.append([inner.terms_of(out) for out in jaxpr.outvars])
        found: list[Summed | None] = []
        for i, (first, *others) in enumerate(zip(*columns, strict=True)):
            same = first is not None and all(lies == first for lies in others)
            stack = isinstance(primitive, Scan) and i >= primitive.num_carry
            found.append(
                None if first is None or not same else Summed(((), *first.spec), first.axes) if stack else first
            )
        return found

    def _run(
        self, eqn: Eqn, primitive: Primitive, operands: Sequence[Lies]
    ) -> tuple[Sequence[Lies], dict[Jaxpr, Sequence[Lies]]]:
        seen: dict[Jaxpr, Sequence[Lies]] = {}

        def run(jaxpr: Jaxpr, ins: Sequence[Lies]) -> list[Lies]:
            seen[jaxpr] = tuple(ins)
            return propagate(jaxpr, ins, self._mesh)

        site = Site(self._mesh, eqn, ("",) * len(operands))
        return PROGRAMS[type(primitive)](primitive, operands, site, run), seen

    def _makes_terms(self, eqn: Eqn) -> bool:
        return sums_over(eqn, [self._where(atom) for atom in eqn.invars], self._names, self._makers) is not None

    # What is said: from the last equation to the first.

    def _visit(self, at: int, eqn: Eqn) -> None:
        if _names_said(eqn) == self._names:
            self._ask(eqn.invars[0])
        asked = {i: self._of[var.index] for i, var in enumerate(eqn.outvars) if var.index in self._of}
        if asked and isinstance(eqn.primitive, _HOLDERS):
            self._into(at, eqn, asked)
        elif asked and not self._makes_terms(eqn):
            for i in self._group(eqn) or ():
                self._said_before(at, i, eqn.invars[i])

    def _said_before(self, at: int, i: int, atom: Atom) -> None:
        """Has it said of an operand that it is a sum."""
        lies = self._as_terms(atom)
        if not self._ask(atom) and isinstance(lies, Summed) and not self._held(atom):
            self._before[at, i] = lies

    def _ask(self, atom: Atom) -> bool:
        """Has it said where the terms of a value come from, if there are any."""
        lies = self.terms_of(atom)
        if lies is None or not isinstance(atom, Var) or self._held(atom):
            return False
        self._of[atom.index] = lies
        return True

    def _into(self, at: int, eqn: Eqn, asked: dict[int, Summed]) -> None:
        """Puts constraints on results into the programs that they come of, unless too little is known then."""
        primitive, operands = eqn.primitive, [self._where(atom) for atom in eqn.invars]
        within, starts = dict(asked), dict[int, int]()
        if isinstance(primitive, Scan | While):
            for i, lies in asked.items():
                if i < _carries(eqn):
                    starts[i] = _first(eqn) + i
                    operands[starts[i]] = lies
                else:
                    within[i] = Summed(lies.spec[1:], lies.axes)
        changed = self._holding(primitive, within)
        found, _ = self._run(eqn, changed, operands)
        before = [self._lies[var.index] for var in eqn.outvars]
        worse = any(isinstance(new, Open) and not isinstance(old, Open) for new, old in zip(found, before, strict=True))
        if worse or any(found[i] != lies for i, lies in asked.items()):
            for var in eqn.outvars:
                self._of.pop(var.index, None)
            return
        self._changed[at] = changed
        for i, start in starts.items():
            atom = eqn.invars[start]
            if self.terms_of(atom) == asked[i]:
                self._ask(atom)
            elif self._where(atom) != asked[i]:
                self._before[at, start] = asked[i]

    def _holding(self, primitive: Primitive, lies: dict[int, Summed]) -> Primitive:
        """The primitive with constraints on these results of its programs."""

        def said(jaxpr: Jaxpr) -> Jaxpr:
            grown = Rebuilding(jaxpr.invars, jaxpr.names)
            env: list[Atom] = list(grown.invars)
            for eqn in jaxpr.eqns:
                env += grown.again(eqn, eqn.invars)
            outs = list(jaxpr.outvars)
            for i, each in lies.items():
                outs[i] = self._constrained(grown, outs[i], each)
            return grown.finish(outs)

        if isinstance(primitive, While):
            return evolve(primitive, body_jaxpr=said(primitive.body_jaxpr))
        if isinstance(primitive, Cond):
            return evolve(primitive, branches=tuple(map(said, primitive.branches)))
        assert isinstance(primitive, Scan | Calling | CustomCall)
        return evolve(primitive, jaxpr=said(primitive.jaxpr))


def _carries(eqn: Eqn) -> int:
    """How many carries a loop has."""
    primitive = eqn.primitive
    return primitive.num_carry if isinstance(primitive, Scan) else len(eqn.outvars)


def _first(eqn: Eqn) -> int:
    """Which operand of a loop is the first carry."""
    primitive = eqn.primitive
    return primitive.num_consts if isinstance(primitive, Scan) else len(eqn.invars) - len(eqn.outvars)


def _is_zero(atom: Atom) -> bool:
    return isinstance(atom, Literal) and atom.value == 0
