"""Devices, and moving arrays to them. Imports jaxlib, and jax where that is needed: to be imported at first need."""

from __future__ import annotations

from collections.abc import Callable
from functools import cache, lru_cache
from typing import TYPE_CHECKING, Final, TypeAlias, cast

import numpy as np
from jaxlib import _jax

from tinyjax.backend.buffers import DeviceBuffer, ShardedBuffer, StoredBuffer, is_on_mesh, keys_of
from tinyjax.backend.early import first_device, for_jax, without_jax
from tinyjax.backend.handlers import is_foreign
from tinyjax.backend.process import PROCESS
from tinyjax.backend.refusals import refusal
from tinyjax.caching import bounded
from tinyjax.ir.aval import ShapedArray
from tinyjax.ir.dtypes import CARRIERS, KEY_NAMES, SUPPORTED, DType, HostArray, short_name
from tinyjax.ir.shapes import Shape
from tinyjax.ir.shared_types import array_type
from tinyjax.ir.value import ConcreteValue

if TYPE_CHECKING:
    import jax
    from jax._src.core import ShapedArray as JaxShapedArray

#: What arrays of jaxlib have for a type: jax's, or ours for as long as there is no jax.
JaxType: TypeAlias = "JaxShapedArray | ShapedArray"

#: NumPy arrays may be written to after the call, so their elements are copied during it.
_COPY: Final = _jax.HostBufferSemantics.IMMUTABLE_ONLY_DURING_CALL
#: The dtypes of keys, by the names that JAX prints.
_KEYS: Final = {short_name(dtype): dtype for dtype in KEY_NAMES}


def jax_type(shape: Shape, dtype: DType, weak_type: bool = False) -> JaxType:
    """What jax calls an array type. Keys are numbers. Never truncated, whatever `jax_enable_x64` says."""
    dtype = CARRIERS.get(dtype, dtype)
    return array_type(shape, dtype, weak_type) if without_jax() else _type_of_jax(shape, dtype, weak_type)


@bounded(16384)
def _type_of_jax(shape: Shape, dtype: DType, weak_type: bool) -> JaxShapedArray:
    from jax._src.core import ShapedArray as JaxShapedArray

    return JaxShapedArray(shape, dtype, weak_type=weak_type)


@lru_cache(maxsize=64)
def sharding_of(device: _jax.Device) -> jax.sharding.SingleDeviceSharding:
    """How jax says that an array is on one device."""
    made: object = _jax.SingleDeviceSharding(device)  # of the very class that jax has
    return cast("jax.sharding.SingleDeviceSharding", made)


def default_device() -> _jax.Device:
    """The device that jax computes on when nothing else decides: `jax_default_device`, or the first one."""
    return first_device() if without_jax() else _default_of_jax()()


@cache
def _default_of_jax() -> Callable[[], _jax.Device]:
    import jax
    from jax._src import config

    first: list[_jax.Device] = []

    def default() -> _jax.Device:
        chosen = config.default_device.value
        if chosen is None:
            if not first:
                first.append(jax.local_devices()[0])
            return first[0]
        if isinstance(chosen, str):
            named: _jax.Device = jax.local_devices(backend=chosen)[0]
            return named
        device: _jax.Device = chosen
        return device

    return default


def shown_type(aval: JaxType) -> str:
    """What to call a type in messages."""
    return f"{short_name(np.dtype(aval.dtype))}[{','.join(map(str, aval.shape))}]"


def type_of_jax(aval: ShapedArray) -> JaxShapedArray:
    """The type that jax has for arrays of one of ours."""
    return _type_of_jax(aval.shape, CARRIERS.get(aval.dtype, aval.dtype), aval.weak_type)


def put(data: HostArray, aval: ShapedArray, device: _jax.Device, committed: bool = False) -> DeviceBuffer:
    """A copy of a NumPy array on a device."""
    if not data.dtype.isnative:
        data = data.astype(data.dtype.newbyteorder("="))
    array = put_array(data, jax_type(aval.shape, aval.dtype), device, committed)
    return DeviceBuffer(array, device, keys_of(aval.dtype))


