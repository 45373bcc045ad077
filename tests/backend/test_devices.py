"""Several devices: programs run where their arguments are."""

from __future__ import annotations

import os
import subprocess
import sys

CODE = """
import jax
import numpy as np
from jax.sharding import Mesh, NamedSharding, PartitionSpec
import tinyjax as tj
from tinyjax import backend
from tinyjax.contexts.devices import single_equation
from tinyjax.ir import ConcreteValue
from tinyjax.primitives.elementwise import add

first, second = jax.local_devices()[:2]
host = ConcreteValue.of(np.arange(4.0))
there = backend.from_jax(jax.device_put(np.arange(4.0), second))
assert there.data.device is second
here = backend.device_put(host)
assert here.data.device is first
program = single_equation(add, (host.aval, host.aval))

def run(*args):
    (out,) = backend.execute(program, args, "f")
    assert np.asarray(out.data).tolist() == [0, 2, 4, 6]
    assert out.data.array.devices() == {out.data.device}
    return out.data.device

assert run(host, host) is first
assert run(there, there) is second
assert run(host, there) is second
assert run(here, there) is second  # where something has put one of them
assert run(there, here) is second
with jax.default_device(second):
    assert run(host, host) is second
    assert backend.device_put(host).data.device is second
    assert backend.device_put(here) is here
assert backend.device_put(there) is there
assert backend.execute.cache_info().made == 2

sharded = jax.device_put(np.arange(4.0), NamedSharding(Mesh([first, second], "x"), PartitionSpec("x")))
assert str(backend.from_jax(sharded).data.sharding.spec) == "P('x',)"
whole = jax.device_put(np.arange(4.0), NamedSharding(Mesh([second], "x"), PartitionSpec("x")))
assert str(backend.from_jax(whole).data.sharding.spec) == "P('x',)"
assert (backend.to_jax(here) + jax.device_put(1.0, second)).devices() == {second}, "not committed to a device"

# Calls that are ready, also with arrays of the host, go where the default device is, or the arrays on devices are.
f = tj.jit(lambda x, y: 2.0 * x + y)

def where(*args):
    (device,) = {f(*args).value.data.device for _ in range(3)}
    assert np.asarray(f(*args)).tolist() == [0.0, 3.0, 6.0]
    return device

x = np.arange(3.0)
for device in (first, second, first, second):
    with jax.default_device(device):
        assert where(x, x) is device
on_second = jax.device_put(x, second)
assert where(on_second, x) is second
assert where(x, on_second) is second
assert where(x, x) is first
assert where(jax.device_put(x, first), x) is first
"""


def test_devices() -> None:
    flags = f"{os.environ.get('XLA_FLAGS', '')} --xla_force_host_platform_device_count=2"
    environment = {**os.environ, "XLA_FLAGS": flags, "JAX_PLATFORMS": "cpu", "JAX_ENABLE_X64": "1"}
    subprocess.run([sys.executable, "-c", CODE], check=True, env=environment)
