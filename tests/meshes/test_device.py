"""What is known of devices."""

from __future__ import annotations

from collections.abc import Callable

import jax
import pytest

import tinyjax as tj
from tinyjax.errors import ChoiceError, DeviceError
from tinyjax.meshes import HOST, Device


def test_what_is_known_of_a_device() -> None:
    ours, theirs = tj.devices("cpu")[1], jax.devices("cpu")[1]
    assert ours.device_kind == theirs.device_kind
    assert ours.local_hardware_id == theirs.local_hardware_id
    assert ours.memory_stats() == theirs.memory_stats()
    assert ours.default_memory().kind == theirs.default_memory().kind
    assert [m.kind for m in ours.addressable_memories()] == [m.kind for m in theirs.addressable_memories()]
    assert ours.memory("unpinned_host").platform == "cpu"
    with pytest.raises(ChoiceError, match="cpu:1 has no memory 'tape', only '"):
        ours.memory("tape")
    host = HOST
    assert tj.numpy.ones(2).device == host
    assert (host.device_kind, host.local_hardware_id, host.memory_stats()) == ("host", None, None)
    with pytest.raises(ChoiceError, match="host is where NumPy computes: XLA has no memory of it"):
        host.default_memory()
    with pytest.raises(ChoiceError, match="there is no device cpu:99 here"):
        Device("cpu", 99).memory_stats()


def test_platforms_by_name() -> None:
    assert tj.devices(backend="cpu") == tj.devices("cpu")
    assert tj.device_count(backend="cpu") == len(tj.devices("cpu"))
    assert (tj.process_index("cpu"), tj.process_count(backend="cpu")) == (0, 1)


@pytest.mark.parametrize("platform", ["gpu", "nonesuch"])
def test_platforms_that_are_not_here(platform: str) -> None:
    """JAX's programs ask for a platform, and go on after a RuntimeError if there is none such."""
    in_jax: tuple[Callable[[str], object], ...] = (jax.devices, jax.device_count)
    here: tuple[Callable[[str], object], ...] = (
        tj.devices,
        tj.device_count,
        lambda name: tj.local_devices(backend=name),
    )
    for theirs in in_jax:
        with pytest.raises(RuntimeError):
            theirs(platform)
    for ours in here:
        with pytest.raises(DeviceError, match="there is no device"):
            ours(platform)
    assert issubclass(DeviceError, RuntimeError)
