"""The context that applies primitives with JAX: its values are JAX's arrays and tracers. The rules are a table."""

from __future__ import annotations

from collections.abc import Callable, Hashable, Sequence
from pathlib import Path
from typing import Final, TypeAlias, final

import jax
from jax.extend import source_info_util
from jax.extend.core import ClosedJaxpr as JaxClosedJaxpr
from jax.typing import ArrayLike
from typing_extensions import override

from tinyjax.backend import jax_equations, jax_programs
from tinyjax.control.recursion import Enclosing
from tinyjax.errors import UnsupportedError
from tinyjax.ir import contracts
from tinyjax.ir.aval import ShapedArray
from tinyjax.ir.context import Context
from tinyjax.ir.dtypes import COMPLEX128, FLOAT64, INT64, UINT64
from tinyjax.ir.effects import axis_names
from tinyjax.ir.interpret import interpret
from tinyjax.ir.primitive import Primitive
from tinyjax.ir.program import Jaxpr, Literal
from tinyjax.ir.rules import RuleTable
from tinyjax.ir.shapes import REDUCED, UNREDUCED, Axes, unmarked
from tinyjax.ir.value import ConcreteValue
from tinyjax.primitives.casts import Cast, casts

# What JAX says of where an equation comes from is then the user's line, and not one of this library.
source_info_util.register_exclusion(str(Path(__file__).parent.parent))

#: What functions of JAX take and return: arrays, one after the other.
Args: TypeAlias = Sequence[ArrayLike]
Function: TypeAlias = Callable[..., Args]
#: What JAX truncates unless it is told otherwise.
WIDE: Final = frozenset({FLOAT64, INT64, UINT64, COMPLEX128})


@final
class Prepared:
    """What has been made of a program for JAX already, so that JAX sees the same function and the same program again.

    JAX keeps what it compiles by the identity of these.
    """

    __slots__ = ("functions", "staged")

    def __init__(self) -> None:
        self.functions: dict[tuple[Primitive, str], Function] = {}
        self.staged: dict[tuple[Jaxpr, str, Hashable], JaxClosedJaxpr] = {}


@final
class JaxContext(Context[ArrayLike]):
    """Applies primitives with JAX: computes, or stages where JAX is tracing."""

    __slots__ = ("prepared", "rules")

    def __init__(self, prepared: Prepared, rules: ToJaxRules) -> None:
        self.prepared: Prepared = prepared
        self.rules: ToJaxRules = rules

    @override
    def bind(self, primitive: Primitive, *args: ArrayLike) -> tuple[ArrayLike, ...]:
        return contracts.bind_by(self.rules, primitive, self, args, self, args)

    @override
    def constant(self, value: ConcreteValue | Literal) -> ArrayLike:
        if isinstance(value, Literal):
            return self.varied(jax_programs.literal(value.value, value.aval), value.aval.axes)
        return jax_programs.array_of(value)

    @override
    def aval(self, value: ArrayLike) -> ShapedArray:
        found = jax.typeof(value)
        plain = ShapedArray(found.shape, jax_programs.dtype_of(found), bool(found.weak_type))
        return plain.varying_over(jax_equations.axes_of(found))

    def varied(self, value: ArrayLike, axes: Axes) -> ArrayLike:
        """The value, as one that varies along these axes of a mesh, or whatever else they say."""
        if not axes:
            return value
        terms = unmarked(axes)[1]  # zeros are terms of a sum, too
        for wanted in (terms, axes) if terms else (axes,):
            for cast in casts(jax_equations.axes_of(jax.typeof(value)), wanted):
                value = jax_cast(cast, value)
        return value

    def function(self, primitive: Primitive, part: str, make: Callable[[], Function]) -> Function:
        """The function that JAX is given for a part of a primitive: the same one each time."""
        found = self.prepared.functions.get((primitive, part))
        if found is None:
            found = make()
            self.prepared.functions[primitive, part] = found
        return found

    def runner(self, jaxpr: Jaxpr, name: str) -> Function:
        """The program as a function of JAX."""

        def run(*args: ArrayLike) -> Sequence[ArrayLike]:
            outs = interpret(self, jaxpr, args)
            return tuple([self.varied(out, aval.axes) for out, aval in zip(outs, jaxpr.out_avals, strict=True)])

        run.__name__ = run.__qualname__ = name
        return run

    def staged(self, jaxpr: Jaxpr, name: str) -> JaxClosedJaxpr:
        """The program as a program of JAX."""
        key = (jaxpr, name, jax_programs.trace_context())
        found = self.prepared.staged.get(key)
        if found is None:
            found = jax.make_jaxpr(self.runner(jaxpr, name))(*map(struct, jaxpr.in_avals))
            if not axis_names(jaxpr.effects):  # else it depends on the axes that are there now
                self.prepared.staged[key] = found
        return found


