"""Compiling and running programs."""

from __future__ import annotations

import gc
import subprocess
import sys
import threading
import weakref
from concurrent.futures import ThreadPoolExecutor

import jax
import numpy as np
import numpy.typing as npt
import pytest

from tests.hlo.test_lowering import Mystery
from tinyjax import backend
from tinyjax.backend import DeviceBuffer, MemoryStats, XlaExecutor
from tinyjax.backend.devices import default_device
from tinyjax.backend.executable import compile_text
from tinyjax.caching import CacheInfo
from tinyjax.contexts.devices import single_equation
from tinyjax.contexts.evaluation import EvalContext
from tinyjax.control.call import Call
from tinyjax.errors import DeletedBufferError, DonationWarning, InputError, LoweringError, MissingRuleError, XlaError
from tinyjax.ir.aval import ShapedArray
from tinyjax.ir.dtypes import FLOAT0, FLOAT32, FLOAT64
from tinyjax.ir.program import Eqn, Jaxpr, Literal, Var
from tinyjax.ir.shared_types import array_type
from tinyjax.ir.value import ConcreteValue
from tinyjax.primitives.elementwise import add, mul
from tinyjax.primitives.trigonometric import sin

VECTOR = ShapedArray((3,), FLOAT64)
X, Y, Z = (Var(i, VECTOR) for i in range(3))


def product() -> Jaxpr:
    """A new object each time."""
    return Jaxpr((X, Y), (Eqn(mul, (X, Y), (Z,)),), (Z,))


def value(x: npt.ArrayLike) -> ConcreteValue:
    return ConcreteValue.of(np.asarray(x))


def on_device(x: npt.ArrayLike) -> ConcreteValue:
    return backend.device_put(value(x))


def numbers(x: ConcreteValue) -> object:
    found: object = np.asarray(x.data).tolist()
    return found


def test_results_stay_on_the_device() -> None:
    (out,) = backend.execute(product(), (value([1.0, 2, 3]), on_device([4.0, 5, 6])), "product")
    assert isinstance(out.data, DeviceBuffer)
    assert out.data.platform == jax.default_backend()
    assert numbers(out) == [4, 10, 18]


def test_results_have_the_types_of_the_program() -> None:
    weak, strong = ShapedArray((), FLOAT64, weak_type=True), ShapedArray((), FLOAT32)
    x, y = Var(0, weak), Var(1, strong)
    outs = backend.execute(Jaxpr((x, y), (), (y, x, Literal.of(1))), (ConcreteValue.of(2.5), value(np.float32(3))), "f")
    assert [str(out.aval) for out in outs] == ["f32[]", "~f64[]", "~i64[]"]
    assert [numbers(out) for out in outs] == [3, 2.5, 1]


def test_programs_are_compiled_once_for_each_value() -> None:
    executor = XlaExecutor()
    args = (value([1.0, 2, 3]), value([4.0, 5, 6]))
    for name in ("f", "g"):
        assert numbers(executor(product(), args, name)[0]) == [4, 10, 18]
    assert executor.cache_info() == CacheInfo(made=1, size=1, limit=4096)
    executor(product(), args, "f", (True, False))
    executor(single_equation(add, (VECTOR, VECTOR)), args, "f")
    executor.compile(product(), "f")
    assert executor.cache_info().made == 3
    executor.compile(product(), "f", options=(("xla_cpu_enable_fast_math", True),))
    assert executor.cache_info().made == 4
    executor.clear_cache()
    assert executor.cache_info().size == 0
    executor(product(), args, "f")
    assert executor.cache_info().made == 5


def test_the_cache_is_bounded() -> None:
    executor = XlaExecutor(cache_size=2)
    for i in range(4):
        x = Var(0, ShapedArray((i,), FLOAT32))
        executor(Jaxpr((x,), (), (x,)), (value(np.zeros(i, FLOAT32)),), "f")
    assert executor.cache_info() == CacheInfo(made=4, size=2, limit=2)


