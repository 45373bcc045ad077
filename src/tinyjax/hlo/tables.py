"""The tables of lowering rules: one for every platform, and one for each platform that differs.

The rules are in `hlo.rules`, a file for each family of primitives, which is imported when one of them is lowered.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Final

from tinyjax.errors import ChoiceError
from tinyjax.hlo.context import LoweringRules
from tinyjax.ir.rules import RuleTable

#: Which files of rules are for the primitives of which modules.
RULES_FOR: Final[Mapping[str, Sequence[str]]] = {
    "arithmetic": (
        "primitives.arithmetic",
        "primitives.elementwise",
        "primitives.exponential",
        "primitives.rounding",
        "primitives.trigonometric",
    ),
    "call": ("control.call",),
    "callbacks": ("control.callbacks",),
    "checks": ("primitives.checks",),
    "collectives": (
        "control.shard_map",
        "primitives.casts",
        "primitives.collectives",
        "primitives.exchanges",
        "primitives.resharding",
        "primitives.unreduced",
    ),
    "composite": ("control.composite_call",),
    "cond": ("control.cond",),
    "contractions": ("primitives.contractions",),
    "convolution": ("primitives.convolution",),
    "cumulative": ("primitives.cumulative",),
    "custom_derivatives": (
        "control.checkpoint",
        "control.custom_derivatives",
        "control.custom_linear",
        "control.forward_pass",
        "control.recursion",
        "primitives.annotations",
    ),
    "elementwise": (
        "primitives.bitwise",
        "primitives.comparison",
        "primitives.complex",
        "primitives.conversion",
        "primitives.elementwise",
        "primitives.selection",
    ),
    "foreign": ("control.exported", "control.foreign", "primitives.sinks"),
    "fourier": ("primitives.fourier",),
    "gamma": ("primitives.special",),
    "gather": ("primitives.dynamic", "primitives.gather", "primitives.scatter"),
    "linear_algebra": ("primitives.factorizations", "primitives.triangular", "primitives.tridiagonal"),
    "loops": ("control.loops", "control.scan"),
    "packed_sorts": ("primitives.sorting",),
    "platforms": ("primitives.platforms",),
    "random": (
        "primitives.generators",
        "primitives.hidden_state",
        "primitives.keys",
        "primitives.threefry",
    ),
    "reducing": ("primitives.structure",),
    "reductions": ("primitives.reductions",),
    "shapes": (
        "primitives.constant",
        "primitives.shaping",
        "primitives.slicing",
        "primitives.stacking",
        "primitives.structure",
    ),
    "sorting": ("primitives.sorting",),
    "special": ("primitives.bessel", "primitives.incomplete", "primitives.special"),
    "spectral": ("primitives.spectral",),
    "windows": ("control.reducing", "primitives.reduce_window", "primitives.window_choices"),
}
_ROOMS: Final[Mapping[str, Sequence[str]]] = {
    f"tinyjax.{module}": [f"tinyjax.hlo.rules.{name}" for name, modules in RULES_FOR.items() if module in modules]
    for module in {module for modules in RULES_FOR.values() for module in modules}
}

#: The rules that hold on every platform, unless its own table says otherwise.
RULES: Final[LoweringRules] = RuleTable("Translation", name="tinyjax.hlo.RULES", rooms=_ROOMS)
#: The rules that hold on one platform only.
CPU_RULES: Final[LoweringRules] = RuleTable("Translation", name="tinyjax.hlo.CPU_RULES", parent=RULES, rooms=_ROOMS)
GPU_RULES: Final[LoweringRules] = RuleTable("Translation", name="tinyjax.hlo.GPU_RULES", parent=RULES, rooms=_ROOMS)

#: The names of the platforms that a table is for, the first one for messages.
PLATFORM_NAMES: Final[Mapping[LoweringRules, tuple[str, ...]]] = {
    RULES: ("tpu",), CPU_RULES: ("cpu",), GPU_RULES: ("cuda", "rocm", "gpu"),
}  # fmt: skip
_PLATFORMS: Final = {"cpu": CPU_RULES, "gpu": GPU_RULES, "cuda": GPU_RULES, "rocm": GPU_RULES}


def rules_for(platform: str) -> LoweringRules:
    """The table to lower with for a platform, by the name that JAX gives it: of others than CPUs and GPUs, that of
    rules for every platform. A ChoiceError if it isn't a string."""
    given: object = platform
    if not isinstance(given, str):
        raise ChoiceError(f"rules_for: platform is a name, such as 'cpu' or 'cuda', got {given!r}")
    return _PLATFORMS.get(platform, RULES)
