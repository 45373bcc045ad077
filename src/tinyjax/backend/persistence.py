"""Compiling, or taking from disk what was compiled before. Imports jaxlib: to be imported at first need."""

from __future__ import annotations

import hashlib
import os
import sys
from collections.abc import Iterator
from typing import Final

import numpy as np
from jaxlib import _jax, version, xla_client

from tinyjax.backend.handlers import is_foreign
from tinyjax.backend.store import CompilationCache

#: Flags and options that change nothing of what XLA makes of a program for the CPU: what it writes about it, how many
#: devices a CPU is divided into, and what is about GPUs.
_IRRELEVANT: Final = ("xla_dump", "xla_force_host_platform_device_count", "xla_gpu")


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
            if is_foreign(error):
                raise
            reason = (str(error).strip().splitlines() or [type(error).__name__])[0]
            cache.reject(f"a program in {cache.directory} can't be loaded ({reason}), so it is compiled again")
    loaded = client.compile_and_load(text, devices, compile_options)
    try:
        executable = loaded.serialize()
    except (RuntimeError, ValueError) as error:
        if is_foreign(error):
            raise
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
    if device.platform == "cpu":
        for content in (*_flags(), _relevant(compile_options), _hardware(device)):
            hashed.update(len(content).to_bytes(8, "little") + content)
    else:
        _account_of_jax(hashed, device, compile_options)
    return hashed.hexdigest()


def _flags() -> Iterator[bytes]:
    """What this process has told XLA to do differently."""
    given = (*os.environ.get("XLA_FLAGS", "").split(), *(flag for flag in sys.argv if flag.startswith("--xla")))
    for flag in sorted(given):
        if not flag.lstrip("-").startswith(_IRRELEVANT):
            yield flag.encode()


def _relevant(compile_options: _jax.CompileOptions) -> bytes:
    """The options without those that change nothing."""
    options = _jax.CompileOptions.ParseFromString(compile_options.SerializeAsString())
    debug = options.executable_build_options.debug_options
    for name in dir(debug):
        value = getattr(debug, name, None)
        if name.startswith(_IRRELEVANT) and isinstance(value, bool | int | str):
            setattr(debug, name, type(value)())
    return options.SerializeAsString()


def _hardware(device: _jax.Device) -> bytes:
    """The processor, as far as XLA tells them apart."""
    fingerprint: int = xla_client.get_topology_for_devices([device]).fingerprint()
    return fingerprint.to_bytes(8, "little")


def _account_of_jax(hashed: hashlib._Hash, device: _jax.Device, compile_options: _jax.CompileOptions) -> None:
    """The same for other platforms, of which jax knows more."""
    from jax._src.cache_key import (
        _hash_accelerator_config,
        _hash_serialized_compile_options,
        _hash_xla_flags,
        get_flag_prefixes,
    )

    _hash_xla_flags(hashed, get_flag_prefixes())
    _hash_serialized_compile_options(hashed, compile_options, strip_device_assignment=False)
    _hash_accelerator_config(hashed, np.array([device]))
