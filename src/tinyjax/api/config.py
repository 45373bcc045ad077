"""JAX's settings of a process, as they are here: fixed. What could be set there is said where it is used.

`setting_blocks` has JAX's blocks that set them for a while.
"""

from __future__ import annotations

from collections.abc import Mapping
from types import MappingProxyType
from typing import Final, final

from attrs import evolve, frozen
from typing_extensions import override

from tinyjax import backend
from tinyjax.api.compilation_cache import disable_compilation_cache, enable_compilation_cache
from tinyjax.api.devices import default_backend, devices
from tinyjax.errors import SettingError, UnsupportedError
from tinyjax.ir.dtypes import KEY_NAMES
from tinyjax.lax.within import keys_in_force
from tinyjax.tracebacks import filtered


@final
@frozen
class Setting:
    """What a setting of JAX's is here, what other values mean the same, and what to write for another one."""

    value: object
    instead: str
    same: tuple[object, ...] = ()


_OFF: Final = "Nothing here does that"
_PLATFORM: Final = "Set the environment variable JAX_PLATFORMS before the process starts"
_TRANSFERS: Final = "What is on the host moves only when a compiled function takes it, or tinyjax.device_put moves it"
_KEPT: Final = "The compilation cache keeps every program"
_FIXED: Final = "That can't be changed"

#: JAX's settings that say what programs mean, by name.
SETTINGS: Final[Mapping[str, Setting]] = MappingProxyType(
    {
        "jax_check_static_indices": Setting(True, "Write x.at[i].get(), which reads the nearest element"),
        "jax_check_tracer_leaks": Setting(False, "Write `with tinyjax.checking_leaks():`", (True,)),
        "jax_cpu_collectives_implementation": Setting("gloo", _FIXED),
        "jax_debug_infs": Setting(False, "Write `with tinyjax.debug_infs(True):`, or tinyjax.jit(f, debug_infs=True)"),
        "jax_debug_key_reuse": Setting(False, "Write tinyjax.tools.check_key_reuse(f, *args)"),
        "jax_debug_nans": Setting(False, "Write `with tinyjax.debug_nans(True):`, or tinyjax.jit(f, debug_nans=True)"),
        "jax_default_device": Setting(None, "Write tinyjax.device_put(x, device), or tinyjax.jit(f, device=device)"),
        "jax_default_matmul_precision": Setting(
            None, 'Write `with tinyjax.default_matmul_precision("float32"):`', ("default",)
        ),
        "jax_default_prng_impl": Setting(
            "threefry2x32", "Write `with tinyjax.default_prng_impl(impl):`, or tinyjax.random.key(seed, impl=impl)"
        ),
        "jax_disable_jit": Setting(False, "Write `with tinyjax.disable_jit():`"),
        "jax_enable_checks": Setting(True, "Programs are always checked", (False,)),
        "jax_enable_compilation_cache": Setting(True, "Write tinyjax.disable_compilation_cache()"),
        "jax_enable_custom_prng": Setting(False, "Keys of a key dtype are what tinyjax.random.key makes"),
        "jax_enable_x64": Setting(True, "Nothing is truncated: write the dtype that you want, such as float32"),
        "jax_explain_cache_misses": Setting(False, "tinyjax.jit(f).explain(*args) returns that"),
        "jax_high_dynamic_range_gumbel": Setting(False, 'Write tinyjax.random.gumbel(key, mode="high")'),
        "jax_legacy_prng_key": Setting("allow", _FIXED),
        "jax_log_compiles": Setting(False, "tinyjax.jit(f).explain(*args) returns that"),
        "jax_no_execution": Setting(False, _OFF),
        "jax_no_tracing": Setting(False, _OFF),
        "jax_num_cpu_devices": Setting(
            -1,
            "Say so before anything is compiled or put on a device; or set "
            "XLA_FLAGS=--xla_force_host_platform_device_count=8 in the environment",
        ),
        "jax_numpy_dtype_promotion": Setting("standard", _FIXED),
        "jax_numpy_rank_promotion": Setting("allow", _FIXED),
        "jax_persistent_cache_enable_xla_caches": Setting(
            "none", "XLA's own caches aren't kept", ("xla_gpu_per_fusion_autotune_cache_dir",)
        ),
        "jax_persistent_cache_min_compile_time_secs": Setting(0.0, _KEPT, (1.0, -1.0)),
        "jax_persistent_cache_min_entry_size_bytes": Setting(0, _KEPT, (-1,)),
        "jax_threefry_partitionable": Setting(True, _FIXED),
        "jax_traceback_filtering": Setting(
            "auto", "Set the environment variable TINYJAX_TRACEBACK_FILTERING=off", ("remove_frames", "tracebackhide")
        ),
        "jax_transfer_guard": Setting(None, _TRANSFERS, ("allow",)),
        "jax_transfer_guard_device_to_device": Setting(None, _TRANSFERS, ("allow",)),
        "jax_transfer_guard_device_to_host": Setting(None, _TRANSFERS, ("allow",)),
        "jax_transfer_guard_host_to_device": Setting(None, _TRANSFERS, ("allow",)),
        "jax_use_shardy_partitioner": Setting(True, _FIXED),
    }
)
_CACHE: Final = "jax_compilation_cache_dir"
_CPU_DEVICES: Final = "jax_num_cpu_devices"
_PLATFORMS: Final = ("jax_platforms", "jax_platform_name")


