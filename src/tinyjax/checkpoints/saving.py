"""Writing checkpoints."""

from __future__ import annotations

import hashlib
import json
import math
import os
import shutil
from collections.abc import Iterator, Sequence
from contextlib import ExitStack, suppress
from pathlib import Path
from typing import Any

import attrs
import numpy as np

from tinyjax import backend
from tinyjax import tree as trees
from tinyjax.atomic import replacing
from tinyjax.backend.process import PROCESS
from tinyjax.checkpoints.locking import alone, in_use, unused
from tinyjax.checkpoints.manifest import FOLDER, MANIFEST, UNFINISHED, Manifest, Part, Saved, folder_at, to_bytes
from tinyjax.checkpoints.trees import described
from tinyjax.errors import DisagreementError, DistributedError, InputError
from tinyjax.ir.dtypes import HostArray, short_name
from tinyjax.ir.value import ConcreteValue
from tinyjax.tracebacks import filtered
from tinyjax.tracing.concrete import ConcreteArray, as_array


@filtered
def save(path: str | os.PathLike[str], tree: Any) -> None:
    """Saves a tree of arrays in a folder. What was saved there before is replaced when everything has been written: if
    this is interrupted at any time, the folder has what it had.

    Several saves into one folder may be made at once, and loads meanwhile: what counts is the one that ends last.

    Of an array that is spread over processes, each of them writes what it has, and what several have is written once;
    so each process must call this, with a path that is the same folder for all of them. Other arrays must be the same
    in all processes, and the first one writes them.

    Args:
      path: the folder. It is made if it isn't there.
      tree: dicts, lists, tuples, None, and other nodes of trees; the leaves are arrays and numbers.

    Raises:
      InputError: a leaf is no array, or is being traced.
      DisagreementError: the trees differ, or an array that isn't spread over processes has other elements in another.
      DistributedError: another process is gone, or failed to write. What was saved before is still there.
      OSError: it can't be written.

    >>> import tempfile, numpy as np
    >>> from tinyjax import checkpoints
    >>> with tempfile.TemporaryDirectory() as folder:
    ...     checkpoints.save(folder + "/newest", {"w": np.ones((2, 3)), "step": 1})
    ...     checkpoints.load(folder + "/newest")["step"]
    Array(1, dtype=int64, weak_type=True)
    """
    folder = folder_at("save", path)
    leaves, _ = trees.flatten_with_path(tree)
    values = [(trees.keystr(where), _value(trees.keystr(where), leaf)) for where, leaf in leaves]
    own = folder / f"save-{os.urandom(8).hex()}"
    with ExitStack() as stack:
        if backend_index() == 0:
            with suppress(OSError):  # which writing into it finds
                _begin(own, stack)
        said = _gathered({"path": str(path), "new": own.name}, "saving a checkpoint", limited=True)
        _save(folder, folder / str(said[0]["new"]), values, tree)


def _begin(new: Path, stack: ExitStack) -> None:
    """Makes the folder of a save, which no other save takes away until the stack is left."""
    new.parent.mkdir(parents=True, exist_ok=True)
    with alone(new.parent):
        new.mkdir()
        stack.enter_context(in_use(new))


def _save(folder: Path, new: Path, values: Sequence[tuple[str, ConcreteValue]], tree: Any) -> None:
    path = str(folder)
    arrays: list[Saved] = []
    problem = ""
    try:
        new.mkdir(parents=True, exist_ok=True)
        arrays = _write(new / f"{backend_index()}.parts", values)
    except OSError as error:
        problem = f"{type(error).__name__}: {error}"
        if PROCESS.group is None:
            shutil.rmtree(new, ignore_errors=True)
            raise
    said = _gathered(
        {
            "problem": problem,
            "arrays": [{**attrs.asdict(array), "dtype": short_name(array.dtype)} for array in arrays],
            "local": {name: _digest(value) for name, value in values if not backend.is_spread(value)},
        },
        f"writing a checkpoint at {path}",
    )
    try:
        _check(said, path)
    except DistributedError:
        if backend_index() == 0:
            shutil.rmtree(new, ignore_errors=True)
        raise
    failure = ""
    if backend_index() == 0:
        try:
            _finish(folder, new, _joined(arrays, said), tree)
        except (OSError, DistributedError) as error:
            if len(said) == 1:
                raise
            failure = f"{type(error).__name__}: {error}"
    (first, *_) = _gathered({"problem": failure}, f"finishing a checkpoint at {path}")
    if first["problem"]:
        raise DistributedError(f"process 0 could not finish the checkpoint at {path}: {first['problem']}")


def backend_index() -> int:
    """The number of this process."""
    return 0 if PROCESS.group is None else PROCESS.group.index


