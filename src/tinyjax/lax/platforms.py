"""Functions of which the platform chooses one."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

from tinyjax.errors import InputError
from tinyjax.lax.conditionals import _chosen
from tinyjax.primitives.platforms import PlatformIndex
from tinyjax.tracing.concrete import ConcreteArray
from tinyjax.tracing.core import bind
from tinyjax.tracing.functions import FlatFunction, check_callable, flatten_arguments


def platform_dependent(
    *args: Any, default: Callable[..., Any] | None = None, **per_platform: Callable[..., Any]
) -> Any:  # the user's trees
    """`per_platform[platform](*args)`, where the platform is the one that the program runs on: "cpu", "cuda", "rocm",
    "tpu". For those that aren't named, `default(*args)`.

    Traced, it becomes a `switch`: all functions are traced, and must agree as branches do, but only the one for the
    platform is lowered. What runs outside of compiled programs runs on the host, which is "cpu".

    Args:
      args: the arguments of all functions, trees of arrays.
      default: for all platforms that aren't named.
      per_platform: functions by the names of platforms.

    Raises:
      InputError: there is no function, or one for "gpu": say "cuda" or "rocm".
      UnsupportedError: when it is lowered for a platform that isn't named, and there is no default.

    >>> platform_dependent(3.0, cpu=lambda x: x + 1.0, default=lambda x: x * 10.0)
    Array(4., dtype=float64, weak_type=True)
    """
    for name, function in per_platform.items():
        check_callable(f"platform_dependent: {name}", function)
    if "gpu" in per_platform:
        raise InputError("platform_dependent: 'gpu' is no platform: say `cuda` or `rocm`")
    functions = list(dict.fromkeys(per_platform.values()))
    groups = [tuple(name for name, f in per_platform.items() if f is function) for function in functions]
    platforms: tuple[tuple[str, ...] | None, ...] = tuple(groups)
    if default is not None:
        check_callable("platform_dependent: default", default)
        functions, platforms = [*functions, default], (*platforms, None)
    if not functions:
        raise InputError("platform_dependent needs a function for some platform, or a `default`")
    (index,) = bind(PlatformIndex(platforms))
    if isinstance(index, ConcreteArray):
        chosen = functions[int(index)]
        arrays, treedef = flatten_arguments(chosen, args, {})
        return FlatFunction(chosen, "platform_dependent", treedef)(arrays).tree()
    return _chosen("platform_dependent", index, functions, args)
