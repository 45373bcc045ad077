"""Programs that take stacks of their inputs, and return stacks of their results: who calls them puts these together."""

from __future__ import annotations

from collections import Counter
from collections.abc import Mapping, Sequence
from itertools import pairwise
from typing import final

from attrs import frozen

from tinyjax.ir.aval import ShapedArray
from tinyjax.ir.dtypes import KEYS
from tinyjax.ir.program import Atom, Eqn, Jaxpr, Var
from tinyjax.primitives.shaping import squeeze
from tinyjax.primitives.slicing import Concatenate, Slice, slice_in_dim
from tinyjax.primitives.stacking import Stack
from tinyjax.transforms.rebuild import Rebuilding, without_unread
from tinyjax.transforms.rows import drops, expands, row_of, takes_apart


@final
@frozen
class Bordered:
    """A program for stacks. `inputs` says of each of its inputs which of the whole program's are its rows, or which one
    it is; `results` of each of the whole program's results which of its own that is, and which row (None: all of it).
    """

    program: Jaxpr
    inputs: tuple[tuple[int, ...] | int, ...]
    results: tuple[tuple[int, int | None], ...]


def bordered(jaxpr: Jaxpr, first: int = 0, kinds: Sequence[int] = ()) -> Bordered | None:
    """A program whose inputs are stacked, or whose results are rows of stacks, with these stacks as inputs and results.

        { lambda ; a:f64[] b:f64[]. let c:f64[2] = stack[axis=0] a b; d:f64[2] = sin c; e:f64[] f:f64[] =
            unstack[axis=0] d in (e, f) }
        { lambda ; a:f64[2]. let b:f64[2] = sin a in (b,) }

    XLA compiles a copy for each row: time that grows with depth, where the rows are weights of layers. The `first`
    inputs stay what they are, and only those of one kind, if `kinds` says of each which it is of, are stacked together.
    None: there are no such stacks.
    """
    chains = _Chains(jaxpr, first, kinds)
    stacks = _stacks_of_results(jaxpr)
    if not chains.members and not stacks:
        return None
    inputs: list[tuple[int, ...] | int] = []
    avals: list[ShapedArray] = []
    for var in jaxpr.invars:
        chain = chains.members.get(var.index)
        if chain is None:
            inputs.append(var.index)
            avals.append(var.aval)
        elif chain not in inputs:
            inputs.append(chain)
            avals.append(var.aval.of_shape((len(chain), *var.aval.shape)))
    ctx = Rebuilding([Var(i, aval) for i, aval in enumerate(avals)])
    whole: dict[tuple[int, ...] | int, Var] = dict(zip(inputs, ctx.invars, strict=True))
    env: dict[int, Atom] = {}
    waiting: dict[int, Eqn] = {}  # what makes rows for stacks, until somebody else reads one

    read = _Values(ctx, chains, whole, env, waiting).read
    for eqn in jaxpr.eqns:
        out = eqn.outvars[0].index if eqn.outvars else -1
        rows = chains.rows.get(out)
        ctx.cursor.source = eqn.source
        if rows is not None and (chain := chains.members.get(rows[0])) is not None:
            part = _part(ctx, whole[chain], chain.index(rows[0]), len(rows))
            env[out] = ctx.converted(part, eqn.outvars[0].aval)
        elif len(eqn.invars) == 1 and chains.of(eqn.invars[0]) and expands(eqn):
            waiting[out] = eqn
        else:
            bound = ctx.again(eqn, tuple(map(read, eqn.invars)))
            env.update(zip([var.index for var in eqn.outvars], bound, strict=True))
    numbers: dict[int, int] = {}
    found: list[Atom] = []
    results: list[tuple[int, int | None]] = []
    handed_back = Counter(chains.of(atom) for atom in set(jaxpr.outvars))
    for atom in jaxpr.outvars:
        chain, place = chains.of(atom), stacks.get(atom.index) if isinstance(atom, Var) else None
        if isinstance(atom, Var) and chain and 2 * handed_back[chain] > len(chain):
            stack, at = whole[chain], chain.index(atom.index)
        elif place is not None:
            made = read(place[0])
            assert isinstance(made, Var)
            stack, at = made, place[1]
        else:
            results.append((len(found), None))
            found.append(read(atom))
            continue
        if stack.index not in numbers:
            numbers[stack.index] = len(found)
            found.append(stack)
        results.append((numbers[stack.index], at))
    return Bordered(without_unread(ctx.finish(found)), tuple(inputs), tuple(results))


@final
@frozen
class _Values:
    """What values are in the new program, of which `env` holds those that are known; each is made when it is read."""

    ctx: Rebuilding
    chains: _Chains
    whole: Mapping[tuple[int, ...] | int, Var]
    env: dict[int, Atom]
    waiting: Mapping[int, Eqn]

    def read(self, atom: Atom) -> Atom:
        if not isinstance(atom, Var):
            return atom
        found = self.env.get(atom.index)
        if found is None:
            eqn, chain = self.waiting.get(atom.index), self.chains.members.get(atom.index)
            if eqn is not None:
                (found,) = self.ctx.again(eqn, tuple(map(self.read, eqn.invars)))
            elif chain is None:
                found = self.whole[atom.index]
            else:
                found = squeeze(self.ctx, _part(self.ctx, self.whole[chain], chain.index(atom.index), 1), (0,))
            self.env[atom.index] = found
        return found


