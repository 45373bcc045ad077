"""Lowering rules are loaded by family: the table of the families is that of the rules, and each class has one."""

from __future__ import annotations

import subprocess
import sys

#: Notes which module sets the rules for the classes of which others, while all of them are imported.
NOTED = """
import importlib, pkgutil, sys
from collections import defaultdict

from tinyjax.ir.rules import RuleTable

setting, homes, twice = RuleTable.__setitem__, defaultdict(set), []

def noted(table, cls, rule):
    frame = sys._getframe(1)
    while frame.f_globals["__name__"] == "tinyjax.ir.rules":
        frame = frame.f_back
    if cls in table.own:
        twice.append((table, cls))
    homes[frame.f_globals["__name__"].rpartition(".")[2]].add(cls.__module__.removeprefix("tinyjax."))
    setting(table, cls, rule)

RuleTable.__setitem__ = noted
import tinyjax.hlo.rules
from tinyjax.hlo.tables import RULES_FOR

for module in pkgutil.iter_modules(tinyjax.hlo.rules.__path__):
    importlib.import_module(f"tinyjax.hlo.rules.{module.name}")
found = {name: sorted(modules) for name, modules in homes.items() if name in RULES_FOR or "hlo" in name}
assert found == {name: sorted(modules) for name, modules in RULES_FOR.items()}, found
assert not twice, twice
"""


def test_the_families_are_those_of_the_rules() -> None:
    subprocess.run([sys.executable, "-c", NOTED], check=True)


#: Each rule is found, whatever has been loaded, in a table that nothing has been asked of.
FOUND = """
from tinyjax.hlo import CPU_RULES, RULES
from tinyjax.ir.text.registry import STANDARD
from tinyjax.primitives.comparison import Eq
from tinyjax.primitives.special import Erf
from tinyjax.primitives.trigonometric import Tanh
import sys

mine = lambda primitive, ctx, args, types: args
RULES[Tanh] = mine
assert CPU_RULES.find(Tanh) is mine, "a rule of a user is replaced when the family is loaded"
assert RULES.find(Erf) is not mine
assert "tinyjax.hlo.rules.arithmetic" in sys.modules
assert "tinyjax.hlo.rules.random" not in sys.modules
assert RULES.find(Eq) is not None
"""


def test_a_family_is_loaded_when_it_is_asked_for_and_replaces_no_rule() -> None:
    subprocess.run([sys.executable, "-c", FOUND], check=True)


#: The same where a neighbour has loaded one of two families that have rules for the module's classes.
BETWEEN = """
import sys
import tinyjax.hlo.rules.elementwise
from tinyjax.hlo import CPU_RULES, RULES
from tinyjax.primitives.elementwise import Add, Mul, Sub

assert "tinyjax.hlo.rules.arithmetic" not in sys.modules
mine = lambda primitive, ctx, args, types: args
for cls in (Add, Mul, Sub):
    RULES[cls] = mine
assert all(CPU_RULES.find(cls) is mine for cls in (Add, Mul, Sub))
assert "tinyjax.hlo.rules.arithmetic" in sys.modules
"""


def test_nor_if_a_neighbour_has_loaded_a_part() -> None:
    subprocess.run([sys.executable, "-c", BETWEEN], check=True)


#: A pass knows what to do with a loop without anybody having loaded the rules.
PASSES = """
import sys
import tinyjax as tj
from tinyjax.control.scan import Scan
from tinyjax.transforms import PRUNING, UNROLLING

assert "tinyjax.control.pruning" not in sys.modules
mine = lambda primitive, used: None
UNROLLING[Scan] = mine
assert PRUNING.find(Scan) is not None and PRUNING.entry(Scan) == "tinyjax.transforms.PRUNING[Scan]"
assert UNROLLING.find(Scan) is mine
"""


def test_rules_of_control_flow_are_loaded_when_a_pass_meets_it() -> None:
    subprocess.run([sys.executable, "-c", PASSES], check=True)


#: What the gradient of a small program loads, compiled, and what it doesn't.
GRADIENT = """
import sys
import numpy as np
import tinyjax as tj

tj.jit(tj.grad(lambda x: tj.numpy.sum(tj.numpy.tanh(x @ x))))(np.ones((2, 2), "float32"))
for needless in (
    "transforms.reroll",
    "propagation.propagate",
    "control.scan",
    "control.cond",
    "control.shard_map",
    "hlo.rules.linear_algebra",
    "hlo.rules.windows",
    "primitives.factorizations",
    "primitives.keys",
    "lax.linalg",
    "numpy.linalg",
    # what methods of arrays, casts and jit have for others
    "api.lowered",
    "arrays.at",
    "arrays.indexing",
    "primitives.collectives",
    "primitives.cumulative",
    "primitives.gather",
    "primitives.incomplete",
    "primitives.reductions",
    "primitives.scatter",
    "primitives.sorting",
    "refs.ref",
):
    assert f"tinyjax.{needless}" not in sys.modules, needless
"""


def test_a_gradient_loads_what_it_needs() -> None:
    subprocess.run([sys.executable, "-c", GRADIENT], check=True)
