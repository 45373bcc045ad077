"""What reverse mode keeps: next to never more than jax, and nothing that the derivative doesn't need."""

from __future__ import annotations

from collections.abc import Callable, Iterable
from functools import partial
from typing import Any, Final

import jax
import numpy as np
import pytest
from jax import numpy as jnp

import tinyjax as tj
from tests.api.closing_programs import LABELS, MASK, PROGRAMS, W1, W2, Function, Numpy, X
from tinyjax import numpy as tnp
from tinyjax.interop.jax import of_jax
from tinyjax.ir.program import Var
from tinyjax.ir.value import ConcreteValue
from tinyjax.transforms import linearize
from tinyjax.transforms.known_arrays import spelled_out

SQUARE = X[:8, :8]


def bytes_of(types: Iterable[tuple[tuple[int, ...], Any]]) -> int:
    return sum(int(np.prod(shape, dtype=np.int64)) * np.dtype(dtype).itemsize for shape, dtype in types)


def kept_by_jax(f: Function, *args: object) -> int:
    """The bytes of what the function that `jax.vjp` returns holds, each array once."""
    program = jax.make_jaxpr(lambda *xs: jax.tree.leaves(jax.vjp(f, *xs)[1]))(*args)
    avals: dict[object, Any] = {out: out.aval for out in program.jaxpr.outvars if not hasattr(out, "val")}
    found = {out: (aval.shape, aval.dtype) for out, aval in avals.items()}
    return bytes_of(t for t in found.values() if t[1] != jax.dtypes.float0)


def kept(f: Function, *args: object) -> int:
    """The same of ours."""
    program = tj.make_jaxpr(lambda *xs: tj.tree.leaves(tj.vjp(f, *xs)[1]))(*args)
    return bytes_of(
        {out: (out.aval.shape, out.aval.dtype) for out in program.jaxpr.outvars if isinstance(out, Var)}.values()
    )


def test_nothing_is_kept_that_no_result_depends_on() -> None:
    """Derivatives of what is compared, rounded, sorted by or made an index have no use."""

    def f(x: Any) -> Any:
        steep = tnp.exp(x) * tnp.sin(x)
        return x[tnp.argmax(steep)] + tnp.where(steep > tnp.tanh(x), x, 0.0).sum() + tnp.round(steep).sum()

    assert {r.aval.dtype.name for r in tj.saved_residuals(f, np.ones(5))} == {"bool", "int64"}
    assert {r.aval.dtype.name for r in tj.saved_residuals(tj.jit(f), np.ones(5))} == {"bool", "int64"}
    np.testing.assert_allclose(tj.grad(f)(np.ones(5)), tj.jit(tj.grad(f))(np.ones(5)))


@pytest.mark.parametrize("wrap", [lambda f: f, tj.jit], ids=["plain", "jit"])
def test_what_is_repeated_is_kept_once(wrap: Callable[[Function], Function]) -> None:
    """An array that is spread over a larger one, or computed of such arrays, takes no more room than what is spread."""
    x, scale = tnp.asarray(X), tnp.asarray(X[0])

    def spread(scale: Any, x: Any) -> Any:
        wide = tnp.broadcast_to(scale, X.shape)
        return x * tnp.exp(wide * 0.1 + 1.0) / (2.0 + tnp.cos(wide))

    found = tj.saved_residuals(wrap(lambda x: spread(scale, x)), x)
    assert max(r.nbytes for r in found) <= X[0].nbytes
    ours, theirs = (
        tj.vjp(wrap(spread), scale, x)[1](x),
        tj.grad(lambda s, x: (spread(s, x) * X).sum(), (0, 1))(scale, x),
    )
    for a, b in zip(ours, theirs, strict=True):
        np.testing.assert_allclose(a, b, rtol=1e-4, atol=1e-5)


def test_arrays_that_are_repeated_along_different_axes() -> None:
    """They meet in a larger one, which is kept."""

    def outer(x: Any, y: Any) -> Any:
        return tnp.sin(x[:, None] * y) * tnp.maximum(x[:, None], y[None]) + tnp.sin(x)[:, None]

    x, y = X[:, 0], X[0]
    for f in (outer, tj.jit(outer)):
        for found, expected in zip(tj.vjp(f, x, y)[1](X), jax.vjp(_outer_of_jax, x, y)[1](X), strict=True):
            np.testing.assert_allclose(found, jax.block_until_ready(expected), rtol=1e-4, atol=1e-5)


