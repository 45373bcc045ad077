"""Files of programs: what is saved is what is loaded, to the bit."""

from __future__ import annotations

import io
import os
import subprocess
import sys
import zipfile
from pathlib import Path

import msgspec
import numpy as np
import pytest
from hypothesis import given, settings

import tinyjax as tj
from tests.golden import Golden
from tests.ir.examples import (
    F64,
    HERE,
    Apply,
    Assorted,
    Window,
    chain,
    double,
    everything,
    nested,
    twice_each,
)
from tests.ir.registered import REGISTRY, parameters, shardings
from tests.strategies import programs
from tinyjax import ir
from tinyjax.ir import ClosedJaxpr, ConcreteValue, Eqn, Jaxpr, ShapedArray, SourceInfo, Var
from tinyjax.ir.dtypes import BFLOAT16, BOOL, COMPLEX64, FLOAT0, FLOAT32, SUPPORTED, DType, HostArray
from tinyjax.primitives.elementwise import neg
from tinyjax.testing import check_laws

X, Y = Var(0, F64), Var(1, F64)


def saved(program: ClosedJaxpr | Jaxpr) -> bytes:
    file = io.BytesIO()
    ir.save(file, program)
    return file.getvalue()


def loaded(content: bytes) -> ClosedJaxpr | Jaxpr:
    return ir.load(io.BytesIO(content), REGISTRY)


@given(programs(depth=2))
@settings(max_examples=50, deadline=None)
def test_any_program(jaxpr: Jaxpr) -> None:
    check_laws(jaxpr, laws=["files"], registry=REGISTRY)


def test_everything() -> None:
    check_laws(everything(), laws=["files"], registry=REGISTRY)


@pytest.mark.parametrize("number", range(len([*parameters(), *shardings()])))
def test_parameters_of_every_kind(number: int) -> None:
    parameter = [*parameters(), *shardings()][number]
    check_laws(Jaxpr((), (Eqn(Assorted(parameter), (), ()),), ()), laws=["files"], registry=REGISTRY)


def test_programs_of_the_library() -> None:
    @tj.custom_jvp
    def cube(x: tj.Array) -> tj.Array:
        return x**3

    cube.defjvps(lambda t, out, x: 3 * x * x * t)

    def f(x: tj.Array, i: tj.Array | int) -> tj.Array:
        y, ys = tj.lax.scan(lambda c, row: (c + tj.numpy.sin(row), c * row), x[0], x)
        z = tj.lax.cond(i > 0, lambda v: v @ x, cube, y)
        w = tj.lax.while_loop(lambda c: (c > 1).any(), lambda c: c / 2, z)
        out: tj.Array = w + x.at[i].add(2.5)[::-1].sum() + tj.checkpoint(tj.numpy.tanh)(ys).sum()
        return out

    x = np.ones((3, 3), np.float32)
    check_laws(tj.make_jaxpr(f)(x, 1), laws=["files"], registry=REGISTRY)
    check_laws(
        tj.make_jaxpr(tj.vmap(lambda y: tj.jvp(lambda v: f(v, 1), (y,), (y,))))(x[None]),
        laws=["files"],
        registry=REGISTRY,
    )


@pytest.mark.parametrize("dtype", [*sorted(SUPPORTED, key=str), FLOAT0], ids=str)
@pytest.mark.parametrize("shape", [(), (3,), (2, 0, 3), (2, 3)], ids=str)
def test_arrays_of_every_dtype(shape: tuple[int, ...], dtype: DType) -> None:
    raw = np.random.default_rng(0).bytes(int(np.prod(shape)) * dtype.itemsize)
    data: HostArray
    if dtype == FLOAT0:
        data = np.zeros(shape, dtype)
    elif dtype == BOOL:
        data = (np.frombuffer(raw, np.uint8) % 2).astype(bool).reshape(shape)
    else:
        data = np.frombuffer(raw, dtype).reshape(shape)
    aval = ShapedArray(shape, dtype, weak_type=shape == ())
    closed = ClosedJaxpr(Jaxpr((Var(0, aval),), (), (Var(0, aval),)), (ConcreteValue(data, aval),))
    check_laws(closed, laws=["files"], registry=REGISTRY)
    found = loaded(saved(closed))
    assert isinstance(found, ClosedJaxpr)
    elements = np.asarray(found.consts[0])
    assert elements.dtype == dtype
    assert not elements.flags.writeable


