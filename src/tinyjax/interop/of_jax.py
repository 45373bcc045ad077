"""`of_jax`: functions of JAX as functions of ours."""

from __future__ import annotations

from collections.abc import Callable, Hashable, Sequence
from contextlib import nullcontext
from typing import Any, Final, final

import jax
import numpy as np
from attrs import evolve, frozen
from typing_extensions import override

from tinyjax.api.arguments import StaticCall, resolve_static, split_resolved, static_key
from tinyjax.api.bound import Bound
from tinyjax.backend import jax_programs
from tinyjax.caching import BoundedCache, register
from tinyjax.control.call import Call
from tinyjax.control.manual import MeshAxis, NamedAxis
from tinyjax.errors import InputError, StaticArgumentError, X64DisabledError
from tinyjax.interop.from_jax import imported
from tinyjax.interop.jax_context import WIDE, struct
from tinyjax.interop.missing import refuse
from tinyjax.interop.requests import Region
from tinyjax.interop.types import fitting, narrow
from tinyjax.ir.aval import ShapedArray
from tinyjax.ir.dtypes import FLOAT0
from tinyjax.ir.merging import completed
from tinyjax.ir.program import Jaxpr
from tinyjax.primitives.conversion import ConvertElementType
from tinyjax.tracebacks import filtered
from tinyjax.tracing import tree
from tinyjax.tracing.array import Array
from tinyjax.tracing.concrete import ConcreteArray, active_frame, as_array
from tinyjax.tracing.core import bind
from tinyjax.tracing.functions import argument_path, check_callable, float0_zeros, function_name, located
from tinyjax.transforms.dce import dce
from tinyjax.wrapping import update_wrapper

_PROGRAMS: Final = 256


def of_jax(
    fun: Callable[..., Any],
    *,
    static_argnums: int | Sequence[int] | None = None,
    static_argnames: str | Sequence[str] | None = None,
) -> OfJax:
    """A function of JAX as a function of tinyjax, under whose transformations it can be used as any other.

    It takes and returns trees of arrays, ours instead of JAX's. When it is called with a new signature (the tree of the
    arguments, the types of their leaves, the values of static arguments) JAX traces it, and the program is imported and
    kept; a call is one equation. Its own custom derivatives remain what they are, and arrays of JAX that it closes over
    become constants. Leaves that are no arrays, such as strings and functions, are static by themselves; numbers are
    arrays, unless they are marked, here or where `jax.jit` made the function. Typed keys of random numbers are taken,
    and returned as the integers that they consist of. Axes that `vmap` has named are there for JAX's collectives.

    Functions of JAX are typed with JAX's arrays, so what is returned takes and gives anything, as far as type checkers
    know: `relu: Callable[[tj.Array], tj.Array] = of_jax(jax.nn.relu)` says more to them.

    Raises, when it is called:
      UnsupportedError: JAX's program has primitives that we lack. The error lists all, and their lines.
      X64DisabledError: an argument has a 64-bit dtype, and JAX has these switched off. (Python's numbers fit in, and
        integers that 32 bits are enough for.)
      StaticArgumentError: a static argument can't be hashed.

    >>> import jax
    >>> import tinyjax as tj
    >>> softmax = of_jax(jax.nn.softmax, static_argnames="axis")
    >>> x = tj.numpy.asarray([[0.0, 1.0], [2.0, 4.0]], "float32")
    >>> tj.vmap(tj.grad(lambda row: softmax(row)[0]))(x).shape
    (2, 2)
    >>> softmax(x, axis=0).sum(axis=0).round(6)
    Array([1., 1.], dtype=float32)
    """
    check_callable("of_jax", fun)
    numbers, names = resolve_static(fun, static_argnums, static_argnames)
    own_numbers, own_names = jax_programs.static_arguments(fun)
    return OfJax(fun, (tuple(sorted({*numbers, *own_numbers})), tuple(sorted({*names, *own_names}))))


@final
@frozen(eq=False)
class _Imported:
    """A program, and what the function returned: the tree, and the leaves of it that are no arrays."""

    equation: Call
    consts: tuple[ConcreteArray, ...]
    treedef: jax.tree_util.PyTreeDef
    fixed: dict[int, object]


@final
class OfJax(Bound[..., Any]):
    """What `of_jax` returns: the function, imported once for each signature."""

    __name__: str
    __qualname__: str
    __wrapped__: Callable[..., Any]

    def __init__(self, fun: Callable[..., Any], static: tuple[tuple[int, ...], tuple[str, ...]]) -> None:
        update_wrapper(self, fun)
        self.__wrapped__ = fun
        self._static = static
        self._programs: BoundedCache[Hashable, _Imported] = BoundedCache(_PROGRAMS, "functions of JAX")
        register(self._programs, temporary=True)

    @override
    @filtered
    def __call__(self, /, *args: Any, **kwargs: Any) -> Any:  # the user's
        call = split_resolved(self.__wrapped__, args, kwargs, *self._static)
        leaves, treedef = tree.flatten((call.args, call.kwargs))
        operands, fixed = _divided(call, leaves, treedef)
        axes = tuple([axis for axis, _ in active_frame().axes if axis.name is not None])
        marks = tuple((i, static_key(value)) for i, value in fixed.items())
        avals = tuple(array.aval for array in operands.values())
        keys = tuple(jax_programs.is_key(jax.typeof(leaf)) for leaf in leaves if isinstance(leaf, jax.Array))
        signature = (treedef, avals, call.key, marks, keys, axes, jax_programs.trace_context())
        found = self._programs.get_or_make(signature, lambda: _import(call, leaves, treedef, operands, fixed, axes))
        outs = bind(found.equation, *found.consts, *map(_narrowed, operands.values()))
        return tree.unflatten(found.treedef, completed(found.fixed, outs, found.treedef.num_leaves))

    @override
    def __repr__(self) -> str:
        return f"<of_jax of {self.__wrapped__!r}>"


