"""How JAX applies the first-order primitives: by its own of the same meaning, bound as they are.

The functions of `jax.lax` would drop equations that change nothing, and broadcast or convert operands.
"""

from __future__ import annotations

import enum
from collections.abc import Callable, Mapping
from functools import partial
from typing import Final

import jax
import jax.numpy as jnp
import numpy as np
from attrs import astuple
from jax import lax
from jax.extend.core import Primitive as JaxPrimitive
from jax.extend.core import primitives as p
from jax.typing import ArrayLike

from tinyjax.backend import jax_programs
from tinyjax.interop import collectives
from tinyjax.interop.jax_context import TO_JAX, Args, JaxContext
from tinyjax.ir.dtypes import BOOL, INT32, DType
from tinyjax.ir.primitive import Primitive
from tinyjax.primitives.accuracy import AccuracyMode, Accurate, Tolerance
from tinyjax.primitives.annotations import Name
from tinyjax.primitives.complex import Conj
from tinyjax.primitives.constant import Constant
from tinyjax.primitives.contractions import DotGeneral, DotPrecision, Precision
from tinyjax.primitives.convolution import ConvGeneralDilated
from tinyjax.primitives.dot_algorithms import DotAlgorithm, DotAlgorithmPreset
from tinyjax.primitives.factorizations import Geqp3, Geqrf, Ormqr
from tinyjax.primitives.fourier import Fft
from tinyjax.primitives.gather import Gather, ScatterAdd, Scattering
from tinyjax.primitives.generators import RngBitGenerator
from tinyjax.primitives.incomplete import RandomGammaGrad, RandomGammaGradA
from tinyjax.primitives.keys import RandomClone, RandomSeed, RandomUnwrap, RandomWrap
from tinyjax.primitives.platforms import PlatformIndex
from tinyjax.primitives.reductions import ReduceMax
from tinyjax.primitives.rounding import Round
from tinyjax.primitives.scatter import Scatter, ScatterMax, ScatterMin, ScatterMul
from tinyjax.primitives.selection import Clamp, SelectN
from tinyjax.primitives.sinks import DceSink
from tinyjax.primitives.sorting import TopK
from tinyjax.primitives.spectral import Eig, Eigh, Svd
from tinyjax.primitives.threefry import Threefry2x32
from tinyjax.primitives.triangular import Cholesky
from tinyjax.primitives.window_choices import SelectAndGatherAdd, SelectAndScatterAdd
from tinyjax.primitives.windows import GatherScatterMode
from tinyjax.registered.first_order import FIRST_ORDER

__all__ = ["apply", "collectives"]  # the latter has rules, which come first


def apply(primitive: JaxPrimitive, *args: ArrayLike, **params: object) -> Args:
    """The results of one of JAX's primitives."""
    found = primitive.bind(*args, **params)
    results: Args = found if primitive.multiple_results else [found]
    return results


@TO_JAX.register(Conj)
def _conj(primitive: Conj, ctx: JaxContext, args: Args) -> Args:
    return apply(p.conj_p, *args, input_dtype=ctx.aval(args[0]).dtype)


@TO_JAX.register(Fft)
def _fft(primitive: Fft, ctx: JaxContext, args: Args) -> Args:
    kind = lax.FftType[primitive.fft_type.name]
    return apply(p.fft_p, *args, fft_type=kind, fft_lengths=primitive.fft_lengths)


# Linear algebra.


def _by_enum(primitive: Primitive, ctx: JaxContext, args: Args) -> Args:
    """How to compute it is a member of an enumeration of JAX's."""
    params = {
        name: getattr(lax.linalg, type(value).__name__)[value.name] if isinstance(value, enum.Enum) else value
        for name, value in primitive.params.items()
    }
    return apply(getattr(p, f"{primitive.name}_p"), *args, **params)


TO_JAX[Eigh] = _by_enum
TO_JAX[Svd] = _by_enum
TO_JAX[Eig] = _by_enum


@TO_JAX.register(Cholesky)
def _cholesky(primitive: Cholesky, ctx: JaxContext, args: Args) -> Args:
    return [lax.linalg.cholesky(jnp.asarray(args[0]), symmetrize_input=False)]


@TO_JAX.register(Ormqr)
def _ormqr(primitive: Ormqr, ctx: JaxContext, args: Args) -> Args:
    return [lax.linalg.ormqr(*args, left=primitive.left, transpose=primitive.adjoint)]


