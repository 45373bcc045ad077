"""`custom_vmap`: functions that say themselves how they are mapped; and `sequential_vmap`."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from typing import TYPE_CHECKING, Any, Final, ParamSpec, TypeVar, final

from attrs import field, frozen
from typing_extensions import override

from tinyjax.api.bound import Bound
from tinyjax.api.make_jaxpr import closed_values
from tinyjax.api.rules.applications import _positional
from tinyjax.control.custom_batching import CustomVmap, VmapProgram, VmapRule
from tinyjax.errors import RuleResultError, UndefinedRuleError
from tinyjax.ir.aval import ShapedArray
from tinyjax.lax import bodies
from tinyjax.lax.loops import map as map_in_order
from tinyjax.tracebacks import filter_class, filtered
from tinyjax.tracing import tree
from tinyjax.tracing.concrete import as_array
from tinyjax.tracing.core import bind
from tinyjax.tracing.functions import check_callable, flatten_arguments, function_name, located
from tinyjax.transforms.batch import add_axis
from tinyjax.wrapping import update_wrapper

if TYPE_CHECKING:
    from jax.tree_util import PyTreeDef

P = ParamSpec("P")
R = TypeVar("R")


@filtered
def custom_vmap(fun: Callable[P, R]) -> CustomVmapFunction[P, R]:
    """`fun` with a batching rule of its own, which `def_vmap` of the result gives.

    The function is traced, and is one equation. Forward derivatives of it are mapped as those of what the rule gives.
    In reverse mode it is taken apart, and its parts are mapped as they are; `custom_vjp` around it keeps it whole.

    >>> from tinyjax import numpy as tnp, vmap
    >>> @custom_vmap
    ... def times(x, y):
    ...     return x * y
    >>> @times.def_vmap
    ... def times_batched(axis_size, in_batched, x, y):
    ...     print(axis_size, in_batched)
    ...     return x * y, True
    >>> vmap(times, in_axes=(0, None))(tnp.arange(3.0), 2.0)
    3 [True, False]
    Array([0., 2., 4.], dtype=float64)
    """
    check_callable("custom_vmap", fun)
    return CustomVmapFunction(fun)


@final
@filter_class
class CustomVmapFunction(Bound[P, R]):
    """What `custom_vmap` returns: the function, once it has a rule."""

    __name__: str
    __wrapped__: Callable[P, R]

    def __init__(self, fun: Callable[P, R]) -> None:
        update_wrapper(self, fun)
        self._fun: Final = fun
        self._rule: Callable[..., Any] | None = None

    def def_vmap(self, vmap_rule: Callable[..., Any]) -> Callable[..., Any]:
        """Sets the rule, and returns it, so it is a decorator.

        `vmap_rule(axis_size, in_batched, *args)` gets the arguments, those that are mapped with the mapped axis first,
        and for each of them a tree of bools that says what is. It returns a pair: the results, and the same tree of
        bools, or one bool for all of them.
        """
        check_callable("def_vmap", vmap_rule)
        self._rule = vmap_rule
        return vmap_rule

    @override
    def __call__(self, /, *args: P.args, **kwargs: P.kwargs) -> R:
        name = function_name(self._fun)
        if self._rule is None:
            raise UndefinedRuleError(
                f"No batching rule defined for custom_vmap function {name} using def_vmap. Decorate its rule with "
                f"@{name}.def_vmap."
            )
        values = tuple(_positional("custom_vmap", self._fun, args, kwargs))
        arrays, treedef = flatten_arguments(self._fun, values, {})
        traced = bodies.stage("custom_vmap", self._fun, treedef, [array.aval for array in arrays])
        rule = _UsersRule(self._rule, name, treedef, traced.treedef, traced.jaxpr.out_avals)
        primitive = CustomVmap(name, traced.jaxpr, rule, len(traced.captured))
        result: R = traced.results(bind(primitive, *traced.captured, *arrays))
        return result


@final
@frozen
class _UsersRule(VmapRule):
    """A rule as the user has written it, for a function with these trees of arguments and results."""

    rule: Callable[..., Any] = field(eq=id)
    function_name: str
    in_tree: PyTreeDef
    out_tree: PyTreeDef
    results: tuple[ShapedArray, ...]

    @override
    def __str__(self) -> str:
        return function_name(self.rule)

    @property
    @override
    def user_rule(self) -> object:
        return self.rule

    @override
    def program(self, size: int, mapped: tuple[bool, ...], avals: Sequence[ShapedArray]) -> VmapProgram:
        what = f"the rule {located(self.rule)} of custom_vmap function {self.function_name}"
        marks: list[bool] = []

        def run(*leaves: object) -> Any:  # the user's trees
            args, _ = tree.unflatten(self.in_tree, leaves)
            batched, _ = tree.unflatten(self.in_tree, mapped)
            pair = self.rule(size, list(batched), *args)
            if not isinstance(pair, tuple | list) or len(pair) != 2:
                raise RuleResultError(f"{what} must return a pair: results, and which of them are mapped; got {pair!r}")
            out, out_batched = pair
            found = tree.flatten(out)[1]
            tree.check_same_structure(what, self.out_tree, found, f"the result of {self.function_name}", "that of it")
            marks[:] = _marks(what, out_batched, self.out_tree)
            return out

        _, flat = tree.flatten((tuple(avals), {}))
        traced = bodies.stage("custom_vmap", run, flat, avals)
        for aval, mark, found in zip(self.results, marks, traced.jaxpr.out_avals, strict=True):
            expected = add_axis(aval, 0 if mark else None, size)
            if not found.matches(expected):
                raise RuleResultError(f"{what}: a result must have type {expected}, got {found}")
        return VmapProgram(traced.jaxpr, closed_values(traced, what), tuple(marks))


def _marks(what: str, batched: object, treedef: PyTreeDef) -> list[bool]:
    """Which results are mapped."""
    leaves, found = tree.flatten(batched)
    if tree.is_leaf(found):
        leaves = leaves * treedef.num_leaves
    else:
        tree.check_same_structure(what, treedef, found, "the results", "what says which of them are mapped")
    if not all(isinstance(leaf, bool) for leaf in leaves):
        raise RuleResultError(f"{what} must say with True or False which results are mapped, got {batched!r}")
    return [leaf is True for leaf in leaves]


@filtered
def sequential_vmap(f: Callable[P, R]) -> CustomVmapFunction[P, R]:
    """`f`, which is applied to one element after the other where it is mapped, as by `lax.map`.

    >>> from tinyjax import numpy as tnp, vmap
    >>> vmap(sequential_vmap(lambda x, y: x + y), in_axes=(0, None))(tnp.arange(3.0), 1.0)
    Array([1., 2., 3.], dtype=float64)
    """
    mapped = custom_vmap(f)

    @mapped.def_vmap
    def rule(axis_size: int, in_batched: Sequence[object], *args: object) -> tuple[object, bool]:
        leaves, treedef = tree.flatten(args)
        marks, _ = tree.flatten(tuple(in_batched))
        moving = [as_array(leaf) for leaf, mark in zip(leaves, marks, strict=True) if mark]
        if not moving:  # as where only a tangent is mapped
            function: Callable[..., object] = f
            return function(*args), False

        def one(elements: list[Any]) -> object:
            rest = iter(elements)
            full = [next(rest) if mark else leaf for leaf, mark in zip(leaves, marks, strict=True)]
            own: Callable[..., object] = mapped
            return own(*tree.unflatten(treedef, full))

        return map_in_order(one, moving), True

    return mapped
