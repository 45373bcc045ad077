"""A small tinyjax, in one file: the code of docs/from-scratch.md, which explains it.

Extracted from that page; don't edit it here. `pytest tests/test_mini.py --update-golden` extracts it again.
"""

from __future__ import annotations

from abc import ABC, abstractmethod
from collections.abc import Callable, Iterator, Sequence
from contextvars import ContextVar
from functools import cache, partial, reduce, wraps
from itertools import compress, count, product
from typing import Any, ClassVar, Final, Generic, Protocol, Self, TypeAlias, TypeVar

import attrs
import numpy as np
import numpy.typing as npt
from attrs import evolve, field, frozen
from typing_extensions import TypeVarTuple, override

from tinyjax import backend

A = TypeVar("A")
R = TypeVar("R")
T = TypeVar("T")
U = TypeVar("U")
V = TypeVar("V")
R_co = TypeVar("R_co", covariant=True)
Ts = TypeVarTuple("Ts")
HostArray: TypeAlias = npt.NDArray[Any]
DType: TypeAlias = np.dtype[Any]
FLOAT, INT, BOOL = np.dtype("float64"), np.dtype("int32"), np.dtype("bool")


# 1. Programs


@frozen
class ShapedArray:
    shape: tuple[int, ...]
    dtype: DType = FLOAT
    weak_type: bool = False

    @override
    def __str__(self) -> str:
        name = {FLOAT: "f64", INT: "i32", BOOL: "bool"}[self.dtype]
        return f"{'~' * self.weak_type}{name}[{','.join(map(str, self.shape))}]"


@frozen
class Var:
    index: int
    aval: ShapedArray


@frozen
class Literal:
    value: float = field(eq=repr)
    aval: ShapedArray


Atom: TypeAlias = Var | Literal


@frozen
class Eqn:
    primitive: Primitive
    invars: tuple[Atom, ...]
    outvars: tuple[Var, ...]


@frozen(repr=False)
class Jaxpr:
    invars: tuple[Var, ...]
    eqns: tuple[Eqn, ...]
    outvars: tuple[Atom, ...]

    @property
    def in_avals(self) -> tuple[ShapedArray, ...]:
        return tuple([var.aval for var in self.invars])

    @property
    def out_avals(self) -> tuple[ShapedArray, ...]:
        return tuple([atom.aval for atom in self.outvars])

    @override
    def __str__(self) -> str:
        return show(self)


def show(jaxpr: Jaxpr, indent: int = 0, column: int = 0) -> str:
    atoms = [*jaxpr.invars, *[atom for eqn in jaxpr.eqns for atom in eqn.invars], *jaxpr.outvars]
    read = {atom.index for atom in atoms if isinstance(atom, Var)}
    words = ("".join(word) for n in count(1) for word in product("abcdefghijklmnopqrstuvwxyz", repeat=n))
    letters = (word for word in words if word not in ("in", "inf", "let", "nan"))
    bound = [*jaxpr.invars, *[var for eqn in jaxpr.eqns for var in eqn.outvars]]
    names = {var.index: next(letters) if var.index in read else "_" for var in bound}

    def atom(x: Atom) -> str:
        if isinstance(x, Var):
            return names[x.index]
        return str(x.value) if x.aval.weak_type or x.aval.dtype == BOOL else f"{x.value}:{x.aval}"

    def equation(eqn: Eqn) -> str:
        binders = [f"{names[var.index]}:{var.aval}" for var in eqn.outvars]
        return " ".join([*binders, "=", show_primitive(eqn.primitive, indent + 4), *map(atom, eqn.invars)])

    head = " ".join(["{ lambda ;", *[f"{names[var.index]}:{var.aval}" for var in jaxpr.invars]])
    head += ". let" if jaxpr.invars else " . let"
    tail = f"in ({', '.join(map(atom, jaxpr.outvars))}{',' * (len(jaxpr.outvars) == 1)}) }}"
    lines = [equation(eqn) for eqn in jaxpr.eqns]
    line = " ".join([head, *(lines or [""]), tail])
    if len(lines) <= 1 and "\n" not in line and column + len(line) <= 80:
        return line
    pad = "\n" + " " * indent
    return f"{head}{''.join(f'{pad}    {line}' for line in lines)}{pad}  {tail}"


def show_primitive(primitive: Primitive, indent: int) -> str:
    params = attrs.asdict(primitive, recurse=False)
    pad = "\n" + " " * indent
    if not any(isinstance(value, Jaxpr) or is_programs(value) for value in params.values()):
        return primitive.name + (f"[{' '.join(f'{name}={value}' for name, value in params.items())}]" if params else "")
    text = ""
    for name, value in params.items():
        text += f"{pad}  {name}="
        if isinstance(value, Jaxpr):
            text += show(value, indent + 2, indent + 3 + len(name))
        elif is_programs(value):
            text += f"({''.join(f'{pad}    {show(program, indent + 4, indent + 4)}' for program in value)}{pad}  )"
        else:
            text += str(value)
    return f"{primitive.name}[{text}{pad}]"


def is_programs(value: object) -> bool:
    return isinstance(value, tuple) and any(isinstance(item, Jaxpr) for item in value)


# 2. Primitives and contexts


@frozen(eq=False)
class ConcreteValue:
    data: HostArray
    aval: ShapedArray


@frozen
class Zero:
    """A tangent or cotangent that is zero everywhere, without its elements."""

    aval: ShapedArray


@frozen
class UndefPrimal:
    """Stands, during transposition, for an operand that the equation is linear in."""

    aval: ShapedArray


Marks: TypeAlias = tuple[bool, ...]
Tangents: TypeAlias = Sequence["V | Zero"]
Operands: TypeAlias = Sequence["V | UndefPrimal"]
Cotangents: TypeAlias = Sequence["V | Zero | None"]


@frozen
class Primitive(ABC):
    name: ClassVar[str]

    @abstractmethod
    def type_of(self, *avals: ShapedArray) -> Sequence[ShapedArray]: ...

    @abstractmethod
    def evaluate(self, *args: HostArray) -> Sequence[HostArray]: ...

    def jvp(self, ctx: Context[V], primals: Sequence[V], tangents: Tangents[V]) -> tuple[Sequence[V], Tangents[V]]:
        raise NotImplementedError(f"Differentiation rule for '{self.name}' not implemented")

    def batch(self, ctx: Context[V], size: int, args: Sequence[V], mapped: Marks) -> tuple[Sequence[V], Marks]:
        raise NotImplementedError(f"Batching rule for '{self.name}' not implemented")

    def transpose(self, ctx: Context[V], cts: Tangents[V], args: Operands[V]) -> Cotangents[V]:
        raise NotImplementedError(f"Transpose rule for '{self.name}' not implemented")

    def partial_eval(self, unknown: Marks) -> Split[Primitive] | None:
        return None