def test_elements_are_little_endian_and_in_rows() -> None:
    data = np.asfortranarray(np.array([[1, 2], [3, 4]], np.int16))
    aval = ShapedArray((2, 2), np.int16)
    for elements in (data, data.astype(">i2")):
        closed = ClosedJaxpr(Jaxpr((Var(0, aval),), (), ()), (ConcreteValue(elements, aval),))
        assert members(saved(closed))["arrays/0"] == bytes([1, 0, 2, 0, 3, 0, 4, 0])
    for dtype, one in ((BFLOAT16, "803f"), (FLOAT32, "0000803f"), (COMPLEX64, "0000803f00000000")):
        value = ConcreteValue.of(np.ones((), dtype))
        closed = ClosedJaxpr(Jaxpr((Var(0, value.aval),), (), ()), (value,))
        assert members(saved(closed))["arrays/0"].hex() == one


def test_arrays_on_a_device() -> None:
    x = tj.device_put(np.arange(3.0))
    closed = tj.make_jaxpr(lambda y: y + x)(x)
    assert loaded(saved(closed)) == closed


def test_source_lines_are_kept() -> None:
    there = SourceInfo("other.py", 3, "f.<locals>.g", ("jvp", "vmap"))
    surrogate = SourceInfo("na\udcefve.py", 4, "h")
    eqns = tuple(Eqn(neg, (X,), (Var(i + 1, F64),), s) for i, s in enumerate([HERE, there, None, surrogate, HERE]))
    found = loaded(saved(Jaxpr((X,), eqns, (Y,))))
    assert [eqn.source for eqn in found.eqns] == [HERE, there, None, surrogate, HERE]


def test_equal_programs_from_different_lines_are_kept_apart() -> None:
    here, there = (Jaxpr((X,), (Eqn(neg, (X,), (Y,), SourceInfo(name, 1, "f")),), (Y,)) for name in "ab")
    assert here == there
    jaxpr = Jaxpr((X,), (Eqn(Apply("f", here), (X,), (Y,)), Eqn(Apply("f", there), (X,), (Var(2, F64),))), (Y,))
    found = loaded(saved(jaxpr))
    inner = [program.eqns[0].source for eqn in found.eqns for program in ir.subjaxprs(eqn.primitive)]
    assert [str(source) for source in inner] == ["a:1 (f)", "b:1 (f)"]


def test_what_is_no_part_of_a_value_is_left_out() -> None:
    jaxpr = Jaxpr((), (Eqn(Assorted(Window((1,), note="a remark")), (), ()),), ())
    assert b"remark" not in saved(jaxpr)
    assert loaded(saved(jaxpr)) == jaxpr


def test_each_program_is_written_once() -> None:
    table = msgspec.json.decode(members(saved(twice_each(40)))["program.json"])
    assert len(table["programs"]) == 41


def test_deep_shared_and_long_programs() -> None:
    check_laws(nested(1200), laws=["files"], registry=REGISTRY)
    check_laws(twice_each(200), laws=["files"], registry=REGISTRY)
    check_laws(chain(5000), laws=["files"], registry=REGISTRY)


def members(content: bytes) -> dict[str, bytes]:
    with zipfile.ZipFile(io.BytesIO(content)) as archive:
        return {name: archive.read(name) for name in archive.namelist()}


def test_the_format(golden: Golden) -> None:
    """What changes here is a new version of the format."""
    content = members(saved(everything()))
    del content["header.json"]  # which has the version of the library
    table = msgspec.json.decode(content.pop("program.json"))
    lines = [f"{key}: {msgspec.json.encode(value).decode()}" for key, value in table.items()]
    golden("file_format", "\n".join([*lines, *(f"{name}: {part.hex()}" for name, part in content.items())]))


def test_files_of_version_1_can_be_read() -> None:
    """This file was written when the format was new."""
    content = (Path(__file__).parent / "golden" / "version_1.tinyjax").read_bytes()
    assert loaded(content) == everything()


@pytest.mark.sweep
def test_the_same_bytes_in_every_process() -> None:
    script = "import sys; from tests.ir.test_files import *; sys.stdout.buffer.write(saved(everything()))"
    env = {**os.environ, "PYTHONHASHSEED": "1", "PYTHONPATH": os.pathsep.join(sys.path)}
    done = subprocess.run([sys.executable, "-c", script], env=env, capture_output=True, check=True)
    assert done.stdout == saved(everything())


def test_kinds_of_files(tmp_path: Path) -> None:
    program = everything()
    path = tmp_path / "program.tinyjax"
    for name in (path, str(path)):
        ir.save(name, program)
        assert ir.load(name, REGISTRY) == program
    with path.open("rb") as file:
        assert ir.load(file, REGISTRY) == program
    read, write = os.pipe()
    with os.fdopen(read, "rb") as source, os.fdopen(write, "wb") as sink:
        ir.save(sink, double())
        sink.close()
        assert ir.load(source) == double()