def put_array(
    data: HostArray | _jax.ArrayImpl, aval: JaxType, device: _jax.Device, committed: bool = False
) -> _jax.ArrayImpl:
    """A NumPy array of native byte order, or a jax.Array from elsewhere, on a device. Unless `committed`, it may be
    combined with arrays of other devices, also in jax."""
    if isinstance(data, np.ndarray) and data.dtype in CARRIERS:
        data = data.view(CARRIERS[data.dtype])
    if PROCESS.forked:
        PROCESS.check(f"To put an array of type {shown_type(aval)} on {device}")
    try:
        return _jax.batched_device_put(
            aval, sharding_of(device), [data], [device], committed, host_buffer_semantics=_COPY, enable_x64=True
        )
    except RuntimeError as error:
        if is_foreign(error):
            raise
        raise refusal(f"an array of type {shown_type(aval)} could not be moved to {device}: {error}", error) from error


def to_device(value: ConcreteValue, device: _jax.Device, committed: bool = False) -> ConcreteValue:
    """The value on a device; itself if it is there."""
    data = value.data
    if isinstance(data, DeviceBuffer):
        if data.device is device:
            return value
        data.check_alive()
        moved = put_array(data.array, jax_type(value.aval.shape, value.aval.dtype), device, committed)
        return ConcreteValue(DeviceBuffer(moved, device, data.keys), value.aval)
    if isinstance(data, ShardedBuffer) and data.array.devices() == {device}:
        data.check_alive()
        (shard,) = data.array.addressable_shards
        return ConcreteValue(DeviceBuffer(shard.data, device, data.keys), value.aval)
    return ConcreteValue(put(np.asarray(data), value.aval, device, committed), value.aval)


def value_of_jax(x: object) -> ConcreteValue | None:
    """The value of a jax.Array, without a copy; None if x isn't one, lies as we
    have no word for, or is of a foreign dtype."""
    import jax

    keys = _KEYS.get(str(x.dtype)) if isinstance(x, jax.Array) else None
    if keys is not None and not isinstance(x, jax.core.Tracer):
        from tinyjax.primitives.keys import as_keys  # few programs need it

        assert isinstance(x, jax.Array)
        return ConcreteValue.of(as_keys(np.asarray(jax.random.key_data(x)), keys))
    if not isinstance(x, _jax.ArrayImpl) or x.dtype not in SUPPORTED:
        return None
    aval = array_type(x.shape, x.dtype, x.weak_type)
    devices: set[_jax.Device] = x.devices()
    if is_on_mesh(x, devices):
        from tinyjax.backend.shardings import known_sharding

        return None if known_sharding(x.sharding) is None else ConcreteValue(ShardedBuffer(x), aval)
    (device,) = devices
    return ConcreteValue(DeviceBuffer(x, device), aval)


def keys_in_jax(value: ConcreteValue) -> jax.Array:
    """Keys as typed ones of JAX."""
    import jax

    from tinyjax.primitives.keys import key_words

    words = jax.numpy.asarray(key_words(np.asarray(value.data)))
    found: jax.Array = jax.random.wrap_key_data(words, impl=KEY_NAMES[value.dtype])
    return found


def jax_array(value: ConcreteValue) -> _jax.ArrayImpl:
    """The same elements as a jax.Array; those of a host array are copied to the default device."""
    import jax  # noqa: F401 (which is about to have it)

    aval, data = value.aval, value.data
    if not isinstance(data, StoredBuffer):
        data = put(np.asarray(data), aval, default_device())
    array = for_jax(data.array, type_of_jax)
    if aval.weak_type == array.weak_type:
        return array
    data.check_alive()
    return _jax.ArrayImpl(
        jax_type(aval.shape, aval.dtype, aval.weak_type),
        data.array.sharding,
        [shard.data for shard in data.array.addressable_shards],
        data.array.committed,
        _skip_checks=True,
    )