class Context(ABC, Generic[V]):
    @abstractmethod
    def bind(self, primitive: Primitive, *args: V) -> Sequence[V]: ...

    @abstractmethod
    def constant(self, value: ConcreteValue | Literal) -> V: ...

    @abstractmethod
    def aval(self, value: V) -> ShapedArray: ...

    def lift(self, value: Array) -> V:
        raise RuntimeError(f"a traced value of type {value.aval} was used outside the transformation that made it")

    def concrete(self, value: V) -> ConcreteValue | None:
        return None


def interpret(ctx: Context[V], jaxpr: Jaxpr, args: Sequence[V]) -> list[V]:
    env = list(args)

    def read(atom: Atom) -> V:
        return env[atom.index] if isinstance(atom, Var) else ctx.constant(atom)

    for eqn in jaxpr.eqns:
        env += ctx.bind(eqn.primitive, *map(read, eqn.invars))
    return list(map(read, jaxpr.outvars))


class EvalContext(Context[ConcreteValue]):
    @override
    def bind(self, primitive: Primitive, *args: ConcreteValue) -> Sequence[ConcreteValue]:
        avals = primitive.type_of(*[arg.aval for arg in args])
        return list(map(ConcreteValue, primitive.evaluate(*[arg.data for arg in args]), avals))

    @override
    def constant(self, value: ConcreteValue | Literal) -> ConcreteValue:
        return value if isinstance(value, ConcreteValue) else ConcreteValue(np.asarray(value.value), value.aval)

    @override
    def aval(self, value: ConcreteValue) -> ShapedArray:
        return value.aval

    @override
    def concrete(self, value: ConcreteValue) -> ConcreteValue:
        return value


# 3. Whole primitives


@frozen
class Elementwise(Primitive):
    function: ClassVar[np.ufunc]

    def tangent(self, ctx: Context[V], i: int, t: V, args: Operands[V]) -> V:
        """What a tangent `t` of operand `i` contributes to the tangent of the result."""
        raise NotImplementedError(f"'{self.name}' has no derivative")

    @override
    def type_of(self, *avals: ShapedArray) -> Sequence[ShapedArray]:
        shapes = {aval.shape for aval in avals if aval.shape}
        if len(shapes) > 1 or len({aval.dtype for aval in avals}) > 1:
            raise TypeError(f"{self.name} takes operands of one type, or scalars; got {', '.join(map(str, avals))}")
        return [ShapedArray(max(shapes, default=()), avals[0].dtype, all(aval.weak_type for aval in avals))]

    @override
    def evaluate(self, *args: HostArray) -> Sequence[HostArray]:
        return [np.asarray(self.function(*args))]

    @override
    def jvp(self, ctx: Context[V], primals: Sequence[V], tangents: Tangents[V]) -> tuple[Sequence[V], Tangents[V]]:
        (out,) = ctx.bind(self, *primals)
        parts = [self.tangent(ctx, i, t, primals) for i, t in enumerate(tangents) if not isinstance(t, Zero)]
        return [out], [broadcast(ctx, reduce(partial(add, ctx), parts), ctx.aval(out).shape)]

    @override
    def batch(self, ctx: Context[V], size: int, args: Sequence[V], mapped: Marks) -> tuple[Sequence[V], Marks]:
        shapes = [ctx.aval(x).shape[mark:] for x, mark in zip(args, mapped, strict=True)]
        full = (size, *max(shapes, key=len))
        aligned = [
            broadcast(ctx, x, full, start=1 - mark) if mark or shape else x
            for x, mark, shape in zip(args, mapped, shapes, strict=True)
        ]
        return ctx.bind(self, *aligned), (True,)

    @override
    def transpose(self, ctx: Context[V], cts: Tangents[V], args: Operands[V]) -> Cotangents[V]:
        ct = instantiate(ctx, cts[0])
        return [
            sum_to(ctx, self.tangent(ctx, i, ct, args), x.aval.shape) if isinstance(x, UndefPrimal) else None
            for i, x in enumerate(args)
        ]


def known(x: V | UndefPrimal) -> V:
    if isinstance(x, UndefPrimal):
        raise TypeError("the program is not linear: an equation multiplies linear inputs, or takes a function of one")
    return x


class Neg(Elementwise):
    name, function = "neg", np.negative

    @override
    def tangent(self, ctx: Context[V], i: int, t: V, args: Operands[V]) -> V:
        return neg(ctx, t)


class Add(Elementwise):
    name, function = "add", np.add

    @override
    def tangent(self, ctx: Context[V], i: int, t: V, args: Operands[V]) -> V:
        return t


class Mul(Elementwise):
    name, function = "mul", np.multiply

    @override
    def tangent(self, ctx: Context[V], i: int, t: V, args: Operands[V]) -> V:
        return mul(ctx, known(args[0]), t) if i == 1 else mul(ctx, t, known(args[1]))


class Sin(Elementwise):
    name, function = "sin", np.sin

    @override
    def tangent(self, ctx: Context[V], i: int, t: V, args: Operands[V]) -> V:
        return mul(ctx, t, ctx.bind(Cos(), known(args[0]))[0])


class Cos(Elementwise):
    name, function = "cos", np.cos

    @override
    def tangent(self, ctx: Context[V], i: int, t: V, args: Operands[V]) -> V:
        return mul(ctx, t, neg(ctx, ctx.bind(Sin(), known(args[0]))[0]))


class Greater(Elementwise):
    name, function = "gt", np.greater

    @override
    def type_of(self, *avals: ShapedArray) -> Sequence[ShapedArray]:
        return [evolve(aval, dtype=BOOL, weak_type=False) for aval in super().type_of(*avals)]

    @override
    def jvp(self, ctx: Context[V], primals: Sequence[V], tangents: Tangents[V]) -> tuple[Sequence[V], Tangents[V]]:
        outs = ctx.bind(self, *primals)
        return outs, [Zero(ctx.aval(out)) for out in outs]


@frozen
class Linear(Primitive):
    @override
    def jvp(self, ctx: Context[V], primals: Sequence[V], tangents: Tangents[V]) -> tuple[Sequence[V], Tangents[V]]:
        return ctx.bind(self, *primals), ctx.bind(self, *[t for t in tangents if not isinstance(t, Zero)])


