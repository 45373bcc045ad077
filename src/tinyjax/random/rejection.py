"""Numbers of the gamma distribution by rejection, with a derivative in its shape.

George Marsaglia and Wai Wan Tsang, "A simple method for generating gamma variables" (2000).
"""

from __future__ import annotations

import math
from collections.abc import Callable, Sequence
from functools import partial
from typing import Final, TypeAlias

import tinyjax.numpy as tnp
from tinyjax import lax
from tinyjax.api.make_jaxpr import make_jaxpr
from tinyjax.api.rules.custom_jvp import custom_jvp
from tinyjax.api.rules.custom_vmap import custom_vmap
from tinyjax.api.vectorize import vmap
from tinyjax.ir.aval import ShapedArray
from tinyjax.ir.program import ClosedJaxpr
from tinyjax.primitives.key_generators import ByXla, generator_of
from tinyjax.primitives.keys import RandomSplit
from tinyjax.random.arguments import halves, number
from tinyjax.random.continuous import exponential
from tinyjax.random.drawing import fractions, gaussian
from tinyjax.tracing.array import Array
from tinyjax.tracing.core import bind

_Pair: TypeAlias = tuple[Array, Array]
_Proposal: TypeAlias = tuple[Array, Array, Array]
_Trial: TypeAlias = tuple[Array, Array, Array, Array]


def _one(key: Array, a: Array, log_space: bool) -> Array:
    """One number of shape a, a scalar. Below 1, that of shape a + 1 times a power of a uniform number."""
    dtype = a.aval.dtype
    zero, one, third = (number(value, dtype) for value in (0, 1, 1 / 3))
    large = a >= one
    d = tnp.where(large, a, a + one) - third
    c = third / lax.sqrt(d)

    def rejected(trial: _Trial) -> Array:
        _, x, v, u = trial
        below = number(0.0331, dtype) * (x * x)
        return (u >= one - below) & (lax.log(u) >= x * number(0.5, dtype) + d * ((one - v) + lax.log(v)))

    def proposed(proposal: _Proposal) -> _Proposal:
        following, part = halves(proposal[0])
        x = gaussian(part, (), dtype)
        return following, x, one + x * c

    def tried(trial: _Trial) -> _Trial:
        following, first, second = halves(trial[0], 3)
        start = (first, zero, -one)
        _, x, v = lax.while_loop(lambda proposal: proposal[2] <= zero, proposed, start)
        return following, x * x, v * v * v, fractions(second, (), dtype)

    key, last = halves(key)
    begin = (key, zero, one, one + one)
    v = lax.while_loop(rejected, tried, begin)[2]
    if log_space:
        drawn = -exponential(last, (), dtype)
        boost = tnp.where(large | (drawn == zero), zero, drawn * (one / a))
        return lax.log(d) + lax.log(v) + boost
    drawn = 1 - fractions(last, (), dtype)
    return d * v * tnp.where(large, one, drawn ** (one / a))


def drawn(key: Array, a: Array, log_space: bool) -> Array:
    """A number for each element of a, of which the first axes are those of the keys; or its logarithm.

    Where the bits of several keys all come from the first of them, numbers are drawn one after the other, also under
    vmap: as in JAX.
    """
    if isinstance(generator_of(key.aval.dtype), ByXla):
        found: Array = _IN_ORDER[log_space](key, a)
        return found
    keys, shapes = _apart(key, a)
    return vmap(partial(_one, log_space=log_space))(keys, shapes).reshape(a.aval.shape)


def _apart(key: Array, a: Array) -> _Pair:
    """A key for each element of a, and the elements."""
    each = math.prod(a.aval.shape[key.ndim :])
    return bind(RandomSplit((each,)), key.reshape(-1))[0].reshape(-1), a.reshape(-1)


def _in_order(log_space: bool) -> Callable[[Array, Array], Array]:
    """`drawn`, one number after the other."""

    @custom_vmap
    def gamma_in_order(key: Array, a: Array) -> Array:
        return lax.map(lambda pair: _one(pair[0], pair[1], log_space), _apart(key, a)).reshape(a.aval.shape)

    @gamma_in_order.def_vmap
    def batched(size: int, mapped: Sequence[bool], *operands: Array) -> tuple[Array, bool]:
        key, a = (
            x if has else tnp.broadcast_to(x, (size, *x.aval.shape)) for x, has in zip(operands, mapped, strict=True)
        )
        return gamma_in_order(key, a), True

    return gamma_in_order


_IN_ORDER: Final = {log_space: _in_order(log_space) for log_space in (False, True)}


def _slope(sample: Array, a: Array, log_space: bool) -> Array:
    """The derivative of a sample with respect to the shape of its distribution."""
    if not log_space:
        return lax.random_gamma_grad(a, sample)
    value = lax.exp(sample)
    value = tnp.where(value == 0, number(tnp.finfo(sample.aval.dtype).tiny, sample.aval.dtype), value)
    return lax.random_gamma_grad(a, value) / value


@partial(custom_jvp, nondiff_argnums=(2,))
def random_gamma(key: Array, a: Array, log_space: bool) -> Array:
    """`drawn`, with a derivative in a."""
    return drawn(key, a, log_space)


@random_gamma.defjvp
def _random_gamma_jvp(
    log_space: bool, primals: tuple[Array, Array], tangents: tuple[Array, Array]
) -> tuple[Array, Array]:
    sample = random_gamma(*primals, log_space)
    return sample, tangents[1] * _slope(sample, primals[1], log_space)


def gamma_program(log_space: bool, avals: Sequence[ShapedArray]) -> ClosedJaxpr:
    """The program of `random_gamma`, for keys and shapes of these types."""
    return make_jaxpr(lambda key, a: random_gamma(key, a, log_space))(*avals)
