"""`tinyjax.config`: what JAX's settings are here, and what to write instead of setting them."""

from __future__ import annotations

import json
import os
import re
import subprocess
import sys
from functools import reduce
from pathlib import Path
from typing import Final

import jax
import pytest

import tinyjax as tj
from tinyjax.api import setting_blocks
from tinyjax.api.config import SETTINGS, Config
from tinyjax.api.setting_blocks import SettingBlock
from tinyjax.errors import SettingError, UnsupportedError


def test_they_are_settings_of_jax() -> None:
    assert set(SETTINGS) <= set(jax.config.values)
    assert set(dir(tj.config)) >= set(SETTINGS)


@pytest.mark.parametrize("name", sorted(SETTINGS))
def test_what_holds_can_be_said(name: str) -> None:
    setting = SETTINGS[name]
    for value in (setting.value, *setting.same):
        tj.config.update(name, value)
    assert tj.config.read(name) == getattr(tj.config, name) == setting.value
    with pytest.raises(UnsupportedError, match=re.escape(f"config.update: {name} is {setting.value!r} here, for the")):
        tj.config.update(name, "another")
    with pytest.raises(NotImplementedError, match=re.escape(setting.instead)):
        tj.config.update(name, 17)


@pytest.mark.parametrize("name", sorted(SETTINGS))
def test_what_is_advised_is_there(name: str) -> None:
    for path in re.findall(r"tinyjax((?:\.[a-z_0-9]+)+)", SETTINGS[name].instead):
        assert callable(reduce(getattr, path.split(".")[1:], tj)), path


#: JAX's settings in a process that nobody has set any in.
_DEFAULTS: Final = """\
import jax, json
print(json.dumps({name: str(getattr(value, "value", value)) for name, value in jax.config.values.items()}))
"""


def test_values_that_hold_here_are_those_of_jax() -> None:
    """But for what is said of 64 bits and of positions out of range (decision 040), and that programs are always
    checked, they are JAX's own."""
    env = {name: value for name, value in os.environ.items() if not name.startswith("JAX_")}
    run = subprocess.run([sys.executable, "-c", _DEFAULTS], env=env, capture_output=True, text=True, check=True)
    there = json.loads(run.stdout)
    for name in set(SETTINGS) - {"jax_enable_x64", "jax_check_static_indices"}:
        setting = SETTINGS[name]
        assert there[name] in [str(value) for value in (setting.value, *setting.same)], name


BLOCKS: Final = sorted(name for name in dir(setting_blocks) if isinstance(getattr(tj, name, None), SettingBlock))


@pytest.mark.parametrize("name", BLOCKS)
def test_blocks_take_what_holds(name: str) -> None:
    block = getattr(tj, name)
    setting = SETTINGS["jax_check_tracer_leaks" if name == "checking_leaks" else f"jax_{name}"]
    assert block.value == setting.value
    assert repr(block) == f"<{name}: {setting.value!r}>"
    for value in (setting.value, *setting.same):
        with block(value):
            assert tj.numpy.zeros(2).dtype == "float64"
        assert block(value)(lambda x: 2 * x)(2.0) == 4.0
    with pytest.raises(UnsupportedError, match=re.escape(f"{name}: ")):
        block("another")
    if isinstance(setting.value, bool) and True not in (setting.value, *setting.same):
        with pytest.raises(NotImplementedError, match=re.escape(setting.instead)):
            block()
    elif isinstance(setting.value, bool):
        with block():
            pass
    assert hasattr(jax, name)


def test_blocks_of_the_device_where_compiled_programs_run() -> None:
    for device in (None, tj.devices()[0], tj.default_backend()):
        with tj.default_device(device):
            assert float(tj.jit(lambda x: x + 1.0)(1.0)) == 2.0
    with pytest.raises(UnsupportedError, match="device_put"):
        tj.default_device("abacus")


def test_platforms() -> None:
    for name in ("jax_platforms", "jax_platform_name"):
        assert tj.config.read(name) == tj.default_backend()
        for value in (tj.default_backend(), "", None):
            tj.config.update(name, value)
        with pytest.raises(UnsupportedError, match="JAX_PLATFORMS before the process starts"):
            tj.config.update(name, "abacus")


def test_the_directory_of_compiled_programs_is_set(tmp_path: Path) -> None:
    before = tj.config.read("jax_compilation_cache_dir")
    try:
        tj.config.update("jax_compilation_cache_dir", tmp_path)
        assert tj.config.read("jax_compilation_cache_dir") == str(tmp_path)
        tj.config.update("jax_compilation_cache_dir", None)
        assert tj.config.read("jax_compilation_cache_dir") is None
    finally:
        tj.config.update("jax_compilation_cache_dir", before)


def test_what_isnt_known() -> None:
    with pytest.raises(SettingError, match="'jax_mock_gpu_topology' is no setting of JAX's that means something here"):
        tj.config.update("jax_mock_gpu_topology", "")
    assert tj.config.x64_enabled is True
    assert not hasattr(tj.config, "jax_pgle_profiling_runs")
    with pytest.raises(AttributeError, match="config has no attribute 'enable_x64'; settings have names such as jax_"):
        tj.config.enable_x64  # noqa: B018
    assert repr(Config()) == "<JAX's settings, as they are here>"


_DIVIDED: Final = """\
import os
os.environ.pop("XLA_FLAGS", None)
{first}
import tinyjax as tj
tj.config.update("jax_num_cpu_devices", 2)
tj.config.update("jax_num_cpu_devices", 3)
print(len(tj.devices("cpu")), {then})
try:
    tj.config.update("jax_num_cpu_devices", 5)
except NotImplementedError as error:
    print(error)
tj.config.update("jax_num_cpu_devices", 3)
"""


@pytest.mark.parametrize(
    ("first", "then"), [("", "3"), ("import jax", 'len(jax.devices("cpu"))'), ("import jax.numpy", "3")]
)
def test_the_cpu_is_divided(first: str, then: str) -> None:
    """Before it is used, as in JAX, whether JAX is there or not."""
    program = _DIVIDED.format(first=first, then=then)
    run = subprocess.run([sys.executable, "-c", program], capture_output=True, text=True, check=True)
    assert run.stdout.splitlines()[0] == "3 3"
    assert "jax_num_cpu_devices is -1 here, for the whole process. Say so before anything is compiled" in run.stdout
