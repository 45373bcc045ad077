"""tinyjax and jax under one interface, so that each program is written once and both do the same work."""

from __future__ import annotations

import re
from collections.abc import Callable, Sequence
from functools import cache
from typing import Generic, Protocol, Self, TypeAlias, TypeVar, final

import jax
import jax.numpy as jnp
import numpy as np
from attrs import frozen

import tinyjax as tj
import tinyjax.numpy as tnp
from tinyjax.ir.program import Var


class Numeric(Protocol):
    """What the programs do with arrays by operators and methods."""

    def __add__(self, other: Self | float, /) -> Self: ...
    def __sub__(self, other: Self | float, /) -> Self: ...
    def __mul__(self, other: Self | float, /) -> Self: ...
    def __truediv__(self, other: Self | float, /) -> Self: ...
    def __floordiv__(self, other: Self | float, /) -> Self: ...
    def __mod__(self, other: Self | float, /) -> Self: ...
    def __matmul__(self, other: Self, /) -> Self: ...
    def __neg__(self) -> Self: ...
    def __lt__(self, other: Self | float, /) -> Self: ...
    def __getitem__(self, index: int | slice, /) -> Self: ...
    def reshape(self, *sizes: int) -> Self: ...
    def astype(self, dtype: np.dtype[np.generic], /) -> Self: ...


A = TypeVar("A", bound=Numeric)
#: For each axis of an array, the axes of a mesh along which it is divided.
Spec: TypeAlias = tuple[str | tuple[str, ...] | None, ...]


@final
@frozen
class Sizes:
    """A compiled program: its instructions, and the bytes that a run takes apart from arguments and results."""

    instructions: int
    temporary: int


@final
@frozen
class Library(Generic[A]):
    """A library, by the functions that the programs use. Functions of several arrays take them in a list."""

    name: str
    #: An array on the device.
    asarray: Callable[[object], A]
    #: An array where the library keeps those that nothing has been computed with.
    asarray_on_host: Callable[[object], A]
    #: An array on a mesh of 4 by 2 devices, whose axes are x and y: what each of its own axes is divided along.
    divided: Callable[[object, Spec], A]
    sin: Callable[[A], A]
    tanh: Callable[[A], A]
    exp: Callable[[A], A]
    sqrt: Callable[[A], A]
    #: Over the last axis, which stays with size 1.
    mean: Callable[[A], A]
    maximum_over: Callable[[A], A]
    total_over: Callable[[A], A]
    sum: Callable[[A], A]
    transpose: Callable[[A], A]
    #: The elements of the second array where the first holds, those of the third elsewhere.
    where: Callable[[A, A, A], A]
    #: A batch of images (n, channels, height, width) with kernels (channels out, channels, height, width).
    convolve: Callable[[A, A], A]
    #: The maxima of windows of 2 by 2, side by side.
    pool: Callable[[A], A]
    cholesky: Callable[[A], A]
    #: What is on the diagonal of matrices.
    diagonal: Callable[[A], A]
    log: Callable[[A], A]
    #: Rows convolved around a circle, by Fourier transforms.
    circular: Callable[[A, A], A]
    #: Of `lax`: in ascending order, from the end, the sums up to each element, and the greatest element.
    ascending: Callable[[A], A]
    reversed: Callable[[A], A]
    sums: Callable[[A], A]
    greatest: Callable[[A], A]
    #: Three normal random numbers, the same each time.
    normal: Callable[[], A]
    #: The rows of an array at these positions.
    rows_at: Callable[[A, A], A]
    #: So many rows, each the sum of those that go there.
    rows_added: Callable[[int, A, A], A]
    #: The bytes of what reverse mode keeps of a function at a point, each array once.
    kept: Callable[[Callable[[A], object], A], int]
    #: What XLA has made of a function of a list of arrays.
    sizes: Callable[[Callable[[Sequence[A]], object], Sequence[A]], Sizes]
    jit: Callable[[Callable[[A], A]], Callable[[A], A]]
    grad: Callable[[Callable[[A], A]], Callable[[A], A]]
    vmap: Callable[[Callable[[A], A]], Callable[[A], A]]
    tangent: Callable[[Callable[[A], A], A], A]
    #: The last carry of a scan without outputs over the first axis.
    scan: Callable[[Callable[[A, A], A], A, A], A]
    #: From a start, while its first element is below the bound.
    while_below: Callable[[Callable[[A], A], A, float], A]
    grads: Callable[[Callable[[Sequence[A]], A]], Callable[[Sequence[A]], Sequence[A]]]
    trace: Callable[[Callable[[A], A], A], object]
    lower: Callable[[Callable[[A], A], A], str]
    #: Traces, lowers and compiles a function of a list of arrays.
    compile: Callable[[Callable[[Sequence[A]], object], Sequence[A]], Callable[[Sequence[A]], object]]
    jit_any: Callable[[Callable[..., object]], Callable[..., object]]
    wait: Callable[[object], object]


