"""The primitives as functions, under JAX's names. Strict: no promotion, no broadcasting but that of scalars."""

from tinyjax.exports import collect
from tinyjax.lax import (
    annotations,
    associative,
    binary,
    collectives,
    conditionals,
    convolution,
    exchanges,
    fourier,
    implicit,
    indexing,
    joining,
    linalg,
    loops,
    parameters,
    reductions,
    scanning,
    shaping,
    special,
    unary,
    windows,
)

collect(
    __name__,
    *(annotations, associative, binary, collectives, conditionals, convolution, exchanges, fourier),
    *(implicit, indexing, joining, loops, parameters, reductions, scanning, shaping, special, unary, windows),
    packages=(linalg,),
)
