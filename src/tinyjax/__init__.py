"""tinyjax: the core of JAX as a strictly typed, functional library.

A Python function is traced to a jaxpr: an immutable, typed program. Every transformation is a pure function on such
programs, and the same rules also run on the fly over Python code. `jit` turns a jaxpr into StableHLO, for XLA to run.

Importing it loads next to nothing: a name is loaded, with the part of the library that it needs, when it is first used.
The names are those of `__init__.pyi`.
"""

from importlib import import_module

from lazy_loader import attach_stub

from tinyjax.collecting import loading
from tinyjax.deferred import (
    AT_REF,
    ENTER_MESH,
    EXPERIMENTAL,
    FILL_LOOPING,
    FILL_REGISTRY,
    FORI_LOOP,
    LAID_OUT,
    LEAVE_MESH,
    NUMPY_FUNCTIONS,
    ON_NO_MESH,
    PHYSICAL,
    PRECISION,
    PROCESS_INDEX,
    RANDOM_GAMMA,
    VMAP,
)

__version__ = "0.2.0"

_load, __dir__, __all__ = attach_stub(__name__, __file__)
__getattr__ = loading(_load)

FILL_REGISTRY.hand(lambda: import_module("tinyjax.registered.everything"))
EXPERIMENTAL.hand(lambda: import_module("tinyjax.experimental.trajectories").CLASSES)
FILL_LOOPING.hand(lambda: import_module("tinyjax.control.rolling"))
ENTER_MESH.hand(lambda mesh: import_module("tinyjax.lax.mesh_in_force").enter_mesh(mesh))
LEAVE_MESH.hand(lambda: import_module("tinyjax.lax.mesh_in_force").leave_mesh())
PRECISION.hand(lambda: None)  # until tinyjax.lax.within, whose blocks say otherwise, is there
PROCESS_INDEX.hand(lambda: import_module("tinyjax.backend.places").process_index())
PHYSICAL.hand(lambda device: import_module("tinyjax.backend.places").physical(device))
ON_NO_MESH.hand(lambda ndim: import_module("tinyjax.meshes.named").on_no_mesh(ndim))
NUMPY_FUNCTIONS.hand(lambda: import_module("tinyjax.numpy"))
FORI_LOOP.hand(lambda *args: import_module("tinyjax.lax.loops").fori_loop(*args))
LAID_OUT.hand(lambda *args: import_module("tinyjax.lax.explicit").computed(*args))
RANDOM_GAMMA.hand(lambda *args: import_module("tinyjax.random.rejection").gamma_program(*args))
AT_REF.hand(lambda *args: import_module("tinyjax.api.written_refs").at_ref_program(*args))
VMAP.hand(lambda function, axes: import_module("tinyjax.api.vectorize").vmap(function, axes))
