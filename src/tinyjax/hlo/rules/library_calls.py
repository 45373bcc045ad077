"""Calls of routines of LAPACK, and of those of cuSOLVER and its like, that jaxlib brings along: by name, with matrices
column by column, as Fortran has them."""

from __future__ import annotations

import math
from collections.abc import Callable, Iterable, Mapping, Sequence
from itertools import count, islice
from typing import Final, TypeAlias

from tinyjax.hlo.context import SSA, LoweringContext, Rule
from tinyjax.hlo.rules.elementwise import choose, compare
from tinyjax.hlo.rules.shapes import numbers
from tinyjax.hlo.text import results_text, types_text
from tinyjax.ir.aval import ShapedArray
from tinyjax.ir.dtypes import COMPLEX64, COMPLEX128, COMPLEXES, FLOAT32, FLOAT64, INT32, DType
from tinyjax.ir.primitive import Primitive
from tinyjax.ir.shared_types import array_type
from tinyjax.primitives.structure import broadcast_in_dim

_LETTERS: Final = {FLOAT32: "s", FLOAT64: "d", COMPLEX64: "c", COMPLEX128: "z"}
#: LAPACK's routines of orthogonal and symmetric matrices are those of unitary and Hermitian ones for complex numbers.
_OF_COMPLEX: Final = {"orgqr": "ungqr", "ormqr": "unmqr", "syevd": "heevd", "sytrd": "hetrd"}


def lapack_target(routine: str, dtype: DType) -> str:
    """The name by which a routine of LAPACK is called.

    >>> lapack_target("syevd", FLOAT64), lapack_target("syevd", COMPLEX64)
    ('lapack_dsyevd_ffi', 'lapack_cheevd_ffi')
    """
    own = _OF_COMPLEX.get(routine, routine) if dtype in COMPLEXES else routine
    return f"lapack_{_LETTERS[dtype]}{own}_ffi"


def letter(of: str) -> str:
    """A letter that a routine takes, as an attribute."""
    return f"{ord(of)} : ui8"


def truth(value: bool) -> str:
    """Whether, as an attribute."""
    return "true" if value else "false"


def library_call(
    ctx: LoweringContext,
    target: str,
    args: Sequence[SSA],
    types: Sequence[ShapedArray],
    attributes: Mapping[str, str] | None = None,
    aliases: Sequence[tuple[int, int]] = (),
    column_major: bool = True,
) -> tuple[SSA, ...]:
    """The results of a routine. An operand and a result that are an alias may be in one place."""
    most = max(arg.aval.ndim for arg in args)
    config = ", ".join([f"{name} = {text}" for name, text in sorted((attributes or {}).items())])
    fields = {
        "api_version": "4 : i32",
        "backend_config": f"{{{config}}}",
        "operand_layouts": _layouts([arg.aval for arg in args], most if column_major else -1),
        "output_operand_aliases": aliases_text(aliases, len(types)),
        "result_layouts": _layouts(types, most if column_major else -1),
    }
    if ctx.is_divided and column_major and most > 2:
        fields |= _divided_by_batch([arg.aval for arg in args], types, most - 2)
    written = ", ".join([f"{name} = {text}" for name, text in fields.items()])
    names = ", ".join([arg.name for arg in args])
    signature = f"{types_text([arg.aval for arg in args])} -> {results_text(types)}"
    return ctx.emit_many(f"stablehlo.custom_call @{target}({names}) {{{written}}} : {signature}", types)


