"""An optimiser of JAX programs: what embedding the IR in a tool of your own looks like.

It takes a transformer, written with Equinox, and the loss that it is trained with, through `from_jax`; runs tinyjax's
passes over the program; differentiates it with tinyjax's `value_and_grad`; runs the passes over that, too; and compares
the value, the gradient, the size of the program and the time to compile it with what JAX makes of the same function.

    python examples/optimiser.py
    python examples/optimiser.py --width 256 --depth 8
"""

from __future__ import annotations

import argparse
import time
from collections.abc import Callable
from typing import Final, NamedTuple, TypeVar

import equinox as eqx
import jax
import jax.numpy as jnp
import numpy as np
import numpy.typing as npt
from rich.console import Console
from rich.table import Table

import tinyjax as tj
from tinyjax import ClosedJaxpr, ir, transforms
from tinyjax.interop.jax import from_jax, to_jax

WORDS: Final = 64
SENTENCES: Final = 8
LENGTH: Final = 33

Tokens = npt.NDArray[np.int32]  # (sentences, length)
Leaves = list[npt.NDArray[np.float32]]
T = TypeVar("T")


class Block(eqx.Module):
    """Attention, then a perceptron; each is normalised before and added to what it was given."""

    attention: eqx.nn.MultiheadAttention
    mlp: eqx.nn.MLP
    norms: tuple[eqx.nn.LayerNorm, eqx.nn.LayerNorm]

    def __init__(self, width: int, heads: int, key: jax.Array) -> None:
        first, second = jax.random.split(key)
        self.attention = eqx.nn.MultiheadAttention(heads, width, key=first)
        self.mlp = eqx.nn.MLP(width, width, 4 * width, 1, activation=jax.nn.gelu, key=second)
        self.norms = eqx.nn.LayerNorm(width), eqx.nn.LayerNorm(width)

    def __call__(self, x: jax.Array) -> jax.Array:  # (length, width)
        before = jnp.tril(jnp.ones((x.shape[0], x.shape[0]), bool))
        normal = jax.vmap(self.norms[0])(x)
        x = x + self.attention(normal, normal, normal, mask=before)
        return jnp.asarray(x + jax.vmap(self.mlp)(jax.vmap(self.norms[1])(x)))


class Transformer(eqx.Module):
    """Says which word comes next, at each place of a sentence."""

    embedding: eqx.nn.Embedding
    blocks: list[Block]
    head: eqx.nn.Linear

    def __init__(self, width: int, heads: int, depth: int, key: jax.Array) -> None:
        first, last, *keys = jax.random.split(key, 2 + depth)
        self.embedding = eqx.nn.Embedding(WORDS, width, key=first)
        self.blocks = [Block(width, heads, key) for key in keys]
        self.head = eqx.nn.Linear(width, WORDS, key=last)

    def __call__(self, tokens: jax.Array) -> jax.Array:  # (length,) -> (length, words)
        x = jax.vmap(self.embedding)(tokens)
        for block in self.blocks:
            x = block(x)
        return jnp.asarray(jax.vmap(self.head)(x))


class Task(NamedTuple):
    """A loss as a function of the leaves of the parameters, and then tokens; and what to call it with."""

    loss: Callable[..., jax.Array]
    params: Leaves
    tokens: Tokens


def make_task(width: int, heads: int, depth: int, seed: int = 0) -> Task:
    shapes = eqx.filter_eval_shape(Transformer, width, heads, depth, jax.random.key(seed))
    arrays, static = eqx.partition(shapes, lambda leaf: isinstance(leaf, jax.ShapeDtypeStruct))
    leaves, treedef = jax.tree_util.tree_flatten(arrays)
    random = np.random.default_rng(seed)
    params = [random.normal(0, leaf.shape[-1] ** -0.5, leaf.shape).astype(np.float32) for leaf in leaves]

    def loss(*leaves: jax.Array) -> jax.Array:
        *some, tokens = leaves
        whole: Transformer = eqx.combine(jax.tree_util.tree_unflatten(treedef, some), static)
        logits = jax.vmap(whole)(tokens[:, :-1])
        likelihood = jnp.take_along_axis(jax.nn.log_softmax(logits), tokens[:, 1:, None], axis=-1)
        return jnp.asarray(-jnp.mean(likelihood))

    tokens = random.integers(0, WORDS, (SENTENCES, LENGTH)).astype(np.int32)
    return Task(loss, params, tokens)


def size(program: ClosedJaxpr) -> int:
    """The number of equations; programs within the program count once."""
    return sum(len(nested.eqns) for nested in ir.nested_programs(program.jaxpr))


def seconds(f: Callable[[], T]) -> tuple[T, float]:
    start = time.perf_counter()
    result = f()
    return result, time.perf_counter() - start