def _divided(
    call: StaticCall, leaves: Sequence[object], treedef: jax.tree_util.PyTreeDef
) -> tuple[dict[int, Array], dict[int, object]]:
    """Arrays, and leaves that are none, by their positions."""
    operands: dict[int, Array] = {}
    fixed: dict[int, object] = {}
    for i, leaf in enumerate(leaves):
        try:
            operands[i] = _fitting(as_array(jax_programs.integers_of(leaf)))
        except InputError as error:
            try:
                hash(leaf)
            except TypeError:
                path = argument_path(call.function, treedef, i)
                raise StaticArgumentError(
                    f"argument {path} of {function_name(call.function)} is no array, so it is static, and must be "
                    f"hashable: {error}"
                ) from None
            fixed[i] = leaf
    return operands, fixed


def _fitting(array: Array) -> Array:
    """The array; integers of 64 bits whose elements are known as JAX has them now."""
    if array.aval.weak_type or array.aval.dtype not in WIDE or not isinstance(array, ConcreteArray):
        return array
    elements = np.asarray(array)
    found = fitting(elements)
    return array if found is elements else as_array(found)


def _import(
    call: StaticCall, leaves: Sequence[object], treedef: jax.tree_util.PyTreeDef, operands: dict[int, Array],
    fixed: dict[int, object], axes: Sequence[NamedAxis],
) -> _Imported:  # fmt: skip
    """JAX's program for arguments like these."""
    what = f"of_jax of {located(call.function)}"
    treedefs: list[jax.tree_util.PyTreeDef] = []
    others: dict[int, object] = {}

    def flat(*given: jax.Array) -> list[object]:
        full = completed(fixed, map(jax_programs.like, leaves_of_arrays, given), len(leaves))
        args, kwargs = tree.unflatten(treedef, full)
        outs, out_tree = tree.flatten(call.function(*args, **kwargs))
        treedefs[:] = [out_tree]
        others.clear()
        others.update((i, out) for i, out in enumerate(outs) if not _is_array(out))
        return [out for out in outs if _is_array(out)]

    flat.__name__ = flat.__qualname__ = function_name(call.function)
    leaves_of_arrays = [leaves[i] for i in operands]
    types: list[ShapedArray] = []
    for i, array in operands.items():
        aval = narrow(array.aval)
        if aval.dtype in WIDE and not jax_programs.x64_enabled():
            raise X64DisabledError(
                f"{what}: argument {argument_path(call.function, treedef, i)} has dtype {aval.dtype}, which JAX has "
                'switched off: it would truncate it silently. Switch it on with `jax.config.update("jax_enable_x64", '
                "True)` or within `with jax.enable_x64(True):`, or convert the argument."
            )
        types.append(aval)
    mapped = [(axis.name, axis.size) for axis in axes if not isinstance(axis, MeshAxis) and axis.name is not None]
    region = _region([axis for axis in axes if isinstance(axis, MeshAxis)])
    try:
        with nullcontext() if region is None else region.entered():
            closed = jax.make_jaxpr(flat, axis_env=mapped)(*map(struct, types))
    except Exception as error:
        numbers = [argument_path(call.function, treedef, i) for i in operands if isinstance(leaves[i], int | float)]
        error.add_note(f"{what}: this was raised while JAX traced it, for tinyjax.{_to_mark(error, numbers)}")
        raise
    program, lacks = imported(closed, region)
    refuse(what, lacks)
    jaxpr, empty = _with_bits(program.jaxpr)
    places = [i for i in range(treedefs[0].num_leaves) if i not in others]
    others.update({places[at]: found for at, found in empty.items()})
    equation = Call(function_name(call.function), jaxpr)
    return _Imported(equation, tuple(map(ConcreteArray, program.consts)), treedefs[0], dict(others))


def _to_mark(error: Exception, numbers: Sequence[str]) -> str:
    """What to do where JAX needs the value of something that was traced, which may be one of these arguments."""
    unknown = isinstance(error, jax.errors.ConcretizationTypeError | jax.errors.TracerIntegerConversionError)
    if not numbers or not (unknown or "Non-hashable static" in str(error)):
        return ""
    marked = ", ".join(map(repr, numbers))
    return f" Numbers are traced unless they are marked: of_jax(…, static_argnames=[{marked}])."


def _with_bits(jaxpr: Jaxpr) -> tuple[Jaxpr, dict[int, ConcreteArray]]:
    """The program without the results that hold nothing, and those by their positions."""
    empty = {i: float0_zeros(aval.shape) for i, aval in enumerate(jaxpr.out_avals) if aval.dtype == FLOAT0}
    kept = tuple([out for i, out in enumerate(jaxpr.outvars) if i not in empty])
    return dce(evolve(jaxpr, outvars=kept)) if empty else jaxpr, empty


def _region(axes: Sequence[MeshAxis]) -> Region | None:
    """What JAX traces within, for functions that are called within a `shard_map` of ours."""
    if not axes:
        return None
    names = tuple([axis.name for axis in axes])
    mesh = jax.sharding.AbstractMesh(tuple([axis.size for axis in axes]), names)
    return Region(mesh, names, any(axis.varying for axis in axes))


def _is_array(x: object) -> bool:
    """Whether JAX takes this as an array."""
    try:
        jax.typeof(x)
    except TypeError:
        return False
    return True


def _narrowed(array: Array) -> Array:
    """A number of Python's as JAX has it now: of 32 bits, where those of 64 are switched off."""
    aval: ShapedArray = narrow(array.aval)
    return array if aval == array.aval else bind(ConvertElementType(aval.dtype, weak_type=True), array)[0]
