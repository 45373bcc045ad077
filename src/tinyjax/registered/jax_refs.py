"""JAX's programs with Refs as programs of values: what a Ref holds goes in and comes out where JAX passes the Ref."""

from __future__ import annotations

from collections.abc import Mapping, Sequence

from tinyjax.contexts.staging import StagingContext, stage
from tinyjax.control.carry import groups, rearranged
from tinyjax.deferred import AT_REF
from tinyjax.errors import ParameterError, UnsupportedError
from tinyjax.ir.aval import ShapedArray
from tinyjax.ir.interpret import interpret
from tinyjax.ir.program import Atom, Jaxpr
from tinyjax.ir.text.written import Last, Stateful, WithValues
from tinyjax.primitives.structure import broadcast_in_dim, full
from tinyjax.registered.jax_control import scan_sizes
from tinyjax.registered.jax_expansions import STANDARD

__all__ = ["STANDARD"]

Params = Mapping[str, object]
Refs = Mapping[int, str]


@STANDARD.expand_by("new_ref", "freeze", "free_ref")
def _same(params: Params, in_avals: Sequence[ShapedArray], out_avals: Sequence[ShapedArray]) -> Jaxpr:
    """A Ref is what it holds."""
    return stage(in_avals, lambda ctx, ins: ins[: len(out_avals)])


@STANDARD.expand_by("empty_ref")
def _empty(params: Params, in_avals: Sequence[ShapedArray], out_avals: Sequence[ShapedArray]) -> Jaxpr:
    """Zeros, as JAX has them where nothing else is said."""
    return stage((), lambda ctx, ins: [full(ctx, aval, 0) for aval in out_avals])


@STANDARD.expand_by("broadcast_to")
def _broadcast(params: Params, in_avals: Sequence[ShapedArray], out_avals: Sequence[ShapedArray]) -> Jaxpr:
    """A position for each of an array of positions: trailing axes are the same."""
    (aval,), (wanted,) = in_avals, out_avals
    axes = tuple(range(wanted.ndim - aval.ndim, wanted.ndim))
    return stage(in_avals, lambda ctx, ins: [broadcast_in_dim(ctx, ins[0], wanted.shape, axes)])


for _name in ("get", "swap", "addupdate"):

    def _at_ref(
        params: Params, in_avals: Sequence[ShapedArray], out_avals: Sequence[ShapedArray], _name: str = _name
    ) -> Jaxpr:
        """What is at a place, or what a Ref holds when that is written."""
        return AT_REF.use(_name, params["indices"], in_avals)

    STANDARD.expand_by(_name)(_at_ref)


@STANDARD.with_refs_by("freeze", "free_ref")
def _as_value(params: Params, refs: Refs, ins: int, outs: int) -> WithValues:
    return WithValues(params, tuple(range(ins)), tuple(range(outs)))


@STANDARD.with_refs_by(
    *("jit", "pjit", "core_call", "closed_call", "core_closed_call", "checkpoint", "remat", "remat2"),
    *("custom_jvp_call", "custom_vjp_call", "custom_vjp_call_jaxpr", "custom_vmap_call", "cond"),
)
def _calling(params: Params, refs: Refs, ins: int, outs: int) -> WithValues:
    """What programs are applied to is all that is an operand, but the index of a branch."""
    kept = {key: _values(value) for key, value in params.items()}
    return WithValues(kept, tuple(range(ins)), (*range(outs), *map(Last, sorted(refs))))


def _values(value: object) -> object:
    """A parameter with programs of values in the place of those that take Refs."""
    if isinstance(value, Stateful):
        return value.jaxpr
    return tuple(map(_values, value)) if isinstance(value, tuple) else value


def _program(params: Params, name: str) -> tuple[Jaxpr, tuple[int, ...]]:
    """A program of values, and which of its inputs were Refs."""
    found = params.get(name)
    if isinstance(found, Stateful):
        return found.jaxpr, found.refs
    if not isinstance(found, Jaxpr):
        raise ParameterError(f"{found!r} is no program", name)
    return found, ()


def _count(params: Params, name: str) -> int:
    found = params.get(name)
    if not isinstance(found, int):
        raise ParameterError(f"{found!r} is no number of operands", name)
    return found


@STANDARD.with_refs_by("scan")
def _scan(params: Params, refs: Refs, ins: int, outs: int) -> WithValues:
    """What a Ref holds becomes a carry. Of one that is taken in slices a slice goes in, and comes out as a result."""
    body, own = _program(params, "jaxpr")
    consts, carry = scan_sizes(params, ins)
    if any(consts <= place < consts + carry for place in own):
        raise UnsupportedError("a scan carries a Ref, which JAX doesn't do")
    sliced = [place for place in own if place >= consts]
    cells = own[: len(own) - len(sliced)]
    closed, carried, xs = groups(range(ins), [consts, carry])
    order = (*(i for i in closed if i not in cells), *carried, *cells, *xs)
    last = outs + len(cells)
    program = rearranged(
        body, order, (*range(carry), *range(outs, last), *range(carry, outs), *range(last, outs + len(own)))
    )
    kept = {key: value for key, value in params.items() if key not in ("ft_in", "ft_out")}
    kept |= {"jaxpr": program, "num_consts": consts - len(cells), "num_carry": carry + len(cells)}
    results = (*range(carry), *map(Last, cells), *range(carry, outs), *map(Last, sliced))
    return WithValues(kept, order, results)