@frozen
class BroadcastInDim(Linear):
    shape: tuple[int, ...]
    broadcast_dimensions: tuple[int, ...]
    name = "broadcast_in_dim"

    @property
    def added(self) -> tuple[int, ...]:
        return tuple([dim for dim in range(len(self.shape)) if dim not in self.broadcast_dimensions])

    @override
    def type_of(self, *avals: ShapedArray) -> Sequence[ShapedArray]:
        (x,) = avals
        if x.shape != tuple([self.shape[dim] for dim in self.broadcast_dimensions]):
            raise TypeError(f"{x} can't be broadcast to {self.shape} along {self.broadcast_dimensions}")
        return [evolve(x, shape=self.shape)]

    @override
    def evaluate(self, *args: HostArray) -> Sequence[HostArray]:
        return [np.broadcast_to(np.expand_dims(args[0], self.added), self.shape)]

    @override
    def batch(self, ctx: Context[V], size: int, args: Sequence[V], mapped: Marks) -> tuple[Sequence[V], Marks]:
        dims = (0, *[dim + 1 for dim in self.broadcast_dimensions])
        return ctx.bind(BroadcastInDim((size, *self.shape), dims), *args), (True,)

    @override
    def transpose(self, ctx: Context[V], cts: Tangents[V], args: Operands[V]) -> Cotangents[V]:
        return ctx.bind(ReduceSum(self.added), instantiate(ctx, cts[0]))


@frozen
class ReduceSum(Linear):
    axes: tuple[int, ...]
    name = "reduce_sum"

    @override
    def type_of(self, *avals: ShapedArray) -> Sequence[ShapedArray]:
        (x,) = avals
        return [evolve(x, shape=tuple([size for i, size in enumerate(x.shape) if i not in self.axes]))]

    @override
    def evaluate(self, *args: HostArray) -> Sequence[HostArray]:
        return [np.asarray(np.sum(args[0], self.axes))]

    @override
    def batch(self, ctx: Context[V], size: int, args: Sequence[V], mapped: Marks) -> tuple[Sequence[V], Marks]:
        return ctx.bind(ReduceSum(tuple([axis + 1 for axis in self.axes])), *args), (True,)

    @override
    def transpose(self, ctx: Context[V], cts: Tangents[V], args: Operands[V]) -> Cotangents[V]:
        (shape,) = [x.aval.shape for x in args if isinstance(x, UndefPrimal)]
        kept = tuple([i for i in range(len(shape)) if i not in self.axes])
        return ctx.bind(BroadcastInDim(shape, kept), instantiate(ctx, cts[0]))


def neg(ctx: Context[V], x: V) -> V:
    return ctx.bind(Neg(), x)[0]


def add(ctx: Context[V], x: V, y: V) -> V:
    return ctx.bind(Add(), x, y)[0]


def mul(ctx: Context[V], x: V, y: V) -> V:
    return ctx.bind(Mul(), x, y)[0]


def broadcast(ctx: Context[V], x: V, shape: tuple[int, ...], start: int = 0) -> V:
    own = ctx.aval(x).shape
    return x if own == shape else ctx.bind(BroadcastInDim(shape, tuple(range(start, start + len(own)))), x)[0]


def sum_to(ctx: Context[V], x: V, shape: tuple[int, ...]) -> V:
    own = ctx.aval(x).shape
    return x if own == shape else ctx.bind(ReduceSum(tuple(range(len(own)))), x)[0]


def instantiate(ctx: Context[V], x: V | Zero) -> V:
    if not isinstance(x, Zero):
        return x
    return broadcast(ctx, ctx.constant(Literal(x.aval.dtype.type(0).item(), evolve(x.aval, shape=()))), x.aval.shape)


# 4. Forward mode


@frozen(eq=False)
class Over(Context[U], Generic[V, U]):
    parent: Context[V]

    @abstractmethod
    def pure(self, value: V) -> U: ...

    @override
    def constant(self, value: ConcreteValue | Literal) -> U:
        return self.pure(self.parent.constant(value))

    @override
    def lift(self, value: Array) -> U:
        return self.pure(value_in(value, self.parent))


@frozen
class Dual(Generic[V]):
    primal: V
    tangent: V | Zero


class JvpContext(Over[V, Dual[V]]):
    @override
    def bind(self, primitive: Primitive, *args: Dual[V]) -> Sequence[Dual[V]]:
        primals = [arg.primal for arg in args]
        if all(isinstance(arg.tangent, Zero) for arg in args):
            return list(map(self.pure, self.parent.bind(primitive, *primals)))
        outs, tangents = primitive.jvp(self.parent, primals, [arg.tangent for arg in args])
        return [Dual(out, t) for out, t in zip(outs, tangents, strict=True)]

    @override
    def pure(self, value: V) -> Dual[V]:
        return Dual(value, Zero(self.parent.aval(value)))

    @override
    def aval(self, value: Dual[V]) -> ShapedArray:
        return self.parent.aval(value.primal)

    @override
    def concrete(self, value: Dual[V]) -> ConcreteValue | None:
        return self.parent.concrete(value.primal)


# 5. Vectorisation


@frozen
class Batched(Generic[V]):
    value: V
    mapped: bool


@frozen(eq=False)
class BatchContext(Over[V, Batched[V]]):
    size: int

    @override
    def bind(self, primitive: Primitive, *args: Batched[V]) -> Sequence[Batched[V]]:
        values, mapped = [arg.value for arg in args], tuple([arg.mapped for arg in args])
        if not any(mapped):
            return list(map(self.pure, self.parent.bind(primitive, *values)))
        outs, mapped = primitive.batch(self.parent, self.size, values, mapped)
        return [Batched(out, mark) for out, mark in zip(outs, mapped, strict=True)]

    @override
    def pure(self, value: V) -> Batched[V]:
        return Batched(value, False)

    @override
    def aval(self, value: Batched[V]) -> ShapedArray:
        aval = self.parent.aval(value.value)
        return evolve(aval, shape=aval.shape[value.mapped :])


# 6. Staging


class StagingContext(Context[Atom]):
    def __init__(self) -> None:
        self.numbers = count()
        self.inputs: list[Var] = []
        self.captured: dict[int, tuple[Var, Array]] = {}
        self.eqns: list[Eqn] = []

    def new(self, aval: ShapedArray) -> Var:
        return Var(next(self.numbers), aval)

    def argument(self, aval: ShapedArray) -> Var:
        self.inputs.append(self.new(aval))
        return self.inputs[-1]

    @override
    def bind(self, primitive: Primitive, *args: Atom) -> Sequence[Atom]:
        outs = tuple(map(self.new, primitive.type_of(*[arg.aval for arg in args])))
        self.eqns.append(Eqn(primitive, args, outs))
        return outs

    @override
    def constant(self, value: ConcreteValue | Literal) -> Atom:
        if isinstance(value, Literal):
            return value
        return self.lift(ConcreteArray(value)) if value.aval.shape else Literal(value.data.item(), value.aval)

    @override
    def lift(self, value: Array) -> Var:
        if identity(value) not in self.captured:
            self.captured[identity(value)] = self.new(value.aval), value
        return self.captured[identity(value)][0]

    @override
    def aval(self, value: Atom) -> ShapedArray:
        return value.aval

    def finish(self, outs: Sequence[Atom]) -> tuple[Jaxpr, list[Array]]:
        inputs = [*[var for var, _ in self.captured.values()], *self.inputs]
        bound = [*inputs, *[var for eqn in self.eqns for var in eqn.outvars]]
        new = {var: Var(i, var.aval) for i, var in enumerate(bound)}

        def read(atoms: Sequence[Atom]) -> tuple[Atom, ...]:
            return tuple([new[atom] if isinstance(atom, Var) else atom for atom in atoms])

        eqns = [Eqn(eqn.primitive, read(eqn.invars), tuple([new[v] for v in eqn.outvars])) for eqn in self.eqns]
        jaxpr = Jaxpr(tuple([new[var] for var in inputs]), tuple(eqns), read(outs))
        return jaxpr, [value for _, value in self.captured.values()]


