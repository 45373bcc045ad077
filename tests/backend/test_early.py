"""The CPU by jaxlib alone, until jax is imported: in processes of their own, as here jax is there already."""

from __future__ import annotations

import os
import subprocess
import sys
from collections.abc import Iterable, Mapping
from pathlib import Path
from typing import Any

import numpy as np
import pytest
from _pytest.mark.structures import ParameterSet
from jax._src import compiler

from tinyjax.backend import early
from tinyjax.backend.compile_options import one_device
from tinyjax.backend.devices import default_device

#: What every one of these processes begins with.
BEGINNING = """
import sys
import numpy as np
import tinyjax as tj
jnp = tj.numpy
x = np.arange(3.0)
double = tj.jit(lambda x: x * 2)
there = lambda: "jax" in sys.modules
"""


def run(code: str, environment: Mapping[str, str] | None = None) -> str:
    """What a new process prints that runs this code, in which nothing says anything of jax."""
    kept = {name: value for name, value in os.environ.items() if not name.startswith(("JAX_", "XLA_"))}
    done = subprocess.run(
        [sys.executable, "-c", BEGINNING + code],
        env={**kept, "JAX_PLATFORMS": "cpu", **(environment or {})},
        capture_output=True,
        text=True,
        timeout=240,
        check=False,
    )
    assert done.returncode == 0, done.stderr
    return done.stdout.strip()


@pytest.mark.sweep
def test_what_is_common_needs_no_jax() -> None:
    """Compiling, differentiating, batching, running, eager operations on devices, trees, moving, showing, keeping."""
    code = """
def loss(w, batch):
    return jnp.sum(jnp.tanh(batch["x"] @ w) ** 2)

w, batch = np.ones((3, 2), "float32"), {"x": np.ones((4, 3), "float32")}
step = tj.jit(tj.grad(loss))
first = step(w, batch)
np.testing.assert_allclose(step(first, batch), tj.grad(loss)(first, batch), rtol=1e-5)
assert first.dtype == "float32" and first.shape == (3, 2) and not first.weak_type
y = double(x)
assert str(y.device) == "cpu:0" and y.devices() == {y.device}
assert [str(d) for d in tj.devices()] == ["cpu:0"] and tj.process_count() == 1 and tj.process_index() == 0
assert (y + 1).sum() == 9 and y[1] == 2 and repr(y) == "Array([0., 2., 4.], dtype=float64)"
large = double(np.ones(5000))
assert (large + large)[0] == 4 and large.mean() == 2
assert np.array_equal(tj.vmap(jnp.sin)(y), np.sin(2 * x))
assert tj.jit(lambda x: tj.lax.scan(lambda c, a: (c + a, c), 0.0, x))(y)[0] == 6
assert np.array_equal(tj.jit(lambda x: x + 1, donate_argnums=0)(double(x)), 2 * x + 1)
assert np.array_equal(tj.device_put(x), x) and tj.device_put(x, tj.devices()[0]).committed
assert "HloModule" in double.lower(x).compile().as_text()
assert double.lower(x).compile(compiler_options={"xla_cpu_enable_fast_math": True})(x)[2] == 4
assert tj.random.normal(tj.random.key(0), (3,)).shape == (3,)
for dtype in ("bool", "int8", "uint32", "int64", "float16", "complex64"):
    assert tj.jit(lambda x: x.astype(dtype))(y).tolist() == y.astype(dtype).tolist(), dtype
z = double(x); z.delete()
try:
    z + 1
except tj.errors.DeletedBufferError:
    pass
else:
    raise AssertionError("deleted")
print(there())
"""
    assert run(code) == "False"