@STANDARD.with_refs_by("shard_map")
def _shard_map(params: Params, refs: Refs, ins: int, outs: int) -> WithValues:
    """What a Ref holds comes out divided as it goes in."""
    into, out_of = params.get("in_specs"), params.get("out_specs")
    if not isinstance(into, tuple) or not isinstance(out_of, tuple):
        raise ParameterError("in_specs and out_specs are tuples, which say how operands and results are divided")
    kept = {"jaxpr": _program(params, "jaxpr")[0], "out_specs": (*out_of, *(into[place] for place in sorted(refs)))}
    return WithValues({**params, **kept}, tuple(range(ins)), (*range(outs), *map(Last, sorted(refs))))


@STANDARD.with_refs_by("run_state")
def _run_state(params: Params, refs: Refs, ins: int, outs: int) -> WithValues:
    """A call, which makes what the Refs hold at the end of what they hold at the beginning: zeros, unless given."""
    body, own = _program(params, "jaxpr")
    given = params.get("is_initialized", (True,) * len(body.invars))
    if own != tuple(range(len(body.invars))) or not isinstance(given, tuple) or len(given) != len(own):
        raise UnsupportedError("a run_state that takes anything but Refs")

    def run(ctx: StagingContext, values: Sequence[Atom]) -> Sequence[Atom]:
        held = iter(values)
        return interpret(
            ctx,
            body,
            [next(held) if there else full(ctx, aval, 0) for there, aval in zip(given, body.in_avals, strict=True)],
        )

    program = stage([aval for there, aval in zip(given, body.in_avals, strict=True) if there], run)
    places = [i for i, there in enumerate(given) if there]
    results = [Last(places.index(i)) if i in places and places.index(i) in refs else i for i in range(outs)]
    return WithValues({"call_jaxpr": program, "name": "run_state"}, tuple(range(ins)), tuple(results), "core_call")


@STANDARD.with_refs_by("while")
def _while(params: Params, refs: Refs, ins: int, outs: int) -> WithValues:
    """What a Ref holds becomes a carry, which the condition reads."""
    cond, cond_refs = _program(params, "cond_jaxpr")
    body, body_refs = _program(params, "body_jaxpr")
    first = _count(params, "cond_nconsts")
    cond_consts, body_consts, carry = groups(range(ins), [first, _count(params, "body_nconsts")])
    if cond.outvars[1:] != tuple([cond.invars[place] for place in cond_refs]):
        raise UnsupportedError("the condition of a loop writes to a Ref, which can't be read: write to it in the body")
    #: The Refs by name, and where each is an operand first.
    places = {refs[i]: i for i in sorted(refs, reverse=True)}
    names = list(places)
    avals = {refs[i]: jaxpr.invars[i - at].aval for i, jaxpr, at in _inputs(refs, first, cond, body)}

    def pick(own: Sequence[int], values: Sequence[Atom], consts: Sequence[int]) -> list[Atom]:
        """The operands of a program, of those that it gets now: constants that are no Refs, the carry, the Refs."""
        given, held = iter(values), dict(zip(names, values[len(values) - len(names) :], strict=True))
        return [held[refs[consts[place]]] if place in own else next(given) for place in range(len(consts) + len(carry))]

    def run(ctx: StagingContext, values: Sequence[Atom]) -> Sequence[Atom]:
        found = interpret(ctx, body, pick(body_refs, values, body_consts))
        held = dict(zip(names, values[len(values) - len(names) :], strict=True))
        held |= {refs[body_consts[place]]: x for place, x in zip(body_refs, found[len(carry) :], strict=True)}
        return [*found[: len(carry)], *held.values()]

    def going(ctx: StagingContext, values: Sequence[Atom]) -> Sequence[Atom]:
        return interpret(ctx, cond, pick(cond_refs, values, cond_consts))[:1]

    kept_cond = [i for i in cond_consts if i not in refs]
    kept_body = [i for i in body_consts if i not in refs]
    cells = [avals[name] for name in names]
    carry_avals = [body.invars[len(body_consts) + i].aval for i in range(len(carry))]
    found = {
        "cond_jaxpr": stage([*(cond.invars[i].aval for i in kept_cond), *carry_avals, *cells], going),
        "cond_nconsts": len(kept_cond),
        "body_jaxpr": stage([*(body.invars[i - first].aval for i in kept_body), *carry_avals, *cells], run),
        "body_nconsts": len(kept_body),
    }
    order = (*kept_cond, *kept_body, *carry, *places.values())
    return WithValues({**params, **found}, order, (*range(outs), *map(Last, places.values())))


def _inputs(refs: Refs, first: int, cond: Jaxpr, body: Jaxpr) -> list[tuple[int, Jaxpr, int]]:
    """For each operand that is a Ref the program that takes it, and where the operands of that begin."""
    return [(i, cond, 0) if i < first else (i, body, first) for i in refs]