def _our_scan(f: Callable[[tj.Array, tj.Array], tj.Array], start: tj.Array, xs: tj.Array) -> tj.Array:
    return tj.lax.scan(lambda carry, x: (f(carry, x), None), start, xs)[0]


def _their_scan(f: Callable[[jax.Array, jax.Array], jax.Array], start: jax.Array, xs: jax.Array) -> jax.Array:
    return jax.lax.scan(lambda carry, x: (f(carry, x), None), start, xs)[0]


def _our_while(f: Callable[[tj.Array], tj.Array], start: tj.Array, bound: float) -> tj.Array:
    return tj.lax.while_loop(lambda x: x[0] < bound, f, start)


def _their_while(f: Callable[[jax.Array], jax.Array], start: jax.Array, bound: float) -> jax.Array:
    return jax.lax.while_loop(lambda x: x[0] < bound, f, start)


@cache
def _our_key() -> tj.Array:
    return tj.random.key(0)


@cache
def _their_key() -> jax.Array:
    return jax.random.key(0)


def _our_compile(
    f: Callable[[Sequence[tj.Array]], object], args: Sequence[tj.Array]
) -> Callable[[Sequence[tj.Array]], object]:
    return tj.jit(f).lower(args).compile()


def _their_compile(
    f: Callable[[Sequence[jax.Array]], object], args: Sequence[jax.Array]
) -> Callable[[Sequence[jax.Array]], object]:
    return jax.jit(f).lower(args).compile()


def _our_divided(x: object, spec: Spec) -> tj.Array:
    mesh = tj.sharding.Mesh(np.array(tj.devices("cpu")[:8]).reshape(4, 2), ("x", "y"))
    divided: tj.Array = tj.device_put(np.asarray(x), tj.NamedSharding(mesh, tj.P(*spec)))
    return divided


def _their_divided(x: object, spec: Spec) -> jax.Array:
    mesh = jax.sharding.Mesh(np.array(jax.devices("cpu")[:8]).reshape(4, 2), ("x", "y"))
    divided: jax.Array = jax.device_put(
        np.asarray(x), jax.sharding.NamedSharding(mesh, jax.sharding.PartitionSpec(*spec))
    )
    return divided


def kept_by_us(f: Callable[..., object], *args: object) -> int:
    """The bytes of the arrays that our `vjp` of f keeps for later."""
    program = tj.make_jaxpr(lambda *xs: tj.tree.leaves(tj.vjp(f, *xs)[1]))(*args).jaxpr
    return sum(var.aval.nbytes for var in {out for out in program.outvars if isinstance(out, Var)})


def kept_by_jax(f: Callable[..., object], *args: object) -> int:
    """The bytes of the arrays that jax's `vjp` of f keeps for later."""
    program = jax.make_jaxpr(lambda *xs: jax.tree.leaves(jax.vjp(f, *xs)[1]))(*args).jaxpr
    kept = {out: out.aval for out in program.outvars if not hasattr(out, "val")}
    return sum(
        int(np.prod(aval.shape, dtype=np.int64)) * np.dtype(aval.dtype).itemsize
        for aval in kept.values()
        if isinstance(aval, jax.core.ShapedArray) and aval.dtype != jax.dtypes.float0
    )


def our_sizes(f: Callable[..., object], *args: object) -> Sizes:
    """Of our compiled function."""
    compiled = tj.jit(f).lower(*args).compile()
    return Sizes(_instructions(compiled.as_text()), compiled.memory_analysis().temp_size_in_bytes)


def their_sizes(f: Callable[..., object], *args: object) -> Sizes:
    """Of jax's compiled function."""
    compiled = jax.jit(f).lower(*args).compile()
    memory = compiled.memory_analysis()
    return Sizes(_instructions(compiled.as_text() or ""), 0 if memory is None else int(memory.temp_size_in_bytes))


def _instructions(text: str) -> int:
    return len(re.findall(r"^\s+(?:ROOT )?%?[\w.\-]+ = ", text, re.MULTILINE))