def _divided_by_batch(ins: Sequence[ShapedArray], outs: Sequence[ShapedArray], batch: int) -> dict[str, str]:
    """What tells XLA that devices may each compute some of the matrices, which lie along the first axes. Without, each
    would be sent all of them."""
    if any(aval.ndim < batch for aval in (*ins, *outs)):
        return {}
    names = (f"{name}_{turn}" if turn else name for turn in count() for name in "ijklmnopqrstuvwxyz")
    shared, sizes = list(islice(names, batch)), dict[str, int]()

    def axes(aval: ShapedArray) -> str:
        own = [*shared, *islice(names, aval.ndim - batch)]
        sizes.update(zip(own, aval.shape, strict=True))
        return f"[{', '.join(own)}]"

    rule = "->".join(f"({', '.join(map(axes, avals))})" for avals in (ins, outs))
    listed = ", ".join(f"{name}={size}" for name, size in sizes.items())
    return {
        "mhlo.frontend_attributes": f'{{num_batch_dims = "{batch}"}}',
        "sdy.sharding_rule": f"#sdy.op_sharding_rule<{rule} {{{listed}}}, custom>",
    }


def _layouts(avals: Sequence[ShapedArray], most: int) -> str:
    """Rows before columns for those with the `most` axes."""
    orders: list[Sequence[int]] = []
    for aval in avals:
        order = list(range(aval.ndim))[::-1]
        if aval.ndim == most:
            order[:2] = order[1::-1]
        orders.append(order)
    return layouts_text(orders)


def layouts_text(orders: Iterable[Sequence[int]]) -> str:
    """For each array the axes from the one whose neighbours are next to each other.

    >>> layouts_text([(1, 0), (0,), ()])
    '[dense<[1, 0]> : tensor<2xindex>, dense<0> : tensor<1xindex>, dense<> : tensor<0xindex>]'
    """
    inside = [(str(order[0]) if len(order) == 1 else numbers(order) if order else "", len(order)) for order in orders]
    return f"[{', '.join(f'dense<{text}> : tensor<{rank}xindex>' for text, rank in inside)}]"


def aliases_text(aliases: Iterable[tuple[int, int]], results: int) -> str:
    """Which operands and which of so many results may be in one place."""
    pairs = [
        f"#stablehlo.output_operand_alias<output_tuple_indices = [{result if results > 1 else ''}], "
        f"operand_index = {operand}, operand_tuple_indices = []>"
        for operand, result in aliases
    ]
    return f"[{', '.join(pairs)}]"


def status_type(aval: ShapedArray, rank: int = 2) -> ShapedArray:
    """The type of what a routine says of each matrix of an operand."""
    return array_type(aval.shape[: aval.ndim - rank], INT32)


def unless_failed(ctx: LoweringContext, status: SSA, values: Sequence[SSA], direction: str = "EQ") -> list[SSA]:
    """The results where the status is 0 (GE: or more), and nan elsewhere."""
    fine = compare(ctx, direction, status, ctx.scalar(0, INT32))
    found: list[SSA] = []
    for value in values:
        dtype, shape = value.aval.dtype, value.aval.shape
        nan = complex(math.nan, math.nan) if dtype in COMPLEXES else math.nan
        kept = broadcast_in_dim(ctx, fine, shape, tuple(range(status.aval.ndim)))
        found.append(choose(ctx, kept, value, ctx.scalar(nan, dtype), value.aval))
    return found


#: The name of a routine for an operand, and what it takes besides matrices.
Routine: TypeAlias = Callable[[Primitive, SSA], tuple[str, dict[str, str]]]


def calling(find: Routine, place: int = 0, checked: bool = True) -> Rule:
    """The rule of a primitive that is one routine, which writes its first result to the place of an operand, and says
    in the end, if `checked`, whether it could compute them."""

    def rule(
        primitive: Primitive, ctx: LoweringContext, args: Sequence[SSA], types: Sequence[ShapedArray]
    ) -> Sequence[SSA]:
        target, attributes = find(primitive, args[0])
        if not checked:
            return library_call(ctx, target, args, types, attributes, [(place, 0)])
        found = library_call(ctx, target, args, [*types, status_type(args[0].aval)], attributes, [(place, 0)])
        return unless_failed(ctx, found[-1], found[:-1])

    return rule


def of_lapack(routine: str, **attributes: str) -> Routine:
    return lambda _, x: (lapack_target(routine, x.aval.dtype), attributes)


def of_cuda(target: str, **attributes: str) -> Routine:
    return lambda _, x: (target, attributes)