def _part(ctx: Rebuilding, stack: Atom, first: int, count: int) -> Atom:
    if count == stack.aval.shape[0]:
        return stack
    return slice_in_dim(ctx, stack, first, first + count, 1, 0)


@final
class _Chains:
    """Which inputs follow each other where they are stacked."""

    def __init__(self, jaxpr: Jaxpr, first: int, kinds: Sequence[int]) -> None:
        #: The inputs that are rows of what an equation joins, by the variable that it binds.
        self.rows: dict[int, tuple[int, ...]] = {}
        #: For each input that is stacked, all inputs of its stack.
        self.members: dict[int, tuple[int, ...]] = {}
        known: dict[int, tuple[int, ...]] = {}
        after: dict[int, int] = {}
        before: dict[int, int] = {}
        count = len(jaxpr.invars)
        for eqn in jaxpr.eqns:
            inputs = self._inputs(eqn, known, first, count)
            if inputs is None:
                continue
            out = eqn.outvars[0]
            if not isinstance(eqn.primitive, Concatenate | Stack):
                known[out.index] = inputs
                continue
            pairs = list(pairwise(inputs))
            if (
                len(set(inputs)) == len(inputs) > 1
                and len({(jaxpr.invars[i].aval, kinds[i] if kinds else 0) for i in inputs}) == 1
                and all(after.get(a, b) == b and before.get(b, a) == a for a, b in pairs)
                and inputs[0] not in _following(inputs[-1], after)
            ):
                after.update(pairs)
                before.update((b, a) for a, b in pairs)
                known[out.index] = self.rows[out.index] = inputs
        for start in after.keys() - before.keys():
            chain = _following(start, after)
            self.members.update(dict.fromkeys(chain, chain))

    def of(self, atom: Atom) -> tuple[int, ...]:
        """The inputs of the stack that an input is a row of, if it is."""
        return self.members.get(atom.index, ()) if isinstance(atom, Var) else ()

    @staticmethod
    def _inputs(eqn: Eqn, known: dict[int, tuple[int, ...]], first: int, count: int) -> tuple[int, ...] | None:
        """Which inputs an equation puts into a stack; None if that isn't all it does."""
        primitive, operands = eqn.primitive, eqn.invars

        def alone(atom: Atom) -> bool:
            return isinstance(atom, Var) and first <= atom.index < count and _may_be_stacked(atom.aval)

        if type(primitive) is Stack and primitive.axis == 0:
            own = [atom.index for atom in operands if isinstance(atom, Var) and alone(atom)]
            return tuple(own) if len(own) == len(operands) else None
        if type(primitive) is Concatenate and primitive.dimension == 0:
            parts = [known.get(atom.index) if isinstance(atom, Var) else None for atom in operands]
            return None if None in parts else tuple([i for part in parts if part for i in part])
        operand = operands[0] if len(operands) == 1 else None
        if not isinstance(operand, Var):
            return None
        if type(primitive) is Slice and operand.index in known:
            low, high = primitive.start_indices, primitive.limit_indices
            plain = primitive.strides is None and not any(low[1:]) and high[1:] == operand.aval.shape[1:]
            return known[operand.index][low[0] : high[0]] if plain else None
        return (operand.index,) if alone(operand) and expands(eqn) else None


def _following(start: int, after: Mapping[int, int]) -> tuple[int, ...]:
    """An input, and those that come after it."""
    chain = [start]
    while chain[-1] in after:
        chain.append(after[chain[-1]])
    return tuple(chain)


def _may_be_stacked(aval: ShapedArray) -> bool:
    return aval.dtype not in KEYS and not aval.varying


def _stacks_of_results(jaxpr: Jaxpr) -> dict[int, tuple[Var, int]]:
    """The results that are rows of a stack most of whose rows are results, and where they are in it."""
    taken: dict[int, tuple[Var, int]] = {}
    found: dict[int, tuple[Var, int]] = {}
    count = len(jaxpr.invars)
    for eqn in jaxpr.eqns:
        operand = eqn.invars[0] if len(eqn.invars) == 1 else None
        if not isinstance(operand, Var):
            continue
        row = row_of(eqn)
        made = operand.index >= count and _may_be_stacked(operand.aval)
        if takes_apart(eqn) and made:
            found.update((out.index, (operand, at)) for at, out in enumerate(eqn.outvars))
        elif row is not None and made:
            taken[eqn.outvars[0].index] = operand, row
        elif operand.index in taken and drops(eqn):
            found[eqn.outvars[0].index] = taken[operand.index]
    wanted = {atom.index: found[atom.index] for atom in jaxpr.outvars if isinstance(atom, Var) and atom.index in found}
    rows: dict[int, set[int]] = {}
    for stack, at in wanted.values():
        rows.setdefault(stack.index, set()).add(at)
    return {
        index: (stack, at) for index, (stack, at) in wanted.items() if 2 * len(rows[stack.index]) > stack.aval.shape[0]
    }
