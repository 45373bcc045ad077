"""`make_jaxpr`, `eval_jaxpr`, `eval_shape`: from Python functions to programs and back."""

from __future__ import annotations

import operator
from collections.abc import Callable, Sequence
from typing import Any, Literal, ParamSpec, TypeVar, overload

import numpy as np

from tinyjax import refs
from tinyjax.api.arguments import split_static
from tinyjax.control.call import Call
from tinyjax.errors import ChoiceError, InputError
from tinyjax.ir.aval import ShapedArray
from tinyjax.ir.interpret import interpret
from tinyjax.ir.naming import named_types
from tinyjax.ir.program import ClosedJaxpr, Jaxpr
from tinyjax.ir.type_lists import all_match, listed
from tinyjax.ir.value import ConcreteValue
from tinyjax.ir.verify import verify
from tinyjax.lax.carried_cells import without_idle
from tinyjax.lax.explicit import given
from tinyjax.lax.layouts import own_sharding
from tinyjax.lax.signatures import AnyTree, Pair, Triple
from tinyjax.lax.types_said import described
from tinyjax.meshes import NamedSharding
from tinyjax.tracebacks import filtered
from tinyjax.tracing import tree
from tinyjax.tracing.array import Array, ArrayLike
from tinyjax.tracing.concrete import ROOT, ConcreteArray, as_array, top_frame
from tinyjax.tracing.core import bind
from tinyjax.tracing.frames import OpenFrame, V
from tinyjax.tracing.functions import FlatFunction, check_callable, function_name
from tinyjax.tracing.intake import host_type
from tinyjax.tracing.programs import Traced, trace

K = TypeVar("K")
P = ParamSpec("P")
R = TypeVar("R")
T = TypeVar("T", bound=AnyTree)


def abstractify(leaf: object) -> ShapedArray:
    """The type of an array, or of something that has a shape and a dtype."""
    if type(leaf) is np.ndarray and (found := host_type(leaf.shape, leaf.dtype)) is not None:
        return found
    said = None if isinstance(leaf, refs.ref.Ref) else described(leaf)  # a Ref is no array: the error says what to do
    return as_array(leaf).aval if said is None else said


@overload
def make_jaxpr(
    fun: Callable[P, R],
    static_argnums: int | Sequence[int] = (),
    *,
    static_argnames: str | Sequence[str] = (),
    axis_env: Sequence[tuple[str, int]] | None = None,
    return_shape: Literal[False] = False,
) -> Callable[..., ClosedJaxpr]: ...
@overload
def make_jaxpr(
    fun: Callable[P, R],
    static_argnums: int | Sequence[int] = (),
    *,
    static_argnames: str | Sequence[str] = (),
    axis_env: Sequence[tuple[str, int]] | None = None,
    return_shape: Literal[True],
) -> Callable[..., tuple[ClosedJaxpr, Any]]: ...
@filtered
def make_jaxpr(
    fun: Callable[P, R],
    static_argnums: int | Sequence[int] = (),
    *,
    static_argnames: str | Sequence[str] = (),
    axis_env: Sequence[tuple[str, int]] | None = None,
    return_shape: bool = False,
) -> Callable[..., ClosedJaxpr | tuple[ClosedJaxpr, Any]]:
    """A function that returns the program of `fun` for given arguments, instead of running it.

    Arguments are trees of arrays or of their types (ShapedArray, or anything with a shape and a dtype). Every operation
    in `fun` becomes an equation, also those on constants; arrays that it closes over become constants of the result.
    With `return_shape`, the tree of result types is returned too. What Refs hold that `fun` takes or closes over is an
    input each, and what it leaves in them a last result. `axis_env` has names and sizes of axes that collectives in
    `fun` are about, as if in a `vmap` around it. Source: Autodidax, part 3.

    >>> make_jaxpr(lambda x: 2.0 * x)(ShapedArray((), "float64"))
    { lambda ; a:f64[]. let b:f64[] = mul 2.0 a in (b,) }
    """
    check_callable("make_jaxpr", fun)
    axes = _named_sizes(axis_env)

    @filtered
    def make(*args: Any, **kwargs: Any) -> ClosedJaxpr | tuple[ClosedJaxpr, Any]:  # the user's arguments
        function, args, kwargs = refs.staged.without_refs(fun, args, kwargs)
        call = split_static(function, args, kwargs, static_argnums, static_argnames)
        leaves, treedef = tree.flatten((call.args, call.kwargs))
        flat = FlatFunction(call.function, "make_jaxpr", treedef)
        traced = _within(axes, lambda: _traced(flat, leaves)[0])
        closed = ClosedJaxpr(traced.jaxpr, closed_values(traced, "make_jaxpr"))
        types = closed.out_avals[: traced.treedef.num_leaves]
        return (closed, tree.unflatten(traced.treedef, types)) if return_shape else closed

    name = function_name(fun)
    qualified = getattr(fun, "__qualname__", None)
    make.__name__ = f"make_jaxpr({name})"
    make.__qualname__ = f"make_jaxpr({qualified if isinstance(qualified, str) else name})"
    return make