def test_programs_that_no_function_holds_take_bounded_memory() -> None:
    executor = XlaExecutor(cache_bytes=1_000_000)  # for about four programs of one equation
    args = (value([1.0, 2, 3]),)

    def program(factor: float) -> Jaxpr:
        x, y = Var(0, VECTOR), Var(1, VECTOR)
        return Jaxpr((x,), (Eqn(mul, (x, Literal.of(np.float64(factor))), (y,)),), (y,))

    held = executor.executable(program(0.5), args, "held")
    gone = weakref.ref(executor.executable(program(0.25), args, "gone"))
    for i in range(10):
        executor(program(float(i)), args, "f")
    gc.collect()
    assert executor.cache_info() == CacheInfo(made=12, size=4, limit=4096)
    assert gone() is None
    assert executor.executable(program(0.5), args, "held") is held
    assert executor.cache_info().made == 12


def test_evaluation_of_device_arrays_runs_on_the_device() -> None:
    ctx = EvalContext(backend.execute)
    (out,) = ctx.bind(sin, on_device([0.5]))
    assert isinstance(out.data, DeviceBuffer)
    (out,) = ctx.bind(mul, out, value([2.0]))
    assert isinstance(out.data, DeviceBuffer)
    assert numbers(out) == [pytest.approx(2 * np.sin(0.5))]
    assert ctx.bind(sin, value([0.5]))[0].on_host


def test_donated_arguments() -> None:
    x, y = on_device([1.0, 2, 3]), on_device([4.0, 5, 6])
    (out,) = backend.execute(product(), (x, y), "product", (True, False))
    assert (backend.is_deleted(x), backend.is_deleted(y)) == (True, False)
    assert numbers(out) == [4, 10, 18]
    with pytest.raises(DeletedBufferError, match=r"argument 1 of 'square': the array f64\[3\] .* donated or deleted"):
        backend.execute(product(), (y, x), "square")
    assert numbers(backend.execute(product(), (y, y), "square")[0]) == [16, 25, 36]


def test_donated_host_arrays_are_left_alone() -> None:
    array = np.asarray([1.0, 2, 3])
    with pytest.warns(DonationWarning, match="donated in vain, and kept: argument 1 of 'square', f64"):
        backend.execute(product(), (value(array), value(array)), "square", (True, True))
    for _ in range(3):
        (out,) = backend.execute(product(), (value(array), value(array)), "square", (True, True))
        assert numbers(out) == [1, 4, 9]
    assert array.tolist() == [1, 2, 3]


def test_one_array_donated_and_used_again() -> None:
    x = on_device([1.0, 2, 3])
    with pytest.raises(InputError, match="argument 1 of 'f' is donated, so the same array can't be another argument"):
        backend.execute(product(), (x, x), "f", (False, True))
    assert not backend.is_deleted(x)


def test_a_copy_on_the_host_survives_donation() -> None:
    x = on_device([1.0, 2, 3])
    seen = np.asarray(x.data)
    backend.execute(product(), (x, value([4.0, 5, 6])), "f", (True, False))
    assert seen.tolist() == [1, 2, 3]


def test_what_can_not_be_lowered_changes_nothing() -> None:
    executor = XlaExecutor()
    mystery = single_equation(Mystery(), (VECTOR,))
    x = on_device([1.0, 2, 3])
    for _ in range(2):
        with pytest.raises(MissingRuleError, match="Translation rule for 'mystery' not implemented"):
            executor(mystery, (x,), "f", (True,))
    empty = Var(0, ShapedArray((3,), FLOAT0))
    with pytest.raises(LoweringError, match="float0"):
        executor(Jaxpr((empty,), (), ()), (ConcreteValue(np.zeros(3, FLOAT0), empty.aval),), "f")
    assert executor.cache_info().size == 0
    assert not backend.is_deleted(x)
    assert numbers(executor(product(), (x, x), "f")[0]) == [1, 4, 9]


def test_text_that_xla_refuses() -> None:
    text = "module @m {\n  func.func public @main() -> tensor<f32> {\n    return %0 : tensor<i32>\n  }\n}"
    with pytest.raises(XlaError, match=r"^XLA could not compile 'broken' for .*:\n") as caught:
        compile_text(text, "broken", (), (), default_device())
    assert len(str(caught.value).splitlines()) <= 9
    assert isinstance(caught.value.__cause__, RuntimeError)