ToJaxRules: TypeAlias = RuleTable[[JaxContext, Args], Args]
#: How each primitive is applied with JAX. A tool of your own may add rules for primitives of its own.
TO_JAX: Final[ToJaxRules] = RuleTable("JAX", name="tinyjax.interop.jax.TO_JAX")


_KINDS: Final = {"": "varying", UNREDUCED: "unreduced", REDUCED: "reduced"}


def jax_cast(cast: Cast, value: ArrayLike) -> ArrayLike:
    """The value as what else a type may say of it."""
    found: ArrayLike = jax.lax.pcast(value, cast.axes, to=_KINDS[cast.target])
    return found


def struct(aval: ShapedArray) -> jax.ShapeDtypeStruct:
    """The type as JAX has it."""
    dtype = jax_programs.dtype_in_jax(aval.dtype)
    if not aval.axes:
        return jax.ShapeDtypeStruct(aval.shape, dtype, weak_type=aval.weak_type)
    varying = jax.sharding.ManualAxisType(
        varying=frozenset(aval.varying), unreduced=frozenset(aval.unreduced), reduced=frozenset(aval.reduced)
    )
    here = jax.sharding.NamedSharding(jax.sharding.get_abstract_mesh(), jax.sharding.PartitionSpec())
    return jax.ShapeDtypeStruct(aval.shape, dtype, weak_type=aval.weak_type, sharding=here, manual_axis_type=varying)


def check_rules(jaxprs: Sequence[Jaxpr], rules: ToJaxRules) -> None:
    """An UnsupportedError that lists every primitive that JAX can't apply, if there are any."""
    counts: dict[str, int] = {}
    for jaxpr in jaxprs:
        for eqn in jaxpr.eqns:
            cls = type(eqn.primitive)
            if cls is Enclosing:  # a rule that is run has the primitive in its place
                continue
            if cls not in rules and cls.expand is Primitive.expand:
                counts[cls.name] = counts.get(cls.name, 0) + 1
    if counts:
        listed = ", ".join(f"{name} ({count})" for name, count in sorted(counts.items()))
        raise UnsupportedError(
            f"to_jax: JAX has nothing for these primitives, with the number of equations: {listed}. Decompose them "
            "first, or pass to_jax a table of `rules` that has some for them."
        )


def wide_place(programs: Sequence[Jaxpr], consts: Sequence[ConcreteValue]) -> str | None:
    """Where 64-bit numbers occur first, if they do."""
    for i, const in enumerate(consts):
        if const.dtype in WIDE:
            return f"constant {i} is {const.aval}"
    for jaxpr in reversed(programs):
        for var in jaxpr.invars:
            if var.aval.dtype in WIDE:
                return f"an input is {var.aval}"
        for eqn in jaxpr.eqns:
            for atom in (*eqn.outvars, *eqn.invars):
                if atom.aval.dtype in WIDE:
                    where = f" at {eqn.source}" if eqn.source is not None else ""
                    return f"{atom.aval} in {eqn.primitive.name}{where}"
        for atom in jaxpr.outvars:
            if atom.aval.dtype in WIDE:
                return f"a result is {atom.aval}"
    return None