def _named_sizes(axis_env: Sequence[tuple[str, int]] | None) -> list[tuple[str, int]]:
    found: list[tuple[object, int]]
    try:
        found = [(name, operator.index(size)) for name, size in axis_env or ()]
    except (TypeError, ValueError):
        found = [(None, 0)]
    axes = [(name, size) for name, size in found if isinstance(name, str) and size > 0]
    if len(axes) < len(found):
        raise ChoiceError(f'make_jaxpr: axis_env has pairs of a name and a size, [("i", 4)], got {axis_env!r}')
    return axes


def _within(axes: Sequence[tuple[str, int]], make: Callable[[], R]) -> R:
    """What `make` returns where these axes have names, the first of them outermost."""
    if not axes:
        return make()
    from tinyjax.api.vectorize import vmap  # which a gradient doesn't load

    ((name, size), *inner), made = axes, list[R]()
    vmap(lambda: made.append(_within(inner, make)), (), axis_name=name, axis_size=size)()
    return made[0]


def closed_values(traced: Traced, transformation: str) -> tuple[ConcreteValue, ...]:
    """The constants of a program; an InputError if some are traced values."""
    values = [array.value for array in traced.captured if isinstance(array, ConcreteArray)]
    if len(values) < len(traced.captured):
        (traced_value, *_) = [array for array in traced.captured if not isinstance(array, ConcreteArray)]
        raise InputError(
            f"{transformation}: the function closes over {traced_value!r}, which another transformation is tracing. "
            "Pass it as an argument: `converted, values = tinyjax.closure_convert(fun, *args)` gives a function that "
            f"takes such values after its arguments, for `{transformation}(converted)(*args, *values)`."
        )
    return tuple(values)


@filtered
def eval_jaxpr(
    jaxpr: Jaxpr | ClosedJaxpr, consts: Sequence[ArrayLike | ConcreteValue], *args: ArrayLike
) -> list[Array]:
    """Runs a program on arrays, equation by equation; transformations apply to it as to any function.

    `consts` feed the first inputs. For a ClosedJaxpr they are its own, and `consts` is (). On arrays that lie along
    Explicit axes of a mesh it is run as a whole, as a later equation may say how the result of an earlier one lies.

    >>> closed = make_jaxpr(lambda x: 2.0 * x)(3.0)
    >>> eval_jaxpr(closed.jaxpr, closed.consts, 4.0)
    [Array(8., dtype=float64, weak_type=True)]
    """
    verify(jaxpr)
    if isinstance(jaxpr, ClosedJaxpr):
        consts, jaxpr = (*jaxpr.consts, *consts), jaxpr.jaxpr
    arrays = [as_array(x) for x in (*consts, *args)]
    found = tuple(array.aval for array in arrays)
    if not all_match(found, jaxpr.in_avals):
        raise InputError(f"the program takes ({named_types(jaxpr.input_names, jaxpr.in_avals)}), got {listed(found)}")
    program = jaxpr
    frame = top_frame(arrays, jaxpr.effects)
    if frame.base is ROOT and any(map(_on_explicit_axes, arrays)):
        return list(bind(Call("eval_jaxpr", program), *arrays))

    def run(frame: OpenFrame[V]) -> list[Array]:
        return [frame.wrap(out) for out in interpret(frame.context, program, [frame.read(array) for array in arrays])]

    return frame.open(run)


