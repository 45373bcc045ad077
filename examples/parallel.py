"""The network that reads digits, learning on several devices: each way of dividing the work gives the same losses.

The step is written once, for one device. How its arguments lie on a mesh says the rest: a batch that is divided makes
it data-parallel, weights that are divided make it tensor-parallel, and XLA adds what the devices have to tell each
other. Last comes the same data-parallel step by hand, with `shard_map` and a mean over the devices. On eight devices
that a CPU is divided into, and on two processes with four devices each:

    python examples/parallel.py
    python examples/parallel.py --processes 2
"""

import argparse
import math
import os
import socket
import subprocess
import sys
from collections.abc import Callable, Iterator, Mapping, Sequence
from pathlib import Path
from typing import Generic, NamedTuple, TypeAlias, TypeVar

import numpy as np
from rich.progress import track

import tinyjax as tj
import tinyjax.numpy as tnp
from tinyjax import NamedSharding, P
from tinyjax.sharding import AxisType, Mesh
from tinyjax.tools import partition

DATA = Path(__file__).parent / "data" / "digits.npz"
DEVICES = 8
FLAG = "--xla_force_host_platform_device_count"
CLASSES = 10
HIDDEN = 128
RATE = 0.3
#: What losses may differ by, relatively: sums are made in another order, in 32 bits, and later steps build on it.
ROUNDING = 1e-3

Host: TypeAlias = np.ndarray[tuple[int, ...], np.dtype[np.float32]]


T = TypeVar("T")


class Layers(NamedTuple, Generic[T]):
    """A hidden layer and the layer of the classes: arrays, or how they lie."""

    hidden: T  # (64, HIDDEN)
    hidden_bias: T  # (HIDDEN,)
    out: T  # (HIDDEN, CLASSES)
    out_bias: T  # (CLASSES,)


Params: TypeAlias = Layers[tj.Array]


class Specs(NamedTuple):
    """How the parameters and a batch lie on a mesh with the axes `data` and `model`."""

    params: Layers[P]
    batch: P


#: Both axes of the mesh, as one.
ALL = ("data", "model")
#: What is divided along what; nothing means that each device has all of it.
WAYS: Mapping[str, Specs] = {
    "data-parallel": Specs(Layers(P(), P(), P(), P()), P(ALL)),
    "tensor-parallel": Specs(Layers(P(None, ALL), P(ALL), P(ALL), P()), P()),
    "both": Specs(Layers(P(None, "model"), P("model"), P("model"), P()), P("data")),
}

Step: TypeAlias = Callable[[Params, tj.Array, tj.Array], tuple[Params, tj.Array]]


def batch_loss(params: Params, images: tj.Array, labels: tj.Array) -> tj.Array:
    """The mean cross entropy of images (n, 64) with labels (n,)."""
    hidden = tnp.tanh(images @ params.hidden + params.hidden_bias)
    logits = hidden @ params.out + params.out_bias
    largest = tj.lax.stop_gradient(tnp.max(logits, axis=1, keepdims=True))
    normaliser = largest[:, 0] + tnp.log(tnp.sum(tnp.exp(logits - largest), axis=1))
    right = labels[:, None] == tnp.arange(CLASSES)
    return tnp.mean(normaliser - tnp.sum(tnp.where(right, logits, 0.0), axis=1))


def train_step(params: Params, images: tj.Array, labels: tj.Array) -> tuple[Params, tj.Array]:
    """The parameters after a step of gradient descent, and the loss before it. Nothing here is about devices."""
    loss, gradient = tj.value_and_grad(batch_loss)(params, images, labels)
    return tj.tree.map(lambda p, g: p - RATE * g, params, gradient), loss


def by_hand(mesh: Mesh) -> Step:
    """The data-parallel step, with what each device does and what they tell each other written down."""

    def each(params: Params, images: tj.Array, labels: tj.Array) -> tuple[Params, tj.Array]:
        def mean_loss(params: Params) -> tj.Array:
            return tj.lax.pmean(batch_loss(params, images, labels), ALL)

        loss, gradient = tj.value_and_grad(mean_loss)(params)
        return tj.tree.map(lambda p, g: p - RATE * g, params, gradient), loss

    divided = P(ALL)
    return tj.shard_map(each, mesh=mesh, in_specs=(P(), divided, divided), out_specs=(P(), P()))


def init_params(rng: np.random.Generator) -> Params:
    def normal(inputs: int, outputs: int) -> tj.Array:
        return tnp.asarray((rng.normal(size=(inputs, outputs)) / math.sqrt(inputs)).astype(np.float32))

    zeros = tnp.zeros(HIDDEN, np.float32), tnp.zeros(CLASSES, np.float32)
    return Layers(normal(64, HIDDEN), zeros[0], normal(HIDDEN, CLASSES), zeros[1])


def load() -> tuple[Host, np.ndarray[tuple[int, ...], np.dtype[np.int64]]]:
    """The images (n, 64), from 0 to 1, and their labels (n,)."""
    with np.load(DATA) as data:
        return data["images"].reshape(-1, 64).astype(np.float32) / 16, data["labels"].astype(np.int64)


def batches(seed: int, epochs: int, size: int) -> Iterator[tuple[np.ndarray, np.ndarray]]:
    """Batches of images and labels, the same in every process."""
    images, labels = load()
    rng = np.random.default_rng(seed)
    for _ in range(epochs):
        order = rng.permutation(len(images))
        for start in range(0, len(order) - size + 1, size):
            chosen = order[start : start + size]
            yield images[chosen], labels[chosen]


