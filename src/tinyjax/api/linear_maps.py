"""The linear functions that `linearize`, `vjp` and `linear_transpose` return.

They are nodes of trees, whose leaves are the arrays that they keep: a compiled function may return one, or take one.
"""

from __future__ import annotations

from abc import ABC, abstractmethod
from collections.abc import Callable, Iterable, Sequence
from contextlib import suppress
from typing import TYPE_CHECKING, Any, Protocol, TypeVar, final

from attrs import evolve, field, frozen
from typing_extensions import override

from tinyjax.api import derivatives
from tinyjax.api.gradient_places import DontWant, GradValue, Place, places_of, put, without
from tinyjax.caching import bounded
from tinyjax.errors import InputError, RefError, TangentError
from tinyjax.ir.aval import ShapedArray
from tinyjax.ir.program import Jaxpr
from tinyjax.tracebacks import filter_class
from tinyjax.tracing import tree
from tinyjax.tracing.array import Array
from tinyjax.tracing.concrete import ConcreteArray
from tinyjax.tracing.core import Tracer
from tinyjax.tracing.functions import argument_path, as_arrays, flatten_arguments, function_name
from tinyjax.tree.nodes import register_pytree_node

if TYPE_CHECKING:
    from jax.tree_util import PyTreeDef

Ct_contra = TypeVar("Ct_contra", contravariant=True)
R_co = TypeVar("R_co", covariant=True)


@frozen
class Form(ABC):
    """What such a function is, but for the arrays that it keeps: which transformation made it, and the program.

    `fun`, which was transformed, is for messages only.
    """

    ins: PyTreeDef
    outs: PyTreeDef
    fun: Callable[..., object] = field(eq=False)

    @property
    @abstractmethod
    def linear(self) -> Jaxpr:
        """The program of tangents, whose first inputs are what is kept."""

    @abstractmethod
    def apply(self, kept: Sequence[Array], args: Sequence[object]) -> Any:  # a tree as the user's
        """The results."""

    def _only(self, what: str, args: Sequence[object]) -> object:
        if len(args) != 1:
            raise TangentError(
                f"{what} of {function_name(self.fun)}: the function takes one argument, a tree of cotangents like the "
                f"result; got {len(args)}"
            )
        return args[0]

    def _cotangents(self, what: str, avals: Sequence[ShapedArray], cotangents: object) -> list[Array]:
        """The leaves of cotangents for results of these types."""
        leaves, structure = tree.flatten(cotangents)
        name = function_name(self.fun)
        tree.check_same_structure(what, self.outs, structure, f"the result of {name}", "the cotangent")
        return derivatives.check_tangents(
            what,
            ("result", "cotangent"),
            avals,
            as_arrays(leaves, lambda i: f"{what}: the cotangent{tree.paths(self.outs)[i]}"),
            lambda i: f"result{tree.paths(self.outs)[i]} of {name}",
            any_dtype=True,
        )


@final
@frozen
class PushForward(Form):
    """From tangents of the primals to those of the results."""

    program: derivatives.LinearProgram

    @property
    @override
    def linear(self) -> Jaxpr:
        return self.program.jaxpr

    @override
    def apply(self, kept: Sequence[Array], args: Sequence[object]) -> Any:
        directions, structure = flatten_arguments(self.fun, args, {})
        given = structure.children()[0]
        tree.check_same_structure("linearize", self.ins.children()[0], given, "the primals", "the tangents")
        checked = derivatives.check_tangents(
            "linearize",
            ("primal", "tangent"),
            self.program.in_avals,
            directions,
            lambda i: argument_path(self.fun, self.ins, i),
        )
        return tree.unflatten(self.outs, derivatives.push_forward(self.program, kept, checked))


@final
@frozen
class PullBack(Form):
    """From cotangents of the results to those of the primals."""

    program: derivatives.LinearProgram
    #: Which leaves of the arguments were Refs.
    refs: tuple[int, ...] = ()
    #: Where the gradients go, leaf by leaf; empty: all are results.
    places: tuple[Place, ...] = ()

    @property
    @override
    def linear(self) -> Jaxpr:
        return self.program.jaxpr

    @override
    def apply(self, kept: Sequence[Array], args: Sequence[object]) -> Any:
        cotangents = self._cotangents("vjp", self.program.out_avals, self._only("vjp", args))
        places = self.places or (GradValue(),) * self.ins.num_leaves
        for i in self.refs:
            if isinstance(places[i], GradValue):
                raise RefError(
                    f"vjp of {function_name(self.fun)}: {argument_path(self.fun, self.ins, i)} is a Ref, and its "
                    "gradient is added to a Ref: give one by `f_vjp.with_refs(...)`, with an entry for each argument, "
                    "or tinyjax.ad.DontWant()."
                )
        if not self.places:
            found, _ = tree.unflatten(self.ins, derivatives.pull_back(self.program, kept, cotangents))
            return tuple(found)
        program, n = self.program, len(places)
        unwanted = tuple([isinstance(place, DontWant) for place in places])
        program = without(program, unwanted) if any(unwanted) else program
        found, _ = tree.unflatten(self.ins, put(places, derivatives.pull_back(program, kept, cotangents)[:n]))
        return tuple(found)


