"""Functions of other languages: those of jaxlib, and one that is compiled here if there is a compiler."""

from __future__ import annotations

import ctypes
import re
import shutil
import subprocess
from collections.abc import Callable
from pathlib import Path
from typing import Any

import jax
import numpy as np
import pytest

import tinyjax as tj
from tinyjax import ffi, hlo, ir, transforms
from tinyjax.contexts.evaluation import EvalContext
from tinyjax.control.foreign import FfiCall
from tinyjax.errors import CallbackError, ChoiceError, InputError, ParameterError, UnsupportedError
from tinyjax.interop.jax import from_jax, of_jax, to_jax
from tinyjax.testing.laws import check_laws

KERNEL = """\
#include <cmath>
#include "xla/ffi/api/ffi.h"
namespace ffi = xla::ffi;

ffi::Error Norm(float eps, int64_t power, ffi::Buffer<ffi::F32> x, ffi::ResultBuffer<ffi::F32> y) {
  auto dims = x.dimensions();
  size_t last = dims.size() ? dims.back() : 1;
  for (size_t i = 0; i < x.element_count(); i += last) {
    float total = 0.f;
    for (size_t j = 0; j < last; ++j) total += std::pow(std::abs(x.typed_data()[i + j]), power);
    float factor = 1.f / std::pow(total / last + eps, 1.f / power);
    for (size_t j = 0; j < last; ++j) y->typed_data()[i + j] = x.typed_data()[i + j] * factor;
  }
  return ffi::Error::Success();
}

XLA_FFI_DEFINE_HANDLER_SYMBOL(Norm_, Norm, ffi::Ffi::Bind().Attr<float>("eps").Attr<int64_t>("power")
                                               .Arg<ffi::Buffer<ffi::F32>>().Ret<ffi::Buffer<ffi::F32>>());
"""
X = np.random.default_rng(0).normal(size=(3, 4))


def geqrf(x: Any, module: Any = ffi, **how: Any) -> Any:
    """LAPACK's QR by columns: what lies below the diagonal are the reflections."""
    order = (*range(x.ndim - 2), x.ndim - 1, x.ndim - 2)
    types = [jax.ShapeDtypeStruct(x.shape, x.dtype), jax.ShapeDtypeStruct((*x.shape[:-2], min(x.shape[-2:])), x.dtype)]
    call = module.ffi_call(
        "lapack_dgeqrf_ffi", types, input_layouts=[order], output_layouts=[order, None],
        input_output_aliases={0: 0}, **how,
    )  # fmt: skip
    return call(x)


def eager(f: Any) -> Any:
    return f


def expected(x: Any) -> Any:
    with jax.enable_x64(True):
        return [np.asarray(out) for out in geqrf(jax.numpy.asarray(x), jax.ffi)]


@pytest.mark.parametrize("run", [eager, tj.jit], ids=["eager", "jit"])
@pytest.mark.parametrize("shape", [(3, 4), (4, 3), (2, 4, 3)])
def test_a_call_computes_what_it_does_for_jax(run: Callable[[Any], Any], shape: tuple[int, ...]) -> None:
    x = np.random.default_rng(1).normal(size=shape)
    for ours, theirs in zip(run(geqrf)(tj.numpy.asarray(x)), expected(x), strict=True):
        np.testing.assert_allclose(ours, theirs, rtol=1e-12, atol=1e-12)


@pytest.mark.parametrize("method", ["sequential", "sequential_unrolled", "expand_dims", "broadcast_all"])
@pytest.mark.parametrize("axis", [0, 1, -1])
def test_vmap(method: str, axis: int) -> None:
    x = np.random.default_rng(2).normal(size=(4, 3, 5))
    moved = np.moveaxis(x, 2, axis)
    runs: list[Any] = [eager, tj.jit]
    for run in runs:
        ours = run(tj.vmap(lambda y: geqrf(y, vmap_method=method), in_axes=axis))(moved)
        each = [expected(x[..., i]) for i in range(5)]
        for out, theirs in zip(ours, zip(*each, strict=True), strict=True):
            np.testing.assert_allclose(out, np.stack(theirs), rtol=1e-12, atol=1e-12)


def test_what_is_not_mapped_is_repeated_or_has_an_axis_of_size_1() -> None:
    types = tj.ShapedArray((2,), "float64")
    shapes = {"expand_dims": "f64[1,2]", "broadcast_all": "f64[3,2]", "legacy_vectorized": "f64[2]"}
    for method, shape in shapes.items():
        how: Any = {"vmap_method": method}
        call = ffi.ffi_call("kernel", types, input_layouts=[None, (0,)], **how)
        program = tj.make_jaxpr(tj.vmap(call, in_axes=(0, None)))(np.ones((3, 2)), np.ones(2))
        ((eqn, primitive),) = [(eqn, eqn.primitive) for eqn in program.eqns if isinstance(eqn.primitive, FfiCall)]
        assert str(eqn.invars[1].aval) == shape
        orders = (1, 0) if method != "legacy_vectorized" else (0,)
        assert primitive.input_layouts == ((1, 0), orders)
        assert primitive.output_layouts == ((1, 0),)


