"""What is public: the modules that users import, their names, and the page on which each name is described."""

from __future__ import annotations

import inspect
from collections.abc import Callable, Sequence
from functools import cache
from importlib import import_module
from pathlib import Path
from types import ModuleType
from typing import Final, TypeGuard, final

from attrs import frozen

import tinyjax
from tinyjax.numpy import ufunc

_PACKAGE: Final = Path(tinyjax.__file__).parent
#: The public modules, in the order in which the reference has them. What several export is described on the first.
MODULES: Final = (
    "tinyjax",
    "tinyjax.lax",
    "tinyjax.lax.linalg",
    "tinyjax.numpy",
    "tinyjax.numpy.fft",
    "tinyjax.numpy.linalg",
    "tinyjax.image",
    "tinyjax.ops",
    "tinyjax.scipy.cluster.vq",
    "tinyjax.scipy.fft",
    "tinyjax.scipy.integrate",
    "tinyjax.scipy.interpolate",
    "tinyjax.scipy.linalg",
    "tinyjax.scipy.ndimage",
    "tinyjax.scipy.optimize",
    "tinyjax.scipy.signal",
    "tinyjax.scipy.sparse.linalg",
    "tinyjax.scipy.spatial.transform",
    "tinyjax.nn",
    "tinyjax.nn.initializers",
    "tinyjax.random",
    "tinyjax.scipy.special",
    "tinyjax.scipy.stats",
    "tinyjax.tree",
    "tinyjax.tree_util",
    "tinyjax.flatten_util",
    "tinyjax.dlpack",
    "tinyjax.dtypes",
    "tinyjax.typing",
    "tinyjax.debug",
    "tinyjax.ffi",
    "tinyjax.profiler",
    "tinyjax.distributed",
    "tinyjax.experimental.mesh_utils",
    "tinyjax.experimental.multihost_utils",
    "tinyjax.checkpoints",
    "tinyjax.sharding",
    "tinyjax.memory",
    "tinyjax.stages",
    "tinyjax.export",
    "tinyjax.core",
    "tinyjax.extend.core",
    "tinyjax.custom_batching",
    "tinyjax.custom_derivatives",
    "tinyjax.checkpoint_policies",
    "tinyjax.ad",
    "tinyjax.ref",
    "tinyjax.ad_checkpoint",
    "tinyjax.test_util",
    "tinyjax.experimental.checkify",
    "tinyjax.experimental.jet",
    "tinyjax.experimental.pjit",
    "tinyjax.experimental.shard_map",
    "tinyjax.experimental.ode",
    "tinyjax.experimental.sparse",
    "tinyjax.experimental.sparse.linalg",
    "tinyjax.example_libraries.optimizers",
    "tinyjax.example_libraries.stax",
    "tinyjax.errors",
    "tinyjax.ir",
    "tinyjax.interpreters",
    "tinyjax.transforms",
    "tinyjax.tools",
    "tinyjax.tools.cost",
    "tinyjax.tools.dataflow",
    "tinyjax.tools.partitioning",
    "tinyjax.testing",
    "tinyjax.hlo",
    "tinyjax.interop.jax",
    "tinyjax.extend",
    "tinyjax.extend.primitives",
)


@final
@frozen
class Entry:
    """A public name: where it is described, and the file of the library that defines it ("" if that isn't known)."""

    name: str
    page: str
    described_as: str
    defined_in: str

    @property
    def is_described_here(self) -> bool:
        return self.described_as == f"{self.page}.{self.name}"


def module_named(name: str) -> ModuleType:
    """A public module; some are no files of their own, but attributes of the package."""
    package, _, last = name.rpartition(".")
    if package:
        found = getattr(import_module(package), last, None)
        if isinstance(found, ModuleType):
            return found
    return import_module(name)


def public_names(module: ModuleType) -> Sequence[str]:
    """The names that a module exports, but for modules: what it lists, or else what it defines."""
    listed: Sequence[str] | None = getattr(module, "__all__", None)
    if listed is None:
        listed = [name for name, value in vars(module).items() if _home(value) == module.__name__]
    return [name for name in listed if not name.startswith("_") and not inspect.ismodule(getattr(module, name))]


@cache
def entries() -> Sequence[Entry]:
    """Every public name of every public module."""
    first: dict[tuple[int, str], str] = {}
    found: list[Entry] = []
    for page in MODULES:
        module = module_named(page)
        for name in public_names(module):
            value: object = getattr(module, name)
            home = _home(value)
            full_name = f"{page}.{name}"
            # Numbers and types of NumPy may be one object under several names without being one thing.
            # A package that is loaded when it is used gives its functions before their tracebacks are filtered, too.
            itself = inspect.unwrap(value) if is_function(value) else value
            described_as = first.setdefault((id(itself), "" if home else name), full_name)
            found.append(Entry(name, page, described_as, home))
    return found


def _home(value: object) -> str:
    """The module in which a class or function of the library is defined; "" for anything else."""
    if is_function(value):
        # What users see is told to come from the package that exports it; the code knows better.
        path = Path(inspect.unwrap(value).__code__.co_filename)
        if path.is_relative_to(_PACKAGE):
            return ".".join(path.relative_to(_PACKAGE.parent).with_suffix("").parts).removesuffix(".__init__")
    home = value.__module__ if inspect.isclass(value) or is_function(value) else ""
    return home if home.startswith("tinyjax") else ""


def is_function(value: object) -> TypeGuard[Callable[..., object]]:
    """Whether it is a function, or a universal one of NumPy's kind."""
    return inspect.isfunction(value) or isinstance(value, ufunc)