def _outer_of_jax(x: Any, y: Any) -> Any:
    return jnp.sin(x[:, None] * y) * jnp.maximum(x[:, None], y[None]) + jnp.sin(x)[:, None]


def test_copies_are_made_again() -> None:
    """Of a narrower dtype, of another shape, with axes in another order."""
    mask, half = tnp.asarray(MASK), tnp.asarray(X.astype("float16"))
    (of_mask,) = tj.saved_residuals(lambda x: x * mask.astype("float64"), np.ones(MASK.shape))
    assert of_mask.nbytes == MASK.nbytes
    (of_half,) = tj.saved_residuals(lambda x: x @ half.astype("float32").T, tnp.asarray(X))
    assert of_half.nbytes == X.nbytes // 2
    wide = tnp.asarray(X.astype("float64"))
    (narrow,) = tj.saved_residuals(lambda x: x * wide.astype("float16"), X.astype("float16"))
    assert narrow.nbytes == X.nbytes // 2
    assert kept(lambda w, x: (x @ w, w.T @ x.T, x @ w.reshape(-1).reshape(w.shape)), W1, X) == W1.nbytes + X.nbytes


def test_long_chains_of_copies() -> None:
    def chain(x: Any) -> Any:
        wide = tnp.asarray(X)
        for _ in range(700):
            wide = wide.reshape(-1).reshape(X.shape)
        return x * wide

    assert kept(chain, X) == X.nbytes


@pytest.mark.parametrize("wrap", [lambda f: f, tj.jit], ids=["plain", "jit"])
def test_long_chains_of_cheap_steps(wrap: Callable[[Function], Function]) -> None:
    """Each follows from those before it, however long the chain is; numbers among their operands are spelled out."""

    def polynomials(m: Numpy) -> Function:
        def run(x: Any) -> Any:
            before, this = m.ones_like(x), x
            for _ in range(40):
                before, this = this, 2.0 * x * this - before
            return this * 0.5

        return run

    f = wrap(polynomials(tnp))
    assert kept(f, X) <= 3 * X.nbytes
    (ours,), (theirs,) = tj.vjp(f, X / 9)[1](X), jax.vjp(polynomials(jnp), X / 9)[1](X)
    np.testing.assert_allclose(ours, np.asarray(theirs), rtol=1e-3, atol=1e-3)


@pytest.mark.parametrize("dtype", ["float32", "float64", "int64"])
@pytest.mark.parametrize("where", ["jit", "scan", "cond", "vmap"])
def test_masks_are_made_again(where: str, dtype: str) -> None:
    """What is computed of no argument, such as which positions are below the diagonal, isn't kept."""
    x = SQUARE.astype("float64")

    @tj.jit
    def masked(x: Any) -> Any:
        rows, columns = (tj.lax.broadcasted_iota(dtype, (8, 8), i) for i in range(2))
        weights = 1.0 - 0.5 * (rows == columns).astype(x.dtype)
        return weights * tnp.where(rows >= columns, x, 0.0) + tnp.tril(x, -1)

    functions: dict[str, Function] = {
        "jit": masked,
        "scan": lambda x: tj.lax.scan(lambda c, _: (masked(c), None), x, None, length=3)[0],
        "cond": lambda x: tj.lax.cond(x[0, 0] > 0, masked, lambda x: 2.0 * x, x),
        "vmap": lambda x: tj.vmap(masked)(tnp.stack([x, x])),
    }
    f = functions[where]
    y, back = tj.vjp(f, x)
    assert all(leaf.shape == () for leaf in tj.tree.leaves(back))
    draw = np.random.default_rng(0)
    given, tangent = draw.normal(size=y.shape), draw.normal(size=x.shape)
    pushed = tj.jvp(f, (x,), (tangent,))[1]
    np.testing.assert_allclose(np.vdot(back(given)[0], tangent), np.vdot(given, pushed))