def test_derivatives_are_those_that_a_user_gives() -> None:
    def first(x: Any) -> Any:
        return geqrf(x)[1].sum()

    with pytest.raises(CallbackError, match="The FFI call to `lapack_dgeqrf_ffi` cannot be differentiated"):
        tj.grad(first)(X)
    with pytest.raises(CallbackError, match="needs to know how"):
        tj.vmap(first)(np.stack([X, X]))

    @tj.custom_jvp
    def own(x: Any) -> Any:
        return first(x)

    @own.defjvp
    def tangent(primals: Any, tangents: Any) -> Any:
        return own(*primals), tangents[0].sum()

    np.testing.assert_array_equal(tj.jit(tj.grad(own))(X), np.ones_like(X))


@pytest.mark.parametrize(
    ("value", "text"),
    [
        (1, "1 : i64"),
        (True, "true"),
        (1.5, "1.5 : f64"),
        (np.float32(1), "1.0 : f32"),
        (np.uint8(7), "7 : ui8"),
        ("near", '"near"'),
        (np.arange(3), "dense<[0, 1, 2]> : tensor<3xi64>"),
        (np.dtype("float32"), "f32"),
        ([1, "a"], '[1 : i64, "a"]'),
        ({"b": 2, "a": 1.0}, "{a = 1.0 : f64, b = 2 : i64}"),
    ],
)
def test_attributes_are_written_as_jax_writes_them(value: Any, text: str) -> None:
    # A name for each type: JAX's caches, where hashes meet by chance, ask NumPy's scalars whether they equal a dict.
    own = f"own_{type(value).__name__}"

    def call(module: Any) -> Callable[[Any], Any]:
        return lambda x: module.ffi_call("kernel", jax.ShapeDtypeStruct((2,), "float32"))(x, **{own: value})

    x = np.ones(2, "float32")
    assert f"{own} = {text}" in tj.jit(call(ffi)).lower(x).as_text()
    program = tj.make_jaxpr(call(ffi))(x)
    check_laws(program.jaxpr, laws=["text"])
    with jax.enable_x64(True):
        if not isinstance(value, list):  # which JAX can't hash
            theirs = jax.jit(call(jax.ffi)).lower(x).as_text()
            assert re.search(
                own + " = " + re.escape(text).replace(r"\.0", r"\.0+(e\+00)?").replace("5", "50*(e.00)?"), theirs
            )
            assert from_jax(call(jax.ffi), x) == program
        assert from_jax(to_jax(program), x) == program


def test_from_jax_and_back() -> None:
    with jax.enable_x64(True):
        imported = of_jax(lambda x: geqrf(x, jax.ffi))
        for ours, theirs in zip(tj.jit(imported)(X), expected(X), strict=True):
            np.testing.assert_allclose(ours, theirs, rtol=1e-12, atol=1e-12)
        back = to_jax(tj.make_jaxpr(geqrf)(X))
        for ours, theirs in zip(jax.jit(back)(X), expected(X), strict=True):
            np.testing.assert_allclose(ours, theirs, rtol=1e-12, atol=1e-12)


def test_side_effects_keep_a_call_whose_results_nobody_reads() -> None:
    def f(effect: bool) -> ir.ClosedJaxpr:
        def run(x: Any) -> Any:
            ffi.ffi_call("kernel", tj.ShapedArray((2,), float), has_side_effect=effect)(x)
            return x

        return tj.make_jaxpr(run)(np.ones(2))

    assert [eqn.primitive.name for eqn in transforms.dce(f(True)).eqns] == ["ffi_call"]
    assert not transforms.dce(f(False)).eqns
    assert "has_side_effect = true" in hlo.lower(f(True))


def test_old_calls_have_a_string() -> None:
    call = ffi.ffi_call(
        "kernel", tj.ShapedArray((2,), "float32"), custom_call_api_version=2, legacy_backend_config='a "b"'
    )
    text = tj.jit(call).lower(np.ones(2, "float32")).as_text()
    assert r'backend_config = "a \"b\""' in text.replace(r"\22", r"\"")
    with pytest.raises(ChoiceError, match="The use of ffi_call attributes requires"):
        call(np.ones(2), own=1)
    with pytest.raises(ChoiceError, match="The use of the legacy_backend_config"):
        ffi.ffi_call("kernel", tj.ShapedArray((2,), "float32"), legacy_backend_config="a")