@TO_JAX.register(Geqrf)
def _geqrf(primitive: Geqrf, ctx: JaxContext, args: Args) -> Args:
    flipped, taus = jnp.linalg.qr(jnp.asarray(args[0]), mode="raw")
    return [flipped.mT, taus]


TO_JAX.lacks(Geqp3, "JAX's primitive of this name isn't public: its qr with pivoting is")


@TO_JAX.register(RandomSeed)
def _random_seed(primitive: RandomSeed, ctx: JaxContext, args: Args) -> Args:
    return apply(p.random_seed_p, *args, impl=jax_programs.key_impl(primitive.impl.dtype))


@TO_JAX.register(RngBitGenerator)
def _rng_bit_generator(primitive: RngBitGenerator, ctx: JaxContext, args: Args) -> Args:
    algorithm = lax.RandomAlgorithm[primitive.algorithm.name]
    return list(lax.rng_bit_generator(args[0], primitive.shape, primitive.dtype, algorithm))


@TO_JAX.register(RandomWrap)
def _random_wrap(primitive: RandomWrap, ctx: JaxContext, args: Args) -> Args:
    return [jax.random.wrap_key_data(jnp.asarray(args[0]), impl=jax_programs.key_impl(primitive.impl.dtype))]


@TO_JAX.register(RandomUnwrap)
def _random_unwrap(primitive: RandomUnwrap, ctx: JaxContext, args: Args) -> Args:
    return [jax.random.key_data(args[0])]


@TO_JAX.register(RandomClone)
def _random_clone(primitive: RandomClone, ctx: JaxContext, args: Args) -> Args:
    return [jax.random.clone(args[0])]


@TO_JAX.register(Round)
def _round(primitive: Round, ctx: JaxContext, args: Args) -> Args:
    return apply(p.round_p, *args, rounding_method=lax.RoundingMethod(primitive.rounding_method.value))


@TO_JAX.register(SelectN)
def _select_n(primitive: SelectN, ctx: JaxContext, args: Args) -> Args:
    which, *cases = args
    aval = ctx.aval(which)
    if aval.dtype not in (BOOL, INT32):
        # JAX selects by these only. The last case may be named by any larger number.
        ends = [np.asarray(end, aval.dtype)[()] for end in (0, len(cases) - 1)]
        (which,) = apply(p.clamp_p, ends[0], which, ends[1])
        which = _converted(which, INT32)
    return apply(p.select_n_p, which, *_of_one_shape(ctx, cases, aval.shape))


def _of_one_shape(ctx: JaxContext, values: Args, shape: tuple[int, ...] = ()) -> Args:
    """The values, scalars among them repeated to the shape of the others."""
    full = max([shape, *(ctx.aval(value).shape for value in values)], key=len)
    return [value if ctx.aval(value).shape == full else _repeated(value, full) for value in values]


def _repeated(value: ArrayLike, shape: tuple[int, ...]) -> ArrayLike:
    (found,) = apply(p.broadcast_in_dim_p, value, shape=shape, broadcast_dimensions=(), sharding=None)
    return found


def _converted(value: ArrayLike, dtype: DType) -> ArrayLike:
    (found,) = apply(p.convert_element_type_p, value, new_dtype=dtype, weak_type=False, sharding=None)
    return found


@TO_JAX.register(Clamp)
def _clamp(primitive: Clamp, ctx: JaxContext, args: Args) -> Args:
    low, x, high = args
    shape = max((ctx.aval(arg).shape for arg in args), key=len)
    if ctx.aval(x).shape != shape:
        x = _repeated(x, shape)
    return apply(p.clamp_p, low, x, high)


@TO_JAX.register(TopK)
def _top_k(primitive: TopK, ctx: JaxContext, args: Args) -> Args:
    (x,) = args
    return list(lax.top_k(x, primitive.k, axis=primitive.axis))  # JAX 0.11 gives its primitive more


@TO_JAX.register(DceSink)
def _dce_sink(primitive: DceSink, ctx: JaxContext, args: Args) -> Args:
    lax.dce_sink(*args, prevent_mlir_dce=primitive.prevent_mlir_dce)  # JAX 0.11 shows the function only
    return []


@TO_JAX.register(Name)
def _name(primitive: Name, ctx: JaxContext, args: Args) -> Args:
    return apply(p.name_p, *args, name=primitive.label)


