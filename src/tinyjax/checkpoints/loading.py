"""Reading checkpoints."""

from __future__ import annotations

import hashlib
import os
from collections.abc import Sequence
from pathlib import Path
from typing import Any, final

import numpy as np
from attrs import evolve

from tinyjax import backend
from tinyjax import tree as trees
from tinyjax.checkpoints.locking import in_use
from tinyjax.checkpoints.manifest import MANIFEST, Manifest, Part, Saved, folder_at, of_bytes, read_manifest
from tinyjax.checkpoints.trees import rebuilt
from tinyjax.errors import FileFormatError, InputError
from tinyjax.ir.aval import ShapedArray
from tinyjax.ir.dtypes import HostArray, short_name
from tinyjax.ir.shared_types import array_type
from tinyjax.ir.value import ConcreteValue
from tinyjax.meshes import Sharding, SingleDeviceSharding
from tinyjax.tracebacks import filtered
from tinyjax.tracing import tree as tracing_tree
from tinyjax.tracing.array import Array
from tinyjax.tracing.concrete import ConcreteArray


@filtered
def load(path: str | os.PathLike[str], like: Any = None, shardings: Any = None) -> Any:
    """The tree of arrays that was saved in a folder.

    Each process reads what its devices have, wherever that was when it was saved: on another mesh, by another number of
    processes, or on one device. All that is read is compared with the hashes that were written with it.

    Args:
      path: the folder.
      like: a tree that is built like the saved one, if that has nodes of classes other than dicts, lists and tuples,
        and those of which `export.register_pytree_node_serialization` has said how they are written down. Its leaves
        say how the arrays are to lie, if they are arrays on devices; they must have the same shapes and dtypes.
      shardings: how the arrays are to lie: a sharding, or a tree of them and of None, a prefix of the saved tree.
        Without it, and without `like`, they are on the host.

    Raises:
      FileFormatError: there is no checkpoint, or it is damaged.
      InputError: `like` isn't built like what was saved.
      ShardingError: an array can't lie so.

    >>> import tempfile, numpy as np
    >>> import tinyjax as tj
    >>> rows = tj.NamedSharding(tj.make_mesh((1,), "x"), tj.P("x"))
    >>> with tempfile.TemporaryDirectory() as folder:
    ...     tj.checkpoints.save(folder, {"w": np.arange(4.0)})
    ...     tj.checkpoints.load(folder, shardings=rows)["w"].sharding == rows
    True
    """
    folder = folder_at("load", path)
    while True:
        text = _content(folder)
        reader = _Reader(folder, _parsed(folder, text))
        try:
            with in_use(folder / reader.manifest.folder):
                return _loaded(reader, like, shardings)
        except FileFormatError:
            # Another save may have taken it away before it was in use.
            if _content(folder) == text:
                raise


def _content(folder: Path) -> bytes:
    try:
        return (folder / MANIFEST).read_bytes()
    except OSError as error:
        raise FileFormatError(f"{folder} has no checkpoint: {error}") from error


def _parsed(folder: Path, text: bytes) -> Manifest:
    try:
        return read_manifest(text)
    except FileFormatError as error:
        raise FileFormatError(f"{folder / MANIFEST} can't be read: {error}") from error.__cause__


def _loaded(reader: _Reader, like: Any, shardings: Any) -> Any:
    arrays = list(reader.manifest.arrays)
    if like is None:
        structure = rebuilt(reader.manifest.tree)
        if structure.num_leaves != len(arrays):
            raise FileFormatError(
                f"{reader.folder}: the tree has {structure.num_leaves} leaves, but there are {len(arrays)} arrays"
            )
        tree = structure.unflatten([0] * len(arrays))
        known: list[object] = [None] * len(arrays)
    else:
        found, structure = trees.flatten_with_path(like)
        arrays = _matched(arrays, [trees.keystr(where) for where, _ in found])
        known = [leaf for _, leaf in found]
        tree = like
        for array, leaf in zip(arrays, known, strict=True):
            _check_alike(array, leaf)
    if shardings is None:
        places = [None if isinstance(leaf, ShapedArray) else getattr(leaf, "sharding", None) for leaf in known]
    elif isinstance(shardings, Sharding):
        places = [shardings] * len(arrays)
    else:
        places = _spread(shardings, tree)
    leaves = [reader.array(array, place) for array, place in zip(arrays, places, strict=True)]
    return structure.unflatten(leaves)