def _on_explicit_axes(x: Array) -> bool:
    """Whether it is an array on a mesh with Explicit axes, or is differentiated at one."""
    known = x.concrete()
    own = None if known is None or not known.on_several else own_sharding(ConcreteArray(known))
    return own is not None and bool(own.mesh.explicit_axes)


@overload
def eval_shape(fun: Callable[..., ArrayLike], *args: Any, **kwargs: Any) -> ShapedArray: ...
@overload
def eval_shape(fun: Callable[..., Pair], *args: Any, **kwargs: Any) -> tuple[ShapedArray, ShapedArray]: ...
@overload
def eval_shape(
    fun: Callable[..., Triple], *args: Any, **kwargs: Any
) -> tuple[ShapedArray, ShapedArray, ShapedArray]: ...
@overload
def eval_shape(fun: Callable[..., dict[K, Array]], *args: Any, **kwargs: Any) -> dict[K, ShapedArray]: ...
@overload
def eval_shape(fun: Callable[..., list[Array]], *args: Any, **kwargs: Any) -> list[ShapedArray]: ...
@overload
def eval_shape(fun: Callable[..., T], *args: Any, **kwargs: Any) -> T: ...
@overload
def eval_shape(fun: Callable[..., object], *args: Any, **kwargs: Any) -> Any: ...
@filtered
def eval_shape(fun: Callable[..., object], *args: Any, **kwargs: Any) -> Any:  # the user's trees
    """The tree of types that `fun` returns for these arguments, without computing: as its result, but
    a ShapedArray for each array; a ShapeDtypeStruct with its `sharding` on a mesh with Explicit axes.

    >>> eval_shape(lambda x: {"twice": 2.0 * x}, ShapedArray((3,), "float32"))
    {'twice': ShapedArray(f32[3])}
    """
    check_callable("eval_shape", fun)
    function, args, kwargs = refs.staged.without_refs(fun, args, kwargs)
    leaves, treedef = tree.flatten((args, kwargs))
    traced, lies = _traced(FlatFunction(function, "eval_shape", treedef), leaves)
    if not any(lies):
        found = tree.unflatten(traced.treedef, traced.jaxpr.out_avals[: traced.treedef.num_leaves])
        return found if function is fun else found[0]
    from tinyjax.api.structs import ShapeDtypeStruct  # which is made of what is here

    pairs = list(zip(traced.jaxpr.out_avals, lies, strict=True))[: traced.treedef.num_leaves]
    types = [ShapeDtypeStruct.like(x).update(sharding=s) for x, s in pairs]
    found = tree.unflatten(traced.treedef, types)
    return found if function is fun else found[0]


def _traced(function: FlatFunction, leaves: Sequence[object]) -> tuple[Traced, Sequence[NamedSharding | None]]:
    """The program, and how its results lie along Explicit axes of a mesh."""
    avals = [abstractify(leaf) for leaf in leaves]
    lies = given(leaves, [aval.ndim for aval in avals])
    if lies is None:
        return without_idle(trace(function, avals, writes=True)), ()
    traced = without_idle(lies.stage(lambda: trace(function, avals, writes=True)))
    return traced, lies.check(traced)
