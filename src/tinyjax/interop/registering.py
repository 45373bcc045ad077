"""Functions of other languages, made known to XLA by what JAX has for it: one table of names for both."""

from __future__ import annotations

import ctypes
from collections.abc import Callable, Mapping
from typing import Any, Final, TypeAlias

import jax

from tinyjax.errors import ChoiceError, InputError
from tinyjax.transforms.arguments import whole

#: What functions that `ctypes` has loaded are.
_FOREIGN: Final = ctypes.CFUNCTYPE(None).__base__ or object
#: What `pycapsule` makes of a function's address.
Capsule: TypeAlias = object


def _is_capsule(x: object) -> bool:
    return type(x).__name__ == "PyCapsule"  # which Python has no name for


def _check_word(what: str, x: object) -> None:
    if not isinstance(x, str):
        raise InputError(f"{what} is a string, got {x!r}")


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
    _check_word("register_ffi_target: name", name)
    capsules = list(fn.values()) if isinstance(fn, Mapping) and "execute" in fn else [fn]
    if not all(map(_is_capsule, capsules)):
        raise InputError(
            "register_ffi_target: fn is a capsule, as pycapsule(library.function) gives, or a dictionary of them, of "
            f'which one is that of "execute"; got {fn!r}'
        )
    _check_word("register_ffi_target: platform", platform)
    if whole("register_ffi_target: api_version", api_version) not in (0, 1):
        raise ChoiceError(f"register_ffi_target: api_version is 1 or 0, got {api_version!r}")
    for key, value in kwargs.items():
        _ = whole(f"register_ffi_target: {key}", value)
    jax.ffi.register_ffi_target(name, fn, platform, api_version, **kwargs)


def register_ffi_type(name: str, type_registration: Any, platform: str = "cpu") -> None:
    """Makes a type known that functions keep state in.

    `type_registration` is a dictionary of its "type_id" and, if it has one, its "type_info": capsules.

    >>> from functools import partial
    >>> register = partial(
    ...     register_ffi_type, "my_state"
    ... )  # then, of a library: register({"type_id": pycapsule(...)})
    """
    _check_word("register_ffi_type: name", name)
    given = list(type_registration.values()) if isinstance(type_registration, Mapping) else [None]
    if not all(map(_is_capsule, given)) or "type_id" not in type_registration:
        raise InputError(
            'register_ffi_type: type_registration is a dictionary with the capsule "type_id", and perhaps "type_info"; '
            f"got {type_registration!r}"
        )
    _check_word("register_ffi_type: platform", platform)
    jax.ffi.register_ffi_type(name, type_registration, platform)


def register_ffi_target_as_batch_partitionable(name: str) -> None:
    """Says that devices may each call the function with some of a batch, along the first axes.

    >>> register_ffi_target_as_batch_partitionable("lapack_dgetrf_ffi")
    """
    _check_word("register_ffi_target_as_batch_partitionable: name", name)
    jax.ffi.register_ffi_target_as_batch_partitionable(name)


def pycapsule(funcptr: Callable[..., object]) -> Capsule:
    """The address of a function that `ctypes` has loaded, as `register_ffi_target` takes it.

    >>> import ctypes
    >>> type(pycapsule(ctypes.CDLL(None).abs)).__name__
    'PyCapsule'
    """
    if not isinstance(funcptr, _FOREIGN):
        raise InputError(f"pycapsule takes a function that ctypes has loaded, got {funcptr!r}")
    return jax.ffi.pycapsule(funcptr)


def include_dir() -> str:
    """Where the headers are that a function for XLA is compiled with.

    >>> from pathlib import Path
    >>> Path(include_dir(), "xla", "ffi", "api", "ffi.h").exists()
    True
    """
    found: str = jax.ffi.include_dir()
    return found