@final
class Config:
    """JAX's settings, as far as they say what programs mean.

    Nothing is set here for a whole process: `update` takes the values that hold anyway, and says of others what to
    write instead. Only the directory of the compilation cache, and into how many devices the CPU is divided, which counts
    before the first of them is used, are set. Source: `jax.config`.

    >>> from tinyjax import config
    >>> config.update("jax_enable_x64", True)
    >>> config.jax_enable_x64
    True
    >>> try:
    ...     config.update("jax_debug_nans", True)
    ... except NotImplementedError as error:
    ...     print(error)
    config.update: jax_debug_nans is False here, for the whole process. Write `with tinyjax.debug_nans(True):`, or tinyjax.jit(f, debug_nans=True).
    """  # noqa: E501 (what a doctest prints is one line)

    __slots__ = ()

    @filtered
    def update(self, name: str, val: object) -> None:
        """Takes a value that holds here; an UnsupportedError, a NotImplementedError, for another one.

        >>> Config().update("jax_default_matmul_precision", None)
        """
        if name == _CACHE:
            if val is None:
                disable_compilation_cache()
            else:
                enable_compilation_cache(str(val))
            return
        if name == _CPU_DEVICES and type(val) is int and val > 0 and not backend.has_begun():
            backend.divide_cpu(val)
            return
        self.hold("config.update", name, val)

    def hold(self, asked: str, name: str, val: object) -> None:
        """An UnsupportedError unless this value holds; `asked` is what was called with it."""
        setting = self._setting(name)
        if val not in (setting.value, *setting.same):
            raise UnsupportedError(
                f"{asked}: {name} is {setting.value!r} here, for the whole process. {setting.instead}."
            )

    def read(self, name: str) -> object:
        """What a setting is."""
        return self._setting(name).value

    @property
    def x64_enabled(self) -> bool:
        """Whether values of 64 bits stay so: they do."""
        return True

    def __getattr__(self, name: str) -> object:
        if not name.startswith("jax_"):
            raise AttributeError(f"config has no attribute {name!r}; settings have names such as jax_enable_x64")
        return self._setting(name).value

    def _setting(self, name: str) -> Setting:
        given: object = name
        if not isinstance(given, str):
            raise SettingError(f"the name of a setting is a string, got {given!r}")
        if name in _PLATFORMS:
            return Setting(default_backend(), _PLATFORM, ("", None))
        if name == _CACHE:
            cache = backend.execute.persistent
            return Setting(None if cache is None else str(cache.directory), "")
        found = SETTINGS.get(name)
        if found is None:
            raise SettingError(f"{name!r} is no setting of JAX's that means something here")
        if name == "jax_default_device":  # what is compiled runs there anyway
            return evolve(found, same=(default_backend(), devices()[0]))
        if name == "jax_default_prng_impl":  # a block may say another one
            return evolve(found, value=KEY_NAMES[keys_in_force()])
        if name == _CPU_DEVICES:  # as many as there are is what holds
            return evolve(found, same=(len(devices("cpu")),))
        return found

    @override
    def __dir__(self) -> list[str]:
        return sorted([*object.__dir__(self), *SETTINGS, *_PLATFORMS, _CACHE])

    @override
    def __repr__(self) -> str:
        return "<JAX's settings, as they are here>"


config: Final = Config()
