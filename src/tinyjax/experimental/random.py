"""Random numbers from a generator that counts by itself, as NumPy's does: the names of `jax.experimental.random`."""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from typing import Any, SupportsIndex, TypeAlias, final

import numpy as np
import numpy.typing as npt
from attrs import field, frozen

from tinyjax import random
from tinyjax.arrays.shaping import integers as as_integers
from tinyjax.errors import InputError, ShapeError
from tinyjax.lax.placing import is_evaluated
from tinyjax.numpy.creation import zeros
from tinyjax.numpy.manipulation import broadcast_shapes
from tinyjax.random.arguments import ImplLike
from tinyjax.ref import Ref, new_ref
from tinyjax.tracing.array import Array, ArrayLike
from tinyjax.tracing.concrete import as_array
from tinyjax.tree import register_pytree_node_class

__all__ = ["StatefulPRNG", "stateful_rng"]

_Size: TypeAlias = SupportsIndex | Sequence[SupportsIndex] | None


@final
@register_pytree_node_class
@frozen(eq=False)
class StatefulPRNG:
    """A generator of random numbers: a key, and a `Ref` that counts the draws. `stateful_rng` makes one.

    Each draw uses the key with the count folded in, and adds one to the count, also within `jit`, loops and
    derivatives, for a function may write to the Refs that it takes or closes over. It can't be what such a function
    returns. It is a tree, of the key and the Ref. Source: `jax.experimental.random.StatefulPRNG`.
    """

    _base_key: Array = field(alias="_base_key")
    _counter: Ref = field(alias="_counter")

    def key(self, shape: SupportsIndex | Sequence[SupportsIndex] = ()) -> Array:
        """A new key, or an array of new keys of this shape.

        Raises:
          ShapeError: the generator was split, and stands outside of `vmap`.
          InputError: it wasn't made of a key and a Ref.

        >>> rng = stateful_rng(0)
        >>> rng.key() == rng.key(), rng.key(3).shape
        (Array(False, dtype=bool), (3,))
        """
        if not isinstance(self._counter, Ref):
            raise InputError(
                f"StatefulPRNG: the counter is a {type(self._counter).__name__}, no Ref of an integer. "
                "Make the generator by stateful_rng(seed)."
            )
        if as_array(self._base_key).shape:
            raise ShapeError(
                f"StatefulPRNG: a generator that was split, here into {self._base_key.shape}, is an argument of vmap: "
                "vmap(f)(rng.split(n)). Use spawn(n) for a list of generators."
            )
        key = random.fold_in(self._base_key, self._counter[...])
        self._counter[...] += 1
        sizes = _size(shape)
        return random.split(key, sizes) if sizes else key

    def random(self, size: _Size = None, dtype: npt.DTypeLike = float) -> Array:
        """Floats from 0 up to 1, as `tinyjax.random.uniform` draws them.

        >>> stateful_rng(0).random(2)
        Array([0.969948  , 0.31518186], dtype=float64)
        """
        return random.uniform(self.key(), _size(size), dtype)

    def uniform(
        self, low: ArrayLike = 0, high: ArrayLike = 1, size: _Size = None, *, dtype: npt.DTypeLike = float
    ) -> Array:
        """Floats from `low` up to `high`, of the shape that these have together unless `size` says another.

        >>> stateful_rng(0).uniform(5.0, 6.0)
        Array(5.969948, dtype=float64)
        """
        return random.uniform(self.key(), _size(size, low, high), dtype, low, high)

    def normal(
        self, loc: ArrayLike = 0, scale: ArrayLike = 1, size: _Size = None, *, dtype: npt.DTypeLike = float
    ) -> Array:
        """Normally distributed floats with these means and standard deviations.

        >>> stateful_rng(0).normal(np.array([0.0, 10.0]))
        Array([1.88002989, 9.51878503], dtype=float64)
        """
        drawn = random.normal(self.key(), _size(size, loc, scale), dtype)
        return (as_array(loc) + as_array(scale) * drawn).astype(dtype)

    def integers(
        self, low: ArrayLike, high: ArrayLike | None = None, size: _Size = None, *, dtype: npt.DTypeLike = int
    ) -> Array:
        """Integers from `low` to below `high`; with one bound, from 0 to below it.

        >>> stateful_rng(0).integers(10, size=4)
        Array([6, 2, 0, 2], dtype=int64)
        """
        first, end = (0, low) if high is None else (low, high)
        return random.randint(self.key(), _size(size, first, end), first, end, dtype)

    def split(self, num: SupportsIndex | Sequence[SupportsIndex]) -> StatefulPRNG:
        """Generators that are independent of this one, as one whose key and counter are arrays: an argument of `vmap`.

        >>> from tinyjax import vmap
        >>> vmap(lambda rng: rng.uniform())(stateful_rng(0).split(3)).shape
        (3,)
        """
        sizes = _size(num)
        return StatefulPRNG(self.key(sizes), new_ref(zeros(sizes, int)))

    def spawn(self, n_children: int) -> list[StatefulPRNG]:
        """A list of generators that are independent of this one.

        >>> [rng.integers(100) for rng in stateful_rng(0).spawn(2)]
        [Array(78, dtype=int64), Array(44, dtype=int64)]
        """
        keys = self.key((n_children,))
        return [StatefulPRNG(keys[i], new_ref(0)) for i in range(n_children)]

    def tree_flatten(self) -> tuple[tuple[Array, Ref], None]:
        """The key and the Ref, for `tinyjax.tree`."""
        return (self._base_key, self._counter), None

    @classmethod
    def tree_unflatten(cls, aux_data: object, children: Iterable[Any], /) -> StatefulPRNG:
        """The generator of a key and a Ref, for `tinyjax.tree`."""
        return StatefulPRNG(*children)


def stateful_rng(seed: ArrayLike | None = None, *, impl: ImplLike = None) -> StatefulPRNG:
    """A generator that starts from a seed: a convenience, where numbers are drawn in order. Source:
    `jax.experimental.random.stateful_rng`, whose numbers it draws.

    Args:
      seed: an integer; None for one that the operating system chooses.
      impl: the implementation of the key, as `tinyjax.random.key` takes it.

    Raises:
      InputError: there is no seed where a function is being staged, in whose program it would be a constant.

    >>> from tinyjax import jit
    >>> rng = stateful_rng(42)
    >>> draw = jit(rng.uniform)
    >>> draw(), draw()
    (Array(0.23566993, dtype=float64), Array(0.74211901, dtype=float64))
    """
    if seed is None and not is_evaluated():
        raise InputError(
            "stateful_rng: without a seed, each call of the compiled function would draw the same numbers. "
            "Make the generator outside and pass it, or give a seed."
        )
    chosen = np.random.SeedSequence().generate_state(1, np.uint64)[0] >> 1 if seed is None else seed
    return StatefulPRNG(random.key(chosen, impl=impl), new_ref(0))


def _size(size: _Size, *args: ArrayLike) -> tuple[int, ...]:
    """A shape, however it is said; None is that of the arguments together."""
    return broadcast_shapes(*(as_array(arg).shape for arg in args)) if size is None else as_integers(size, "size")
