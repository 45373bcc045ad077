"""Conditionals about many tensors as several ones, where their branches treat each tensor by itself."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from itertools import count
from typing import Final, final

from tinyjax.control.cond import Cond
from tinyjax.ir.dtypes import INT32
from tinyjax.ir.effects import must_stay
from tinyjax.ir.program import Atom, Eqn, Jaxpr, Var
from tinyjax.ir.shared_types import array_type
from tinyjax.transforms.layered import PARTING
from tinyjax.transforms.rebuild import Rebuilding, read
from tinyjax.transforms.waiting import Groups

#: The conditionals have together at most so many times the equations of the one, as what is about scalars is repeated.
_SIZE: Final = 4


@PARTING.register(Cond)
def _cond(cond: Cond) -> Jaxpr | None:
    """One for each set of results that no tensor connects."""
    if must_stay(cond.effects):
        return None
    groups, names = Groups(), count(len(cond.branches[0].invars))
    branches = [_Branch(branch, groups, names) for branch in cond.branches]
    avals = cond.branches[0].out_avals
    first: list[int | None] = []
    for j in range(len(avals)):
        found = [group for branch in branches if (group := branch.group(branch.jaxpr.outvars[j])) is not None]
        for group in found[1:]:
            groups.join(found[0], group)
        first.append(found[0] if found else None)
    results: dict[int | None, list[int]] = {}
    for j, group in enumerate(first):
        results.setdefault(None if group is None else groups.of(group), []).append(j)
    if len(results) < 2:
        return None
    ctx = Rebuilding([Var(i, aval) for i, aval in enumerate([array_type((), INT32), *cond.branches[0].in_avals])])
    outs: dict[int, Atom] = {}
    size = 0
    for wanted in results.values():
        needed = [branch.needed(wanted) for branch in branches]
        size += sum(len(kept) for kept, _ in needed)
        used = sorted(set[int]().union(*[inputs for _, inputs in needed]))
        alone = tuple([branch.part(kept, used, wanted) for branch, (kept, _) in zip(branches, needed, strict=True)])
        operands = [ctx.invars[0], *[ctx.invars[i + 1] for i in used]]
        outs.update(zip(wanted, ctx.bind(Cond(alone), *operands), strict=True))
    if size > _SIZE * sum(len(branch.eqns) for branch in cond.branches):
        return None
    return ctx.finish([outs[j] for j in range(len(avals))])


@final
class _Branch:
    """A branch, and which of its equations are about the same tensors. Inputs that aren't scalars are named by their
    positions, which are the same in all branches, and what each equation makes by a name of its own."""

    def __init__(self, jaxpr: Jaxpr, groups: Groups, names: Iterator[int]) -> None:
        self.jaxpr: Jaxpr = jaxpr
        self._makers: dict[int, int] = {out.index: i for i, eqn in enumerate(jaxpr.eqns) for out in eqn.outvars}
        self._named: dict[int, int] = {var.index: i for i, var in enumerate(jaxpr.invars) if var.aval.shape}
        for eqn in jaxpr.eqns:
            near = [group for atom in eqn.invars if (group := self.group(atom)) is not None]
            if not near and not any(out.aval.shape for out in eqn.outvars):
                continue  # scalars of scalars
            name = near[0] if near else next(names)
            for group in near[1:]:
                groups.join(name, group)
            self._named.update((out.index, name) for out in eqn.outvars)

    def group(self, atom: Atom) -> int | None:
        """A name of what a value is about; None: it is about scalars alone."""
        return self._named.get(atom.index) if isinstance(atom, Var) else None

    def needed(self, wanted: Sequence[int]) -> tuple[list[Eqn], set[int]]:
        """Which equations some results need; and which inputs."""
        atoms = [self.jaxpr.outvars[j] for j in wanted]
        found: set[int] = set()
        inputs: set[int] = set()
        while atoms:
            atom = atoms.pop()
            if isinstance(atom, Var):
                i = self._makers.get(atom.index)
                if i is None:
                    inputs.add(atom.index)
                elif i not in found:
                    found.add(i)
                    atoms += self.jaxpr.eqns[i].invars
        return [self.jaxpr.eqns[i] for i in sorted(found)], inputs

    def part(self, eqns: Sequence[Eqn], used: Sequence[int], wanted: Sequence[int]) -> Jaxpr:
        """The program of these equations, from these inputs to these results."""
        ctx = Rebuilding([Var(at, self.jaxpr.invars[i].aval) for at, i in enumerate(used)])
        env: dict[int, Atom] = dict(zip(used, ctx.invars, strict=True))
        for eqn in eqns:
            made = ctx.again(eqn, read(env, eqn.invars))
            env.update(zip([out.index for out in eqn.outvars], made, strict=True))
        return ctx.finish(read(env, [self.jaxpr.outvars[j] for j in wanted]))