@final
@frozen
class Transposed(Form):
    """A linear function, backwards."""

    jaxpr: Jaxpr

    @property
    @override
    def linear(self) -> Jaxpr:
        return self.jaxpr

    @override
    def apply(self, kept: Sequence[Array], args: Sequence[object]) -> Any:
        cotangents = self._cotangents("linear_transpose", self.jaxpr.out_avals, self._only("linear_transpose", args))
        found, _ = tree.unflatten(self.ins, derivatives.transpose_at(self.jaxpr, kept, cotangents))
        return tuple(found)


@final
@frozen
class NotNeeded:
    """Stands in `args_res` for an argument that the function doesn't keep as it is."""


@final
@frozen
class NotSaved:
    """Stands in `args_res` for an argument that the function needs, and that it was told not to keep."""


class VJP(Protocol[Ct_contra, R_co]):
    """What `vjp` returns beside the results: from their cotangents to those of the primals."""

    def __call__(self, cotangents: Ct_contra, /) -> R_co:
        """A tuple with the cotangent of each primal."""

    def with_refs(self, *entries: object) -> Callable[[Ct_contra], tuple[Any, ...]]:
        """The same function, with a place for each gradient: see `LinearMap.with_refs`."""

    @property
    def jaxpr(self) -> Jaxpr:
        """The linear program that it goes through backwards: see `LinearMap.jaxpr`."""

    @property
    def in_tree(self) -> PyTreeDef:
        """The structure of the arguments' tuple."""

    @property
    def out_tree(self) -> PyTreeDef:
        """The structure of the result."""

    @property
    def args_res(self) -> tuple[Any, ...]:
        """The arguments, as far as it keeps them: see `LinearMap.args_res`."""

    @property
    def opaque_residuals(self) -> list[Array]:
        """What else it keeps: see `LinearMap.opaque_residuals`."""

    def replace(self, *, args_res: Iterable[object]) -> VJP[Ct_contra, R_co]:
        """The same function of other arguments: see `LinearMap.replace`."""


