"""Functions of other languages, made known to XLA by what JAX has for it: one table of names for both."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from typing import Any, TypeAlias

import jax

#: What `pycapsule` makes of a function's address.
Capsule: TypeAlias = object


def register_ffi_target(
    name: str, fn: Capsule | Mapping[str, Capsule], platform: str = "cpu", api_version: int = 1, **kwargs: Any
) -> None:
    """Makes a function known to XLA under a name, for `ffi_call` here, and for JAX's.

    Args:
      fn: a capsule with the function's address, or a dictionary of them for the stages of a call ("instantiate",
        "prepare", "initialize", "execute").
      platform: "cpu", "cuda" or "rocm".
      api_version: 1 for XLA's typed FFI, 0 for what was before it.
      kwargs: are for jaxlib, such as `traits`.

    A function is asked about itself when it is registered: one that isn't made for XLA ends the process.

    >>> from jaxlib.cpu import _lapack  # whose functions are capsules already
    >>> register_ffi_target("my_factors", _lapack.registrations()["lapack_dgetrf_ffi"])
    """
    jax.ffi.register_ffi_target(name, fn, platform, api_version, **kwargs)


def register_ffi_type(name: str, type_registration: Any, platform: str = "cpu") -> None:
    """Makes a type known that functions keep state in.

    `type_registration` is a dictionary of its "type_id" and, if it has one, its "type_info": capsules.

    >>> from functools import partial
    >>> register = partial(
    ...     register_ffi_type, "my_state"
    ... )  # then, of a library: register({"type_id": pycapsule(...)})
    """
    jax.ffi.register_ffi_type(name, type_registration, platform)


def register_ffi_target_as_batch_partitionable(name: str) -> None:
    """Says that devices may each call the function with some of a batch, along the first axes.

    >>> register_ffi_target_as_batch_partitionable("lapack_dgetrf_ffi")
    """
    jax.ffi.register_ffi_target_as_batch_partitionable(name)


def pycapsule(funcptr: Callable[..., object]) -> Capsule:
    """The address of a function that `ctypes` has loaded, as `register_ffi_target` takes it.

    >>> import ctypes
    >>> type(pycapsule(ctypes.CDLL(None).abs)).__name__
    'PyCapsule'
    """
    return jax.ffi.pycapsule(funcptr)


def include_dir() -> str:
    """Where the headers are that a function for XLA is compiled with.

    >>> from pathlib import Path
    >>> Path(include_dir(), "xla", "ffi", "api", "ffi.h").exists()
    True
    """
    found: str = jax.ffi.include_dir()
    return found
