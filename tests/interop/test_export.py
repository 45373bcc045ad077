"""Artifacts that `jax.export` and other tools load."""

from __future__ import annotations

import subprocess
import sys
from pathlib import Path

import jax
import jax.export
import numpy as np
import pytest

import tinyjax as tj
import tinyjax.numpy as tnp
from tinyjax import Array, ShapedArray, lax
from tinyjax.errors import LoweringError, X64DisabledError
from tinyjax.interop.jax import artifact_text, export, export_stablehlo

MATRIX = ShapedArray((2, 3), "float32")
X = np.linspace(0, 1, 6, dtype=np.float32).reshape(2, 3)


def model(x: Array) -> tuple[Array, Array]:
    weights = tnp.asarray(np.arange(6, dtype=np.float32).reshape(3, 2))
    y = lax.fori_loop(0, 2, lambda i, c: tnp.tanh(c @ weights @ weights.T), x)
    return y, tnp.sum(y) * 2.0


def test_jax_runs_exported_programs() -> None:
    exported = jax.export.deserialize(bytearray(export(tj.make_jaxpr(model)(MATRIX), name="model")))
    assert exported.fun_name == "model"
    assert exported.platforms == ("cpu",)
    assert [str(aval) for aval in exported.in_avals] == ["float32[2,3]"]
    assert [str(aval) for aval in exported.out_avals] == ["float32[2,3]", "float32[]"]
    for found, expected in zip(jax.jit(exported.call)(X), model(tnp.asarray(X)), strict=True):
        np.testing.assert_allclose(found, expected, rtol=1e-5)


def test_the_module_is_our_own() -> None:
    exported = jax.export.deserialize(bytearray(export(tj.make_jaxpr(tnp.sin)(MATRIX))))
    assert "stablehlo.sine %arg0 : tensor<2x3xf32>" in exported.mlir_module()


def test_exported_derivatives() -> None:
    def loss(x: Array) -> Array:
        return tnp.sum(model(x)[0])

    program = tj.make_jaxpr(loss)(MATRIX)
    exported = jax.export.deserialize(bytearray(export(program, vjp_order=1)))
    np.testing.assert_allclose(jax.grad(exported.call)(X), tj.grad(loss)(tnp.asarray(X)), rtol=1e-4, atol=1e-6)
    plain = jax.export.deserialize(bytearray(export(program)))
    with pytest.raises(ValueError, match="VJP"):
        jax.grad(plain.call)(X)


@pytest.mark.sweep
def test_another_process_needs_no_tinyjax(tmp_path: Path) -> None:
    path = tmp_path / "model.bin"
    path.write_bytes(export(tj.make_jaxpr(lambda x: x * 2.0)(MATRIX)))
    code = (
        "import jax.export, numpy as np, pathlib, sys;"
        f"f = jax.export.deserialize(bytearray(pathlib.Path({str(path)!r}).read_bytes())).call;"
        "print(float(f(np.ones((2, 3), 'float32')).sum()), 'tinyjax' in sys.modules)"
    )
    done = subprocess.run([sys.executable, "-c", code], check=True, capture_output=True, text=True)
    assert done.stdout.split() == ["12.0", "False"]


def test_portable_artifacts_can_be_read_back() -> None:
    artifact = export_stablehlo(tj.make_jaxpr(model)(MATRIX), name="model")
    assert artifact.startswith(b"ML\xefR")
    text = artifact_text(artifact)
    assert text.startswith("module @model")
    assert "stablehlo.while" in text
    assert "func.func public @main(%arg0: tensor<2x3xf32>) -> (tensor<2x3xf32>, tensor<f32>)" in text


def test_constants_are_part_of_the_artifact() -> None:
    weights = tnp.asarray([3.0, 4.0])
    program = tj.make_jaxpr(lambda x: x * weights)(ShapedArray((2,), "float64"))
    assert len(program.consts) == 1
    assert "dense<[3.000000e+00, 4.000000e+00]>" in artifact_text(export_stablehlo(program))
    exported = jax.export.deserialize(bytearray(export(program)))
    np.testing.assert_array_equal(exported.call(np.ones(2)), [3.0, 4.0])


def test_what_another_process_doesnt_have_cant_be_exported() -> None:
    program = tj.make_jaxpr(lambda x: tj.pure_callback(np.sin, MATRIX, x))(MATRIX)
    for attempt in (export, export_stablehlo):
        with pytest.raises(LoweringError, match=r"calls Python functions \(pure_callback\) can't be exported"):
            attempt(program)


def test_64_bits_need_to_be_switched_on() -> None:
    program = tj.make_jaxpr(tnp.sin)(ShapedArray((), "float64"))
    with jax.enable_x64(False):
        assert artifact_text(export_stablehlo(program)).count("f64")
        with pytest.raises(
            X64DisabledError, match=r"64-bit numbers \(an input is f64\[\]\), which JAX has switched off"
        ):
            export(program)
