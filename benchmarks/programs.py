"""What is measured: programs that both libraries run, each written once."""

from __future__ import annotations

from abc import ABC, abstractmethod
from collections.abc import Callable, Sequence
from typing import final

import numpy as np
import numpy.typing as npt
from attrs import frozen
from typing_extensions import override

from benchmarks.library import A, Library

Floats = npt.NDArray[np.float64]

# Functions of one small array, of about n equations.


def chain(lib: Library[A], n: int) -> Callable[[A], A]:
    """A sine, a product with a number, and a sum, one after the other."""

    def f(x: A) -> A:
        for _ in range(n // 3):
            x = lib.sin(x) * 2.0 + x
        return x

    return f


def mixed(lib: Library[A], n: int) -> Callable[[A], A]:
    """Arithmetic of all kinds, with broadcasting: of a row and a column, and of numbers."""

    def f(x: A) -> A:
        row = lib.total_over(x)
        for _ in range(n // 8):
            y = x * row - 0.5
            x = lib.tanh(y) / (x * x + 1.0) + y * 0.25
        return x

    return f


# About n operations of one kind, on the same small vector again and again.


def choosing(lib: Library[A], n: int) -> Callable[[A], A]:
    """Comparisons, and choices by their results."""

    def f(x: A) -> A:
        for _ in range(n // 2):
            x = lib.where(x < 0.5, x, x)
        return x

    return f


def indexing(lib: Library[A], n: int) -> Callable[[A], A]:
    """Elements and slices."""

    def f(x: A) -> A:
        y = x
        for _ in range(n // 3):
            y = x[0] + x[1:]
        return y

    return f


def reshaping(lib: Library[A], n: int) -> Callable[[A], A]:
    """Changes of shape, and transpositions."""

    def f(x: A) -> A:
        y = x
        for _ in range(n // 2):
            y = lib.transpose(x.reshape(3, 1))
        return y

    return f


def reducing(lib: Library[A], n: int) -> Callable[[A], A]:
    """Sums and maxima."""

    def f(x: A) -> A:
        y = z = x
        for _ in range(n // 2):
            y, z = lib.sum(x), lib.maximum_over(x)
        return y + z

    return f


def contracting(lib: Library[A], n: int) -> Callable[[A], A]:
    """Products of vectors."""

    def f(x: A) -> A:
        y = x
        for _ in range(n):
            y = x @ x
        return y

    return f


def converting(lib: Library[A], n: int) -> Callable[[A], A]:
    """Other dtypes, and back."""
    narrow, wide = np.dtype(np.float32), np.dtype(np.float64)

    def f(x: A) -> A:
        y = x
        for _ in range(n // 2):
            y = x.astype(narrow).astype(wide)
        return y

    return f


def composing(lib: Library[A], n: int) -> Callable[[A], A]:
    """Functions that are made of several operations each."""

    def f(x: A) -> A:
        y = z = w = x
        for _ in range(n // 3):
            y, z, w = x // 0.2, x % 0.3, lib.mean(x)
        return y + z + w

    return f


def moving(lib: Library[A], n: int) -> Callable[[A], A]:
    """Functions of `lax`, which make a primitive at each call."""

    def f(x: A) -> A:
        y = z = w = v = x
        for _ in range(n // 4):
            y, z, w, v = lib.ascending(x), lib.reversed(x), lib.sums(x), lib.greatest(x)
        return y + z + w + v

    return f


def drawing(lib: Library[A], n: int) -> Callable[[A], A]:
    """Random numbers."""

    def f(x: A) -> A:
        y = x
        for _ in range(n):
            y = lib.normal()
        return x + y

    return f


def nested(lib: Library[A], n: int) -> Callable[[A], A]:
    """Compiled functions that call compiled functions, with about n equations if each call counts as its body."""

    def inner(x: A) -> A:
        return lib.sin(x) * 2.0 + x

    one = lib.jit(inner)
    two = lib.jit(lambda x: one(one(one(x))))

    def f(x: A) -> A:
        for _ in range(max(n // 9, 1)):
            x = two(x)
        return x

    return f


def scans(lib: Library[A], n: int) -> Callable[[A], A]:
    """Scans with bodies of ten equations."""

    def f(x: A) -> A:
        for _ in range(max(n // 11, 1)):
            x = lib.scan(lambda carry, y: lib.tanh(carry * y + 0.1) * 0.5 + lib.sin(carry) * y - carry / 3.0, x[0], x)
            x = x + lib.asarray(np.zeros((3, 3)))
        return x

    return f


# Whole programs: a function of a list of arrays, and the arrays.


class Builder(ABC):
    """A function of a list of arrays in a library of one's choice."""

    __slots__ = ()

    @abstractmethod
    def __call__(self, lib: Library[A]) -> Callable[[Sequence[A]], object]:
        """The function."""


@final
@frozen
class Program:
    """A name, the arrays, and the function, for any library."""

    name: str
    arrays: tuple[Floats, ...]
    function: Builder


def _normal(seed: int, *shape: int) -> Floats:
    scaled: Floats = np.random.default_rng(seed).normal(size=shape) / np.sqrt(shape[0])
    return scaled


@final
class Mlp(Builder):
    """The gradient of a network of four layers on a batch."""

    @override
    def __call__(self, lib: Library[A]) -> Callable[[Sequence[A]], object]:
        def loss(arrays: Sequence[A]) -> A:
            x, *weights = arrays
            for w in weights[:-1]:
                x = lib.tanh(x @ w)
            out = x @ weights[-1]
            return lib.sum(out * out)

        return lib.grads(loss)


@final
class Transformer(Builder):
    """The gradient of a block of attention and a network, with layer normalisation."""

    @override
    def __call__(self, lib: Library[A]) -> Callable[[Sequence[A]], object]:
        def normalise(x: A) -> A:
            centred = x - lib.mean(x)
            return centred / lib.sqrt(lib.mean(centred * centred) + 1e-5)

        def softmax(x: A) -> A:
            e = lib.exp(x - lib.maximum_over(x))
            return e / lib.total_over(e)

        def loss(arrays: Sequence[A]) -> A:
            x, *weights = arrays
            for i in range(0, len(weights), 6):
                query, key, value, out, up, down = weights[i : i + 6]
                y = normalise(x)
                scores = (y @ query) @ lib.transpose(y @ key)
                x = x + (softmax(scores * 0.25) @ (y @ value)) @ out
                x = x + lib.tanh(normalise(x) @ up) @ down
            return lib.sum(x * x)

        return lib.grads(loss)


@final
class Rnn(Builder):
    """The gradient of a recurrent network, by scan."""

    @override
    def __call__(self, lib: Library[A]) -> Callable[[Sequence[A]], object]:
        def loss(arrays: Sequence[A]) -> A:
            start, inputs, w, u = arrays
            last = lib.scan(lambda h, x: lib.tanh(h @ w + x @ u), start, inputs)
            return lib.sum(last * last)

        return lib.grads(loss)


@final
class Ode(Builder):
    """Steps of the classical Runge-Kutta method until a time, by while."""

    @override
    def __call__(self, lib: Library[A]) -> Callable[[Sequence[A]], object]:
        def step(state: A) -> A:
            def slope(y: A) -> A:
                return lib.sin(y) * 0.1 + 0.05

            h = 0.01
            k1 = slope(state)
            k2 = slope(state + k1 * (h / 2))
            k3 = slope(state + k2 * (h / 2))
            k4 = slope(state + k3 * h)
            return state + (k1 + k2 * 2.0 + k3 * 2.0 + k4) * (h / 6)

        return lambda arrays: lib.while_below(step, arrays[0], 1.0)


@final
class Residual(Builder):
    """The gradient of a residual network of 32 layers."""

    @override
    def __call__(self, lib: Library[A]) -> Callable[[Sequence[A]], object]:
        def loss(arrays: Sequence[A]) -> A:
            x, *weights = arrays
            for w in weights:
                x = x + lib.tanh(x @ w) * 0.1
            return lib.sum(x * x)

        return lib.grads(loss)


@final
class GradOfGrad(Builder):
    """A third derivative of a function that calls compiled functions."""

    @override
    def __call__(self, lib: Library[A]) -> Callable[[Sequence[A]], object]:
        inner = lib.jit(lambda x: lib.tanh(x * 0.9) * lib.sin(x) + x)
        f = lib.jit(lambda x: lib.sum(inner(inner(inner(x)))))
        second = lib.grad(lambda x: lib.sum(lib.grad(f)(x)))
        return lambda arrays: lib.grad(lambda x: lib.sum(second(x)))(arrays[0])


@final
class Convolutions(Builder):
    """The gradient of a network of two convolutions, each with a maximum over windows, on a batch of images."""

    @override
    def __call__(self, lib: Library[A]) -> Callable[[Sequence[A]], object]:
        def loss(arrays: Sequence[A]) -> A:
            x, *kernels = arrays
            for kernel in kernels:
                x = lib.pool(lib.tanh(lib.convolve(x, kernel)))
            return lib.sum(x * x)

        return lib.grads(loss)


@final
class Likelihoods(Builder):
    """The gradient of the determinants of a batch of covariances, by their Cholesky factors."""

    @override
    def __call__(self, lib: Library[A]) -> Callable[[Sequence[A]], object]:
        def loss(arrays: Sequence[A]) -> A:
            samples, diagonal = arrays
            return lib.sum(lib.log(lib.diagonal(lib.cholesky(samples + diagonal))))

        return lib.grads(loss)


@final
class Filters(Builder):
    """The gradient of signals that are filtered three times, by Fourier transforms."""

    @override
    def __call__(self, lib: Library[A]) -> Callable[[Sequence[A]], object]:
        def loss(arrays: Sequence[A]) -> A:
            x, *filters = arrays
            for filter_ in filters:
                x = lib.tanh(lib.circular(x, filter_))
            return lib.sum(x * x)

        return lib.grads(loss)


def _covariances(count: int, size: int) -> Floats:
    roots = _normal(3, count, size, 2 * size)
    squares: Floats = np.matmul(roots, roots.swapaxes(1, 2))
    return squares


PROGRAMS: tuple[Program, ...] = (
    Program("MLP", (_normal(0, 64, 64), *(_normal(i, 64, 64) for i in range(1, 5))), Mlp()),
    Program(
        "transformer, 2 blocks",
        (
            _normal(0, 32, 64),
            *(_normal(6 * b + i, *s) for b in range(2) for i, s in enumerate([(64, 64)] * 4 + [(64, 256), (256, 64)])),
        ),
        Transformer(),
    ),
    Program("RNN by scan", (_normal(0, 16, 32), _normal(1, 50, 16, 8), _normal(2, 32, 32), _normal(3, 8, 32)), Rnn()),
    Program("ODE by while", (np.linspace(0.0, 0.9, 8),), Ode()),
    Program(
        "residual network, 32 layers", (_normal(0, 32, 32), *(_normal(i, 32, 32) for i in range(1, 33))), Residual()
    ),
    Program("grad of grad of grad", (np.linspace(0.1, 0.9, 8),), GradOfGrad()),
    Program(
        "convolutional network",
        (_normal(0, 16, 3, 32, 32), _normal(1, 8, 3, 3, 3), _normal(2, 16, 8, 3, 3)),
        Convolutions(),
    ),
    Program("Cholesky factors", (_covariances(8, 48), np.eye(48)), Likelihoods()),
    Program("Fourier transforms", tuple(_normal(i, 16, 1024) for i in range(4)), Filters()),
)