def identity(x: Array) -> int:
    return id(x.value) if isinstance(x, ConcreteArray) else id(x)


def stage(avals: Sequence[ShapedArray], run: Callable[[StagingContext, Sequence[Atom]], Sequence[Atom]]) -> Jaxpr:
    ctx = StagingContext()
    return ctx.finish(run(ctx, [ctx.argument(aval) for aval in avals]))[0]


def typecheck(jaxpr: Jaxpr) -> None:
    try:
        again = stage(jaxpr.in_avals, lambda ctx, ins: interpret(ctx, jaxpr, ins))
    except IndexError:
        raise TypeError("an equation reads a variable that nothing has bound before it") from None
    if again != jaxpr:
        raise TypeError(f"the types or the numbering are wrong, for these equations give\n{again}\nand not\n{jaxpr}")


# 7. From Python functions to contexts


def operator(primitive: Primitive, swapped: bool = False) -> Callable[[Array, ArrayLike], Array]:
    return lambda x, y: bind(primitive, y, x)[0] if swapped else bind(primitive, x, y)[0]


class Array(ABC):
    __array_ufunc__ = None
    aval: ShapedArray

    def __neg__(self) -> Array:
        return bind(Neg(), self)[0]

    __add__, __radd__ = operator(Add()), operator(Add(), swapped=True)
    __mul__, __rmul__ = operator(Mul()), operator(Mul(), swapped=True)
    __gt__ = operator(Greater())

    def sum(self) -> Array:
        return bind(ReduceSum(tuple(range(len(self.aval.shape)))), self)[0]

    def __bool__(self) -> bool:
        return bool(elements(self))

    def __array__(self, dtype: DType | None = None, copy: bool | None = None) -> HostArray:
        return np.array(elements(self), dtype)

    @override
    def __repr__(self) -> str:
        return str(elements(self))


class ConcreteArray(Array):
    def __init__(self, value: ConcreteValue) -> None:
        self.value, self.aval = value, value.aval


class Tracer(Array, Generic[V]):
    def __init__(self, frame: OpenFrame[V], value: V) -> None:
        self.frame, self.value, self.aval = frame, value, frame.context.aval(value)


ArrayLike: TypeAlias = Array | HostArray | float


def asarray(x: ArrayLike) -> Array:
    if isinstance(x, Array):
        return x
    data = np.array(x)
    return ConcreteArray(ConcreteValue(data, ShapedArray(data.shape, data.dtype, weak_type=type(x) is float)))


class Opened(Protocol[R_co]):
    def __call__(self, frame: OpenFrame[V], /) -> R_co: ...


class Frame(Protocol):
    """A context in use, whatever its values are."""

    alive: bool
    level: int
    base: Frame

    def bind(self, primitive: Primitive, args: Sequence[Array]) -> list[Array]: ...
    def open(self, run: Opened[R]) -> R: ...


class OpenFrame(Generic[V]):
    def __init__(self, context: Context[V], parent: Frame | None = None) -> None:
        self.context, self.alive = context, True
        self.level: int = 0 if parent is None else parent.level + 1
        self.base: Frame = self if parent is None or isinstance(context, StagingContext) else parent.base

    def wrap(self, value: V) -> Array:
        return ConcreteArray(value) if isinstance(value, ConcreteValue) else Tracer(self, value)

    def bind(self, primitive: Primitive, args: Sequence[Array]) -> list[Array]:
        return list(map(self.wrap, self.context.bind(primitive, *[value_in(arg, self.context) for arg in args])))

    def open(self, run: Opened[R]) -> R:
        return run(self)


ROOT: Final = OpenFrame(EvalContext())
innermost: Final[ContextVar[Frame]] = ContextVar("innermost", default=ROOT)


def top_frame(arrays: Sequence[Array]) -> Frame:
    frames = [array.frame for array in arrays if isinstance(array, Tracer)]
    return max([innermost.get().base, *frames], key=lambda frame: frame.level)


def bind(primitive: Primitive, *args: ArrayLike) -> list[Array]:
    arrays = list(map(asarray, args))
    return top_frame(arrays).bind(primitive, arrays)


def sin(x: ArrayLike) -> Array:
    return bind(Sin(), x)[0]


def cos(x: ArrayLike) -> Array:
    return bind(Cos(), x)[0]


def value_in(x: Array, ctx: Context[V]) -> V:
    if isinstance(x, ConcreteArray):
        return ctx.constant(x.value)
    if isinstance(x, Tracer):
        if not x.frame.alive:
            raise RuntimeError(f"a traced value of type {x.aval} was used after the transformation that made it")
        if x.frame.context is ctx:
            value: V = x.value
            return value
    return ctx.lift(x)


def elements(x: Array) -> HostArray:
    found = x.value if isinstance(x, ConcreteArray) else None
    if isinstance(x, Tracer):
        found = x.frame.context.concrete(x.value)
    if found is None:
        raise TypeError(f"the elements of a traced value of type {x.aval} aren't known, so Python can't branch on them")
    return found.data


# 8. Trees


@frozen
class TreeDef:
    node: type | None = None
    keys: tuple[str, ...] = ()
    children: tuple[TreeDef, ...] = ()

    def unflatten(self, leaves: Iterator[Array]) -> Any:  # the user's own tree
        if self.node is None:
            return next(leaves)
        children = [child.unflatten(leaves) for child in self.children]
        return dict(zip(self.keys, children, strict=True)) if self.node is dict else self.node(children)


def flatten(tree: Any) -> tuple[list[Array], TreeDef]:  # the user's own tree
    if not isinstance(tree, tuple | list | dict):
        return [asarray(tree)], TreeDef()
    keys = tuple(sorted(tree)) if isinstance(tree, dict) else ()
    parts = [flatten(tree[key]) for key in keys] if isinstance(tree, dict) else list(map(flatten, tree))
    leaves = [leaf for leaves, _ in parts for leaf in leaves]
    return leaves, TreeDef(type(tree), keys, tuple([treedef for _, treedef in parts]))


# 9. Transformations of functions


def trace(ctx: Context[U], f: Callable[..., object], treedef: TreeDef, args: Sequence[U]) -> tuple[list[U], TreeDef]:
    frame = OpenFrame(ctx, innermost.get())
    token = innermost.set(frame)
    try:
        leaves, out_tree = flatten(f(*treedef.unflatten(map(frame.wrap, args))))
        return [value_in(leaf, ctx) for leaf in leaves], out_tree
    finally:
        innermost.reset(token)
        frame.alive = False


