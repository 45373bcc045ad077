"""How a program is compiled and where it runs, as users say it: XLA's options, and a device."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

from attrs import evolve

from tinyjax import backend
from tinyjax.backend import Options
from tinyjax.errors import InputError
from tinyjax.meshes import Device


def options_of(what: str, found: object) -> Options:
    """XLA's options by name, in order; an InputError for what are none."""
    if found is None:
        return ()
    if not isinstance(found, Mapping):
        raise InputError(
            f'{what}: compiler_options is a dict, such as {{"xla_cpu_enable_fast_math": True}}, not {found!r}'
        )
    options = []
    for name, value in found.items():
        if not isinstance(name, str) or not isinstance(value, str | bool | int | float):
            raise InputError(
                f"{what}: an option of XLA has a name and is a string, a number or a bool; got {name!r}: {value!r}"
            )
        options.append((name, value))
    return tuple(sorted(options))


def with_options(what: str, asked: backend.Asked | None, options: object) -> backend.Asked | None:
    """What is asked, and these options of XLA's."""
    found = options_of(what, options)
    if not found:
        return asked
    asked = asked or backend.Asked()
    return evolve(asked, options=(*asked.options, *found))


def device_of(device: object) -> Device | None:
    """The device that is meant, by itself, by its name, or by that of its platform."""
    if device is None:
        return None
    found: Any = device  # a ChoiceError or an InputError says what devices are
    return backend.as_device(found)
