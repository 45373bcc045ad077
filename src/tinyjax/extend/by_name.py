"""Primitives that are defined by a name and functions, as JAX has them: each is a class made of these functions.

`Primitive("f")` is what `jax.extend.core.Primitive` is. Its rules are set where JAX has them set: `def_impl` and
`def_abstract_eval` are methods, and the others are entries of the tables in `tinyjax.interpreters.ad`, `batching` and
`mlir`. What programs hold is a `NamedPrimitive`, one of a class that is made for each set of names of parameters.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from functools import partial
from typing import Any, ClassVar, Final, Literal, TypeAlias, TypeVar, cast, final

import attrs
import numpy as np
from attrs import frozen
from typing_extensions import override

from tinyjax.api.by_python import ensure_compile_time_eval
from tinyjax.errors import InputError, MissingRuleError
from tinyjax.extend.array_rules import ArrayPrimitive, Results, run_in
from tinyjax.ir import primitive as classes
from tinyjax.ir.aval import ShapedArray
from tinyjax.ir.context import Context
from tinyjax.ir.dtypes import HostArray
from tinyjax.ir.primitive import BatchAxis, UndefPrimal, Zero
from tinyjax.ir.source import user_frame
from tinyjax.lax.platforms import platform_dependent
from tinyjax.tracing.array import Array, ArrayLike
from tinyjax.tracing.concrete import as_array
from tinyjax.tracing.core import bind

V = TypeVar("V")
F = TypeVar("F", bound=Callable[..., Any])
#: A user's function, with the signature that its kind of rule has, and the parameters by name.
Rule: TypeAlias = Callable[..., Any]
#: The kinds of rules that a name has one of.
Kind: TypeAlias = Literal["impl", "abstract_eval", "jvp", "transpose", "batch"]

#: What a derivative rule returns beside the results.
Tangents: TypeAlias = ArrayLike | Zero | Sequence[ArrayLike | Zero]

#: How each kind is called in messages, and what sets it.
_SETTING: Final[Mapping[str, tuple[str, str]]] = {
    "impl": ("Evaluation rule", "call its `def_impl`"),
    "abstract_eval": ("Abstract evaluation", "call its `def_abstract_eval`"),
    "jvp": ("Differentiation rule", "set its entry of `interpreters.ad.primitive_jvps`"),
    "transpose": (
        "Transpose rule (for reverse-mode differentiation)",
        "set its entry of `interpreters.ad.primitive_transposes`",
    ),
    "batch": ("Batching rule", "set its entry of `interpreters.batching.primitive_batchers`"),
}


class _EveryPrimitive(type):
    """What programs hold are primitives, too: `isinstance(eqn.primitive, Primitive)`."""

    @override
    def __instancecheck__(cls, instance: object) -> bool:
        return super().__instancecheck__(instance) or isinstance(instance, classes.Primitive)


class Primitive(metaclass=_EveryPrimitive):
    """A primitive by its name, which gets its rules afterwards: `jax.extend.core.Primitive`.

    Rules get arrays, and the parameters by name; so they may use operators, `tinyjax.numpy` and `bind`. One that isn't
    there is a MissingRuleError when it is needed, which says what to set. `multiple_results = True` says that `bind`
    returns a list, as rules do then. `tinyjax.extend.Primitive` is for those that are to have typed rules, or to be
    read from text.

    >>> import numpy as np
    >>> import tinyjax as tj
    >>> from tinyjax.interpreters import ad, batching, mlir
    >>> scaled_p = Primitive("scaled")
    >>> _ = scaled_p.def_impl(lambda x, *, by: np.multiply(x, by))
    >>> _ = scaled_p.def_abstract_eval(lambda x, *, by: tj.ShapedArray(x.shape, x.dtype))
    >>> ad.deflinear2(scaled_p, lambda ct, x, *, by: [scaled_p.bind(ct, by=by)])
    >>> batching.defvectorized(scaled_p)
    >>> mlir.register_lowering(scaled_p, mlir.lower_fun(lambda x, *, by: x * by, multiple_results=False))
    >>> scaled = lambda x: scaled_p.bind(x, by=3.0)
    >>> print(tj.make_jaxpr(scaled)(np.ones(2)))
    { lambda ; a:f64[2]. let b:f64[2] = scaled[by=3.0] a in (b,) }
    >>> scaled(2.0), tj.grad(scaled)(2.0), tj.jit(tj.vmap(scaled))(np.arange(2.0))
    (Array(6., dtype=float64), Array(3., dtype=float64, weak_type=True), Array([0., 3.], dtype=float64))
    """

    def __init__(self, name: str) -> None:
        self.name: str = name
        self.multiple_results: bool = False
        self.rules: dict[Kind, Rule] = {}
        #: What it computes by other functions, by platform; "" for all others.
        self.lowerings: dict[str, Rule] = {}
        self._classes: dict[tuple[str, ...], type[NamedPrimitive]] = {}
        frame = user_frame()
        self._module: str = "__main__" if frame is None else str(frame.f_globals.get("__name__", "__main__"))

    def bind(self, *args: ArrayLike, **params: Any) -> Any:  # an array, or a list
        """Applies it: the result, or a list of them."""
        outs = bind(self._class_for(tuple(params))(**{_field(name): value for name, value in params.items()}), *args)
        return list(outs) if self.multiple_results else outs[0]

    def def_impl(self, impl: F) -> F:
        """Says what computes it outside of compiled programs, with NumPy or functions of ours."""
        self.rules["impl"] = impl
        return impl

    def def_abstract_eval(self, abstract_eval: F) -> F:
        """Says of which types the results are: a ShapedArray, or a list of them, for those of the operands."""
        self.rules["abstract_eval"] = abstract_eval
        return abstract_eval

    def rule(self, kind: Kind) -> Rule:
        """The rule of this kind; a MissingRuleError if it wasn't set."""
        found = self.rules.get(kind)
        if found is None:
            what, to_do = _SETTING[kind]
            raise MissingRuleError(f"{what} for '{self.name}' not implemented. To add it, {to_do}.")
        return found

    def _class_for(self, names: tuple[str, ...]) -> type[NamedPrimitive]:
        """The class of those with parameters of these names."""
        names = tuple(sorted(names))
        if names not in self._classes:
            body = {"name": self.name, "definition": self, "parameters": names, "__module__": self._module}
            fields = {_field(name): attrs.field() for name in names}
            made = attrs.make_class(self.name, fields, (NamedPrimitive,), class_body=body, frozen=True, slots=True)
            self._classes[names] = cast("type[NamedPrimitive]", made)
        return self._classes[names]

    @override
    def __repr__(self) -> str:
        return self.name