def test_options_that_xla_does_not_know() -> None:
    with pytest.raises(XlaError, match="No such compile option: 'no_such_option'"):
        XlaExecutor((("no_such_option", 1),))(product(), (value([1.0, 2, 3]),) * 2, "f")


def test_a_run_that_fails() -> None:
    executable = XlaExecutor().compile(product(), "f").executable
    with pytest.raises(XlaError, match=r"^'g' failed on .*:\n"):
        executable((value([1.0, 2, 3]), ConcreteValue(np.zeros(4), array_type((4,), FLOAT64))), "g")


def test_compiled_programs() -> None:
    backend.execute.clear_cache()
    compiled = backend.compile_program(product(), "my_product")
    (out,) = compiled((value([1.0, 2, 3]), on_device([4.0, 5, 6])))
    assert numbers(out) == [4, 10, 18]
    assert "HloModule my_product" in compiled.as_text()
    assert "multiply" in compiled.as_text()
    assert compiled.cost_analysis()["flops"] == 3
    memory = compiled.memory_analysis()
    assert isinstance(memory, MemoryStats)
    assert (memory.argument_size_in_bytes, memory.output_size_in_bytes) == (48, 24)
    donating = backend.compile_program(product(), "my_product", (True, False)).memory_analysis()
    assert donating.alias_size_in_bytes == 24


def test_compiled_programs_check_their_arguments() -> None:
    compiled = backend.compile_program(product(), "f")
    with pytest.raises(InputError, match=r"'f' was compiled for \(f64\[3\], f64\[3\]\), got \(f64\[3\]\)"):
        compiled((value([1.0, 2, 3]),))
    with pytest.raises(InputError, match=r"got \(f64\[3\], i64\[3\]\)"):
        compiled((value([1.0, 2, 3]), value([1, 2, 3])))


def test_threads_share_an_executor() -> None:
    executor = XlaExecutor()
    barrier = threading.Barrier(6)

    def work(seed: int) -> bool:
        barrier.wait(10)
        x, y = np.random.default_rng(seed).normal(size=(2, 3))
        expected = (x * y).tolist()
        return all(numbers(executor(product(), (value(x), on_device(y)), "f")[0]) == expected for _ in range(50))

    with ThreadPoolExecutor(6) as pool:
        assert all(pool.map(work, range(6)))
    assert executor.cache_info().made == 1


def test_a_call_within_a_program() -> None:
    inner = single_equation(add, (VECTOR, VECTOR))
    jaxpr = Jaxpr((X,), (Eqn(Call("double", inner), (X, X), (Y,)), Eqn(Call("double", inner), (Y, X), (Z,))), (Z,))
    assert numbers(backend.execute(jaxpr, (value([1.0, 2, 3]),), "f")[0]) == [3, 6, 9]


@pytest.mark.sweep
def test_double_precision_without_jax_x64() -> None:
    code = (
        "import numpy as np\n"
        "from tinyjax import backend\n"
        "from tinyjax.contexts.devices import single_equation\n"
        "from tinyjax.ir import ConcreteValue, ShapedArray\n"
        "from tinyjax.primitives.elementwise import add\n"
        "for dtype, x in (('float64', 1 / 3), ('int64', 2**40), ('complex128', 1j / 3)):\n"
        "    value = ConcreteValue.of(np.asarray([x], dtype))\n"
        "    for arg in (value, backend.device_put(value)):\n"
        "        (out,) = backend.execute(single_equation(add, (value.aval, value.aval)), (arg, arg), 'f')\n"
        "        assert np.asarray(out.data).dtype == dtype and np.asarray(out.data)[0] == 2 * x\n"
        "import jax\n"
        "assert not jax.config.jax_enable_x64 and jax.numpy.ones(1).dtype == 'float32'\n"
    )
    subprocess.run([sys.executable, "-c", code], check=True)
