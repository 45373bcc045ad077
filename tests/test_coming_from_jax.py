"""A page for those who come from JAX names what isn't here: what the installed JAX has, less what tinyjax has.

`pytest --update-golden` writes the lists. Names that only another version of JAX has stay in them.
"""

from __future__ import annotations

import importlib.util
import json
import re
import subprocess
import sys
import textwrap
from functools import cache
from pathlib import Path
from typing import Final

import pytest

PAGE: Final = Path(__file__).parent.parent / "docs" / "names-of-jax.md"
#: Modules whose names are compared with those of the module that is called so here.
MODULES: Final = (
    "jax",
    "jax.numpy",
    "jax.numpy.fft",
    "jax.numpy.linalg",
    "jax.image",
    "jax.ops",
    "jax.scipy.cluster.vq",
    "jax.scipy.fft",
    "jax.scipy.integrate",
    "jax.scipy.interpolate",
    "jax.scipy.linalg",
    "jax.scipy.ndimage",
    "jax.scipy.optimize",
    "jax.scipy.signal",
    "jax.scipy.sparse.linalg",
    "jax.scipy.spatial.transform",
    "jax.nn",
    "jax.nn.initializers",
    "jax.random",
    "jax.scipy.special",
    "jax.scipy.stats",
    "jax.scipy.stats.bernoulli",
    "jax.scipy.stats.beta",
    "jax.scipy.stats.betabinom",
    "jax.scipy.stats.binom",
    "jax.scipy.stats.cauchy",
    "jax.scipy.stats.chi2",
    "jax.scipy.stats.dirichlet",
    "jax.scipy.stats.expon",
    "jax.scipy.stats.gamma",
    "jax.scipy.stats.gennorm",
    "jax.scipy.stats.geom",
    "jax.scipy.stats.gumbel_l",
    "jax.scipy.stats.gumbel_r",
    "jax.scipy.stats.laplace",
    "jax.scipy.stats.logistic",
    "jax.scipy.stats.multinomial",
    "jax.scipy.stats.multivariate_normal",
    "jax.scipy.stats.nbinom",
    "jax.scipy.stats.norm",
    "jax.scipy.stats.pareto",
    "jax.scipy.stats.poisson",
    "jax.scipy.stats.t",
    "jax.scipy.stats.truncnorm",
    "jax.scipy.stats.uniform",
    "jax.scipy.stats.vonmises",
    "jax.scipy.stats.wrapcauchy",
    "jax.lax",
    "jax.lax.linalg",
    "jax.tree",
    "jax.tree_util",
    "jax.flatten_util",
    "jax.debug",
    "jax.dlpack",
    "jax.dtypes",
    "jax.ffi",
    "jax.profiler",
    "jax.sharding",
    "jax.export",
    "jax.stages",
    "jax.typing",
    "jax.core",
    "jax.extend.core",
    "jax.custom_derivatives",
    "jax.checkpoint_policies",
    "jax.ref",
    "jax.ad_checkpoint",
    "jax.test_util",
    "jax.experimental.checkify",
    "jax.experimental.hijax",
    "jax.experimental.sparse",
    "jax.interpreters.ad",
    "jax.interpreters.batching",
    "jax.interpreters.mlir",
    "jax.interpreters.xla",
    "jax.errors",
    "jax.custom_batching",
    "jax.distributed",
    "jax.experimental",
    "jax.experimental.pjit",
    "jax.experimental.random",
)
_LIST: Final = re.compile(
    r"^`(?P<module>[\w.]+)`, \d+ names:\n\n```names\n(?P<names>.*?)^```$", re.MULTILINE | re.DOTALL
)


#: What a process says that has imported nothing else: some names are there because something imported them.
_SAYS: Final = """\
import importlib, json, sys
def names(module):
    package, _, last = module.rpartition(".")
    try:
        return dir(importlib.import_module(module))
    except ModuleNotFoundError:  # no file of its own
        return dir(getattr(importlib.import_module(package), last))
print(json.dumps({module: names(module) for module in sys.argv[1:]}))
"""


def counterpart(module: str) -> str:
    """What is called as a module of JAX's here."""
    return module.replace("jax", "tinyjax", 1)


@cache
def names() -> dict[str, set[str]]:
    """Public names of all these modules, as completion shows them. JAX's primitives are objects such as `sin_p`, and
    left out: ours are classes."""
    command = [sys.executable, "-W", "ignore", "-c", _SAYS, *MODULES, *map(counterpart, MODULES)]
    said = json.loads(subprocess.run(command, check=True, capture_output=True, text=True).stdout)
    return {
        module: {name for name in found if name[0] != "_" and not name.endswith("_p") and name != "annotations"}
        for module, found in said.items()
    }


def names_of(module: str) -> set[str]:
    return names()[module]


def absent(module: str) -> set[str]:
    """What a module of JAX has that its counterpart lacks."""
    return names_of(module) - names_of(counterpart(module))


def test_the_lists_are_of_all_modules() -> None:
    listed = [match["module"] for match in _LIST.finditer(PAGE.read_text(encoding="utf-8"))]
    assert listed == [module for module in MODULES if absent(module) or module in listed]
    assert {module for module in MODULES if absent(module)} <= set(listed)


@pytest.mark.parametrize("module", MODULES)
def test_what_is_absent_is_listed(module: str, request: pytest.FixtureRequest) -> None:
    text = PAGE.read_text(encoding="utf-8")
    match = next((match for match in _LIST.finditer(text) if match["module"] == module), None)
    if match is None:
        assert not absent(module), f"the page has no list of what {module} has and isn't here"
        return
    listed = set(match["names"].split())
    # Another version of JAX may have them.
    elsewhere = listed - names_of(module) - names_of(counterpart(module))
    right = sorted(absent(module) | elsewhere)
    if request.config.getoption("--update-golden"):
        lines = "".join(f"{line}\n" for line in textwrap.wrap(" ".join(right), 118))
        new = f"`{module}`, {len(right)} names:\n\n```names\n{lines}```"
        PAGE.write_text(text.replace(match[0], new), encoding="utf-8")
        return
    assert sorted(listed) == right, "if it is right that these are absent, `pytest --update-golden` lists them"
    assert f"`{module}`, {len(right)} names:" in match[0]


_MODULES: Final = """\
import json, pkgutil
import jax, jax.experimental, jax.extend, jax.interpreters, jax.tools
print(json.dumps([
    f"{package.__name__}.{module.name}"
    for package in (jax, jax.experimental, jax.extend, jax.interpreters, jax.tools)
    for module in pkgutil.iter_modules(package.__path__)
    if not module.name.startswith("_")
]))
"""


def test_modules_that_are_absent_have_a_reason() -> None:
    """Each module of JAX's is here under its name, or in the table of those that aren't."""
    command = [sys.executable, "-W", "ignore", "-c", _MODULES]
    theirs = json.loads(subprocess.run(command, check=True, capture_output=True, text=True).stdout)
    missing = {module for module in theirs if not importlib.util.find_spec(counterpart(module))}
    text = PAGE.read_text(encoding="utf-8")
    table = text[text.index("Modules of JAX's that have no counterpart:") : text.index("The lists are made of")]
    listed = {
        name
        for row in table.splitlines()
        if row.startswith("| `")
        for name in re.findall(r"`([\w.]+)`", row.split("|")[1])
    }
    assert missing <= listed, f"say why they aren't here, or what is instead: {sorted(missing - listed)}"
    # Another version of JAX may have the others.
    here = {module for module in listed if importlib.util.find_spec(counterpart(module))}
    assert not here