def test_constants_are_not_spelled_out_again() -> None:
    """What is made of an array that a program has is kept, rather than the array once more."""
    table = np.random.default_rng(0).normal(size=8)
    program = tj.make_jaxpr(lambda c, x: tnp.where(c > 0, x, 0.0))(table, table).jaxpr
    spelled, _ = spelled_out(program, [ConcreteValue.of(table), None])
    assert "constant[" in str(spelled)
    linear = linearize(spelled).linear
    assert [var.aval.dtype.name for var in linear.invars] == ["bool", "float64"]
    assert "constant[" not in str(linear)


def test_residuals_that_are_read_last_first() -> None:
    """What follows from one that is handed over later is computed without recursion."""

    def f(x: Any) -> Any:
        powers = [x]
        for _ in range(1500):
            powers.append(powers[-1] * x + 0.5)
        total = tnp.zeros_like(x)
        for power in reversed(powers):
            total = total + power * power
        return total

    assert kept(f, X) <= 3 * X.nbytes


def softmax(m: Numpy) -> Function:
    def run(x: Any) -> Any:
        e = m.exp(x - x.max(-1, keepdims=True))
        return e / e.sum(-1, keepdims=True)

    return run


def layer_norm(m: Numpy) -> Function:
    def run(x: Any) -> Any:
        centred = x - m.mean(x, -1, keepdims=True)
        return centred / m.sqrt(m.mean(centred**2, -1, keepdims=True) + 1e-5) * X[0]

    return run


def transformer(m: Numpy) -> Function:
    norm, soft, mask = layer_norm(m), softmax(m), m.asarray(MASK)

    def run(x: Any) -> Any:
        for _ in range(2):
            h = norm(x)
            scores = m.where(mask, (h @ W1) @ (h @ W1).T / 4.0, -1e9)
            x = x + soft(scores) @ h
            x = x + m.maximum(norm(x) @ W1, 0.0) @ W2
        return x

    return run


def recurrent(m: Numpy) -> Function:
    scan: Function = jax.lax.scan if m is jnp else tj.lax.scan

    def run(x: Any) -> Any:
        def cell(h: Any, row: Any) -> Any:
            gate = 1.0 / (1.0 + m.exp(-(h @ SQUARE) - row))
            h = gate * h + (1.0 - gate) * m.tanh(row + h)
            return h, h.sum()

        return scan(cell, m.zeros(8, "float32"), x)

    return run


def entropy(m: Numpy) -> Function:
    def run(x: Any) -> Any:
        logs = x - m.log(m.exp(x).sum(-1, keepdims=True))
        picked = m.take_along_axis(logs, m.asarray(LABELS)[:, None], axis=-1)
        return -picked.mean() + (m.argmax(m.exp(logs), -1) == m.asarray(LABELS)).mean()

    return run


def clipped(m: Numpy) -> Function:
    return lambda x: m.clip(x * m.sqrt((x * x).sum(0)), -1.0, 1.0) / m.linalg.norm(x)


def standardised(m: Numpy) -> Function:
    return lambda x: (x - x.mean(0)) / m.sqrt(x.var(0) + 1e-5) * m.std(x)


def smooth(m: Numpy) -> Function:
    return lambda x: m.log1p(m.exp(x)) + x**3 - m.abs(x) * m.sign(x) + m.where(x > 0, m.exp(-x), x)


def bodies(m: Numpy) -> Function:
    """A rollout of points that attract each other."""
    scan: Function = jax.lax.scan if m is jnp else tj.lax.scan

    def run(x: Any) -> Any:
        def step(state: Any, _: None) -> Any:
            x, v = state
            apart = x[:, None] - x[None]
            v = v - 0.01 * (apart * ((apart**2).sum(-1, keepdims=True) + 0.1) ** -1.5).sum(1)
            return (x + 0.01 * v, v), (v * v).sum()

        return scan(step, (x[:8, :3], x[:8, 3:6]), None, length=5)

    return run


def flow(m: Numpy) -> Function:
    """Coupling layers, with the logarithms of their determinants."""

    def run(x: Any) -> Any:
        logs = 0.0
        for _ in range(3):
            a, b = m.split(x[:, :8], 2, -1)
            scale, shift = m.split(m.tanh(a @ SQUARE[:4]), 2, -1)
            scale, shift = m.tile(scale, 2)[:, :4], m.tile(shift, 2)[:, :4]
            x, logs = m.concatenate([b * m.exp(scale) + shift, a], -1), logs + scale.sum(-1)
        return (logs - 0.5 * (x**2).sum(-1)).mean()

    return run


