"""Forked processes: an error where XLA would wait for ever, and everything else as usual."""

from __future__ import annotations

import os
import subprocess
import sys
import textwrap
from pathlib import Path

import pytest

pytestmark = pytest.mark.skipif(not hasattr(os, "fork"), reason="no processes are forked here")

SCRIPT = """
    import multiprocessing, os, sys, threading, time, warnings
    import numpy as np
    import tinyjax as tj
    from tinyjax import numpy as tnp

    warnings.simplefilter("ignore")  # jax's own, about forks
    x = np.ones(3)
    f = tj.jit(lambda x: x * 2.0 + 1.0)
    used = sys.argv[1]
    y = tnp.asarray(x)
    if used == "tinyjax":
        y = f(f(x))
        f(x)
    elif used == "jax":
        import jax
        jax.numpy.ones(3).block_until_ready()

    CASES = {
        "eager": lambda: tnp.sin(x) + tnp.asarray(x),
        "grad": lambda: tj.grad(lambda x: (x * x).sum())(x),
        "vmap": lambda: tj.vmap(lambda x: x * 2.0)(x),
        "make_jaxpr": lambda: tj.make_jaxpr(f)(x),
        "lower": lambda: tj.jit(lambda x: x * 5.0).lower(x).as_text(),
        "read": lambda: np.asarray(y),
        "wait": lambda: y.block_until_ready(),
        "the same jit, host": lambda: f(x),
        "the same jit, device": lambda: f(y),
        "jit": lambda: tj.jit(lambda x: x @ x)(x),
        "compile": lambda: tj.jit(lambda x: x * 3.0).lower(x).compile(),
        "scan": lambda: tj.lax.scan(lambda c, a: (c + a, c), 0.0, x),
        "device_put": lambda: tj.device_put(x),
        "on a device": lambda: y * 2.0 if used == "tinyjax" else tj.device_put(x) * 2.0,
    }

    def child(do):
        reading, writing = os.pipe()
        pid = os.fork()
        if not pid:
            try:
                do()
                answer = "well"
            except BaseException as error:
                answer = f"{type(error).__name__}: {error}"
            os.write(writing, answer.encode())
            os._exit(0)
        os.close(writing)
        for _ in range(2000):
            if os.waitpid(pid, os.WNOHANG)[0]:
                return os.read(reading, 10000).decode()
            time.sleep(0.01)
        os.kill(pid, 9)
        return "it hangs"

    for name, do in CASES.items():
        if used != "tinyjax" and name not in ("eager", "read", "jit"):
            continue  # where nothing is used, each of these imports jax
        print(name, "=", child(do))

    # Whoever holds a lock at the moment of the fork isn't there to let it go.
    from tinyjax.backend.cache import OnceCache
    from tinyjax.caching import register
    cache = OnceCache(4, "locked")
    register(cache)
    held, enough = threading.Event(), threading.Event()
    def hold():
        with cache._lock:
            held.set()
            enough.wait()
    thread = threading.Thread(target=hold)
    thread.start()
    held.wait()
    print("locked", "=", child(lambda: cache.get_or_make(1, lambda: 1)))
    enough.set()
    thread.join()
    print("after", "=", "well" if float(tnp.sum(f(x))) == 9.0 else "wrong")
"""
ON_THE_HOST = {"eager", "grad", "vmap", "make_jaxpr", "lower", "read", "wait", "locked", "after"}


def run(used: str) -> dict[str, str]:
    command = [sys.executable, "-c", textwrap.dedent(SCRIPT), used]
    done = subprocess.run(command, capture_output=True, text=True, timeout=120, check=False)
    assert done.returncode == 0, done.stderr
    return dict(line.split(" = ", 1) for line in done.stdout.splitlines())


@pytest.mark.sweep
@pytest.mark.parametrize("used", ["tinyjax", "jax"])
def test_after_xla_has_been_used(used: str) -> None:
    found = run(used)
    assert len(found) == (16 if used == "tinyjax" else 5)
    for name, answer in found.items():
        if name in ON_THE_HOST:
            assert answer == "well", (name, answer)
        else:
            assert answer.startswith("ForkedProcessError: To "), (name, answer)
            assert "multiprocessing.get_context('spawn')" in answer


def test_before_xla_is_used() -> None:
    found = run("nothing")
    assert set(found.values()) == {"well"}, found


@pytest.mark.sweep
def test_multiprocessing(tmp_path: Path) -> None:
    code = """
        import multiprocessing, sys, warnings
        import tinyjax as tj

        warnings.simplefilter("ignore")

        def work(x):
            return float(tj.jit(lambda y: y * 2.0)(x))

        if __name__ == "__main__":
            assert work(1.0) == 2.0
            with multiprocessing.get_context("fork").Pool(2) as pool:
                try:
                    pool.map(work, [1.0, 2.0])
                except tj.errors.ForkedProcessError as error:
                    print("refused")
            with multiprocessing.get_context("spawn").Pool(1) as pool:
                print(pool.map(work, [1.0, 2.0]))
    """
    path = tmp_path / "program.py"
    path.write_text(textwrap.dedent(code))
    done = subprocess.run([sys.executable, path], capture_output=True, text=True, timeout=120, check=False)
    assert done.stdout == "refused\n[2.0, 4.0]\n", done.stderr