def place(x: tj.ArrayLike, sharding: NamedSharding) -> tj.Array:
    """An array on a mesh. Each process makes the parts that its own devices have."""
    host = np.asarray(x)
    return tj.make_array_from_callback(host.shape, sharding, lambda index: host[index])


def learn(step: Step, mesh: Mesh, specs: Specs, options: argparse.Namespace, name: str, shown: bool) -> list[float]:
    """The losses of all steps, with parameters and batches that lie as the specifications say."""
    lie = Layers(*[NamedSharding(mesh, spec) for spec in specs.params])
    batch, same = NamedSharding(mesh, specs.batch), NamedSharding(mesh, P())
    compiled = tj.jit(step, in_shardings=(lie, batch, batch), out_shardings=(lie, same), donate_argnums=0)
    params: Params = Layers(*map(place, init_params(np.random.default_rng(options.seed)), lie))
    steps = list(batches(options.seed, options.epochs, options.batch_size))
    if shown:
        images, labels = steps[0]
        print(f"\n== {name} ==")
        shapes = [images.shape, *[x.shape for x in params]]
        for what, shape, sharding in zip(("images", *params._fields), shapes, (batch, *lie), strict=True):
            print(f"\n{what} {shape}, {sharding.spec}:")
            tj.debug.visualize_sharding(shape, sharding, scale=0.5)
        lowered = compiled.lower(params, place(images, batch), place(labels, batch))
        print(f"\n{partition(lowered)}\n")
    losses: list[tj.Array] = []
    for images, labels in track(steps, description=name, disable=not shown):
        params, loss = compiled(params, place(images, batch), place(labels, batch))
        losses.append(loss)
    return [float(loss) for loss in losses]


def learn_alone(options: argparse.Namespace) -> list[float]:
    """The losses on one device."""
    step, params, losses = tj.jit(train_step), init_params(np.random.default_rng(options.seed)), []
    for images, labels in batches(options.seed, options.epochs, options.batch_size):
        params, loss = step(params, tnp.asarray(images), tnp.asarray(labels))
        losses.append(loss)
    return [float(loss) for loss in losses]


def compare(options: argparse.Namespace, shown: bool) -> dict[str, list[float]]:
    """The losses of each way; a SystemExit if they aren't those of one device, to rounding."""
    mesh = tj.make_mesh((DEVICES // 2, 2), ALL, (AxisType.Auto, AxisType.Auto))
    found = {"one device": learn_alone(options)}
    for name, specs in WAYS.items():
        found[name] = learn(train_step, mesh, specs, options, name, shown)
    found["by hand"] = learn(by_hand(mesh), mesh, WAYS["data-parallel"], options, "by hand", shown)
    alone = np.asarray(found["one device"])
    for name, losses in found.items():
        apart = float(np.max(np.abs(losses - alone) / alone))
        if shown:
            print(f"{name:>15}: loss {losses[0]:.6f}, at last {losses[-1]:.6f}; relative difference {apart:.0e}")
        if apart > ROUNDING:
            raise SystemExit(f"{name}: the losses aren't those of one device")
    return found


def start_processes(arguments: Sequence[str], count: int) -> None:
    """The same program as so many processes, with as many devices each; a SystemExit if one of them fails."""
    with socket.socket() as free:
        free.bind(("127.0.0.1", 0))
        address = f"127.0.0.1:{free.getsockname()[1]}"
    flags = f"{os.environ.get('XLA_FLAGS', '')} {FLAG}={DEVICES // count}"
    started = [
        subprocess.Popen(
            [sys.executable, __file__, *arguments, "--process", str(number), "--coordinator", address],
            env={**os.environ, "XLA_FLAGS": flags},
        )
        for number in range(count)
    ]
    codes = [process.wait() for process in started]
    if any(codes):
        raise SystemExit("a process failed")


def main(arguments: Sequence[str] | None = None) -> dict[str, list[float]]:
    """Compares the ways; returns the losses of each, or nothing if other processes do it."""
    parser = argparse.ArgumentParser(description="Learn to read digits on several devices.")
    parser.add_argument("--epochs", type=int, default=3, help="passes over the data (default: %(default)s)")
    parser.add_argument("--batch-size", type=int, default=64, help="images per step (default: %(default)s)")
    parser.add_argument("--seed", type=int, default=0, help="of the random numbers (default: %(default)s)")
    parser.add_argument("--processes", type=int, default=1, help="that divide the devices (default: %(default)s)")
    parser.add_argument("--process", type=int, help=argparse.SUPPRESS)
    parser.add_argument("--coordinator", help=argparse.SUPPRESS)
    given = list(sys.argv[1:] if arguments is None else arguments)
    options = parser.parse_args(given)
    if options.process is not None:
        tj.distributed.initialize(options.coordinator, options.processes, options.process)
    elif options.processes > 1:
        start_processes(given, options.processes)
        return {}
    elif FLAG not in os.environ.get("XLA_FLAGS", ""):  # read when the first device is asked for
        os.environ["XLA_FLAGS"] = f"{os.environ.get('XLA_FLAGS', '')} {FLAG}={DEVICES}".strip()
    return compare(options, shown=not options.process)


if __name__ == "__main__":
    main()
