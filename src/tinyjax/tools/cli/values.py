"""Inputs and results of `run`: files, literals, random numbers."""

from __future__ import annotations

import ast
import zipfile
from collections.abc import Sequence
from pathlib import Path
from typing import Any, Final

import numpy as np

from tinyjax.ir.aval import ShapedArray
from tinyjax.ir.dtypes import BOOL, COMPLEXES, INTEGERS, HostArray
from tinyjax.tools.cli.failure import CommandError
from tinyjax.tools.cli.streams import as_python_reads
from tinyjax.tracing import tree
from tinyjax.tracing.array import Array

#: Random integers are less than this.
_INTEGERS: Final = 10
#: Arrays with more elements are shown in part.
_SHOWN: Final = 200


def read_inputs(specs: Sequence[str]) -> tuple[list[object], dict[str, object]]:
    """The arrays of .npy files, of .npz files (all of one, in order, or FILE.npz:NAME), and of Python literals: by
    position, and those given as NAME=INPUT by name."""
    values: list[object] = []
    named: dict[str, object] = {}
    for spec in specs:
        name, separator, rest = spec.partition("=")
        name = as_python_reads(name)
        if not (separator and name.isidentifier()) or Path(spec).exists():
            values += _read(spec)
            continue
        found = _read(rest)
        if len(found) != 1 or name in named:
            many = f"{rest} has {len(found)} arrays" if len(found) != 1 else "it is given twice"
            raise CommandError(f"--inputs: {name} is one input, but {many}")
        named[name] = found[0]
    return values, named


def _read(spec: str) -> list[object]:
    path, separator, name = spec.rpartition(":")
    if separator and path.endswith(".npz"):
        arrays = _archive(path)
        if name not in arrays:
            raise CommandError(f"there is no array {name!r} in {path}; it has {', '.join(arrays) or 'none'}")
        return [arrays[name]]
    if spec.endswith(".npz"):
        return list(_archive(spec).values())
    if spec.endswith(".npy"):
        try:
            with open(spec, "rb") as file:
                array: object = np.load(file, allow_pickle=False)
        except FileNotFoundError:
            raise CommandError(f"there is no file {spec}") from None
        except (OSError, ValueError, EOFError) as error:
            raise CommandError(f"{spec} can't be read: {error}") from None
        return [array]
    try:
        return [np.asarray(value) if isinstance(value := ast.literal_eval(spec), list | tuple) else value]
    except (SyntaxError, ValueError, RecursionError, MemoryError):
        raise CommandError(f"--inputs: {spec!r} is no .npy or .npz file and no Python literal") from None


def _archive(path: str) -> dict[str, object]:
    try:
        with open(path, "rb") as file, np.load(file, allow_pickle=False) as found:
            return {name: found[name] for name in found.files}
    except FileNotFoundError:
        raise CommandError(f"there is no file {path}") from None
    except (OSError, ValueError, EOFError, zipfile.BadZipFile) as error:
        raise CommandError(f"{path} can't be read: {error}") from None


def as_type(value: object, aval: ShapedArray, position: int) -> HostArray:
    """A value in the dtype that a program takes, if no kind of number is lost; its shape must be right."""
    array = np.asarray(value)
    if array.shape != aval.shape or not np.can_cast(array.dtype, aval.dtype, "same_kind"):
        raise CommandError(f"input {position} is {aval}, got an array of {array.dtype} with shape {array.shape}")
    return array.astype(aval.dtype)


def random_value(aval: ShapedArray, random: np.random.Generator) -> HostArray:
    """Normally distributed numbers, integers from 0 to 9, or bools."""
    dtype = aval.dtype
    if dtype == BOOL:
        return np.asarray(random.integers(0, 2, aval.shape) == 1)
    if dtype in INTEGERS:
        return np.asarray(random.integers(0, _INTEGERS, aval.shape)).astype(dtype)
    values = random.standard_normal(aval.shape)
    if dtype in COMPLEXES:
        return np.asarray(values + 1j * random.standard_normal(aval.shape)).astype(dtype)
    return np.asarray(values).astype(dtype)


def random_arguments(args: Sequence[Any], seed: int) -> list[object]:
    """Trees of random arrays for trees of types, the same for the same seed."""
    random = np.random.default_rng(seed)
    return [tree.map_leaves(lambda aval: random_value(aval, random), arg) for arg in args]


def named_results(results: object) -> dict[str, Array]:
    """The results by their paths: `result`, `result['w']`."""
    leaves, treedef = tree.flatten(results)
    paths = tree.paths(treedef)
    return {f"result{path}": leaf for path, leaf in zip(paths, leaves, strict=True) if isinstance(leaf, Array)}


def results_text(results: dict[str, Array]) -> str:
    """The results with their types."""
    lines: list[str] = []
    for name, array in results.items():
        elements = np.asarray(array)
        text = np.array2string(elements, threshold=_SHOWN, separator=", ")
        lines.append(f"{name}: {array.aval} =" + (f"\n{text}" if "\n" in text else f" {text}"))
    return "\n".join(lines)


def write_results(path: Path, results: dict[str, Array]) -> None:
    """Writes results to an .npz file, by name, or a single one to an .npy file."""
    arrays = {name: np.asarray(array) for name, array in results.items()}
    if path.suffix == ".npy":
        if len(arrays) != 1:
            raise CommandError(f"{path} can hold one array, and there are {len(arrays)} results: write an .npz file")
        np.save(path, next(iter(arrays.values())))
    elif path.suffix == ".npz":
        np.savez(path, allow_pickle=False, **arrays)
    else:
        raise CommandError(f"results are written to .npy and .npz files, not to {path}")
