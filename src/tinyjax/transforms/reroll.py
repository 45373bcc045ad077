"""Rerolling: equal blocks of equations that follow each other become a loop."""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from functools import partial
from itertools import chain, repeat
from typing import Final, final

from tinyjax.deferred import FILL_LOOPING
from tinyjax.ir.holding import AnyProgram, ProgramT, changed, checked
from tinyjax.ir.primitive import Primitive
from tinyjax.ir.program import Atom, Eqn, Jaxpr, Literal, Var
from tinyjax.ir.typecheck import typecheck
from tinyjax.primitives.constant import Constant
from tinyjax.primitives.structure import BroadcastInDim, full
from tinyjax.transforms.added_on_the_way import added_on_the_way
from tinyjax.transforms.arguments import flag, whole
from tinyjax.transforms.beginnings import Beginnings
from tinyjax.transforms.found_loops import Repeat, Repeats
from tinyjax.transforms.joined import joined_at_once
from tinyjax.transforms.layered import loop_bodies, parted, stacked_loops
from tinyjax.transforms.leading_rows import leading_rows
from tinyjax.transforms.near_repeats import Stopped
from tinyjax.transforms.numbers_apart import numbers_apart
from tinyjax.transforms.one_number import parts_of_one_number
from tinyjax.transforms.orders import order_of
from tinyjax.transforms.padded_sums import stacked_sums
from tinyjax.transforms.rebuild import Rebuilding, bottom_up, without_unread
from tinyjax.transforms.repeats import Run
from tinyjax.transforms.rolling import LOOPING, Block, Body, Ref, Result, Slot
from tinyjax.transforms.rows import Lazy, find_lazy, reshapes
from tinyjax.transforms.scalar_sums import in_any_order, sums_of_stacks
from tinyjax.transforms.sizes import Sizes
from tinyjax.transforms.stacks import Item, Row, Stacks, place_of, row_bytes

#: Of so many blocks, it counts what taking their operands out of stacks costs; of fewer, a loop's steps cost more.
_MANY: Final = 8


def rerolled(
    jaxpr: Jaxpr, at_least: int, stopped: list[Stopped] | None = None, bordered: bool = False
) -> tuple[Jaxpr, list[Repeat]]:
    """A program with its own repetitions as loops, and also those within their bodies. If a list is given, what stopped
    others is noted there. `bordered`: stacks of its inputs and results are made by who calls it, and scalars may be
    added in another order."""
    jaxpr = stacked_loops(jaxpr) if bordered else jaxpr
    given = parts_of_one_number(leading_rows(joined_at_once(stacked_sums(numbers_apart(jaxpr)))))
    given = added_on_the_way(sums_of_stacks(given) if bordered else given)
    result, repeats = _Rolling(given, at_least, stopped, bordered).roll()
    return (without_unread(result), repeats) if repeats else (jaxpr, repeats)