OURS: Library[tj.Array] = Library(
    name="tinyjax",
    asarray=lambda x: tj.device_put(tnp.asarray(np.asarray(x))),
    asarray_on_host=lambda x: tnp.asarray(np.asarray(x)),
    divided=_our_divided,
    sin=tnp.sin,
    tanh=tnp.tanh,
    exp=tnp.exp,
    sqrt=tnp.sqrt,
    mean=lambda x: tnp.mean(x, axis=-1, keepdims=True),
    maximum_over=lambda x: tnp.max(x, axis=-1, keepdims=True),
    total_over=lambda x: tnp.sum(x, axis=-1, keepdims=True),
    sum=tnp.sum,
    transpose=lambda x: x.T,
    where=tnp.where,
    convolve=lambda x, w: tj.lax.conv(x, w, (1, 1), "SAME"),
    pool=lambda x: tj.lax.reduce_window(x, -np.inf, tj.lax.max, (1, 1, 2, 2), (1, 1, 2, 2), "VALID"),
    cholesky=tj.lax.linalg.cholesky,
    diagonal=lambda x: tnp.diagonal(x, axis1=-2, axis2=-1),
    log=tnp.log,
    circular=lambda x, y: tnp.fft.irfft(tnp.fft.rfft(x) * tnp.fft.rfft(y), x.shape[-1]),
    ascending=tj.lax.sort,
    reversed=lambda x: tj.lax.rev(x, (0,)),
    sums=tj.lax.cumsum,
    greatest=lambda x: tj.lax.top_k(x, 1)[0],
    normal=lambda: tj.random.normal(_our_key(), (3,)),
    rows_at=lambda x, positions: x[positions],
    rows_added=lambda n, positions, rows: tnp.zeros((n, *rows.shape[1:]), rows.dtype).at[positions].add(rows),
    kept=kept_by_us,
    sizes=our_sizes,
    jit=tj.jit,
    grad=tj.grad,
    vmap=tj.vmap,
    tangent=lambda f, x: tj.jvp(f, (x,), (x,))[1],
    scan=_our_scan,
    while_below=_our_while,
    grads=tj.grad,
    trace=lambda f, x: tj.make_jaxpr(f)(x),
    lower=lambda f, x: tj.jit(f).lower(x).as_text(),
    compile=_our_compile,
    jit_any=tj.jit,
    wait=tj.block_until_ready,
)
THEIRS: Library[jax.Array] = Library(
    name="jax",
    asarray=lambda x: jnp.asarray(np.asarray(x)),
    asarray_on_host=lambda x: jnp.asarray(np.asarray(x)),
    divided=_their_divided,
    sin=jnp.sin,
    tanh=jnp.tanh,
    exp=jnp.exp,
    sqrt=jnp.sqrt,
    mean=lambda x: jnp.mean(x, axis=-1, keepdims=True),
    maximum_over=lambda x: jnp.max(x, axis=-1, keepdims=True),
    total_over=lambda x: jnp.sum(x, axis=-1, keepdims=True),
    sum=jnp.sum,
    transpose=lambda x: x.T,
    where=jnp.where,
    convolve=lambda x, w: jax.lax.conv(x, w, (1, 1), "SAME"),
    pool=lambda x: jax.lax.reduce_window(x, -np.inf, jax.lax.max, (1, 1, 2, 2), (1, 1, 2, 2), "VALID"),
    cholesky=jax.lax.linalg.cholesky,
    diagonal=lambda x: jnp.diagonal(x, axis1=-2, axis2=-1),
    log=jnp.log,
    circular=lambda x, y: jnp.fft.irfft(jnp.fft.rfft(x) * jnp.fft.rfft(y), x.shape[-1]),
    ascending=jax.lax.sort,
    reversed=lambda x: jax.lax.rev(x, (0,)),
    sums=jax.lax.cumsum,
    greatest=lambda x: jax.lax.top_k(x, 1)[0],
    normal=lambda: jax.random.normal(_their_key(), (3,)),
    rows_at=lambda x, positions: x[positions],
    rows_added=lambda n, positions, rows: jnp.zeros((n, *rows.shape[1:]), rows.dtype).at[positions].add(rows),
    kept=kept_by_jax,
    sizes=their_sizes,
    jit=jax.jit,
    grad=jax.grad,
    vmap=jax.vmap,
    tangent=lambda f, x: jax.jvp(f, (x,), (x,))[1],
    scan=_their_scan,
    while_below=_their_while,
    grads=jax.grad,
    trace=lambda f, x: jax.make_jaxpr(f)(x),
    lower=lambda f, x: jax.jit(f).lower(x).as_text(),
    compile=_their_compile,
    jit_any=jax.jit,
    wait=jax.block_until_ready,
)