def _field(name: str) -> str:
    """The field of a parameter: one that every primitive has an attribute of is spelled with `_` after it."""
    return f"{name}_" if hasattr(NamedPrimitive, name) else name


@frozen
class NamedPrimitive(ArrayPrimitive):
    """What programs hold of a primitive by name: `definition` is what has its rules."""

    definition: ClassVar[Primitive]
    parameters: ClassVar[tuple[str, ...]]
    symbolic_zeros: ClassVar[bool] = True

    @property
    def _params(self) -> dict[str, Any]:  # the user's
        return {name: getattr(self, _field(name)) for name in self.parameters}

    @override
    def type_of(self, *avals: ShapedArray) -> tuple[ShapedArray, ...]:
        found = self._apply_rule("abstract_eval", *avals)
        return tuple(found) if self.definition.multiple_results else (found,)

    @override
    def evaluate(self, *args: HostArray) -> tuple[HostArray, ...]:
        rules, lowerings = self.definition.rules, self.definition.lowerings
        function = self._chosen if "impl" not in rules and lowerings else self.definition.rule("impl")
        with ensure_compile_time_eval():
            found = self._several(function(*map(as_array, args), **self._params))
            return tuple([np.asarray(x) for x in found])

    @override
    def expand(self, ctx: Context[V], args: Sequence[V]) -> Sequence[V] | None:
        if not self.definition.lowerings:
            return None
        return run_in(ctx, lambda *arrays: self._several(self._chosen(*arrays, **self._params)), *args)

    def _chosen(self, *args: Array, **params: Any) -> Any:  # what a rule returns
        by_platform = {name: partial(rule, **params) for name, rule in self.definition.lowerings.items()}
        default = by_platform.pop("", None)
        if not by_platform and default is not None:
            return default(*args)
        return platform_dependent(*args, default=default, **by_platform)

    def _several(self, outs: Any) -> Sequence[ArrayLike]:
        """Results as a sequence."""
        return list(outs) if self.definition.multiple_results or isinstance(outs, tuple | list) else [outs]

    def _apply_rule(self, kind: Kind, *given: object) -> Any:  # what the rule returns
        return self.definition.rule(kind)(*given, **self._params)

    @override
    def jvp_arrays(self, primals: Sequence[Array], tangents: Sequence[Any]) -> tuple[Results, Tangents]:
        found: tuple[Results, Tangents] = self._apply_rule("jvp", tuple(primals), tuple(tangents))
        return found

    @override
    def batch_arrays(
        self, axis: BatchAxis, args: Sequence[Array], axes: Sequence[int | None]
    ) -> tuple[Results, int | Sequence[int | None] | None]:
        found: tuple[Results, int | Sequence[int | None] | None] = self._apply_rule("batch", tuple(args), tuple(axes))
        return found

    @override
    def transpose_arrays(
        self, cotangents: Sequence[Any], args: Sequence[Array | UndefPrimal]
    ) -> Sequence[ArrayLike | Zero | None]:
        given = list(cotangents) if self.definition.multiple_results else cotangents[0]
        found: object = self._apply_rule("transpose", given, *args)
        if not isinstance(found, tuple | list):
            raise InputError(
                f"the transpose rule of {self.name!r} returns {type(found).__name__}: it has to be a list of what each "
                "operand gets, None for those that it isn't linear in"
            )
        return found


@final
class Rules:
    """The rules of one kind, set and read by primitive: `primitive_jvps[f_p] = rule`."""

    __slots__ = ("kind",)

    def __init__(self, kind: Kind) -> None:
        self.kind: Final[Kind] = kind

    def __setitem__(self, primitive: Primitive, rule: Rule) -> None:
        if type(primitive) is not Primitive:
            raise InputError(
                f"{primitive!r} has its rules in its class: only what `Primitive(name)` has made gets them by tables"
            )
        primitive.rules[self.kind] = rule

    def __getitem__(self, primitive: Primitive) -> Rule:
        return primitive.rules[self.kind]

    def __contains__(self, primitive: object) -> bool:
        return type(primitive) is Primitive and self.kind in primitive.rules