@TO_JAX.register(Constant)
def _constant(primitive: Constant, ctx: JaxContext, args: Args) -> Args:
    return [ctx.constant(primitive.value)]


@TO_JAX.register(DotGeneral)
def _dot_general(primitive: DotGeneral, ctx: JaxContext, args: Args) -> Args:
    return apply(
        p.dot_general_p, *args, dimension_numbers=primitive.dimension_numbers,
        precision=_dot_precision(primitive.precision), preferred_element_type=primitive.preferred_element_type,
        out_sharding=None,
    )  # fmt: skip


def _dot_precision(given: DotPrecision) -> object:
    if isinstance(given, DotAlgorithmPreset):
        return lax.DotAlgorithmPreset[given.name]
    if isinstance(given, DotAlgorithm):
        return lax.DotAlgorithm(*astuple(given))
    return _precision(given)


def _precision(given: Precision | tuple[Precision, Precision] | None) -> tuple[lax.Precision, lax.Precision] | None:
    if given is None:
        return None
    left, right = given if isinstance(given, tuple) else (given, given)
    return lax.Precision[left.name], lax.Precision[right.name]


@TO_JAX.register(ConvGeneralDilated)
def _convolution(primitive: ConvGeneralDilated, ctx: JaxContext, args: Args) -> Args:
    x, y = map(jnp.asarray, args)
    wanted = primitive.preferred_element_type
    # JAX takes no other kind of numbers, and no shorter ones.
    refused = wanted is not None and (wanted.kind != x.dtype.kind or wanted.itemsize < x.dtype.itemsize)
    if refused:
        _, within = primitive.dtypes(x.dtype, y.dtype)
        x, y = x.astype(within), y.astype(within)
    found = lax.conv_general_dilated(
        x, y, window_strides=primitive.window_strides, padding=primitive.padding, lhs_dilation=primitive.lhs_dilation,
        rhs_dilation=primitive.rhs_dilation, dimension_numbers=lax.ConvDimensionNumbers(*primitive.dimension_numbers),
        feature_group_count=primitive.feature_group_count, batch_group_count=primitive.batch_group_count,
        precision=_precision(primitive.precision), preferred_element_type=None if refused else wanted,
    )  # fmt: skip
    return [found.astype(wanted) if refused else found]


@TO_JAX.register(PlatformIndex)
def _platform_index(primitive: PlatformIndex, ctx: JaxContext, args: Args) -> Args:
    return [jax_programs.platform_index(primitive.platforms)]


# Windows.


@TO_JAX.register(Gather)
def _gather(primitive: Gather, ctx: JaxContext, args: Args) -> Args:
    dims, fill = primitive.dimension_numbers, primitive.fill_value
    if primitive.mode is GatherScatterMode.FILL_OR_DROP:  # JAX wants to be told the one that None stands for
        fill = primitive.fill(ctx.aval(args[0]).dtype)
    numbers = lax.GatherDimensionNumbers(
        dims.offset_dims, dims.collapsed_slice_dims, dims.start_index_map, dims.operand_batching_dims,
        dims.start_indices_batching_dims,
    )  # fmt: skip
    return apply(
        p.gather_p, *args, dimension_numbers=numbers, slice_sizes=primitive.slice_sizes,
        unique_indices=primitive.unique_indices, indices_are_sorted=primitive.indices_are_sorted,
        mode=lax.GatherScatterMode[primitive.mode.name], fill_value=fill,
    )  # fmt: skip


_SCATTERS: Final[Mapping[type[Scattering], Callable[..., jax.Array]]] = {
    Scatter: lax.scatter, ScatterAdd: lax.scatter_add, ScatterMul: lax.scatter_mul, ScatterMin: lax.scatter_min,
    ScatterMax: lax.scatter_max,
}  # fmt: skip


def _scatter(primitive: Scattering, ctx: JaxContext, args: Args) -> Args:
    dims = primitive.dimension_numbers
    numbers = lax.ScatterDimensionNumbers(
        dims.update_window_dims, dims.inserted_window_dims, dims.scatter_dims_to_operand_dims,
        dims.operand_batching_dims, dims.scatter_indices_batching_dims,
    )  # fmt: skip
    found = _SCATTERS[type(primitive)](
        *args, numbers, indices_are_sorted=primitive.indices_are_sorted, unique_indices=primitive.unique_indices,
        mode=lax.GatherScatterMode[primitive.mode.name],
    )  # fmt: skip
    return [found]