def _gathered(content: dict[str, Any], what: str, limited: bool = False) -> list[dict[str, Any]]:
    """What all processes say."""
    group = PROCESS.group
    if group is None or not group.is_open:
        return [content]
    said = group.gather(json.dumps(content).encode(), what, group.timeouts.launch if limited else None)
    return [json.loads(each) for each in said]


def _value(name: str, leaf: object) -> ConcreteValue:
    try:
        array = as_array(leaf)
    except TypeError as error:
        raise InputError(f"save: the leaf {name or 'of the tree'} is no array, but {type(leaf)}") from error
    if not isinstance(array, ConcreteArray):
        raise InputError(f"save: the leaf {name} is being traced: call save outside of jit")
    return array.value


def _digest(value: ConcreteValue) -> str:
    return hashlib.sha256(to_bytes(np.asarray(value)) + str(value.aval).encode()).hexdigest()


def _blocks(value: ConcreteValue) -> Iterator[tuple[tuple[int, ...], HostArray]]:
    """What this process writes of an array: where each block starts, and its elements."""
    if not backend.is_spread(value):
        if backend_index() == 0:
            yield (0,) * value.aval.ndim, np.asarray(value)
        return
    for _, index, replica, part in backend.shards(value):
        if replica == 0 and part is not None:
            yield tuple([span.start or 0 for span in index]), np.asarray(part)


def _write(file: Path, values: Sequence[tuple[str, ConcreteValue]]) -> list[Saved]:
    arrays: list[Saved] = []
    offset = 0
    with open(file, "wb") as stream:
        for name, value in values:
            parts: list[Part] = []
            for start, elements in _blocks(value):
                content = to_bytes(elements)
                stream.write(content)
                digest = hashlib.sha256(content).hexdigest()
                parts.append(Part(start, elements.shape, file.name, offset, len(content), digest))
                offset += len(content)
            aval = value.aval
            arrays.append(Saved(name, aval.dtype, aval.shape, aval.weak_type, tuple(parts)))
        stream.flush()
        os.fsync(stream.fileno())
    return arrays


def _check(said: Sequence[dict[str, Any]], path: str) -> None:
    for process, each in enumerate(said):
        if each["problem"]:
            raise DistributedError(f"process {process} could not write its part of {path}: {each['problem']}")
    first = said[0]
    for process, each in enumerate(said):
        kinds = [[(array["path"], array["dtype"], array["shape"]) for array in one["arrays"]] for one in (first, each)]
        if kinds[0] != kinds[1]:
            unlike = [str(a) for a in kinds[0] if a not in kinds[1]] + [str(b) for b in kinds[1] if b not in kinds[0]]
            raise DisagreementError(f"save: the trees differ in processes 0 and {process}: {', '.join(unlike[:4])}")
        for name, digest in first["local"].items():
            if each["local"].get(name, digest) != digest:
                raise DisagreementError(
                    f"save: the leaf {name} isn't spread over processes, and has other elements in process 0 than in "
                    f"process {process}"
                )


def _joined(arrays: Sequence[Saved], said: Sequence[dict[str, Any]]) -> tuple[Saved, ...]:
    """The arrays with the parts that all processes have written."""
    found: list[Saved] = []
    for i, array in enumerate(arrays):
        parts = [part for each in said for part in each["arrays"][i]["parts"]]
        made = [Part(**{**part, "start": tuple(part["start"]), "shape": tuple(part["shape"])}) for part in parts]
        if sum(math.prod(part.shape) for part in made) != math.prod(array.shape):
            raise DistributedError(f"the processes that saved have only a part of {array.path}")
        found.append(attrs.evolve(array, parts=tuple(made)))
    return tuple(found)


def _finish(folder: Path, new: Path, arrays: tuple[Saved, ...], tree: Any) -> None:
    """Makes what was written the checkpoint, and takes away what is none any more."""
    for name in {part.file for array in arrays for part in array.parts}:
        if not (new / name).exists():
            raise DistributedError(f"{new / name} isn't there: the path must be the same folder for all processes")
    _flush(new)
    with alone(folder):
        with replacing(folder / MANIFEST) as stream:
            stream.write(Manifest(new.name, described(trees.structure(tree)), arrays).text().encode())
        _flush(folder)
        for other in folder.iterdir():
            if FOLDER.fullmatch(other.name) and other.name != new.name and unused(other):
                shutil.rmtree(other, ignore_errors=True)
            elif UNFINISHED.fullmatch(other.name):
                other.unlink(missing_ok=True)


def _flush(folder: Path) -> None:
    """Sees to it that what is in a folder stays there if the power fails."""
    with suppress(OSError):
        handle = os.open(folder, os.O_RDONLY)
        try:
            os.fsync(handle)
        finally:
            os.close(handle)