def process(m: Numpy) -> Function:
    """The likelihood of a Gaussian process."""

    def run(x: Any) -> Any:
        apart = ((x[:, None] - x[None]) ** 2).sum(-1)
        factor = m.linalg.cholesky(m.exp(-0.5 * apart) + m.eye(len(X), dtype="float32"))
        return m.linalg.solve(factor, x[:, :1]).sum() + m.log(m.diagonal(factor)).sum()

    return run


#: Functions of jax's, which are imported.
THEIRS: Final[tuple[Function, ...]] = (
    jax.nn.softmax,
    jax.nn.log_softmax,
    jax.nn.gelu,
    jax.nn.silu,
    jax.nn.softplus,
    jax.nn.elu,
    jax.nn.logsumexp,
    jax.nn.standardize,
    jnp.cumsum,
    jnp.sort,
    jnp.var,
)
OURS: Final = (
    softmax,
    layer_norm,
    transformer,
    recurrent,
    entropy,
    clipped,
    standardised,
    smooth,
    bodies,
    flow,
    process,
)


@pytest.mark.sweep
@pytest.mark.parametrize(
    "program",
    [*PROGRAMS, *OURS],
)
def test_no_more_than_jax_keeps(program: Callable[[Numpy], Function]) -> None:
    assert kept(program(tnp), X) <= 1.05 * kept_by_jax(program(jnp), X)


@pytest.mark.sweep
@pytest.mark.parametrize("f", [*(program(jnp) for program in (*PROGRAMS, *OURS)), *THEIRS])
def test_no_more_than_jax_keeps_of_what_is_imported(f: Function) -> None:
    assert kept(of_jax(f), X) <= 1.05 * kept_by_jax(f, X)


UNARY: Final = """
sin cos tan arcsin arccos arctan sinh cosh tanh arcsinh arctanh exp exp2 expm1 log log2 log10 log1p sqrt cbrt
square abs sign reciprocal sum mean var std max min prod cumsum cumprod sort ravel diff trace tril triu flip
median ptp nansum nanmean average deg2rad nan_to_num fabs sinc
"""
BINARY: Final = """
add subtract multiply divide power arctan2 hypot maximum minimum fmax fmin logaddexp logaddexp2 dot matmul
outer heaviside copysign float_power inner mod fmod floor_divide
"""
ACTIVATIONS: Final = """
relu relu6 sigmoid softplus sparse_plus soft_sign silu log_sigmoid leaky_relu hard_sigmoid hard_tanh elu celu
selu gelu glu squareplus mish softmax log_softmax logsumexp standardize identity hard_silu log1mexp
"""


def functions() -> Iterable[object]:
    for name, (ours, theirs), count in (
        *((name, (tnp, jnp), 1) for name in UNARY.split()),
        *((name, (tnp, jnp), 2) for name in BINARY.split()),
        *((name, (tj.nn, jax.nn), 1) for name in ACTIVATIONS.split()),
    ):
        yield pytest.param(getattr(ours, name), getattr(theirs, name), count, id=name)


@pytest.mark.sweep
@pytest.mark.parametrize(("ours", "theirs", "count"), list(functions()))
def test_no_more_than_jax_keeps_of_a_function(ours: Function, theirs: Function, count: int) -> None:
    """Of all its operands, and of one where the others are closed over: of the same shape, or a row."""
    x, y, row = (np.random.default_rng(i).uniform(0.2, 0.8, (12, 12)[i // 2 :]).astype("float32") for i in range(3))
    if count == 1:
        assert kept(ours, x) <= 1.05 * kept_by_jax(theirs, x)
        return
    for other in (y, row):
        assert kept(ours, x, other) <= 1.05 * kept_by_jax(theirs, x, other)
        mine, others = tnp.asarray(other), jnp.asarray(other)
        assert kept(partial(_swapped, ours, mine), x) <= 1.05 * kept_by_jax(partial(_swapped, theirs, others), x)


def _swapped(f: Function, y: object, x: object) -> object:
    return f(x, y)