def test_arrays_of_the_host_are_dispatched_before_jax_and_after_it() -> None:
    """What jaxlib's dispatcher asks of jax's settings is answered until jax is there; then its own answers count, and
    calls that were prepared before are right all the same, whatever it is told."""
    code = """
from tinyjax.backend import dispatcher
from tinyjax.random import key, key_data, normal, wrap_key_data
asked = []
made = dispatcher._jax.pjit
def pjit(name, *rest):
    run = made(name, *rest)
    return run if name != "tinyjax" else lambda *args: (asked.append(there()), run(*args))[1]
dispatcher._jax.pjit = pjit
mixed = tj.jit(lambda *args: [a + 1 for a in args])
dtypes = ("bool", "int8", "uint32", "int64", "float16", "float32", "float64", "complex64", "complex128")
given = [*(np.arange(4).astype(dtype) for dtype in dtypes), jnp.arange(3.0), double(x), np.float64(2), np.ones((0, 2))]
hashed = tj.jit(lambda k: (normal(k, (3,)), k))
expected = normal(key(7), (3,))
def check():
    for _ in range(3):
        for a, b in zip(mixed(*given), given, strict=True):
            assert a.dtype == (np.asarray(b) + 1).dtype and np.array_equal(a, np.asarray(b) + 1), (a, b)
        for one in (key(7), tj.device_put(key(7)), key(7).copy()):
            drawn, back = hashed(one)
            assert np.allclose(drawn, expected, rtol=1e-14) and np.array_equal(key_data(back), key_data(one)), drawn
check(); check()
assert not there() and len(asked) > 6, (there(), asked)
import jax
assert jax.jit(lambda x: x)(np.ones(3)).dtype == "float32" and not jax.config.jax_enable_x64
check(); check()
assert asked.count(True) > 6 and jax.jit(lambda x: x)(np.ones(3)).dtype == "float32"
with jax.enable_x64(True):
    check()
    assert jax.jit(lambda x: x)(np.ones(3)).dtype == "float64"
seen = []
with jax.disable_jit():
    jax.jit(lambda x: seen.append(x))(x)
    check()
print(isinstance(seen[0], jax.core.Tracer))
"""
    assert run(code) == "False"


@pytest.mark.sweep
def test_compiled_programs_are_kept_for_processes_with_jax_and_without(tmp_path: Path) -> None:
    directory = {"TINYJAX_COMPILATION_CACHE_DIR": str(tmp_path)}
    code = "assert tj.jit(tj.grad(lambda x: jnp.sum(jnp.sin(x))))(x).shape == (3,); print(there())"
    assert run(code, directory) == "False"
    kept = sorted(tmp_path.iterdir())
    assert kept
    assert run(f"import jax; jax.devices()\n{code}", directory) == "True"
    assert sorted(tmp_path.iterdir()) == kept


def sampled(cases: Iterable[str]) -> list[ParameterSet]:
    """The first case, and the others for the session of what takes long: each is a process."""
    return [pytest.param(case, marks=[pytest.mark.sweep] if i else []) for i, case in enumerate(cases)]


#: What needs jax, and is right all the same.
NEEDS = {
    "a dtype that NumPy lacks": "assert np.asarray(tj.jit(lambda x: x.astype('bfloat16'))(x)).tolist() == [0, 1, 2]",
    "LAPACK": "assert np.array_equal(tj.jit(jnp.linalg.cholesky)(np.eye(2)), np.eye(2))",
    "calls of the host": "assert np.array_equal(tj.jit(lambda x: tj.pure_callback(np.sin, x, x))(x), np.sin(x))",
    "DLPack": "assert np.array_equal(np.from_dlpack(double(x)), 2 * x)",
    "shardings": "assert len(double(x).sharding.device_set) == 1",
    "shards": "assert np.array_equal(double(x).addressable_shards[0].data, 2 * x)",
    "an OrderedDict": "from collections import OrderedDict as O; assert tj.jit(lambda d: d)(O(b=1, a=x))['a'][2] == 2",
    "a class of one's own": """
@tj.tree.register_pytree_node_class
class Pair:
    def __init__(self, a, b): self.a, self.b = a, b
    def tree_flatten(self): return (self.a, self.b), None
    @classmethod
    def tree_unflatten(cls, aux, children): return cls(*children)
assert double(Pair(x, x).a)[1] == 2 and tj.jit(lambda p: p.a + p.b)(Pair(x, x))[1] == 2
""",
    "a mesh": """
mesh = tj.make_mesh((1,), ("i",))
assert np.array_equal(tj.device_put(x, tj.sharding.NamedSharding(mesh, tj.sharding.PartitionSpec("i"))), x)
""",
    "an executable for a mesh": """
mesh = tj.make_mesh((1,), ("i",))
shared = tj.sharding.NamedSharding(mesh, tj.sharding.PartitionSpec("i"))
assert np.array_equal(tj.jit(lambda x: x + 1, out_shardings=shared)(before), before + 1)
""",
}


