"""JAX's blocks that set one of its settings for a while: they take what holds here anyway, as `config.update` does."""

from __future__ import annotations

from contextlib import AbstractContextManager, ContextDecorator
from typing import Final, final

from typing_extensions import override

from tinyjax.api.config import config
from tinyjax.tracebacks import filter_class


@final
class Unchanged(AbstractContextManager[None], ContextDecorator):
    """A block in which everything is as it is outside; or a decorator."""

    @override
    def __enter__(self) -> None:
        return None

    @override
    def __exit__(self, *_: object) -> None:
        return None


@final
@filter_class
class SettingBlock:
    """One of JAX's settings, as a block: `with enable_x64(True):`, say, or as a decorator.

    Settings are fixed here, so it takes the value that holds anyway, and changes nothing; an UnsupportedError, a
    NotImplementedError, says of another one what to write instead. Source: `jax`, where the block has the same name.

    >>> import tinyjax as tj
    >>> with tj.enable_x64(True), tj.numpy_dtype_promotion("standard"):
    ...     tj.numpy.zeros(2).dtype
    dtype('float64')
    >>> try:
    ...     tj.enable_x64(False)
    ... except NotImplementedError as error:
    ...     print(error)
    enable_x64: jax_enable_x64 is True here, for the whole process. Nothing is truncated: write the dtype that you want, such as float32.
    """  # noqa: E501 (what a doctest prints is one line)

    __slots__ = ("_implied", "_name", "_settings")

    def __init__(self, name: str, *settings: str, implied: object = None) -> None:
        self._name: Final = name
        self._settings: Final = settings or (f"jax_{name}",)
        self._implied: Final = implied

    def __call__(self, new_val: object = None) -> Unchanged:
        """The block, for this value; without one, where there are but two, it is the one that switches something on."""
        if new_val is None:
            new_val = self._implied
        for setting in self._settings:
            config.hold(self._name, setting, new_val)
        return Unchanged()

    @property
    def value(self) -> object:
        """What holds."""
        return config.read(self._settings[0])

    @override
    def __repr__(self) -> str:
        return f"<{self._name}: {self.value!r}>"


def _switch(name: str, *settings: str) -> SettingBlock:
    return SettingBlock(name, *settings, implied=True)


debug_key_reuse: Final = _switch("debug_key_reuse")
default_device: Final = SettingBlock("default_device")
enable_checks: Final = _switch("enable_checks")
enable_custom_prng: Final = _switch("enable_custom_prng")
enable_x64: Final = _switch("enable_x64")
explain_cache_misses: Final = _switch("explain_cache_misses")
legacy_prng_key: Final = SettingBlock("legacy_prng_key")
log_compiles: Final = _switch("log_compiles")
no_execution: Final = _switch("no_execution")
no_tracing: Final = _switch("no_tracing")
numpy_dtype_promotion: Final = SettingBlock("numpy_dtype_promotion")
numpy_rank_promotion: Final = SettingBlock("numpy_rank_promotion")
threefry_partitionable: Final = _switch("threefry_partitionable")
transfer_guard: Final = SettingBlock("transfer_guard")
transfer_guard_device_to_device: Final = SettingBlock("transfer_guard_device_to_device")
transfer_guard_device_to_host: Final = SettingBlock("transfer_guard_device_to_host")
transfer_guard_host_to_device: Final = SettingBlock("transfer_guard_host_to_device")
