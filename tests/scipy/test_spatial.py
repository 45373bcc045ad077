"""Rotations against SciPy's, their derivatives against finite differences, and as trees."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import numpy as np
import pytest
from scipy.spatial import transform as theirs

import tinyjax as tj
import tinyjax.numpy as tnp
from tinyjax.errors import TinyjaxError
from tinyjax.scipy.spatial.transform import Rotation, Slerp

_RNG = np.random.default_rng(0)
QUATS = np.concatenate([_RNG.normal(size=(6, 4)), np.eye(4), -np.eye(4)[3:]])
VECTORS = _RNG.normal(size=(5, 3))
OURS, THEIRS = Rotation.from_quat(QUATS), theirs.Rotation.from_quat(QUATS)
PROPER = ["zxz", "XYX"]


@pytest.mark.parametrize(
    "f",
    [
        lambda r: r.as_quat(),
        lambda r: r.as_quat(canonical=True),
        lambda r: r.as_quat(scalar_first=True),
        lambda r: r.as_matrix(),
        lambda r: r.as_rotvec(degrees=True),
        lambda r: r.as_mrp(),
        lambda r: r.magnitude(),
        lambda r: r.inv().as_quat(),
        lambda r: (r[2:4] * r[1]).as_quat(),
        lambda r: r[3].apply(VECTORS),
        lambda r: r[:5].apply(VECTORS, inverse=True),
        lambda r: r[:6].mean(np.arange(1.0, 7.0)).as_matrix(),
        lambda r: type(r).from_matrix(r[:6].as_matrix()).as_matrix(),
        lambda r: type(r).from_rotvec(10 * VECTORS, degrees=True).as_quat(),
        lambda r: type(r).from_rotvec(1e-5 * VECTORS).as_rotvec(),
        lambda r: type(r).from_mrp(VECTORS).as_quat(),
        lambda r: type(r).concatenate([r[:2], r[4:6]]).as_quat(),
        lambda r: type(r).from_euler("y", 30, degrees=True).as_quat(),
        len,
    ],
)
def test_methods(f: Callable[[Any], Any]) -> None:
    np.testing.assert_allclose(f(OURS), f(THEIRS), 1e-10, 1e-10)


@pytest.mark.parametrize("seq", ["xyz", "ZYX", "yxz", *PROPER])
def test_euler_angles(seq: str) -> None:
    angles = _RNG.uniform(-1.5, 1.5, (5, 3))
    angles[:, 1] += 1.6 if seq in PROPER else 0
    found = Rotation.from_euler(seq, angles)
    np.testing.assert_allclose(found.as_matrix(), theirs.Rotation.from_euler(seq, angles).as_matrix(), 1e-10, 1e-12)
    np.testing.assert_allclose(found.as_euler(seq), angles, 1e-8, 1e-10)
    locked = np.array([0.3, 0.0 if seq in PROPER else np.pi / 2, 0.2])
    oracle: Any = theirs.Rotation.from_euler(seq, locked)
    with pytest.warns(UserWarning, match="[Gg]imbal"):
        expected = oracle.as_euler(seq)
    np.testing.assert_allclose(Rotation.from_euler(seq, locked).as_euler(seq), expected, 1e-6, 1e-6)


def test_between_rotations() -> None:
    times = np.array([0.0, 1.0, 2.5, 4.0])
    ours, oracle = Slerp.init(times, OURS[:4]), theirs.Slerp(times, THEIRS[:4])
    at = np.array([0.0, 0.3, 1.0, 2.0, 4.0])
    np.testing.assert_allclose(ours(at).as_matrix(), oracle(at).as_matrix(), 1e-9, 1e-10)
    np.testing.assert_allclose(tj.jit(lambda s, t: s(t).as_rotvec())(ours, 3.0), oracle(3.0).as_rotvec(), 1e-9, 1e-10)


@pytest.mark.sweep
def test_derivatives_also_where_nothing_turns() -> None:
    def turned(v: Any) -> Any:
        r = Rotation.from_rotvec(v)
        return tnp.concatenate([(r * r).as_rotvec(), r.apply(np.ones(3)), r.as_mrp()])

    for v in (np.zeros(3), 1e-4 * VECTORS[0], VECTORS[0]):
        for f in (turned, lambda v: tj.jacfwd(turned)(v).ravel()):
            step = 1e-4
            expected = np.stack([(np.asarray(f(v + e)) - f(v - e)) / (2 * step) for e in step * np.eye(3)], -1)
            np.testing.assert_allclose(tj.jacrev(f)(v), expected, 1e-4, 1e-6)
    assert np.isfinite(tj.grad(lambda q: Rotation(q).magnitude())(np.array([0.0, 0.0, 0.0, 1.0]))).all()


@pytest.mark.sweep
def test_trees() -> None:
    assert [x.shape for x in tj.tree.leaves(OURS)] == [QUATS.shape]
    matrices = tj.vmap(lambda r: r.as_matrix())(OURS)
    np.testing.assert_allclose(matrices, OURS.as_matrix(), 1e-12)
    assert tj.grad(lambda r: r.magnitude().sum())(OURS[:3]).quat.shape == (3, 4)
    many = Rotation.random(tj.random.key(0), 2000).as_matrix()
    np.testing.assert_allclose(np.mean(many, 0), np.zeros((3, 3)), atol=0.06)


@pytest.mark.parametrize(
    ("call", "error", "message"),
    [
        (lambda: Rotation.from_euler("xx", np.ones(2)), ValueError, "consecutive axes"),
        (lambda: Rotation.from_euler("xZ", np.ones(2)), ValueError, "Expected axes from"),
        (lambda: Rotation.from_euler("xyzx", np.ones(4)), ValueError, "upto 3"),
        (lambda: Rotation.from_euler("xyz", np.ones(2)), ValueError, "3 angles"),
        (lambda: Rotation.from_quat(VECTORS), ValueError, "4 numbers"),
        (lambda: OURS.as_euler("xy"), ValueError, "Expected 3 axes"),
        (lambda: OURS[0][0], TypeError, "not subscriptable"),
        (lambda: len(OURS[0]), TypeError, "no len"),
        (lambda: OURS.mean(np.ones(2)), ValueError, "number of values"),
        (lambda: Slerp.init(np.arange(3.0), OURS), ValueError, "timestamps"),
        (lambda: Slerp.init(np.arange(1.0), OURS[0]), ValueError, "at least 2"),
    ],
)
def test_wrong_arguments(call: Callable[[], object], error: type[Exception], message: str) -> None:
    with pytest.raises(error, match=message) as raised:
        call()
    assert isinstance(raised.value, TinyjaxError)