@pytest.mark.parametrize(
    ("how", "message"),
    [
        ({"input_output_aliases": {1: 0}}, r"'1:0' with input index 1 outside the range \[0, 1\)"),
        ({"input_output_aliases": {0: 1}}, r"'0:1' with output index 1 outside the range \[0, 1\)"),
        ({"input_output_aliases": {0: 0}, "of": "int32"}, r"referring to an input with abstract value f64\[2,3\]"),
        ({"input_output_aliases": {0: 0}, "input_layouts": [(1, 0)]}, r"an input with layout \(1, 0\) and an output"),
        ({"input_layouts": []}, r"number of input arguments \(1\) must equal the number of input layouts \(0\)"),
        ({"input_layouts": [(0,)]}, r"input_layouts\[0\] is \(0,\), but the array has shape \(2, 3\)"),
        ({"vmap_method": "parallel"}, "vmap_method must be one of 'sequential'"),
    ],
)
def test_what_does_not_fit_together(how: dict[str, Any], message: str) -> None:
    how = {**how}
    types = tj.ShapedArray((2, 3), how.pop("of", "float64"))
    with pytest.raises(ChoiceError, match=message):
        ffi.ffi_call("kernel", types, **how)(np.ones((2, 3)))


def test_types_of_results_and_attributes_are_checked() -> None:
    wrong: Any = (tj.ShapedArray((), "float32"), ())
    with pytest.raises(ChoiceError, match=r"All elements of result_shape_dtypes.*position 1"):
        ffi.ffi_call("kernel", wrong)
    with pytest.raises(ParameterError, match=r"attributes\['own'\] is"):
        ffi.ffi_call("kernel", tj.ShapedArray((), "float32"))(1.0, own=object())


def test_what_is_registered_is_checked_at_once() -> None:
    """XLA is told later, when it begins: then a wrong one would be in everybody's way."""
    odd: Any = 4
    calls: list[tuple[Callable[[], object], str]] = [
        (lambda: ffi.register_ffi_target(odd, odd), "register_ffi_target: name is a string, got 4"),
        (lambda: ffi.register_ffi_target("odd", odd), r"fn is a capsule, as pycapsule\(library.function\) gives"),
        (lambda: ffi.register_ffi_target("odd", {"prepare": odd}), "of which one is that of"),
        (lambda: ffi.register_ffi_type("odd", {"type_id": odd}), 'dictionary with the capsule "type_id"'),
        (lambda: ffi.pycapsule(odd), "pycapsule takes a function that ctypes has loaded, got 4"),
        (lambda: ffi.ffi_call(odd, tj.ShapedArray((), "float32")), "target_name is a string, got 4"),
    ]
    for call, said in calls:
        with pytest.raises(InputError, match=said):
            call()
    for name, value in {"input_output_aliases": odd, "input_layouts": odd, "has_side_effect": odd}.items():
        how: dict[str, Any] = {name: value}
        with pytest.raises(InputError, match=f"ffi_call: {name}"):
            ffi.ffi_call("kernel", tj.ShapedArray((), "float32"), **how)(1.0)


def test_who_does_not_compile_cannot_call() -> None:
    program = tj.make_jaxpr(geqrf)(X)
    with pytest.raises(UnsupportedError, match="'lapack_dgeqrf_ffi' can be called by compiled programs only"):
        ir.interpret(EvalContext(), program.jaxpr, [ir.ConcreteValue.of(X)])


def test_within_shard_map_each_device_calls() -> None:
    def local(x: Any) -> Any:
        return geqrf(x)[1]

    mesh = tj.sharding.AbstractMesh((2,), ("i",))
    mapped = tj.shard_map(local, mesh=mesh, in_specs=tj.P("i"), out_specs=tj.P("i"))
    program = tj.make_jaxpr(mapped)(np.ones((4, 3, 3)))
    assert str(program.out_avals[0]) == "f64[4,3]"


@pytest.mark.sweep
@pytest.mark.skipif(shutil.which("g++") is None, reason="there is no compiler")
def test_a_kernel_of_ones_own(tmp_path: Path) -> None:
    source, library = tmp_path / "norm.cc", tmp_path / "norm.so"
    source.write_text(KERNEL)
    options = ["-std=c++17", "-O1", "-fPIC", "-shared", "-w", f"-I{ffi.include_dir()}"]
    subprocess.run(["g++", *options, str(source), "-o", str(library)], check=True)
    ffi.register_ffi_target("own_norm", ffi.pycapsule(ctypes.CDLL(str(library)).Norm_))
    x = X.astype("float32")

    def norm(x: Any, method: Any = "broadcast_all") -> Any:
        return ffi.ffi_call("own_norm", tj.typeof(x), vmap_method=method)(x, eps=np.float32(1e-5), power=2)

    theirs = x / np.sqrt(np.mean(x**2, -1, keepdims=True) + 1e-5)
    functions: list[Any] = [norm, tj.jit(norm), tj.vmap(norm), tj.jit(tj.vmap(lambda row: norm(row, "sequential")))]
    for f in functions:
        np.testing.assert_allclose(f(x), theirs, rtol=1e-5)
    scanned = tj.jit(lambda x: tj.lax.scan(lambda c, row: (c + 1, norm(row)), 0, x)[1])
    np.testing.assert_allclose(scanned(x), theirs, rtol=1e-5)
