"""What the signatures of two calls of a jitted function may differ in."""

from __future__ import annotations

from typing import TypeAlias, final

from attrs import frozen
from typing_extensions import override

from tinyjax.ir.aval import ShapedArray
from tinyjax.ir.dtypes import DType, short_name
from tinyjax.meshes import Mesh
from tinyjax.primitives.contractions import DotPrecision


@final
@frozen
class LeafChanged:
    """An array of another type: which, by its path in the arguments, and both types."""

    path: str
    earlier: ShapedArray
    now: ShapedArray

    @property
    def row(self) -> tuple[str, str, str]:
        """What differs, as it is now, and as it was."""
        return f"argument {self.path}", str(self.now), str(self.earlier)

    @override
    def __str__(self) -> str:
        why = ""
        if self.earlier.matches(self.now):
            weak, strong = ("now", "then") if self.now.weak_type else ("then", "now")
            why = f" ({weak} a Python scalar or computed from such, {strong} an array)"
        return f"argument {self.path}: {self.now}, was {self.earlier}{why}"


@final
@frozen
class StaticChanged:
    """A static argument with another value. None: it wasn't given. Values are spelled as `repr` has them."""

    name: str
    earlier: str | None
    now: str | None

    @property
    def row(self) -> tuple[str, str, str]:
        """What differs, as it is now, and as it was."""
        return f"static argument {self.name}", self.now or "not given", self.earlier or "not given"

    @override
    def __str__(self) -> str:
        return f"static argument {self.name}: {self.now or 'not given'}, was {self.earlier or 'not given'}"


@final
@frozen
class StructureChanged:
    """Arguments of another tree structure: the paths that are new, those that are gone, and both structures."""

    added: tuple[str, ...]
    removed: tuple[str, ...]
    earlier: str
    now: str

    @property
    def row(self) -> tuple[str, str, str]:
        """What differs, as it is now, and as it was."""
        return "the tree of the arguments", self.now, self.earlier

    @override
    def __str__(self) -> str:
        if not self.added and not self.removed:
            return f"the tree of the arguments: {self.now}, was {self.earlier}"
        parts = [f"new {', '.join(self.added)}"] if self.added else []
        parts += [f"gone {', '.join(self.removed)}"] if self.removed else []
        return f"the tree of the arguments: {'; '.join(parts)}"


@final
@frozen
class MeshChanged:
    """Another mesh in force; None: there was none, or is none."""

    earlier: Mesh | None
    now: Mesh | None

    @property
    def row(self) -> tuple[str, str, str]:
        """What differs, as it is now, and as it was."""
        return "the mesh in force", str(self.now or "none"), str(self.earlier or "none")

    @override
    def __str__(self) -> str:
        return f"the mesh in force: {self.now or 'none'}, was {self.earlier or 'none'}"


@final
@frozen
class PrecisionChanged:
    """Another `default_matmul_precision` in force; None: there was none, or is none."""

    earlier: DotPrecision
    now: DotPrecision

    @property
    def row(self) -> tuple[str, str, str]:
        """What differs, as it is now, and as it was."""
        return "the precision of products", str(self.now or "none"), str(self.earlier or "none")

    @override
    def __str__(self) -> str:
        return f"the precision of products: {self.now or 'none'}, was {self.earlier or 'none'}"


@final
@frozen
class KeysChanged:
    """Another `default_prng_impl` in force, by the dtype of its keys; None: there was none, or is none."""

    earlier: DType | None
    now: DType | None

    @property
    def row(self) -> tuple[str, str, str]:
        """What differs, as it is now, and as it was."""
        return "the dtype of keys", _keys(self.now), _keys(self.earlier)

    @override
    def __str__(self) -> str:
        return f"the dtype of keys: {_keys(self.now)}, was {_keys(self.earlier)}"


def _keys(dtype: DType | None) -> str:
    return "none" if dtype is None else short_name(dtype)


Difference: TypeAlias = LeafChanged | StaticChanged | StructureChanged | MeshChanged | PrecisionChanged | KeysChanged