@pytest.mark.sweep
@pytest.mark.parametrize("what", sampled(NEEDS))
def test_what_needs_jax_imports_it(what: str) -> None:
    after = """
assert np.array_equal(before, 2 * x) and np.array_equal(double(before), 4 * x)
assert np.array_equal(before + before, 4 * x)
assert np.array_equal(large + double(large), 6 * np.ones(5000))
import jax
assert before.__jax_array__().devices() == {jax.devices()[0]}
print(there())
"""
    code = (
        f"before, large = double(x), double(np.ones(5000)); assert not there()\n{NEEDS[what]}\nassert there()\n{after}"
    )
    assert run(code) == "True"


#: Arrays of either library go to the other one.
BOTH = """
import jax.numpy as J
ours, theirs = double(x), J.arange(3.0)
large = double(np.ones(5000))
for a, b in ((ours, theirs), (before, theirs), (theirs, ours), (theirs, before)):
    assert np.array_equal(tj.jit(lambda a, b: a + b)(a, b), np.asarray(a) + np.asarray(b))
    assert np.array_equal(jax.jit(lambda a, b: a + b)(J.asarray(a), J.asarray(b)), np.asarray(a) + np.asarray(b))
    assert np.array_equal(a + b, np.asarray(a) + np.asarray(b))
assert np.array_equal(J.sin(J.asarray(before)), np.sin(2 * x)) and isinstance(before.__jax_array__(), jax.Array)
assert isinstance(large.__jax_array__().aval, jax.core.ShapedArray)
assert before.__jax_array__().sharding == jax.sharding.SingleDeviceSharding(jax.devices()[0]) or not shared
assert (large.__jax_array__() + 1)[0] == 3 and (J.ones(5000) + large)[1] == 3
assert np.array_equal(jax.grad(lambda x: (x ** 2).sum())(J.asarray(before)), 4 * x)
assert np.array_equal(J.from_dlpack(large), large) and np.array_equal(tj.numpy.from_dlpack(theirs), theirs)
from tinyjax.interop.to_jax import to_jax
f = to_jax(tj.make_jaxpr(lambda x: jnp.sin(x) + before + large[:3])(x))
assert np.allclose(jax.jit(f)(theirs), np.sin(x) + 2 * x + 2)
assert double(theirs).devices() == {tj.devices()[0]} and np.array_equal(tj.device_put(theirs, tj.devices()[-1]), x)
assert np.array_equal(tj.device_put(before, tj.devices()[-1]), 2 * x)
clients = {next(iter(a.__jax_array__().devices())).client for a in (before, ours)}
print(len(jax.devices()), len(clients | {jax.devices()[0].client}))
"""
X64 = "import jax; jax.config.update('jax_enable_x64', True)\n"
#: What is done before both libraries are used, how many devices jax has then, and how many clients there are.
ORDERS = {
    "ours first": ("before = double(x)\n" + X64, "1 1"),
    "jax imported first": (X64 + "before = double(x)\n", "1 1"),
    "jax used first": (X64 + "jax.devices(); before = double(x)\n", "1 1"),
    "ours first, then jax before ours": ("before = double(x)\n" + X64 + "jax.numpy.ones(3); double(x)\n", "1 1"),
    "jax used first, after an import of ours": ("tj.grad\n" + X64 + "jax.devices(); before = double(x)\n", "1 1"),
    "jax wants another client": (
        "before = double(x)\n" + X64 + "jax.config.update('jax_num_cpu_devices', 3)\n",
        "3 2",
    ),
    "jax divides the CPU": (X64 + "jax.config.update('jax_num_cpu_devices', 3); before = double(x)\n", "3 1"),
}


@pytest.mark.sweep
@pytest.mark.parametrize("order", sampled(ORDERS))
def test_both_libraries_in_one_process(order: str) -> None:
    first, expected = ORDERS[order]
    found = run(f"{first}shared = {expected.endswith('1')}\n{BOTH}")
    devices, clients = expected.split()
    assert found.split()[0] == devices
    assert int(found.split()[1]) <= int(clients)


@pytest.mark.sweep
def test_the_processor_may_be_divided_without_jax() -> None:
    flags = {"XLA_FLAGS": "--xla_force_host_platform_device_count=4"}
    code = """
on_third = tj.device_put(x, tj.devices()[2])
assert double(on_third).devices() == {tj.devices()[2]} and (on_third + on_third).devices() == {tj.devices()[2]}
try:
    tj.jit(lambda a, b: a + b)(on_third, tj.device_put(x, tj.devices()[1]))
except tj.errors.ShardingError:
    pass
else:
    raise AssertionError("on two devices")
assert not there()
import jax
assert len(jax.devices()) == len(tj.devices()) == 4
assert on_third.__jax_array__().devices() == {jax.devices()[2]} and double(on_third).committed
mesh = tj.make_mesh((4,), ("i",))
print(np.asarray(tj.device_put(np.arange(8), tj.sharding.NamedSharding(mesh, tj.sharding.PartitionSpec("i")))).sum())
"""
    assert run(code, flags) == "28"