for _scattering in (Scatter, ScatterAdd, ScatterMul, ScatterMin, ScatterMax):
    TO_JAX[_scattering] = _scatter


def _choosing(primitive: SelectAndGatherAdd | SelectAndScatterAdd, ctx: JaxContext, args: Args) -> Args:
    own = lax.select_and_gather_add_p if isinstance(primitive, SelectAndGatherAdd) else lax.select_and_scatter_add_p
    by = p.ge_p if primitive.select_prim == "ge" else p.le_p
    return apply(own, *args, **{**primitive.params, "select_prim": by})


TO_JAX[SelectAndGatherAdd] = _choosing
TO_JAX[SelectAndScatterAdd] = _choosing


# All others but collectives are JAX's of the same name, with the same parameters.


@TO_JAX.register(ReduceMax)
def _reduce_max(primitive: ReduceMax, ctx: JaxContext, args: Args) -> Args:
    """Of which JAX has one kind."""
    return apply(p.reduce_max_p, *args, axes=primitive.axes, **dict.fromkeys(_BESIDES.get(primitive.name, ())))


def _alike(primitive: JaxPrimitive, more: Mapping[str, object]) -> Callable[[Primitive, JaxContext, Args], Args]:
    return lambda ours, ctx, args: apply(primitive, *args, **ours.params, **more)


def _accurate(primitive: JaxPrimitive) -> Callable[[Primitive, JaxContext, Args], Args]:
    """How exact it has to be is said by an object of JAX's."""

    def rule(ours: Primitive, ctx: JaxContext, args: Args) -> Args:
        found = ours.params["accuracy"]
        if isinstance(found, AccuracyMode):
            return apply(primitive, *args, accuracy=lax.AccuracyMode[found.name])
        if isinstance(found, Tolerance):
            return apply(primitive, *args, accuracy=lax.Tolerance(*astuple(found)))
        return apply(primitive, *args, accuracy=None)

    return rule


@TO_JAX.register(Threefry2x32)
def _threefry(primitive: Threefry2x32, ctx: JaxContext, args: Args) -> Args:
    return apply(p.threefry2x32_p, *_of_one_shape(ctx, args))  # on CPUs JAX takes no scalars beside arrays


@TO_JAX.register(RandomGammaGrad)
def _random_gamma_grad(primitive: RandomGammaGrad, ctx: JaxContext, args: Args) -> Args:
    a, x = map(jnp.asarray, args)
    return [lax.random_gamma_grad(a, x)]  # which is no primitive there, and takes no Python numbers


@TO_JAX.register(RandomGammaGradA)
def _random_gamma_grad_a(primitive: RandomGammaGradA, ctx: JaxContext, args: Args) -> Args:
    a, x = map(jnp.asarray, args)

    def derivative(order: int, a: jax.Array) -> jax.Array:
        if order:
            found: jax.Array = jax.jvp(partial(derivative, order - 1), (a,), (jnp.ones_like(a),))[1]
        else:
            found = lax.random_gamma_grad(a, x)
        return found

    return [derivative(primitive.order, a)]


#: Those that JAX tells how their results are laid out over devices.
_SHARDED: Final = ("reduce_sum", "reduce_max", "reduce_min") if jax.__version_info__ >= (0, 11) else ("reduce_sum",)
#: What JAX's own takes besides. It is left to say nothing.
_BESIDES: Final[Mapping[str, tuple[str, ...]]] = {
    "mul": ("out_dtype",),
    "schur": ("select_callable",),
    "reshape": ("dimensions", "sharding"),
    **dict.fromkeys(("broadcast_in_dim", "convert_element_type", "iota"), ("sharding",)),
    **dict.fromkeys(_SHARDED, ("out_sharding",)),
}
for _cls in FIRST_ORDER:
    if _cls not in TO_JAX:
        _homes = (home for home in (p, lax, lax.linalg) if hasattr(home, f"{_cls.name}_p"))
        _found = getattr(next(_homes, p), f"{_cls.name}_p", None)
        if isinstance(_found, JaxPrimitive) and issubclass(_cls, Accurate):
            TO_JAX[_cls] = _accurate(_found)
        elif isinstance(_found, JaxPrimitive):
            TO_JAX[_cls] = _alike(_found, dict.fromkeys(_BESIDES.get(_cls.name, ())))
        else:
            TO_JAX.lacks(_cls, "JAX has no primitive of this name")