def jvp(f: Callable[..., R], primals: tuple[object, ...], tangents: tuple[object, ...]) -> tuple[R, R]:
    (xs, treedef), (ts, _) = flatten(primals), flatten(tangents)

    def run(frame: OpenFrame[V]) -> tuple[R, R]:
        ctx = frame.context
        duals = [Dual(value_in(x, ctx), value_in(t, ctx)) for x, t in zip(xs, ts, strict=True)]
        outs, out_tree = trace(JvpContext(ctx), f, treedef, duals)
        moved = [frame.wrap(instantiate(ctx, out.tangent)) for out in outs]
        return out_tree.unflatten(frame.wrap(out.primal) for out in outs), out_tree.unflatten(iter(moved))

    return innermost.get().open(run)


def vmap(f: Callable[[*Ts], R], in_axes: tuple[int | None, ...] | int = 0) -> Callable[[*Ts], R]:
    @wraps(f)
    def mapped(*args: *Ts) -> R:
        xs, treedef = flatten(args)
        axes = (in_axes,) * len(args) if isinstance(in_axes, int) else in_axes
        marks = [axis is not None for i, axis in enumerate(axes) for _ in flatten(args[i])[0]]
        (size,) = {x.aval.shape[0] for x in compress(xs, marks)}

        def run(frame: OpenFrame[V]) -> R:
            ctx = frame.context
            values = [Batched(value_in(x, ctx), mark) for x, mark in zip(xs, marks, strict=True)]
            outs, out_tree = trace(BatchContext(ctx, size), f, treedef, values)
            result: R = out_tree.unflatten(frame.wrap(stacked(ctx, out, size)) for out in outs)
            return result

        return innermost.get().open(run)

    return mapped


def stacked(ctx: Context[V], x: Batched[V], size: int) -> V:
    return x.value if x.mapped else broadcast(ctx, x.value, (size, *ctx.aval(x.value).shape), start=1)


Staged: TypeAlias = tuple[Jaxpr, list["Array"], TreeDef]


def staged(f: Callable[..., object], treedef: TreeDef, avals: Sequence[ShapedArray]) -> Staged:
    ctx = StagingContext()
    outs, out_tree = trace(ctx, f, treedef, [ctx.argument(aval) for aval in avals])
    return *ctx.finish(outs), out_tree


def make_jaxpr(f: Callable[[*Ts], object]) -> Callable[[*Ts], Jaxpr]:
    def traced(*args: *Ts) -> Jaxpr:
        xs, treedef = flatten(args)
        return staged(f, treedef, [x.aval for x in xs])[0]

    return traced


# 10. Transformations of programs, and partial evaluation


def forced(marks: Sequence[bool], force: Marks) -> Marks:
    return tuple(map(any, zip(marks, force or marks, strict=True)))


def jvp_program(jaxpr: Jaxpr, nonzero: Marks, force: Marks = ()) -> tuple[Jaxpr, Marks]:
    marks: list[bool] = []

    def run(ctx: StagingContext, ins: Sequence[Atom]) -> Sequence[Atom]:
        primals, tangents = ins[: len(nonzero)], iter(ins[len(nonzero) :])
        duals = [Dual(x, next(tangents) if mark else Zero(x.aval)) for x, mark in zip(primals, nonzero, strict=True)]
        outs = interpret(JvpContext(ctx), jaxpr, duals)
        marks.extend(forced([not isinstance(out.tangent, Zero) for out in outs], force))
        return [*[out.primal for out in outs], *[instantiate(ctx, out.tangent) for out in compress(outs, marks)]]

    return stage([*jaxpr.in_avals, *compress(jaxpr.in_avals, nonzero)], run), tuple(marks)


def batch_program(jaxpr: Jaxpr, size: int, mapped: Marks, force: Marks = ()) -> tuple[Jaxpr, Marks]:
    marks: list[bool] = []

    def run(ctx: StagingContext, ins: Sequence[Atom]) -> Sequence[Atom]:
        outs = interpret(BatchContext(ctx, size), jaxpr, list(map(Batched, ins, mapped)))
        marks.extend(forced([out.mapped for out in outs], force))
        return [stacked(ctx, out, size) if mark else out.value for out, mark in zip(outs, marks, strict=True)]

    types = [evolve(x, shape=(size, *x.shape)) if mark else x for x, mark in zip(jaxpr.in_avals, mapped, strict=True)]
    return stage(types, run), tuple(marks)


@frozen
class Split(Generic[T]):
    known: T
    staged: T
    unknown_out: Marks
    residuals: tuple[int | None, ...]


@frozen
class Known(Generic[V]):
    value: V
    literal: Literal | None = None
    recipe: tuple[Primitive, Literal] | None = None


@frozen
class Unknown:
    atom: Atom


Partial: TypeAlias = Known[V] | Unknown


@frozen(eq=False)
class PartialEvalContext(Over[V, Partial[V]]):
    staged: StagingContext = field(factory=StagingContext)
    residuals: dict[int, tuple[Var, V]] = field(factory=dict)
    rebuilt: dict[int, tuple[Atom, V]] = field(factory=dict)

    @override
    def bind(self, primitive: Primitive, *args: Partial[V]) -> Sequence[Partial[V]]:
        values = [arg.value for arg in args if isinstance(arg, Known)]
        if len(values) == len(args):
            literals = [arg.literal for arg in args if isinstance(arg, Known) and arg.literal is not None]
            recipe = (primitive, literals[0]) if isinstance(primitive, BroadcastInDim) and literals else None
            return [Known(out, None, recipe) for out in self.parent.bind(primitive, *values)]
        split = primitive.partial_eval(tuple([isinstance(arg, Unknown) for arg in args])) if values else None
        if split is None:
            return list(map(Unknown, self.staged.bind(primitive, *map(self.instantiate, args))))
        outs = list(map(self.pure, self.parent.bind(split.known, *values)))
        now, computed = iter(outs), iter(outs[split.unknown_out.count(False) :])
        leading = [next(computed) if i is None else args[i] for i in split.residuals]
        operands = [*leading, *[arg for arg in args if isinstance(arg, Unknown)]]
        later = iter(map(Unknown, self.staged.bind(split.staged, *map(self.instantiate, operands))))
        return [next(later) if mark else next(now) for mark in split.unknown_out]

    def instantiate(self, value: Partial[V]) -> Atom:
        if isinstance(value, Unknown):
            return value.atom
        if value.literal is not None:
            return value.literal
        key = id(value.value)
        if value.recipe is not None:
            if key not in self.rebuilt:
                self.rebuilt[key] = self.staged.bind(*value.recipe)[0], value.value
            return self.rebuilt[key][0]
        if key not in self.residuals:
            self.residuals[key] = self.staged.new(self.parent.aval(value.value)), value.value
        return self.residuals[key][0]

    def finish(self, outs: Sequence[Partial[V]]) -> tuple[Jaxpr, list[V]]:
        atoms = list(map(self.instantiate, outs))
        self.staged.inputs = [*[var for var, _ in self.residuals.values()], *self.staged.inputs]
        return self.staged.finish(atoms)[0], [value for _, value in self.residuals.values()]

    @override
    def pure(self, value: V) -> Partial[V]:
        return Known(value)

    @override
    def constant(self, value: ConcreteValue | Literal) -> Partial[V]:
        return Known(self.parent.constant(value), value if isinstance(value, Literal) else None)

    @override
    def aval(self, value: Partial[V]) -> ShapedArray:
        return value.atom.aval if isinstance(value, Unknown) else self.parent.aval(value.value)

    @override
    def concrete(self, value: Partial[V]) -> ConcreteValue | None:
        return None if isinstance(value, Unknown) else self.parent.concrete(value.value)