@final
@filter_class
@frozen(eq=False)
class LinearMap:
    """A linear function: its form, and the arrays that it keeps.

    `vjp` says in `sources` which leaf of the arguments each of them is, if it is one. Such a one may be left out: then
    None stands for it, until `replace` puts it back.
    """

    form: Form
    kept: tuple[object, ...]
    sources: tuple[int | None, ...] = ()

    def __call__(self, *args: object) -> Any:  # a tree as the user's
        if any(array is None for array in self.kept):
            leaf = next(i for i, array in zip(self.sources, self.kept, strict=True) if array is None and i is not None)
            raise InputError(
                f"vjp of {function_name(self.form.fun)}: the function was told by saveable_args not to keep "
                f"{argument_path(self.form.fun, self.form.ins, leaf)}. Put it back before the call: "
                "`f_vjp.replace(args_res=args)` returns the function with the arguments `args`"
            )
        return self.form.apply(as_arrays(self.kept, lambda i: f"what the function keeps, array {i}"), args)

    def with_refs(self, *entries: object) -> LinearMap:
        """For what `vjp` returns: the same function, which puts gradients where the entries say, one for each argument
        of the function that is differentiated, or for each leaf of them.

        A Ref: the gradient is added to what it holds, and the result has `ad.GradRef()` in its place.
        `ad.GradValue()`: it is a result, as without this. `ad.DontWant()`: what only it needs isn't computed, and the
        result has `ad.DidntWant()` there.

        >>> from tinyjax import ad, new_ref, vjp
        >>> total = new_ref(100.0)
        >>> _, f_vjp = vjp(lambda x, y: x * y, 2.0, 3.0)
        >>> f_vjp.with_refs(total, ad.DontWant())(1.0)
        (GradRef(), DidntWant())
        >>> total
        Ref(103., dtype=float64, weak_type=True)
        """
        form = self.form
        if not isinstance(form, PullBack):
            raise RefError("with_refs is for what `vjp` returns: there are no gradients here")
        args = tree.unflatten(form.ins, range(form.ins.num_leaves))[0]
        places = places_of(f"vjp of {function_name(form.fun)}", entries, args)
        return evolve(self, form=evolve(form, places=places))

    @property
    def jaxpr(self) -> Jaxpr:
        """The program of tangents, whose first inputs are what the function keeps. What `vjp` and `linear_transpose`
        return goes through it backwards.

        >>> from tinyjax import vjp
        >>> vjp(lambda x: x * x, 3.0)[1].jaxpr
        { lambda ; a:~f64[] b:~f64[]. let
            c:~f64[] = mul b a
            d:~f64[] = mul a b
            e:~f64[] = add c d
          in (e,) }
        """
        return self.form.linear

    @property
    def in_tree(self) -> PyTreeDef:
        """The structure of the tuple of arguments of the function that was transformed."""
        return self.form.ins.children()[0]

    @property
    def out_tree(self) -> PyTreeDef:
        """The structure of its result."""
        return self.form.outs

    @property
    def args_res(self) -> tuple[Any, ...]:  # trees as the user's
        """Of `vjp`, the arguments, as far as the function keeps them: a leaf is NotNeeded if the derivative doesn't
        read it as it is, and NotSaved if it does, but `saveable_args` said that it isn't to be kept."""
        leaves: list[object] = [NotNeeded()] * self.form.ins.num_leaves
        for source, array in zip(self.sources, self.kept, strict=False):
            if source is not None:
                leaves[source] = NotSaved() if array is None else array
        args, _ = tree.unflatten(self.form.ins, leaves)
        return tuple(args)

    @property
    def opaque_residuals(self) -> list[Array]:
        """The arrays that it keeps and that are no arguments: what `fun` has computed on the way, or closes over."""
        return [
            array
            for i, array in enumerate(self.kept)
            if isinstance(array, Array) and (i >= len(self.sources) or self.sources[i] is None)
        ]

    def replace(self, *, args_res: Iterable[object]) -> LinearMap:
        """Of `vjp`, the function with other arguments in the place of those that it keeps, or was told not to keep.

        What isn't needed isn't looked at, so the arguments of the original will do.
        """
        form = self.form
        if not isinstance(form, PullBack):
            raise InputError("replace is for what `vjp` returns: no arguments are kept here")
        what = f"vjp of {function_name(form.fun)}: args_res"
        leaves, structure = tree.flatten((tuple(args_res), {}))
        tree.check_same_structure(what, self.form.ins, structure, "the arguments", "args_res")
        paths = [argument_path(form.fun, form.ins, source) if source is not None else "" for source in self.sources]
        kept = [
            array
            if source is None or isinstance(leaves[source], NotSaved)
            else _put_back(leaves[source], form.program.jaxpr.in_avals[i], f"{what}: {paths[i]}")
            for i, (source, array) in enumerate(zip(self.sources, self.kept, strict=True))
        ]
        return evolve(self, kept=tuple(kept))


def _put_back(leaf: object, expected: ShapedArray, where: str) -> Array:
    (array,) = as_arrays([leaf], lambda _: where)
    if not array.aval.matches(expected):
        raise InputError(f"{where} must have type {expected}, got {array.aval}")
    return array


def linear_map(form: Form, kept: Iterable[Array]) -> LinearMap:
    """The function that applies a form to what it keeps."""
    _register()
    return LinearMap(form, tuple(kept))


def pull_back(form: PullBack, kept: Sequence[Array], args: Sequence[Array], saveable: Sequence[bool]) -> LinearMap:
    """The function that `vjp` returns, for these leaves of arguments, which are kept if they are marked."""
    _register()
    places = {id(_element(arg)): i for i, arg in reversed([*enumerate(args)])}
    sources = tuple([places.get(id(_element(array))) for array in kept])
    left = [
        array if i is None else args[i] if saveable[i] else None  # the user's own array, if it is one
        for i, array in zip(sources, kept, strict=True)
    ]
    return LinearMap(form, tuple(left), sources)


def _element(array: Array) -> object:
    """What tells that two arrays are one."""
    return array.value if isinstance(array, ConcreteArray | Tracer) else array


def saveable_leaves(saveable: object, args: PyTreeDef) -> list[bool]:
    """For each leaf of the arguments, what a tree of bools, a prefix of them as tuples, says of it."""
    if isinstance(saveable, bool):
        return [saveable] * args.num_leaves
    parts = args.children()
    if not isinstance(saveable, tuple | list) or len(saveable) != len(parts) or args.node_data() is None:
        raise InputError(
            f"vjp: saveable_args says {saveable!r} of {tree.shown(args)}; it must be True or False, or a tuple with as "
            "much for each part"
        )
    return [mark for each, part in zip(saveable, parts, strict=True) for mark in saveable_leaves(each, part)]


@bounded(1)
def _register() -> None:
    """At first need, as trees are jax's. Caches may be cleared, and threads may come here at once."""
    with suppress(ValueError):  # it is registered already
        register_pytree_node(
            LinearMap,
            lambda found: (found.kept, (found.form, found.sources)),
            lambda said, kept: LinearMap(said[0], tuple(kept), said[1]),
        )
