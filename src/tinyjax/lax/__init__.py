"""The primitives as functions, under JAX's names. Strict: no promotion, no broadcasting but that of scalars."""

from tinyjax.exports import collect
from tinyjax.lax import (
    annotations,
    associative,
    binary,
    collectives,
    conditionals,
    convolution,
    convolution_shapes,
    described,
    exchanges,
    fourier,
    implicit,
    indexing,
    joining,
    linalg,
    loops,
    parameters,
    platforms,
    reductions,
    scanning,
    shaping,
    special,
    special_products,
    unary,
    windows,
)

collect(
    __name__,
    *(annotations, associative, binary, collectives, conditionals, convolution, convolution_shapes, described),
    *(exchanges, fourier, implicit, indexing, joining, loops, parameters, platforms, reductions, scanning, shaping),
    *(special, special_products, unary, windows),
    packages=(linalg,),
)