def partial_eval(jaxpr: Jaxpr, unknown: Marks, force: Marks = ()) -> Split[Jaxpr]:
    before = [i for i, mark in enumerate(unknown) if not mark]
    parts: list[tuple[Jaxpr, Marks, list[int | None]]] = []

    def run(ctx: StagingContext, ins: Sequence[Atom]) -> Sequence[Atom]:
        inner, values = PartialEvalContext[Atom](ctx), iter(ins)
        args: list[Partial[Atom]] = [
            Unknown(inner.staged.argument(aval)) if mark else Known(next(values))
            for aval, mark in zip(jaxpr.in_avals, unknown, strict=True)
        ]
        outs = interpret(inner, jaxpr, args)
        marks = forced([isinstance(out, Unknown) for out in outs], force)
        later, residuals = inner.finish(list(compress(outs, marks)))
        parts.append((later, marks, [before[ins.index(atom)] if atom in ins else None for atom in residuals]))
        now = [out.value for out, mark in zip(outs, marks, strict=True) if isinstance(out, Known) and not mark]
        return [*now, *[atom for atom in residuals if atom not in ins]]

    known = stage([jaxpr.in_avals[i] for i in before], run)
    ((later, marks, residuals),) = parts
    return Split(known, later, marks, tuple(residuals))


# 11. Transposition, and reverse mode


def transpose(ctx: Context[V], jaxpr: Jaxpr, args: Operands[V], cts: Tangents[V]) -> list[V | Zero]:
    env = list(args)
    pending: dict[Atom, V] = {}

    def read(atom: Atom) -> V | UndefPrimal:
        return env[atom.index] if isinstance(atom, Var) else ctx.constant(atom)

    def accumulate(atoms: Sequence[Atom], found: Cotangents[V]) -> None:
        for atom, ct in zip(atoms, found, strict=True):
            if not isinstance(ct, Zero | None) and isinstance(read(atom), UndefPrimal):
                pending[atom] = add(ctx, pending[atom], ct) if atom in pending else ct

    def take(var: Var) -> V | Zero:
        return pending.pop(var) if var in pending else Zero(var.aval)

    for eqn in jaxpr.eqns:
        ins = list(map(read, eqn.invars))
        values = [x for x in ins if not isinstance(x, UndefPrimal)]
        linear = len(values) < len(ins)
        env += [UndefPrimal(var.aval) for var in eqn.outvars] if linear else ctx.bind(eqn.primitive, *values)
    accumulate(jaxpr.outvars, cts)
    for eqn in reversed(jaxpr.eqns):
        if not pending.keys().isdisjoint(eqn.outvars):
            outs = list(map(take, eqn.outvars))
            found = eqn.primitive.transpose(ctx, outs, list(map(read, eqn.invars)))
            accumulate(eqn.invars, found)
    return [take(var) for var, arg in zip(jaxpr.invars, args, strict=True) if isinstance(arg, UndefPrimal)]


def transpose_program(jaxpr: Jaxpr, linear: Marks, nonzero: Marks, force: Marks = ()) -> tuple[Jaxpr, Marks]:
    before = list(compress(jaxpr.in_avals, [not mark for mark in linear]))
    marks: list[bool] = []

    def run(ctx: StagingContext, ins: Sequence[Atom]) -> Sequence[Atom]:
        values = iter(ins)
        args = [UndefPrimal(x) if mark else next(values) for x, mark in zip(jaxpr.in_avals, linear, strict=True)]
        cts = [next(values) if mark else Zero(x) for x, mark in zip(jaxpr.out_avals, nonzero, strict=True)]
        outs = transpose(ctx, jaxpr, args, cts)
        marks.extend(forced([not isinstance(out, Zero) for out in outs], force))
        return [instantiate(ctx, out) for out in compress(outs, marks)]

    return stage([*before, *compress(jaxpr.out_avals, nonzero)], run), tuple(marks)


def linearized(f: Callable[..., R], xs: Sequence[Array], treedef: TreeDef) -> tuple[R, Jaxpr, list[Array]]:
    def run(frame: OpenFrame[V]) -> tuple[R, Jaxpr, list[Array]]:
        ctx = PartialEvalContext(frame.context)

        def dual(x: Array) -> Dual[Partial[V]]:
            return Dual(Known(value_in(x, frame.context)), Unknown(ctx.staged.argument(x.aval)))

        outs, out_tree = trace(JvpContext(ctx), f, treedef, list(map(dual, xs)))
        ys = [frame.wrap(out.primal.value) for out in outs if isinstance(out.primal, Known)]
        jaxpr, residuals = ctx.finish([instantiate(ctx, out.tangent) for out in outs])
        return out_tree.unflatten(iter(ys)), jaxpr, list(map(frame.wrap, residuals))

    return innermost.get().open(run)


def vjp(f: Callable[[*Ts], R], *primals: *Ts) -> tuple[R, Callable[[R], tuple[*Ts]]]:
    xs, treedef = flatten(primals)
    out, jaxpr, residuals = linearized(f, xs, treedef)

    def f_vjp(cotangents: R) -> tuple[*Ts]:
        cts = flatten(cotangents)[0]

        def run(frame: OpenFrame[V]) -> tuple[*Ts]:
            ctx = frame.context
            args: Operands[V] = [*[value_in(x, ctx) for x in residuals], *[UndefPrimal(x.aval) for x in xs]]
            found = transpose(ctx, jaxpr, args, [value_in(ct, ctx) for ct in cts])
            result: tuple[*Ts] = treedef.unflatten(frame.wrap(instantiate(ctx, ct)) for ct in found)
            return result

        return top_frame([*residuals, *cts]).open(run)

    return out, f_vjp


def grad(f: Callable[[A, *Ts], Array]) -> Callable[[A, *Ts], A]:
    def gradient(x: A, *rest: *Ts) -> A:
        y, f_vjp = vjp(lambda x: f(x, *rest), x)
        return f_vjp(asarray(np.ones(y.aval.shape)))[0]

    return gradient


