"""How numbers of 8 bits and fewer are computed with on the host: as wider ones, in which all of them are exact.

What has a narrow type is rounded once, at the end, and integers wrap around.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from typing import Final

import numpy as np

from tinyjax.ir import contracts
from tinyjax.ir.aval import ShapedArray
from tinyjax.ir.declared import refuse_misfits
from tinyjax.ir.dtypes import WIDE, HostArray
from tinyjax.ir.primitive import Primitive

#: What moves numbers or reads their bits takes them as they are.
_AS_THEY_ARE: Final = frozenset(
    {
        *("bitcast_convert_type", "population_count", "clz", "shift_right_logical", "shift_right_arithmetic"),
        *("mulhi", "nextafter"),
        *("reduce_max", "reduce_min", "reduce_window_max", "reduce_window_min"),
        *("select_and_gather_add", "select_and_scatter_add"),
        *("broadcast_in_dim", "reshape", "squeeze", "transpose", "rev", "slice", "concatenate", "split", "stack"),
        "unstack",
        "pad",
        *("gather", "scatter", "dynamic_slice", "dynamic_update_slice", "select_n", "copy", "stop_gradient", "name"),
        *("optimization_barrier", "dot_general", "conv_general_dilated", "all_gather", "all_to_all", "ppermute"),
    }
)


def widened(primitive: Primitive, args: Sequence[HostArray]) -> Sequence[HostArray]:
    """The operands as `evaluate` takes them: narrow ones in a wider dtype, unless they need not be."""
    if not primitive.built_in or primitive.name in _AS_THEY_ARE:
        return args
    return [arg.astype(WIDE[arg.dtype]) if arg.dtype in WIDE else arg for arg in args]


def host_function(
    primitive: Primitive, avals: Sequence[ShapedArray], out: ShapedArray
) -> Callable[..., HostArray | np.generic]:
    """What computes the only output, of this type, for arrays of these types."""
    if all(aval.dtype not in WIDE for aval in (*avals, out)):
        return primitive.host_function(*avals)

    def compute(*args: HostArray) -> HostArray:
        return np.asarray(primitive.evaluate(*widened(primitive, args))[0], out.dtype)

    return compute


def computed(
    primitive: Primitive, avals: Sequence[ShapedArray] | None, args: Sequence[HostArray]
) -> Sequence[HostArray]:
    """What `evaluate` gives for host arrays of these types; a ParameterError if it fails by a parameter of another type
    than is declared."""
    try:
        with np.errstate(all="ignore"):
            wide = widened(primitive, args)
            return primitive.evaluate(*wide) if primitive.built_in else contracts.evaluate(primitive, avals, wide)
    except Exception:
        refuse_misfits(primitive)
        raise
