"""What JAX's own tests of `jax.numpy` and `jax.scipy` found: arguments of methods, classes of errors, sets."""

from typing import Any

import jax
import jax.numpy as jnp
import jax.scipy as jsp
import numpy as np
import pytest

import tinyjax as tj
import tinyjax.numpy as tnp
import tinyjax.scipy.linalg
import tinyjax.scipy.ndimage
from tinyjax.errors import ChoiceError, UnsupportedDtypeError, UnsupportedError


@pytest.mark.parametrize("dtype", ["int32", "float32", "complex64", None])
def test_astype_device(dtype: str | None) -> None:
    x, device = tnp.arange(3), tj.devices()[0]
    for found in (x.astype(dtype, device=device), tnp.astype(x, dtype, device=device), x.astype(dtype, False, device)):
        assert found.device == device
        assert found.dtype == np.dtype(dtype or float)
        np.testing.assert_array_equal(found, np.arange(3))
    traced = tj.jit(lambda y: y.astype(dtype, device=device))(x)
    assert traced.dtype == np.dtype(dtype or float)


@pytest.mark.parametrize("shape", [(), (0, 3), (4, 2)])
def test_ravel_and_flatten_with_a_sharding(shape: tuple[int, ...]) -> None:
    x = tnp.arange(float(np.prod(shape))).reshape(shape)
    mesh = tj.make_mesh((1,), ("x",), axis_types=(tj.sharding.AxisType.Explicit,))
    place = tj.NamedSharding(mesh, tj.P("x"))
    for found in (x.ravel(out_sharding=None), x.flatten(out_sharding=None), tnp.ravel(x, out_sharding=place)):
        np.testing.assert_array_equal(found, np.ravel(x))
    np.testing.assert_array_equal(tj.jit(lambda y: y.ravel(out_sharding=place))(x), np.ravel(x))


#: What JAX raises for matrices of narrow floats: it is both here.
UNSUPPORTED = TypeError if jax.__version_info__ >= (0, 11) else NotImplementedError
NARROW = ["float16", "bfloat16", "float8_e4m3fn"]
NAMES = [
    "qr",
    "svd",
    "svdvals",
    "eigh",
    "eigvalsh",
    "eig",
    "eigvals",
    "cholesky",
    "inv",
    "slogdet",
    "pinv",
    "matrix_rank",
    "cond",
]


@pytest.mark.parametrize("dtype", NARROW)
@pytest.mark.parametrize("name", NAMES)
def test_matrices_of_narrow_floats(name: str, dtype: str) -> None:
    with pytest.raises(UNSUPPORTED):
        jax.block_until_ready(getattr(jnp.linalg, name)(jnp.eye(3, dtype=dtype)))
    assert issubclass(UnsupportedDtypeError, UNSUPPORTED)
    call: Any = getattr(tnp.linalg, name)
    for size in (1, 3):
        for f in (call, tj.jit(call)):
            with pytest.raises(UnsupportedDtypeError, match="Unsupported dtype"):
                f(tnp.eye(size, dtype=dtype))


def test_expm_of_narrow_floats() -> None:
    for dtype in NARROW:
        with pytest.raises((TypeError, NotImplementedError)):
            jsp.linalg.expm(jnp.eye(2, dtype=dtype))
        with pytest.raises(UnsupportedDtypeError):
            tinyjax.scipy.linalg.expm(tnp.eye(2, dtype=dtype))


def test_modes_of_map_coordinates() -> None:
    for mode in ("grid-wrap", "none"):
        with pytest.raises(NotImplementedError, match="does not yet support mode"):
            jsp.ndimage.map_coordinates(jnp.arange(5.0), [jnp.ones(2)], 1, mode=mode)
        with pytest.raises(UnsupportedError, match="does not yet support mode"):
            tinyjax.scipy.ndimage.map_coordinates(tnp.arange(5.0), [tnp.ones(2)], 1, mode=mode)


def test_choices_out_of_range() -> None:
    for module, error in ((jnp, ValueError), (tnp, ChoiceError)):
        with pytest.raises(error, match="invalid entry in choice array"):
            module.choose(module.asarray([0, 2]), [module.ones(2), module.ones(2)])


@pytest.mark.sweep
@pytest.mark.parametrize("dtype", ["int32", "float32", "uint8"])
@pytest.mark.parametrize("name", ["setxor1d", "intersect1d", "setdiff1d"])
def test_sets_that_were_said_to_be_distinct(name: str, dtype: str) -> None:
    """Elements that occur several times are treated as NumPy and JAX do, although `assume_unique` denied them."""
    rng = np.random.default_rng(7)
    for sizes in [(0, 0), (0, 2), (1, 0), (5, 0), (4, 3), (6, 6)]:
        for _ in range(3):
            x, y = (rng.integers(0, 4, size=size).astype(dtype) for size in sizes)
            if dtype == "float32":
                x = np.where(x == 3, np.float32(np.nan), x)
            expected = getattr(jnp, name)(x, y, assume_unique=True)
            found = getattr(tnp, name)(x, y, assume_unique=True)
            np.testing.assert_array_equal(found, expected)
            assert found.dtype == expected.dtype
            filled = {"assume_unique": True, "size": 3, "fill_value": 9}
            np.testing.assert_array_equal(
                tj.jit(lambda a, b, k=filled: getattr(tnp, name)(a, b, **k))(x, y), getattr(jnp, name)(x, y, **filled)
            )


@pytest.mark.sweep
@pytest.mark.parametrize("dtype", ["int32", "float64"])
def test_where_elements_are_that_were_said_to_be_distinct(dtype: str) -> None:
    rng = np.random.default_rng(8)
    unique: dict[str, Any] = {"assume_unique": True, "return_indices": True}
    for sizes in [(0, 0), (0, 2), (1, 0), (4, 3), (6, 6)]:
        for _ in range(3):
            x, y = (rng.integers(0, 4, size=size).astype(dtype) for size in sizes)
            for found, expected in zip(tnp.intersect1d(x, y, **unique), np.intersect1d(x, y, **unique), strict=True):
                np.testing.assert_array_equal(found, expected)
            if not x.size + y.size:
                continue  # there jax forgets the size
            options = {**unique, "size": 3, "fill_value": 9}
            for found, expected in zip(
                tj.jit(lambda a, b, k=options: tnp.intersect1d(a, b, **k))(x, y),
                jnp.intersect1d(x, y, **options),
                strict=True,
            ):
                np.testing.assert_array_equal(found, expected)