# 12. A primitive that holds a program


@frozen
class Applied(Primitive):
    leading: ClassVar[int] = 0

    @property
    @abstractmethod
    def programs(self) -> Sequence[Jaxpr]: ...

    @abstractmethod
    def of(self, programs: Sequence[Jaxpr]) -> Self: ...

    @override
    def type_of(self, *avals: ShapedArray) -> Sequence[ShapedArray]:
        found = [evolve(aval, weak_type=False) for aval in avals[self.leading :]]
        for program in self.programs:
            if [evolve(aval, weak_type=False) for aval in program.in_avals] != found:
                raise TypeError(f"{self.name} takes ({', '.join(map(str, program.in_avals))}), got {found}")
        return self.programs[0].out_avals

    @override
    def jvp(self, ctx: Context[V], primals: Sequence[V], tangents: Tangents[V]) -> tuple[Sequence[V], Tangents[V]]:
        nonzero = tuple([not isinstance(t, Zero) for t in tangents[self.leading :]])
        programs, marks = agreeing(self.programs, lambda jaxpr, force: jvp_program(jaxpr, nonzero, force))
        found = ctx.bind(self.of(programs), *primals, *[t for t in tangents if not isinstance(t, Zero)])
        outs, moved = found[: len(marks)], iter(found[len(marks) :])
        return outs, [next(moved) if mark else Zero(ctx.aval(out)) for out, mark in zip(outs, marks, strict=True)]

    @override
    def batch(self, ctx: Context[V], size: int, args: Sequence[V], mapped: Marks) -> tuple[Sequence[V], Marks]:
        if any(mapped[: self.leading]):
            raise NotImplementedError(f"Batching rule for '{self.name}' with a mapped predicate not implemented")
        marks = mapped[self.leading :]
        programs, out_marks = agreeing(self.programs, lambda jaxpr, force: batch_program(jaxpr, size, marks, force))
        return ctx.bind(self.of(programs), *args), out_marks

    @override
    def transpose(self, ctx: Context[V], cts: Tangents[V], args: Operands[V]) -> Cotangents[V]:
        linear = tuple([isinstance(arg, UndefPrimal) for arg in args[self.leading :]])
        nonzero = tuple([not isinstance(ct, Zero) for ct in cts])
        programs, marks = agreeing(self.programs, lambda jaxpr, force: transpose_program(jaxpr, linear, nonzero, force))
        values = [arg for arg in args if not isinstance(arg, UndefPrimal)]
        outs = iter(ctx.bind(self.of(programs), *values, *[ct for ct in cts if not isinstance(ct, Zero)]))
        found = iter([next(outs) if mark else None for mark in marks])
        return [next(found) if isinstance(arg, UndefPrimal) else None for arg in args]


def agreeing(programs: Sequence[Jaxpr], f: Callable[[Jaxpr, Marks], tuple[Jaxpr, Marks]]) -> tuple[list[Jaxpr], Marks]:
    marks = tuple(map(any, zip(*[f(program, ())[1] for program in programs], strict=True)))
    return [f(program, marks)[0] for program in programs], marks


@frozen
class Call(Applied):
    function_name: str
    jaxpr: Jaxpr
    name = "call"

    @property
    @override
    def programs(self) -> Sequence[Jaxpr]:
        return [self.jaxpr]

    @override
    def of(self, programs: Sequence[Jaxpr]) -> Self:
        return evolve(self, jaxpr=programs[0])

    @override
    def evaluate(self, *args: HostArray) -> Sequence[HostArray]:
        return compiled(self.jaxpr)(args)

    @override
    def partial_eval(self, unknown: Marks) -> Split[Primitive] | None:
        split = partial_eval(self.jaxpr, unknown)
        return Split(self.of([split.known]), self.of([split.staged]), split.unknown_out, split.residuals)


def jit(f: Callable[[*Ts], R]) -> Callable[[*Ts], R]:
    traces: dict[tuple[TreeDef, tuple[ShapedArray, ...]], Staged] = {}

    @wraps(f)
    def jitted(*args: *Ts) -> R:
        xs, treedef = flatten(args)
        key = treedef, tuple([x.aval for x in xs])
        jaxpr, captured, out_tree = found = traces.get(key) or staged(f, *key)
        if all(isinstance(x, ConcreteArray) for x in captured):
            traces[key] = found
        result: R = out_tree.unflatten(iter(bind(Call(f.__name__, jaxpr), *captured, *xs)))
        return result

    return jitted


# 13. Branches in programs


@frozen
class Convert(Primitive):
    new_dtype: DType
    weak_type: bool
    name = "convert_element_type"

    @override
    def type_of(self, *avals: ShapedArray) -> Sequence[ShapedArray]:
        return [ShapedArray(aval.shape, self.new_dtype, self.weak_type) for aval in avals]

    @override
    def evaluate(self, *args: HostArray) -> Sequence[HostArray]:
        return [args[0].astype(self.new_dtype)]

    @override
    def batch(self, ctx: Context[V], size: int, args: Sequence[V], mapped: Marks) -> tuple[Sequence[V], Marks]:
        return ctx.bind(self, *args), mapped


@frozen
class Cond(Applied):
    branches: tuple[Jaxpr, ...]
    name, leading = "cond", 1

    @property
    @override
    def programs(self) -> Sequence[Jaxpr]:
        return self.branches

    @override
    def of(self, programs: Sequence[Jaxpr]) -> Self:
        return evolve(self, branches=tuple(programs))

    @override
    def evaluate(self, *args: HostArray) -> Sequence[HostArray]:
        branch = self.branches[int(args[0])]
        values = list(map(ConcreteValue, args[1:], branch.in_avals))
        return [out.data for out in interpret(EvalContext(), branch, values)]

    @override
    def partial_eval(self, unknown: Marks) -> Split[Primitive] | None:
        if unknown[0]:
            return None
        marks = tuple(map(any, zip(*[partial_eval(x, unknown[1:]).unknown_out for x in self.branches], strict=True)))
        parts = [partial_eval(branch, unknown[1:], marks) for branch in self.branches]
        num_known, in_avals = marks.count(False), self.branches[0].in_avals
        slots: list[ShapedArray] = []
        places = [places_in(slots, part.known.out_avals[num_known:]) for part in parts]
        passed = sorted({i for part in parts for i in part.residuals if i is not None})
        later_avals = [*[in_avals[i] for i in passed], *slots, *compress(in_avals, unknown[1:])]

        def now(part: Split[Jaxpr], place: list[int]) -> Jaxpr:
            def run(ctx: StagingContext, ins: Sequence[Atom]) -> Sequence[Atom]:
                outs = interpret(ctx, part.known, ins)
                found = dict(zip(place, outs[num_known:], strict=True))
                filled = [found.get(i) or instantiate(ctx, Zero(aval)) for i, aval in enumerate(slots)]
                return [*outs[:num_known], *filled]

            return stage(part.known.in_avals, run)

        def later(part: Split[Jaxpr], place: list[int]) -> Jaxpr:
            def run(ctx: StagingContext, ins: Sequence[Atom]) -> Sequence[Atom]:
                own = iter([ins[len(passed) + i] for i in place])
                residuals = [next(own) if i is None else ins[passed.index(i)] for i in part.residuals]
                return interpret(ctx, part.staged, [*residuals, *ins[len(passed) + len(slots) :]])

            return stage(later_avals, run)

        residuals = (0, *[i + 1 for i in passed], *[None for _ in slots])
        return Split(self.of(list(map(now, parts, places))), self.of(list(map(later, parts, places))), marks, residuals)


