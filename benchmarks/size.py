"""`python -m benchmarks.size [--equations N]`: what is done with one chain of a million equations, and what that takes.

For each stage it prints seconds, microseconds for each equation, and the most memory that the process had at once (on
Linux since the stage began, elsewhere since the start). The results of a stage are dropped before the next one.
"""

from __future__ import annotations

import argparse
import gc
import io
import pickle
import resource
import sys
from collections.abc import Callable
from pathlib import Path

import numpy as np

import tinyjax as tj
from benchmarks.timing import seconds
from tinyjax import Array, ShapedArray, ir, tools, transforms
from tinyjax.hlo.lowering import lower
from tinyjax.ir import BatchAxis, Eqn, Jaxpr
from tinyjax.primitives.trigonometric import cos

X = ShapedArray((), "float64")


def function(n: int) -> Callable[[Array], Array]:
    """Sines, products and sums, n in all."""

    def f(x: Array) -> Array:
        for _ in range(n // 3):
            x = tj.numpy.sin(x) * 2.0 + x
        return x

    return f


def again(j: Jaxpr) -> Jaxpr:
    """An equal program of new equations."""
    return Jaxpr(j.invars, tuple(Eqn(e.primitive, e.invars, e.outvars, e.source) for e in j.eqns), j.outvars)


def with_another_end(j: Jaxpr) -> Jaxpr:
    """The program, but for its last equation."""
    last = j.eqns[-1]
    return Jaxpr(j.invars, (*j.eqns[:-1], Eqn(cos, last.invars[:1], last.outvars, last.source)), j.outvars)


def written(j: Jaxpr) -> bytes:
    file = io.BytesIO()
    ir.save(file, j)
    return file.getvalue()


def backward(j: Jaxpr) -> Callable[[], object]:
    linear = transforms.linearize(j)
    return lambda: transforms.transpose(linear.linear, [False] * len(linear.residuals) + [True])


def stages(j: Jaxpr, n: int) -> dict[str, Callable[[], Callable[[], object]]]:
    """What is done. Each entry prepares something, and returns what is measured."""

    def of(run: Callable[[Jaxpr], object]) -> Callable[[], Callable[[], object]]:
        return lambda: lambda: run(j)

    def text() -> Callable[[], object]:
        printed = str(j)
        return lambda: ir.parse(printed)

    def pickled() -> Callable[[], object]:
        content = pickle.dumps(j)
        return lambda: pickle.loads(content)

    def saved() -> Callable[[], object]:
        content = written(j)
        return lambda: ir.load(io.BytesIO(content))

    def equal() -> Callable[[], object]:
        other = again(j)
        return lambda: hash(other) == hash(j) and other == j

    def differ() -> Callable[[], object]:
        other = with_another_end(j)
        return lambda: str(tools.diff(j, other))

    return {
        "trace": lambda: lambda: tj.make_jaxpr(function(n))(X),
        "trace jvp": lambda: lambda: tj.make_jaxpr(lambda x: tj.jvp(function(n), (x,), (x,)))(X),
        "trace vmap": lambda: lambda: tj.make_jaxpr(tj.vmap(function(n)))(ShapedArray((3,), "float64")),
        "trace grad": lambda: lambda: tj.make_jaxpr(tj.grad(function(n)))(X),
        "evaluate": of(lambda j: tj.eval_jaxpr(j, (), np.asarray(0.5))),
        "typecheck": of(ir.typecheck),
        "hash and equality": equal,
        "content_hash": of(ir.content_hash),
        "print": of(str),
        "parse": text,
        "pickle": of(pickle.dumps),
        "unpickle": pickled,
        "ir.save": of(written),
        "ir.load": saved,
        "HTML": of(Jaxpr._repr_html_),
        "jvp": of(transforms.jvp),
        "batch": of(lambda j: transforms.batch(j, BatchAxis(3), [0])),
        "linearize, by partial_eval": of(transforms.linearize),
        "transpose": lambda: backward(j),
        "dce": of(transforms.dce),
        "cse": of(transforms.cse),
        "fold_constants": of(transforms.fold_constants),
        "simplify": of(transforms.simplify),
        "inline": of(transforms.inline),
        "hoist_constants": of(transforms.hoist_constants),
        "pipeline, checked": of(lambda j: transforms.OPTIMIZATION.report(j, check=True)),
        "diff": differ,
        "cost": of(lambda j: str(tools.program_cost(j))),
        "live memory": of(lambda j: str(tools.live_memory(j))),
        "constancy": of(tools.constancy),
        "dependence": of(tools.dependence),
        "liveness": of(tools.liveness),
        "lower to StableHLO": of(lower),
    }


def peak() -> float:
    """The most memory that the process has had, in GiB, since `forget_peak`."""
    status = Path("/proc/self/status")
    if status.exists():
        (line,) = [line for line in status.read_text(encoding="ascii").splitlines() if line.startswith("VmHWM")]
        return int(line.split()[1]) / 2**20
    unit = 1 if sys.platform == "darwin" else 1024
    return resource.getrusage(resource.RUSAGE_SELF).ru_maxrss * unit / 2**30


def forget_peak() -> None:
    """Counts from now on, where the system can."""
    clear = Path("/proc/self/clear_refs")
    if clear.exists():
        clear.write_text("5", encoding="ascii")


def row(name: str, n: int, run: Callable[[], object]) -> None:
    tj.clear_caches()
    gc.collect()
    forget_peak()
    taken = seconds(run)
    print(f"{name:28} {taken:9.1f} s {taken / n * 1e6:8.1f} µs {peak():7.2f} GiB", flush=True)


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--equations", type=int, default=1_000_000, metavar="N")
    parser.add_argument("--compiled", type=int, default=10_000, metavar="N", help="for the chain that XLA compiles")
    parser.add_argument("--only", action="append", metavar="STAGE")
    arguments = parser.parse_args()
    n: int = arguments.equations
    j = tj.make_jaxpr(function(n))(X).jaxpr
    print(f"{len(j.eqns):,} equations; {peak():.2f} GiB with the program alone")
    for name, prepare in stages(j, n).items():
        if arguments.only is None or name in arguments.only:
            row(name, n, prepare())
    if arguments.only is None or "compile" in arguments.only:
        few: int = arguments.compiled
        row(f"compile {few:,} equations", few, lambda: tj.jit(function(few))(tj.numpy.asarray(0.5)))


if __name__ == "__main__":
    main()
