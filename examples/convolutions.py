"""A convolutional network, written with Equinox for JAX, learns handwritten digits by an Optax optimiser, in tinyjax.

`of_jax` makes functions of tinyjax of the network, of the optimiser's `init` and `update`, and of `apply_updates`. What
is between them is tinyjax: `vmap` over the images of a batch, `grad` of the loss, `jit` of the whole step. A picture
shows how the loss went down, and what the network took for something else.

    python examples/convolutions.py
    python examples/convolutions.py --epochs 3 --picture digits.svg
"""

from __future__ import annotations

import argparse
from collections.abc import Callable, Iterator, Sequence
from pathlib import Path
from typing import Any, Final, NamedTuple, TypeAlias

import equinox as eqx
import jax
import numpy as np
import numpy.typing as npt
import optax
from rich.progress import track

import tinyjax as tj
import tinyjax.numpy as tnp
from tinyjax.interop.jax import of_jax

DATA: Final = Path(__file__).parent / "data" / "digits.npz"
TRAIN_SIZE: Final = 1437  # of 1797 images; the other 360 are for testing
Params: TypeAlias = Any  # a tree of arrays, made by Equinox
State: TypeAlias = Any  # made by Optax


class Network(eqx.Module):
    """Two convolutions, each followed by a maximum over windows; then what they found decides."""

    first: eqx.nn.Conv2d
    second: eqx.nn.Conv2d
    pool: eqx.nn.MaxPool2d
    norm: eqx.nn.LayerNorm
    head: eqx.nn.Linear

    def __init__(self, channels: int, key: jax.Array) -> None:
        one, two, three = jax.random.split(key, 3)
        self.first = eqx.nn.Conv2d(1, channels, 3, padding=1, key=one)
        self.second = eqx.nn.Conv2d(channels, 2 * channels, 3, padding=1, key=two)
        self.pool = eqx.nn.MaxPool2d(2, 2)
        self.norm = eqx.nn.LayerNorm(8 * channels)
        self.head = eqx.nn.Linear(8 * channels, 10, key=three)

    def __call__(self, image: jax.Array) -> jax.Array:  # (8, 8) -> (10,)
        x = self.pool(jax.nn.relu(self.first(image[None])))
        x = self.pool(jax.nn.relu(self.second(x)))
        return self.head(self.norm(x.ravel()))


class Images(NamedTuple):
    images: npt.NDArray[np.float32]  # (n, 8, 8), from 0 to 1
    labels: npt.NDArray[np.int32]  # (n,)

    def batches(self, rng: np.random.Generator, size: int) -> Iterator[Images]:
        """One pass in random order; what is left over is left out."""
        order = rng.permutation(len(self.labels))
        for start in range(0, len(order) - size + 1, size):
            chosen = order[start : start + size]
            yield Images(self.images[chosen], self.labels[chosen])


class Model(NamedTuple):
    """Parameters to start with, and JAX's function of them and of an image."""

    params: Params
    apply: Callable[[Params, jax.Array], jax.Array]


def make_model(channels: int, seed: int) -> Model:
    network = eqx.filter_jit(Network)(channels, jax.random.key(seed))
    params, static = eqx.partition(network, eqx.is_array)

    def apply(params: Params, image: jax.Array) -> jax.Array:
        whole: Network = eqx.combine(params, static)
        return whole(image)

    return Model(tj.tree.map(lambda x: tnp.asarray(x, np.float32), params), apply)


class Trainer:
    """The step of learning, in tinyjax."""

    def __init__(self, model: Model, optimiser: optax.GradientTransformation) -> None:
        network: Callable[[Params, tj.Array], tj.Array] = of_jax(model.apply)
        surprise = of_jax(optax.softmax_cross_entropy_with_integer_labels)
        update, apply_updates = of_jax(optimiser.update), of_jax(optax.apply_updates)
        self.init: Callable[[Params], State] = of_jax(optimiser.init)

        def logits(params: Params, images: tj.Array) -> tj.Array:
            return tj.vmap(network, in_axes=(None, 0))(params, images)

        def loss(params: Params, images: tj.Array, labels: tj.Array) -> tj.Array:
            return tnp.mean(surprise(logits(params, images), labels))

        @tj.jit
        def step(params: Params, state: State, images: tj.Array, labels: tj.Array) -> tuple[tj.Array, Params, State]:
            value, gradient = tj.value_and_grad(loss)(params, images, labels)
            updates, state = update(gradient, state, params)
            return value, apply_updates(params, updates), state

        self.step = step
        self.logits = tj.jit(logits)