def places_in(slots: list[ShapedArray], avals: Sequence[ShapedArray]) -> list[int]:
    """A slot for each value: one of its type that no value before it has, or a new one."""
    places: list[int] = []
    for aval in avals:
        free = [i for i, slot in enumerate(slots) if slot == aval and i not in places]
        places.append(free[0] if free else len(slots))
        slots.extend([] if free else [aval])
    return places


def cond(predicate: ArrayLike, if_true: Callable[[*Ts], R], if_false: Callable[[*Ts], R], *operands: *Ts) -> R:
    xs, treedef = flatten(operands)
    parts = [staged(f, treedef, [x.aval for x in xs]) for f in (if_true, if_false)]
    captured = {identity(x): x for _, found, _ in parts for x in found}
    avals = [x.aval for x in (*captured.values(), *xs)]

    def widened(part: Staged) -> Jaxpr:
        jaxpr, own, _ = part
        places = [list(captured).index(identity(x)) for x in own]
        return stage(avals, lambda ctx, ins: interpret(ctx, jaxpr, [*[ins[i] for i in places], *ins[len(captured) :]]))

    (index,) = bind(Convert(INT, False), predicate)
    branches = Cond(tuple(map(widened, reversed(parts))))
    result: R = parts[0][2].unflatten(iter(bind(branches, index, *captured.values(), *xs)))
    return result


# 14. Compiling


@frozen
class SSA:
    name: str
    aval: ShapedArray


ELEMENTWISE = {"neg": "negate", "add": "add", "mul": "multiply", "sin": "sine", "cos": "cosine"}


def tensor(aval: ShapedArray) -> str:
    element = {FLOAT: "f64", INT: "i32", BOOL: "i1"}[aval.dtype]
    return f"tensor<{''.join(f'{size}x' for size in aval.shape)}{element}>"


def typed(values: Sequence[SSA]) -> str:
    return f"{', '.join(x.name for x in values)} : {', '.join(tensor(x.aval) for x in values)}"


class LoweringContext(Context[SSA]):
    def __init__(self, numbers: Iterator[int]) -> None:
        self.numbers = numbers
        self.lines: list[str] = []

    def emit(self, operation: str, *avals: ShapedArray) -> list[SSA]:
        outs = [SSA(f"%{next(self.numbers)}", aval) for aval in avals]
        self.lines.append(f"{', '.join(out.name for out in outs)} = {operation}")
        return outs

    @override
    def constant(self, value: ConcreteValue | Literal) -> SSA:
        data = np.asarray(value.value) if isinstance(value, Literal) else value.data
        text = str(data.tolist()).lower()
        return self.emit(f"stablehlo.constant dense<{text}> : {tensor(value.aval)}", value.aval)[0]

    @override
    def aval(self, value: SSA) -> ShapedArray:
        return value.aval

    @override
    def bind(self, primitive: Primitive, *args: SSA) -> Sequence[SSA]:
        avals = primitive.type_of(*[x.aval for x in args])
        if isinstance(primitive, Call):
            return interpret(self, primitive.jaxpr, args)
        if isinstance(primitive, Cond):
            regions = ", ".join([self.region(branch, args[1:]) for branch in primitive.branches])
            types = ", ".join(map(tensor, avals))
            return self.emit(f'"stablehlo.case"({args[0].name}) ({regions}) : (tensor<i32>) -> ({types})', *avals)
        return self.emit(self.operation(primitive, args, avals[0]), avals[0])

    def region(self, jaxpr: Jaxpr, args: Sequence[SSA]) -> str:
        inner = LoweringContext(self.numbers)
        outs = interpret(inner, jaxpr, args)
        return "\n".join(["{", *inner.lines, f"stablehlo.return {typed(outs)}", "}"])

    def operation(self, primitive: Primitive, args: Sequence[SSA], out: ShapedArray) -> str:
        if isinstance(primitive, Elementwise):
            args = [broadcast(self, x, out.shape) for x in args]
        names = ", ".join(x.name for x in args)
        signature = f"({', '.join(tensor(x.aval) for x in args)}) -> {tensor(out)}"
        match primitive:
            case BroadcastInDim(broadcast_dimensions=dims):
                return f"stablehlo.broadcast_in_dim {names}, dims = {list(dims)} : {signature}"
            case ReduceSum():
                zero = self.constant(Literal(0.0, ShapedArray(())))
                types = signature.replace(")", ", tensor<f64>)")
                axes = f"across dimensions = {list(primitive.axes)}"
                return f"stablehlo.reduce({names} init: {zero.name}) applies stablehlo.add {axes} : {types}"
            case Greater():
                kind = "FLOAT" if args[0].aval.dtype == FLOAT else "SIGNED"
                return f"stablehlo.compare GT, {names}, {kind} : {signature}"
            case Convert():
                return f"stablehlo.convert {names} : {signature}"
            case Elementwise() if primitive.name in ELEMENTWISE:
                return f"stablehlo.{ELEMENTWISE[primitive.name]} {names} : {tensor(out)}"
            case _:
                raise NotImplementedError(f"Lowering rule for '{primitive.name}' not implemented")


def lower(jaxpr: Jaxpr) -> str:
    ctx = LoweringContext(count())
    args = [SSA(f"%arg{i}", aval) for i, aval in enumerate(jaxpr.in_avals)]
    outs = interpret(ctx, jaxpr, args)
    inputs = ", ".join(f"{x.name}: {tensor(x.aval)}" for x in args)
    results = ", ".join(tensor(x.aval) for x in outs)
    body = "".join(f"\n  {line}" for line in [*ctx.lines, f"return {typed(outs)}"])
    return f"func.func public @main({inputs}) -> ({results}) {{{body}\n}}"


@cache
def compiled(jaxpr: Jaxpr) -> Callable[[Sequence[HostArray]], Sequence[HostArray]]:
    ins, outs = [[(aval.shape, aval.dtype) for aval in avals] for avals in (jaxpr.in_avals, jaxpr.out_avals)]
    return backend.compile_module(lower(jaxpr), ins, outs)
