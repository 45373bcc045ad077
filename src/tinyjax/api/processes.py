"""What processes that work together wait for, tell each other, and compare."""

from __future__ import annotations

import json
from typing import Any

import numpy as np

from tinyjax import backend
from tinyjax.api.global_arrays import make_array_from_process_local_data
from tinyjax.errors import InputError, UnequalError, UnexpectedTracedError
from tinyjax.ir.dtypes import HostArray, short_name
from tinyjax.meshes import Mesh, NamedSharding, PartitionSpec
from tinyjax.tracebacks import filtered
from tinyjax.tracing import tree
from tinyjax.tracing.concrete import ConcreteArray, as_array


@filtered
def sync_global_devices(name: str) -> None:
    """Waits until all processes have come here, each with the same name.

    Raises:
      UnequalError: an AssertionError, for another name.
      DistributedError: a process is gone, or doesn't come in time.

    >>> sync_global_devices("before the last step")  # one process waits for nobody
    """
    said = [content.decode() for content in backend.tell(name.encode(), f"sync_global_devices({name!r})")]
    _check_same("sync_global_devices: processes wait under other names", [{"the name": repr(n)} for n in said])


@filtered
def assert_equal(in_tree: Any, fail_message: str = "") -> None:  # the user's tree
    """Checks that all processes have the same: equal trees of arrays with equal elements, of which nan is equal to nan.

    Only hashes are sent. Every process must call it.

    Raises:
      UnequalError: an AssertionError, in all of them, that says which leaf differs in which processes.
      InputError: an array is divided among processes, so none has all of it.

    >>> import numpy as np
    >>> assert_equal({"step": 3, "rate": np.float32(0.1)})
    """
    leaves, treedef = tree.flatten(in_tree)
    paths = tree.paths(treedef)
    own = {"the tree": str(treedef)}
    for path, leaf in zip(paths, leaves, strict=True):
        own[f"x{path}"] = _mark(_elements("assert_equal", leaf))
    said = backend.tell(json.dumps(own).encode(), "assert_equal")
    what = fail_message or "assert_equal: processes have other values"
    _check_same(what, [json.loads(content) for content in said])


@filtered
def broadcast_one_to_all(in_tree: Any, is_source: bool | None = None) -> Any:  # the user's tree
    """What one process has, as NumPy arrays, on all of them. Every process must call it.

    Args:
      in_tree: a tree of arrays, of the same shapes and dtypes in all processes.
      is_source: whether it is this process that has what counts; None: it is process 0.

    Raises:
      UnequalError: an AssertionError; the trees, shapes or dtypes differ, or not exactly one process is the source.

    >>> import numpy as np
    >>> broadcast_one_to_all({"a": np.arange(3)})
    {'a': array([0, 1, 2])}
    """
    leaves, treedef = tree.flatten(in_tree)
    own = [_elements("broadcast_one_to_all", leaf) for leaf in leaves]
    count = backend.process_count()
    if count == 1:
        return tree.unflatten(treedef, own)
    source = backend.process_index() == 0 if is_source is None else bool(is_source)
    types = {f"x{path}": _type(x) for path, x in zip(tree.paths(treedef), own, strict=True)}
    said = [
        json.loads(content)
        for content in backend.tell(
            json.dumps({"source": source, "types": {"the tree": str(treedef)} | types}).encode(), "broadcast_one_to_all"
        )
    ]
    _check_same("broadcast_one_to_all: processes give arrays of other types", [found["types"] for found in said])
    sources = [process for process, found in enumerate(said) if found["source"]]
    if len(sources) != 1:
        raise UnequalError(f"broadcast_one_to_all: one process is the source, not {sources or 'none'}")
    content = np.frombuffer(b"".join([x.tobytes() for x in own]), np.uint8)
    mesh = Mesh(np.array(backend.all_devices(), object).reshape(count, -1), ("processes", "local_devices"))
    rows = (content if source else np.zeros_like(content))[None]
    spread = make_array_from_process_local_data(NamedSharding(mesh, PartitionSpec("processes")), rows)
    gathered = backend.put_on(spread.value, NamedSharding(mesh, PartitionSpec()))
    given = backend.whole(gathered)[sources[0]].tobytes()
    found, start = [], 0
    for x in own:
        found.append(np.frombuffer(given[start : start + x.nbytes], x.dtype).reshape(x.shape).copy())
        start += x.nbytes
    return tree.unflatten(treedef, found)


def _elements(what: str, leaf: object) -> HostArray:
    array = as_array(leaf)
    if not isinstance(array, ConcreteArray):
        raise UnexpectedTracedError(
            f"{what} takes arrays with elements, not one that is being traced: call it outside of jit"
        )
    if not array.is_fully_addressable:
        if not array.is_fully_replicated:
            raise InputError(f"{what}: {array.aval} is divided among processes, none of which has all of it")
        return backend.whole(array.value)
    return np.asarray(array)


def _type(x: HostArray) -> str:
    return f"{short_name(x.dtype)}[{','.join(map(str, x.shape))}]"


def _mark(x: HostArray) -> str:
    """The type and the content of an array, the same for equal elements."""
    from hashlib import blake2b

    if x.dtype.kind in "fc":
        x = np.where(np.isnan(x), x.dtype.type(np.nan), x + x.dtype.type(0))
    return f"{_type(x)} with the hash {blake2b(x.tobytes(), digest_size=8).hexdigest()}"


def _check_same(what: str, said: list[dict[str, str]]) -> None:
    for process, found in enumerate(said):
        for key in {**said[0], **found}:
            one, other = (given.get(key, "nothing") for given in (said[0], found))
            if one != other:
                raise UnequalError(f"{what}: {key} is {one} in process 0, and {other} in process {process}.")