class Row(NamedTuple):
    """What became of the task in one way. `gradient` is one vector.

    Times: to trace, differentiate, optimise and lower the function, and for XLA to compile what comes of it.
    """

    name: str
    equations: int
    lower_seconds: float
    compile_seconds: float
    value: float
    gradient: npt.NDArray[np.float64]


def gradient_vector(leaves: object) -> npt.NDArray[np.float64]:
    return np.concatenate([np.asarray(leaf, np.float64).ravel() for leaf in jax.tree_util.tree_leaves(leaves)])


def with_jax(name: str, loss: Callable[..., object], task: Task) -> Row:
    """Differentiated, lowered and compiled by JAX."""
    args = (*task.params, task.tokens)
    step = jax.jit(jax.value_and_grad(loss, argnums=tuple(range(len(task.params)))))
    lowered, lower_seconds = seconds(lambda: step.lower(*args))
    compiled, compile_seconds = seconds(lowered.compile)
    value, gradient = compiled(*args)
    equations = size(from_jax(step, *args))
    return Row(name, equations, lower_seconds, compile_seconds, float(value), gradient_vector(gradient))


def with_tinyjax(name: str, program: ClosedJaxpr, task: Task, passes: bool) -> Row:
    """Differentiated, lowered and compiled by tinyjax; with `passes`, the derivative goes through them, too."""
    args = [tj.numpy.asarray(x) for x in (*task.params, task.tokens)]

    def loss(*leaves: tj.Array) -> tj.Array:
        return tj.eval_jaxpr(program, (), *leaves)[0]

    def derive() -> ClosedJaxpr:
        derivative = tj.make_jaxpr(tj.value_and_grad(loss, argnums=tuple(range(len(task.params)))))(*args)
        return transforms.optimize(derivative) if passes else derivative

    step, derive_seconds = seconds(derive)
    lowered, lower_seconds = seconds(lambda: tj.jit(lambda *leaves: tj.eval_jaxpr(step, (), *leaves)).lower(*args))
    compiled, compile_seconds = seconds(lowered.compile)
    value, *gradient = compiled(*args)
    vector = gradient_vector([np.asarray(leaf) for leaf in gradient])
    return Row(name, size(step), derive_seconds + lower_seconds, compile_seconds, float(value), vector)


def import_and_optimise(task: Task, console: Console) -> tuple[ClosedJaxpr, ClosedJaxpr]:
    """The program of the loss, as it comes from JAX and after the passes; says what they did."""
    program, elapsed = seconds(lambda: from_jax(task.loss, *task.params, task.tokens))
    console.print(f"The loss: {size(program)} equations, imported in {elapsed:.2f} s.")
    optimised, reports = transforms.OPTIMIZATION.report(program)
    for report in reports:
        if report.changed:
            console.print(f"  {report.name}: {report.size_before} equations, then {report.size_after}")
    return program, optimised


def compare(task: Task, console: Console) -> list[Row]:
    """One row for each way from the loss to a compiled step."""
    for jit in (jax.jit, tj.jit):  # what each of them does once
        jit(lambda x: x + 1)(np.float32(0))
    program, optimised = import_and_optimise(task, console)
    return [
        with_jax("JAX", task.loss, task),
        with_jax("passes, then JAX", to_jax(optimised), task),
        with_tinyjax("tinyjax", program, task, passes=False),
        with_tinyjax("passes, then tinyjax", optimised, task, passes=True),
    ]


def differences(row: Row, reference: Row) -> tuple[float, float]:
    """How far value and gradient are from the reference, relative to their size."""
    value = abs(row.value - reference.value) / abs(reference.value)
    gap = np.linalg.norm(row.gradient - reference.gradient) / np.linalg.norm(reference.gradient)
    return value, float(gap)


def as_table(rows: list[Row]) -> Table:
    table = Table(title="value and gradient of the loss")
    for heading in ("way", "eqns", "lower", "compile", "value", "± value", "± grad"):
        table.add_column(heading, justify="left" if heading == "way" else "right", no_wrap=True)
    for row in rows:
        value, gradient = differences(row, rows[0])
        times = f"{row.lower_seconds:.2f} s", f"{row.compile_seconds:.2f} s"
        table.add_row(row.name, str(row.equations), *times, f"{row.value:.4f}", f"{value:.0e}", f"{gradient:.0e}")
    return table


def main() -> None:
    parser = argparse.ArgumentParser(description="Compares a transformer's gradient by JAX and by tinyjax.")
    parser.add_argument("--width", type=int, default=64, help="numbers for each word, a multiple of --heads")
    parser.add_argument("--heads", type=int, default=4)
    parser.add_argument("--depth", type=int, default=3, help="how many blocks")
    options = parser.parse_args()
    console = Console()
    task = make_task(options.width, options.heads, options.depth)
    console.print(as_table(compare(task, console)))


if __name__ == "__main__":
    main()