def load(rng: np.random.Generator) -> tuple[Images, Images]:
    """The images to learn from and those to be tested on, divided at random."""
    with np.load(DATA) as data:
        images = data["images"].reshape(-1, 8, 8).astype(np.float32) / 16
        labels = data["labels"].astype(np.int32)
    order = rng.permutation(len(images))
    images, labels = images[order], labels[order]
    return Images(images[:TRAIN_SIZE], labels[:TRAIN_SIZE]), Images(images[TRAIN_SIZE:], labels[TRAIN_SIZE:])


def picture(losses: Sequence[float], test: Images, guesses: npt.NDArray[np.int64]) -> str:
    """An SVG: the loss at each step, above the images that were taken for something else, with what for."""
    top = max(losses)
    points = " ".join(
        f"{20 + 560 * i / max(len(losses) - 1, 1):.1f},{180 - 160 * x / top:.1f}" for i, x in enumerate(losses)
    )
    parts = [
        f'<polyline points="{points}" fill="none" stroke="#3465a4"/>',
        '<path d="M20 20V180H580" fill="none" stroke="black"/>',
        f'<text x="24" y="16">loss: {losses[0]:.2f}, then {losses[-1]:.3f} after {len(losses)} steps</text>',
    ]
    wrong = np.flatnonzero(guesses != test.labels)[:10]
    for column, at in enumerate(wrong):
        left = 20 + 56 * column
        parts += [
            f'<rect x="{left + 6 * j}" y="{200 + 6 * i}" width="6" height="6" fill="rgb({shade},{shade},{shade})"/>'
            for (i, j), dark in np.ndenumerate(test.images[at])
            for shade in [int(255 * (1 - dark))]
        ]
        parts.append(f'<text x="{left}" y="264">{test.labels[at]}, not {guesses[at]}</text>')
    return (
        '<svg xmlns="http://www.w3.org/2000/svg" viewBox="0 0 600 280" font-family="sans-serif" font-size="11">'
        f'<rect width="600" height="280" fill="white"/>{"".join(parts)}</svg>\n'
    )


def main(arguments: Sequence[str] | None = None) -> float:
    """Learns, and returns the accuracy on the test images."""
    parser = argparse.ArgumentParser(description="Learn to read digits with a network and an optimiser made for JAX.")
    parser.add_argument("--epochs", type=int, default=10, help="passes over the data (default: %(default)s)")
    parser.add_argument("--channels", type=int, default=16, help="of the first convolution (default: %(default)s)")
    parser.add_argument("--batch-size", type=int, default=64, help="images per step (default: %(default)s)")
    parser.add_argument("--seed", type=int, default=0, help="of the random numbers (default: %(default)s)")
    parser.add_argument("--picture", type=Path, default=Path("convolutions.svg"), help="default: %(default)s")
    options = parser.parse_args(arguments)

    rng = np.random.default_rng(options.seed)
    train, test = load(rng)
    model = make_model(options.channels, options.seed)
    steps = options.epochs * (len(train.labels) // options.batch_size)
    trainer = Trainer(model, optax.adamw(optax.cosine_decay_schedule(3e-3, steps)))
    params, state = model.params, trainer.init(model.params)
    losses = []
    for _ in track(range(options.epochs), description="learning"):
        for batch in train.batches(rng, options.batch_size):
            value, params, state = trainer.step(params, state, *map(tnp.asarray, batch))
            losses.append(float(value))
    guesses = np.asarray(trainer.logits(params, tnp.asarray(test.images))).argmax(axis=1)
    options.picture.write_text(picture(losses, test, guesses))
    accuracy = float(np.mean(guesses == test.labels))
    print(f"loss {losses[-1]:.3f}; {accuracy:.1%} of {len(test.labels)} test images; see {options.picture}")
    return accuracy


if __name__ == "__main__":
    main()