@pytest.mark.sweep
@pytest.mark.parametrize(
    "environment",
    [{"JAX_NUM_CPU_DEVICES": "2"}, {"JAX_CPU_ENABLE_ASYNC_DISPATCH": "false"}, {"JAX_DEFAULT_DEVICE": "cpu"}],
    ids="".join,
)
def test_settings_of_jax_are_left_to_it(environment: dict[str, str]) -> None:
    assert run("assert double(x)[1] == 2; print(there())", environment) == "True"


def test_what_says_that_the_processor_is_meant() -> None:
    assert early._is_cpu(
        {"JAX_PLATFORMS": "cpu", "JAX_ENABLE_X64": "1", "JAX_PERSISTENT_CACHE_MIN_ENTRY_SIZE_BYTES": "0"}
    )
    assert early._is_cpu({"JAX_PLATFORM_NAME": "CPU"})
    assert not early._is_cpu({"JAX_PLATFORMS": "cuda,cpu"})
    assert not early._is_cpu({"JAX_PLATFORMS": "cpu", "JAX_NUM_CPU_DEVICES": "2"})
    assert not early._is_cpu({"PJRT_NAMES_AND_LIBRARY_PATHS": "mine:lib.so"})


def test_plugins_are_looked_for(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """By what they are called, and by what installed packages announce."""
    monkeypatch.setattr(sys, "path", [str(tmp_path), str(tmp_path / "nowhere")])
    assert not early._announced()
    package = tmp_path / "other-1.0.dist-info"
    package.mkdir()
    (package / "entry_points.txt").write_text("[console_scripts]\nother = other:main\n")
    assert not early._announced()
    (package / "entry_points.txt").write_text("[jax_plugins]\nmine = mine.plugin\n")
    assert early._announced()
    assert not early._is_cpu({})
    assert early._is_cpu({"JAX_PLATFORMS": "cpu"})


def test_xla_is_told_the_same_as_by_jax(monkeypatch: pytest.MonkeyPatch) -> None:
    """Or programs would differ by whether jax is there, and be compiled once more."""
    device = default_device()
    # With its own cache on disk, jax says more about GPUs.
    monkeypatch.setattr("jax._src.compilation_cache.is_persistent_cache_enabled", lambda: False)
    for options in ((), (("xla_cpu_enable_fast_math", True),), (("optimization_level", 19), ("xla_dump_to", "x"))):
        overrides: dict[str, Any] = dict(options)
        expected = compiler.get_compile_options(
            num_replicas=1,
            num_partitions=1,
            device_assignment=np.array([[device.id]]),
            env_options_overrides=overrides or None,
            backend=device.client,
        ).SerializeAsString()
        with monkeypatch.context() as patched:
            patched.setattr("tinyjax.backend.compile_options.without_jax", lambda: True)
            assert one_device(device, options).SerializeAsString() == expected


def test_a_forked_process_is_told() -> None:
    code = """
import os
double(x)
child = os.fork()
if child == 0:
    try:
        double(np.ones(7))
    except tj.errors.ForkedProcessError:
        os._exit(7)
    os._exit(1)
print(os.waitstatus_to_exitcode(os.waitpid(child, 0)[1]), there())
"""
    assert run(code) == "7 False"


@pytest.mark.sweep
def test_processes_come_together_before_anything_is_compiled() -> None:
    code = """
double(x)
try:
    tj.distributed.initialize("localhost:1234", 1, 0)
except tj.errors.DistributedError as error:
    print(error)
"""
    assert "must be called before anything is compiled" in run(code)


@pytest.mark.sweep
def test_threads_make_one_client() -> None:
    code = """
from concurrent.futures import ThreadPoolExecutor
with ThreadPoolExecutor(8) as pool:
    found = list(pool.map(lambda i: tj.jit(lambda x: x + i)(x), range(8)))
assert len({id(y.device) for y in found}) >= 1 and all(y[0] == i for i, y in enumerate(found))
print(there())
import jax
assert len({d.client for y in found for d in y.__jax_array__().devices()} | {jax.devices()[0].client}) == 1
"""
    assert run(code) == "False"
