"""`debug.visualize_sharding` and `visualize_array_sharding`: how arrays lie on devices, in the terminal."""

from __future__ import annotations

import os
import sys
from collections.abc import Callable, Sequence
from typing import TypeAlias

from tinyjax.errors import UnsupportedError
from tinyjax.lax.explicit import explicit_sharding
from tinyjax.meshes import Sharding
from tinyjax.tracebacks import filtered
from tinyjax.tracing import tree
from tinyjax.tracing.array import Array
from tinyjax.tracing.concrete import as_array

#: From 0 to 1 to red, green and blue, which are from 0 to 1 too.
ColorMap: TypeAlias = Callable[[float], tuple[float, ...]]


@filtered
def visualize_sharding(
    shape: Sequence[int],
    sharding: Sharding,
    *,
    use_color: bool = True,
    scale: float = 1.0,
    min_width: int = 9,
    max_width: int = 80,
    color_map: ColorMap | None = None,
) -> None:
    """Prints which devices have which part of an array: a box for each part, with the numbers of its devices.

    Of more than two dimensions, those along which the array is divided are shown: the last two of them down and across,
    and a picture for each place along others. Where the mesh has no devices, the numbers are places on it.
    `tools.sharding_picture` is the same as a value, which notebooks show.

    Args:
      shape: the shape of the array.
      sharding: how it lies.
      use_color: colours, where the terminal has them.
      scale: how large boxes are.
      min_width: how wide a box is at least, in characters.
      max_width: how wide the whole is at most.
      color_map: from 0 to 1 to a colour, such as a colormap of Matplotlib's.

    Raises:
      ShardingError: a ValueError, if an array of this shape can't lie so.

    >>> from tinyjax.sharding import AbstractMesh, NamedSharding, PartitionSpec
    >>> mesh = AbstractMesh((4, 2), ("x", "y"))
    >>> visualize_sharding((8, 8), NamedSharding(mesh, PartitionSpec("y", "x")))
    ┌────────┬────────┬────────┬────────┐
    │        │        │        │        │
    │device 0│device 2│device 4│device 6│
    │        │        │        │        │
    │        │        │        │        │
    ├────────┼────────┼────────┼────────┤
    │        │        │        │        │
    │device 1│device 3│device 5│device 7│
    │        │        │        │        │
    │        │        │        │        │
    └────────┴────────┴────────┴────────┘
    """
    from tinyjax.meshes.pictures import ShardingPicture, has_lines, terminal_colors

    picture = ShardingPicture(shape, sharding)
    colors = terminal_colors(color_map) if use_color and _has_colors() else None
    drawn = picture.drawn(
        scale=scale, min_width=min_width, max_width=max_width, colors=colors, ascii_only=not has_lines()
    )
    sys.stdout.write(f"{drawn}\n")


def _has_colors() -> bool:
    """Whether standard output is a terminal that shows colours."""
    if not sys.stdout.isatty() or "NO_COLOR" in os.environ:
        return False
    return os.environ.get("TERM", "dumb") != "dumb"


@filtered
def visualize_array_sharding(
    arr: Array,
    *,
    use_color: bool = True,
    scale: float = 1.0,
    min_width: int = 9,
    max_width: int = 80,
    color_map: ColorMap | None = None,
) -> None:
    """The same for an array. How a value lies that is being traced isn't known yet: a line says so.

    >>> from tinyjax.api.devices import devices
    >>> from tinyjax.api.transfer import device_put
    >>> visualize_array_sharding(device_put(1.0, devices("cpu")[0]), scale=0.3)
    ┌───────┐
    │ CPU 0 │
    └───────┘
    """
    array = as_array(arr)
    if array.concrete() is None:
        sys.stdout.write(
            f"{array.aval} is being traced: how it lies is known when the program is compiled, and chosen by XLA "
            "unless lax.with_sharding_constraint says it.\n"
        )
        return
    visualize_sharding(
        array.shape,
        array.sharding,
        use_color=use_color,
        scale=scale,
        min_width=min_width,
        max_width=max_width,
        color_map=color_map,
    )


@filtered
def inspect_array_sharding(value: object, *, callback: Callable[[Sharding], object]) -> None:
    """Calls `callback` with how each array of a tree lies. For a value that is being traced it is called at once, if
    that is known: on a mesh with Explicit axes.

    Raises:
      UnsupportedError: a NotImplementedError, for a value that is being traced, and of which XLA decides how it lies.

    >>> from tinyjax.api.devices import devices
    >>> from tinyjax.api.transfer import device_put
    >>> inspect_array_sharding(device_put(1.0, devices("cpu")[0]), callback=print)
    SingleDeviceSharding(device=Device('cpu:0'), memory_kind='device')
    """
    for leaf in tree.flatten(value)[0]:
        array = as_array(leaf)
        lies = explicit_sharding(array)
        if lies is not None and array.concrete() is None:
            callback(lies)
            continue
        if array.concrete() is None:
            raise UnsupportedError(
                f"inspect_array_sharding: how {array.aval} lies isn't known while it is being traced. XLA chooses when "
                "the program is compiled: have the value returned and look at its `.sharding`, or at "
                "`jit(f).lower(x).compile().output_shardings`."
            )
        callback(array.sharding)
