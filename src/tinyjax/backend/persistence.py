"""Compiling, or taking from disk what was compiled before. Imports jax: to be imported at first need."""

from __future__ import annotations

import hashlib

import numpy as np

# jax's own account of what else decides what XLA makes of a program: flags, options, and the hardware.
from jax._src.cache_key import (
    _hash_accelerator_config,
    _hash_serialized_compile_options,
    _hash_xla_flags,
    get_flag_prefixes,
)
from jaxlib import _jax, version

from tinyjax.backend.store import CompilationCache


def compile_or_read(
    text: str,
    device: _jax.Device,
    devices: _jax.DeviceList,
    compile_options: _jax.CompileOptions,
    cache: CompilationCache,
) -> _jax.LoadedExecutable:
    """The compiled program: from the cache if it has it, and for the next process if not."""
    client = device.client
    if not cache.trusted():
        return client.compile_and_load(text, devices, compile_options)
    key = program_key(text, device, compile_options)
    found = cache.read(key)
    if found is not None:
        try:
            return client.deserialize_executable(found, devices, compile_options)
        except (RuntimeError, ValueError) as error:
            reason = (str(error).strip().splitlines() or [type(error).__name__])[0]
            cache.reject(f"a program in {cache.directory} can't be loaded ({reason}), so it is compiled again")
    loaded = client.compile_and_load(text, devices, compile_options)
    try:
        executable = loaded.serialize()
    except (RuntimeError, ValueError) as error:
        cache.fail(f"compiled programs of platform {device.platform!r} can't be kept ({error})")
    else:
        cache.write(key, executable)
    return loaded


def program_key(text: str, device: _jax.Device, compile_options: _jax.CompileOptions) -> str:
    """A hash of all that decides what XLA makes of a program, but for its name."""
    client = device.client
    # The first line has nothing but the name of the function, and equal functions are compiled once.
    _, _, body = text.partition("\n")
    hashed = hashlib.sha256()
    for part in (body, version.__version__, client.platform, client.platform_version, device.device_kind):
        encoded = part.encode()
        hashed.update(len(encoded).to_bytes(8, "little") + encoded)
    _hash_xla_flags(hashed, get_flag_prefixes())
    _hash_serialized_compile_options(hashed, compile_options, strip_device_assignment=False)
    _hash_accelerator_config(hashed, np.array([device]))
    return hashed.hexdigest()
