"""A small network learns to read handwritten digits.

The loss is written for one image. `vmap` turns it into the loss of a batch, `grad` differentiates that, and `jit`
compiles the whole step. The parameters are a list of named tuples; the optimiser, gradient descent with momentum and
weight decay, is three calls of `tree.map`.

    python examples/digits.py
"""

import argparse
import itertools
import math
from collections.abc import Iterator, Sequence
from pathlib import Path
from typing import NamedTuple, TypeAlias

import numpy as np
from rich.progress import track

import tinyjax as tj
import tinyjax.numpy as tnp

DATA = Path(__file__).parent / "data" / "digits.npz"
TRAIN_SIZE = 1437  # of 1797 images; the other 360 are for testing
CLASSES = 10
HIDDEN = 128
LEARNING_RATE = 0.3
MOMENTUM = 0.9
WEIGHT_DECAY = 3e-4


class Layer(NamedTuple):
    weights: tj.Array  # (inputs, outputs)
    bias: tj.Array  # (outputs,)


Params: TypeAlias = list[Layer]


class Batch(NamedTuple):
    images: tj.Array  # float32 (n, 64), from 0 to 1
    labels: tj.Array  # int64 (n,), from 0 to 9


class Digits(NamedTuple):
    """The same, on the host."""

    images: np.ndarray[tuple[int, ...], np.dtype[np.float32]]
    labels: np.ndarray[tuple[int, ...], np.dtype[np.int64]]

    def take(self, chosen: int | slice | np.ndarray[tuple[int], np.dtype[np.int64]]) -> Batch:
        return Batch(tnp.asarray(self.images[chosen]), tnp.asarray(self.labels[chosen]))


def predict(params: Params, image: tj.Array) -> tj.Array:
    """The logits (10,) for one image (64,)."""
    *hidden, last = params
    activation = image
    for layer in hidden:
        activation = tnp.tanh(activation @ layer.weights + layer.bias)
    return activation @ last.weights + last.bias


def loss(params: Params, image: tj.Array, label: tj.Array) -> tj.Array:
    """The cross entropy of one image: how surprising its label is to the network."""
    logits = predict(params, image)
    largest = tj.lax.stop_gradient(tnp.max(logits))
    normaliser = largest + tnp.log(tnp.sum(tnp.exp(logits - largest)))
    return normaliser - tnp.sum(tnp.where(tnp.arange(CLASSES) == label, logits, 0.0))


def batch_loss(params: Params, batch: Batch) -> tj.Array:
    return tnp.mean(tj.vmap(loss, in_axes=(None, 0, 0))(params, batch.images, batch.labels))


@tj.jit
def train_step(params: Params, velocity: Params, batch: Batch, rate: float) -> tuple[Params, Params]:
    gradient = tj.grad(batch_loss)(params, batch)
    gradient = tj.tree.map(lambda g, p: g + WEIGHT_DECAY * p, gradient, params)
    velocity = tj.tree.map(lambda v, g: MOMENTUM * v - rate * g, velocity, gradient)
    return tj.tree.map(lambda p, v: p + v, params, velocity), velocity


@tj.jit
def evaluate(params: Params, batch: Batch) -> tuple[tj.Array, tj.Array]:
    """The mean loss, and the logits of all images."""
    return batch_loss(params, batch), tj.vmap(predict, in_axes=(None, 0))(params, batch.images)


def init_params(rng: np.random.Generator, sizes: Sequence[int]) -> Params:
    params = []
    for inputs, outputs in itertools.pairwise(sizes):
        weights = rng.normal(0.0, 1.0 / math.sqrt(inputs), (inputs, outputs)).astype(np.float32)
        params.append(Layer(tnp.asarray(weights), tnp.zeros(outputs, np.float32)))
    return params


def load(rng: np.random.Generator) -> tuple[Digits, Digits]:
    """The images to learn from and those to be tested on, divided at random."""
    with np.load(DATA) as data:
        images = data["images"].reshape(-1, 64).astype(np.float32) / 16
        labels = data["labels"].astype(np.int64)
    order = rng.permutation(len(images))
    images, labels = images[order], labels[order]
    return Digits(images[:TRAIN_SIZE], labels[:TRAIN_SIZE]), Digits(images[TRAIN_SIZE:], labels[TRAIN_SIZE:])


def batches(rng: np.random.Generator, digits: Digits, size: int) -> Iterator[Batch]:
    """One pass over the data in random order, in batches of one size; what is left over is left out."""
    order = rng.permutation(len(digits.images))
    for start in range(0, len(order) - size + 1, size):
        yield digits.take(order[start : start + size])


def report(name: str, params: Params, digits: Digits) -> float:
    """Print the loss and the accuracy; return the accuracy."""
    mean_loss, logits = evaluate(params, digits.take(slice(None)))
    accuracy = float(np.mean(np.asarray(logits).argmax(axis=1) == digits.labels))
    print(f"{name}: loss {float(mean_loss):.3f}, accuracy {accuracy:.1%} of {len(digits.labels)} images")
    return accuracy


def main(arguments: Sequence[str] | None = None) -> float:
    """Train and test; return the accuracy on the test images."""
    parser = argparse.ArgumentParser(description="Learn to read handwritten digits.")
    parser.add_argument("--epochs", type=int, default=40, help="passes over the data (default: %(default)s)")
    parser.add_argument("--batch-size", type=int, default=64, help="images per step (default: %(default)s)")
    parser.add_argument("--seed", type=int, default=0, help="of the random numbers (default: %(default)s)")
    options = parser.parse_args(arguments)

    rng = np.random.default_rng(options.seed)
    train, test = load(rng)
    params = init_params(rng, (64, HIDDEN, CLASSES))
    velocity: Params = tj.tree.map(tnp.zeros_like, params)

    image, label = train.take(0)
    print("The gradient of the loss of one image, as a program:\n")
    print(tj.make_jaxpr(tj.grad(loss))(params, image, label), end="\n\n")

    for epoch in track(range(options.epochs), description="learning"):
        rate = LEARNING_RATE * 0.5 * (1.0 + math.cos(math.pi * epoch / options.epochs))
        for batch in batches(rng, train, options.batch_size):
            params, velocity = train_step(params, velocity, batch, rate)

    report("train", params, train)
    return report("test", params, test)


if __name__ == "__main__":
    main()