def _matched(arrays: Sequence[Saved], names: Sequence[str]) -> list[Saved]:
    by_name = {array.path: array for array in arrays}
    missing = [name for name in names if name not in by_name]
    extra = [name for name in by_name if name not in set(names)]
    if missing or extra:
        said = [f"it has no leaf {name}" for name in missing[:3]] + [f"`like` has no leaf {name}" for name in extra[:3]]
        raise InputError(f"load: the checkpoint isn't built like `like`: {'; '.join(said)}")
    return [by_name[name] for name in names]


def _check_alike(array: Saved, leaf: object) -> None:
    shape, dtype = getattr(leaf, "shape", None), getattr(leaf, "dtype", None)
    unlike = shape is not None and tuple(shape) != array.shape
    if unlike or (dtype is not None and np.dtype(dtype) != array.dtype):
        raise InputError(
            f"load: {array.path} was saved with shape {array.shape} and dtype {short_name(array.dtype)}, but in `like` "
            f"it has shape {shape} and dtype {dtype}"
        )


def _spread(shardings: Any, tree: Any) -> list[object]:
    """For each leaf of the tree what a prefix of it says."""
    named, structure = tracing_tree.flatten(shardings, lambda x: x is None)
    rows = tracing_tree.up_to("load: shardings", structure, tree)
    return [place for place, part in zip(named, rows, strict=True) for _ in tracing_tree.flatten(part)[0]]


@final
class _Reader:
    """Reads parts of arrays, each once, and checks them."""

    def __init__(self, folder: Path, manifest: Manifest) -> None:
        self.folder = folder
        self.manifest = manifest

    def array(self, saved: Saved, place: object) -> Array:
        """An array where it is to lie."""
        if place is None or (isinstance(place, Sharding) and not place.has_devices):
            return self._whole(saved)
        if not isinstance(place, Sharding):
            raise InputError(f"load: shardings are NamedShardings or None, not {place!r}")
        aval = array_type(saved.shape, saved.dtype, saved.weak_type)
        if isinstance(place, SingleDeviceSharding):
            return ConcreteArray(backend.move(self._whole(saved).value, place.device))
        place.check(saved.shape, f"{saved.path} of {self.folder}")
        own = place.addressable_devices
        read: dict[Part, HostArray] = {}
        made: dict[str, ConcreteValue] = {}
        devices, parts = [], []
        for device, index in zip(place.flat_devices, place.indices(saved.shape), strict=True):
            if device in own:
                key = str(index)
                if key not in made:
                    made[key] = ConcreteValue.of(self._block(saved, index, read))
                devices.append(device)
                parts.append(made[key])
        value = backend.assemble(saved.shape, saved.dtype, place, devices, parts)
        return ConcreteArray(evolve(value, aval=aval))

    def _whole(self, saved: Saved) -> ConcreteArray:
        elements = self._block(saved, tuple([slice(0, size) for size in saved.shape]), {})
        elements.flags.writeable = False
        return ConcreteArray(ConcreteValue(elements, array_type(saved.shape, saved.dtype, saved.weak_type)))

    def _block(self, saved: Saved, index: tuple[slice, ...], read: dict[Part, HostArray]) -> HostArray:
        """The elements of a block, from all parts that have some of them."""
        bounds = [span.indices(size)[:2] for span, size in zip(index, saved.shape, strict=True)]
        block: HostArray = np.zeros([stop - start for start, stop in bounds], saved.dtype)
        copied = 0
        for part in saved.parts:
            common = [
                (max(start, at), min(stop, at + size))
                for (start, stop), at, size in zip(bounds, part.start, part.shape, strict=True)
            ]
            if any(stop <= start for start, stop in common):
                continue
            if part not in read:
                read[part] = self._part(saved, part)
            here = tuple([slice(a - start, b - start) for (a, b), (start, _) in zip(common, bounds, strict=True)])
            there = tuple([slice(a - at, b - at) for (a, b), at in zip(common, part.start, strict=True)])
            block[here] = read[part][there]
            copied += block[here].size
        if copied != block.size:
            raise FileFormatError(f"{self.folder}: the parts of {saved.path} aren't all of it")
        return block

    def _part(self, saved: Saved, part: Part) -> HostArray:
        file = self.folder / self.manifest.folder / part.file
        try:
            with open(file, "rb") as stream:
                stream.seek(part.offset)
                content = stream.read(part.size)
        except OSError as error:
            raise FileFormatError(f"{file}, which has a part of {saved.path}, can't be read: {error}") from error
        if len(content) != part.size:
            raise FileFormatError(f"{file} is truncated: a part of {saved.path} isn't there")
        if hashlib.sha256(content).hexdigest() != part.sha256:
            raise FileFormatError(f"{file} is damaged: a part of {saved.path} doesn't have the hash that was saved")
        return of_bytes(content, saved.dtype, part.shape)