@final
class _Rolling:
    """A program that grows out of another one, with loops in the place of runs."""

    def __init__(self, jaxpr: Jaxpr, at_least: int, stopped: list[Stopped] | None, bordered: bool) -> None:
        self._jaxpr = jaxpr
        self._bordered = bordered
        self._stacked_outside: int = len(jaxpr.invars) if bordered else 0
        self._sizes: Sizes = Sizes()
        self._stopped = stopped
        self._at_least = at_least
        self._lazy: Lazy = find_lazy(jaxpr)
        self._in_any_order: frozenset[int] = in_any_order(jaxpr) if bordered else frozenset()
        self._order = order = order_of(jaxpr, self._lazy)
        self._eqns, self._home = order.eqns, order.home
        self._ctx = Rebuilding(jaxpr.invars, jaxpr.names)
        self._stacks = Stacks(self._ctx)
        self._items: dict[int, Item] = dict(enumerate(jaxpr.invars))
        self._repeated: dict[tuple[Primitive, Literal], Var] = {}
        self._repeats: list[Repeat] = []

    def roll(self) -> tuple[Jaxpr, list[Repeat]]:
        runs = self._order.runs(self._at_least, self._stopped)
        if not runs:
            return self._jaxpr, []
        self._last_read = self._find_last_reads()
        beginnings = Beginnings(self._eqns, self._home, self._row)
        at = 0
        for each in [*runs, None]:
            first = len(self._eqns) if each is None else min([each.start, *each.others])
            for eqn in self._eqns[at:first]:
                self._again(eqn)
            if each is None:
                break
            run = beginnings.best(each)
            for eqn in self._eqns[first : run.start]:
                self._again(eqn)
            if not self._loop(run):
                for eqn in self._eqns[run.start : run.stop]:
                    self._again(eqn)
            at = run.stop
        if not self._repeats:
            return self._jaxpr, []
        self._stacks.take_apart(list(map(self._item, self._jaxpr.outvars)))
        outs = [self._alone(atom) for atom in self._jaxpr.outvars]
        result = self._ctx.finish(outs)
        typecheck(result)  # always: nothing else would notice a mistake in it
        return result, self._repeats

    def _find_last_reads(self) -> dict[int, int]:
        """The last equation that reads each variable; the outputs count as one after all."""
        n = len(self._eqns)
        roots = self._lazy.roots(self._eqns)
        readers = chain.from_iterable(map(repeat, range(n), map(len, roots)))
        found = dict(zip(chain.from_iterable(roots), readers, strict=True))
        found.update({self._lazy.root(atom).index: n for atom in self._jaxpr.outvars if isinstance(atom, Var)})
        return found

    # What the new program knows of the old one's values.

    def _item(self, atom: Atom) -> Item:
        if isinstance(atom, Literal):
            return atom
        found = self._items.get(atom.index)
        if found is None:
            eqn = self._lazy.eqns[atom.index]
            row = self._lazy.rows.get(atom.index)
            if row is None:
                ins = tuple(map(self._alone, eqn.invars))
                (found,) = self._ctx.emit(eqn.primitive, ins, [atom.aval], eqn.source)
            else:
                base = self._alone(row[0])
                assert isinstance(base, Var)
                found = Row(base, row[1])
            self._items[atom.index] = found
        return found

    def _alone(self, atom: Atom) -> Atom:
        return self._stacks.alone(self._item(atom))

    def _only_row(self, atom: Atom) -> Item:
        stack = self._alone(atom)
        assert isinstance(stack, Var)
        return Row(stack, 0)

    def _again(self, eqn: Eqn) -> None:
        """An equation as it is, or as a stack of rows that are known."""
        self._ctx.cursor.source = eqn.source
        parts = self._lazy.joined(eqn)
        if parts is not None:
            (out,) = eqn.outvars
            items = [self._only_row(atom) if expanded else self._item(atom) for atom, expanded in parts]
            if out.index in self._in_any_order:
                items.sort(key=place_of)
            self._items[out.index] = self._stacks.stacked(items, out.aval.of_shape(out.aval.shape[1:]))
            return
        ins = tuple(map(self._alone, eqn.invars))
        if isinstance(eqn.primitive, BroadcastInDim) and isinstance(ins[0], Literal):
            # Zeros that many start with are one value, so that a stack of them is one equation.
            key = eqn.primitive, ins[0]
            if key not in self._repeated:
                (self._repeated[key],) = self._ctx.again(eqn, ins)
            self._items[eqn.outvars[0].index] = self._repeated[key]
            return
        outs = self._ctx.again(eqn, ins)
        if isinstance(eqn.primitive, Constant):
            self._stacks.note_known(outs[0], eqn.primitive.value)
        if reshapes(eqn):
            self._stacks.note_reshaped(outs[0], ins[0])
        self._items.update(zip([out.index for out in eqn.outvars], outs, strict=True))

    # Loops.

    def _row(self, atom: Atom) -> Row | None:
        """Which row a value is, if it is one by now."""
        if not isinstance(atom, Var) or self._lazy.root(atom).index not in self._items:
            return None
        found = self._item(atom) if atom.index in self._lazy.rows else self._items.get(atom.index)
        return found if isinstance(found, Row) else None

    def _loop(self, run: Run) -> bool:
        """A loop in the place of a run, if that saves enough equations."""
        block = Block(self._eqns, self._home, self._lazy.eqns, run, self._item)
        body = Body(block)
        self._ctx.cursor.source = source = self._eqns[run.start].source
        rows = [list(map(self._item, atoms)) for atoms in body.rows]
        wanted = self._wanted(block)
        overhead = 1 + sum(map(self._joined, rows)) + sum(self._taken(run, blocks) for blocks in wanted.values())
        saved = (run.count - 1) * self._sizes.of(block.last)
        saved += self._stacks.spared(rows, self._stacked_outside) if run.count >= _MANY else 0
        if saved - overhead < self._at_least:
            if self._stopped is not None and saved > 1:
                why = f"a loop saves {saved} equations, and takes {overhead} for itself and for stacks"
                self._stopped.append(Stopped(source, run.count, run.period, why))
            return False
        before = self._before(block, wanted)
        # The last block's results are the last carries; those of the others are stacked.
        handed: list[tuple[Slot, int]] = []
        ys: list[Ref] = []
        stacked: list[tuple[dict[int, Var], int, Atom | None]] = []
        for result, blocks in wanted.items():
            if block.invariant[result[0]]:
                continue
            var = next(iter(blocks.values()))
            carry = body.carried(var)
            if carry is None and set(blocks) == {run.count - 1} and not var.aval.axes:
                carry = body.hand_out(var)
            rest = dict(blocks)
            for k in list(blocks):
                last = body.carried(var, run.count - 1 - k)
                if last is not None:
                    handed.append((last, rest.pop(k).index))
            if rest:
                ys.append(body.own(var) if carry is None else carry)
                init = None if carry is None else body.inits[carry.number]
                shift = 0 if carry is None else 1
                stacked.append(({k + shift: var for k, var in rest.items()}, len(ys) - 1, init))
        program = body.program(ys)
        reverse = sum(self._stacks.direction(items) * row_bytes(items) for items in rows) < 0
        consts = [before[c] if isinstance(c, tuple) else self._alone(c) for c in body.consts]
        carried = program.in_avals[len(consts) : len(consts) + len(body.inits)]
        inits = [
            full(self._ctx, aval, 0) if init is None else self._alone(init)
            for init, aval in zip(body.inits, carried, strict=True)
        ]
        order = slice(None, None, -1 if reverse else 1)
        types = program.in_avals[len(consts) + len(inits) :]
        xs = [self._stacks.stacked(items[order], aval) for items, aval in zip(rows, types, strict=True)]
        program, inner = rerolled(program, self._at_least, self._stopped)
        first = self._eqns[run.start].primitive
        FILL_LOOPING.use()
        loop = LOOPING.apply(first, program, run.count, reverse, len(consts), len(inits))
        stacks = [aval.of_shape((run.count, *aval.shape)) for aval in program.out_avals[len(inits) :]]
        outs = self._ctx.emit(loop, (*consts, *inits, *xs), [*program.out_avals[: len(inits)], *stacks], source)
        for carry, index in handed:
            self._items[index] = outs[carry.number]
        for variables, number, init in stacked:
            stack = outs[len(inits) + number]
            if init is not None:
                self._stacks.note(stack, run.count - 1 if reverse else 0, self._alone(init))
            for k, var in variables.items():
                self._items[var.index] = Row(stack, run.count - 1 - k if reverse else k)
        self._repeats += [
            Repeat(
                source,
                self._eqns[run.stop - 1].source,
                run.count,
                run.period,
                sum(aval.nbytes for aval in carried),
                sum(aval.nbytes for aval in types) * run.count,
                sum(aval.nbytes for aval in stacks),
                sum(atom.aval.nbytes for atom in consts),
                reverse,
            ),
            *inner,
        ]
        return True

    def _wanted(self, block: Block) -> dict[Result, dict[int, Var]]:
        """What is read after a run: by result, the variables of those blocks whose result it is."""
        run, last = block.run, self._last_read
        found: dict[Result, dict[int, Var]] = {}
        for at, eqn in enumerate(self._eqns[run.start : run.stop]):
            for o, out in enumerate(eqn.outvars):
                if last.get(out.index, -1) >= run.stop:
                    found.setdefault((at % run.period, o), {})[at // run.period] = out
        return found

    def _joined(self, items: Sequence[Item]) -> int:
        """How many equations it takes to stack what blocks read."""
        if all(isinstance(item, Var) and item.index < self._stacked_outside for item in items):
            return 1
        return self._stacks.new(items)

    def _taken(self, run: Run, blocks: Mapping[int, Var]) -> int:
        """How many equations it takes to have these results of blocks, which are rows of a stack, by themselves."""
        if len(blocks) < 2 or all(self._last_read[var.index] < len(self._eqns) for var in blocks.values()):
            return 0
        return 1 if self._bordered and 2 * len(blocks) > run.count else len(blocks)

    def _before(self, block: Block, wanted: dict[Result, dict[int, Var]]) -> dict[Result, Atom]:
        """What is the same in all blocks, computed before the loop."""
        found: dict[Result, Atom] = {}
        read = partial(self._read_before, block, found)
        for j, eqn in enumerate(block.last):
            if block.invariant[j]:
                outs = self._ctx.again(eqn, tuple(map(read, eqn.invars)))
                found.update({(j, o): out for o, out in enumerate(outs)})
        for result, blocks in wanted.items():
            if block.invariant[result[0]]:
                self._items.update({var.index: found[result] for var in blocks.values()})
        return found

    def _read_before(self, block: Block, found: dict[Result, Atom], atom: Atom) -> Atom:
        if not isinstance(atom, Var) or block.before(atom) is None:
            return self._alone(atom)
        result = block.result(atom)
        if result not in found:
            eqn = self._lazy.eqns[atom.index]
            outs = self._ctx.again(eqn, tuple([self._read_before(block, found, each) for each in eqn.invars]))
            found.update(zip(map(block.result, eqn.outvars), outs, strict=True))
        return found[result]


def repeats(program: AnyProgram, *, at_least: int = 1, bordered: bool = False) -> Repeats:
    """What `reroll` finds in a program, given the same arguments, and what stopped it elsewhere.

    For each loop: the line of the user's where it begins, how many blocks of how many equations, and in bytes what each
    hands to the next, what differs from block to block, what is stacked of results, and what is the same for all. For
    blocks that are nearly equal: which parameter or which type differs, and at which line. `program` of the record is
    what `reroll` makes of it.
    """
    whole("repeats: at_least", at_least)
    flag("repeats: bordered", bordered)
    found: list[Repeat] = []
    stopped: list[Stopped] = []

    def change(jaxpr: Jaxpr, bordered: bool) -> Jaxpr:
        result, more = rerolled(jaxpr, at_least, stopped, bordered)
        found.extend(more)
        return result

    result = changed(checked(program, "repeats"), "repeats", lambda jaxpr: _everywhere(jaxpr, bordered, change))
    return Repeats(result, tuple(found), tuple(stopped))


def _everywhere(jaxpr: Jaxpr, bordered: bool, change: Callable[[Jaxpr, bool], Jaxpr]) -> Jaxpr:
    """A program with `change` of those within it, and of itself, which is told of each whether who applies it makes
    its stacks: of the whole program if it is `bordered`, and then also of bodies of loops."""
    # While they are changed, the inputs of programs stay the same objects.
    outside = {id(jaxpr.invars): jaxpr.invars} if bordered else {}

    def before(each: Jaxpr) -> Jaxpr:
        each = parted(each)
        outside.update((id(body.invars), body.invars) for body in loop_bodies(each))
        return each

    return bottom_up(jaxpr, lambda each: change(each, id(each.invars) in outside), before if bordered else None)


def reroll(program: ProgramT, *, at_least: int = 1, bordered: bool = False) -> ProgramT:
    """The program with loops in the place of equal blocks of equations that follow each other.

        { lambda ; a:f64[] b:f64[]. let c:f64[] = sin a; d:f64[] = mul c b; e:f64[] = sin d; f:f64[] = mul e b;
            g:f64[] = sin f; h:f64[] = mul g b in (h,) }
        { lambda ; a:f64[] b:f64[]. let c:f64[] = scan[length=3 num_consts=1 num_carry=1 jaxpr={ lambda ; a:f64[]
            b:f64[]. let c:f64[] = sin b; d:f64[] = mul c a in (d,) } …] b a in (c,) }

    Blocks are equal if they apply the same primitives to operands of the same types, and read alike: values of their
    own; those of the block before, which become carries; the same value in all of them, which becomes a constant of the
    loop; or others in each, which are stacked. Rows of an array that is there need no stacking, and neither do results
    of a loop that another one reads, from the first to the last or, as a backward pass does, the other way round.

    A run becomes a loop if that saves `at_least` so many equations, with those for stacks counted, and with those of
    the programs that the blocks call or loop over. Programs within the program, and blocks within a block, are treated
    too. What is the same in all blocks is computed once, before the loop. Equations with effects stay where they are.
    The result is checked, and computes the same, but for the sign of zeros where rows of a gradient are put together;
    compiled, to rounding.

    `bordered` is for what `jit` compiles, whose caller makes stacks of inputs and results: each counts as one equation.
    Where many scalars are added, as for a norm of all weights, those which loops have stacked are added at once, in
    another order: the same to rounding.
    """
    whole("reroll: at_least", at_least)
    flag("reroll: bordered", bordered)

    def change(jaxpr: Jaxpr, bordered: bool) -> Jaxpr:
        return rerolled(jaxpr, at_least, bordered=bordered)[0]

    return changed(program, "reroll", lambda jaxpr: _everywhere(jaxpr, bordered, change))
