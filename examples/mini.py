"""A small tinyjax, in one file: the code of docs/from-scratch.md, which explains it.

Extracted from that page; don't edit it here. `pytest tests/test_mini.py --update-golden` extracts it again.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator, Sequence
from contextvars import ContextVar
from functools import cache, partial, reduce, singledispatch, wraps
from itertools import compress, count, product
from operator import or_
from string import ascii_lowercase
from typing import Any, ClassVar, Final, Generic, Protocol, TypeAlias, TypeVar, TypeVarTuple

import numpy as np
from attrs import asdict, evolve, field, frozen
from numpy.typing import NDArray

from tinyjax import backend

R = TypeVar("R")
T = TypeVar("T")
V = TypeVar("V")
Ts = TypeVarTuple("Ts")
HostArray: TypeAlias = NDArray[Any]
FLOAT, BOOL = np.dtype("float64"), np.dtype("bool")


# 1. Programs


@frozen
class ShapedArray:
    shape: tuple[int, ...]
    dtype: np.dtype[Any] = FLOAT
    weak_type: bool = False

    def __str__(self) -> str:
        name = self.dtype.name.replace("float", "f").replace("int", "i")
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
    def in_avals(self) -> list[ShapedArray]:
        return [var.aval for var in self.invars]

    @property
    def out_avals(self) -> list[ShapedArray]:
        return [atom.aval for atom in self.outvars]

    @property
    def bound(self) -> list[Var]:
        return [*self.invars, *[var for eqn in self.eqns for var in eqn.outvars]]

    def __str__(self) -> str:
        return show(self)


def show(jaxpr: Jaxpr, width: int = 80, taken: int = 0) -> str:
    atoms = [*jaxpr.invars, *[atom for eqn in jaxpr.eqns for atom in eqn.invars], *jaxpr.outvars]
    read = {atom.index for atom in atoms if isinstance(atom, Var)}
    words = ("".join(word) for n in count(1) for word in product(ascii_lowercase, repeat=n))
    letters = (word for word in words if word not in ("in", "inf", "let", "nan"))
    names = {var.index: next(letters) if var.index in read else "_" for var in jaxpr.bound}

    def binders(variables: Sequence[Var]) -> list[str]:
        return [f"{names[var.index]}:{var.aval}" for var in variables]

    def atom(x: Atom) -> str:
        if isinstance(x, Var):
            return names[x.index]
        return str(x.value) if x.aval.weak_type or x.aval.dtype == BOOL else f"{x.value}:{x.aval}"

    def equation(eqn: Eqn) -> str:
        return " ".join([*binders(eqn.outvars), "=", show_primitive(eqn.primitive, width - 4), *map(atom, eqn.invars)])

    head = " ".join(["{ lambda ;", *binders(jaxpr.invars)]) + (". let" if jaxpr.invars else " . let")
    tail = f"in ({', '.join(map(atom, jaxpr.outvars))}{',' * (len(jaxpr.outvars) == 1)}) }}"
    lines = list(map(equation, jaxpr.eqns))
    line = " ".join([head, *(lines or [""]), tail])
    if len(lines) <= 1 and "\n" not in line and taken + len(line) <= width:
        return line
    return indented(head, *lines, by=4) + f"\n  {tail}"


def show_primitive(primitive: Primitive, width: int) -> str:
    texts: list[str] = []
    for name, value in asdict(primitive, recurse=False).items():
        match value:
            case Jaxpr():
                text = show(value, width - 2, taken=len(name) + 1)
            case (Jaxpr(), *_):
                text = indented("(", *[show(program, width - 4) for program in value]) + "\n)"
            case _:
                text = str(value)
        texts.append(f"{name}={text}")
    if any("{ lambda" in text for text in texts):
        return indented(f"{primitive.name}[", *texts) + "\n]"
    return f"{primitive.name}[{' '.join(texts)}]" if texts else primitive.name


def indented(*lines: str, by: int = 2) -> str:
    return "\n".join(lines).replace("\n", "\n" + " " * by)


# 2. Primitives and contexts


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
class Primitive:
    name: ClassVar[str]

    def type_of(self, *avals: ShapedArray) -> Sequence[ShapedArray]:
        raise NotImplementedError(f"Typing rule for '{self.name}' not implemented")

    def evaluate(self, *args: HostArray) -> Sequence[HostArray]:
        raise NotImplementedError(f"Evaluation rule for '{self.name}' not implemented")

    def jvp(self, ctx: Context[V], primals: Sequence[V], tangents: Tangents[V]) -> tuple[Sequence[V], Tangents[V]]:
        raise NotImplementedError(f"Differentiation rule for '{self.name}' not implemented")

    def batch(self, ctx: Context[V], size: int, args: Sequence[V], mapped: Marks) -> tuple[Sequence[V], Marks]:
        raise NotImplementedError(f"Batching rule for '{self.name}' not implemented")

    def transpose(self, ctx: Context[V], cts: Tangents[V], args: Operands[V]) -> Cotangents[V]:
        raise NotImplementedError(f"Transpose rule for '{self.name}' not implemented")

    def partial_eval(self, unknown: Marks) -> Split[Primitive] | None:
        return None

    def __call__(self, ctx: Context[V], *args: V) -> V:
        return ctx.bind(self, *args)[0]


class Context(Protocol[V]):
    def bind(self, primitive: Primitive, *args: V) -> Sequence[V]: ...
    def lift(self, value: Array | Literal) -> V: ...
    def aval(self, value: V) -> ShapedArray: ...
    def elements(self, value: V) -> HostArray:
        raise TypeError(f"the elements of a traced {self.aval(value)} aren't known, so Python can't branch on them")


def interpret(ctx: Context[V], jaxpr: Jaxpr, args: Sequence[V]) -> list[V]:
    env = list(args)

    def read(atom: Atom) -> V:
        return env[atom.index] if isinstance(atom, Var) else ctx.lift(atom)

    for eqn in jaxpr.eqns:
        env += ctx.bind(eqn.primitive, *map(read, eqn.invars))
    return list(map(read, jaxpr.outvars))


# 3. Whole primitives


@frozen
class Elementwise(Primitive):
    function: ClassVar[np.ufunc]

    def tangent(self, ctx: Context[V], i: int, t: V, args: Operands[V]) -> V:
        """What a tangent `t` of operand `i` contributes to the tangent of the result."""
        raise NotImplementedError(f"'{self.name}' has no derivative")

    def type_of(self, *avals: ShapedArray) -> Sequence[ShapedArray]:
        shapes = {aval.shape for aval in avals if aval.shape}
        if len(shapes) > 1 or len({aval.dtype for aval in avals}) > 1:
            raise TypeError(f"{self.name} takes operands of one type, or scalars; got {', '.join(map(str, avals))}")
        return [ShapedArray(max(shapes, default=()), avals[0].dtype, all(aval.weak_type for aval in avals))]

    def evaluate(self, *args: HostArray) -> Sequence[HostArray]:
        return [np.asarray(self.function(*args))]

    def jvp(self, ctx: Context[V], primals: Sequence[V], tangents: Tangents[V]) -> tuple[Sequence[V], Tangents[V]]:
        out = self(ctx, *primals)
        parts = [self.tangent(ctx, i, t, primals) for i, t in enumerate(tangents) if not isinstance(t, Zero)]
        return [out], [broadcast(ctx, reduce(partial(add, ctx), parts), ctx.aval(out).shape)]

    def batch(self, ctx: Context[V], size: int, args: Sequence[V], mapped: Marks) -> tuple[Sequence[V], Marks]:
        shapes = [ctx.aval(x).shape[mark:] for x, mark in zip(args, mapped, strict=True)]
        full = (size, *max(shapes, key=len))
        operands = zip(args, mapped, shapes, strict=True)
        aligned = [broadcast(ctx, x, full if mark or shape else (), 1 - mark) for x, mark, shape in operands]
        return ctx.bind(self, *aligned), (True,)

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

    def tangent(self, ctx: Context[V], i: int, t: V, args: Operands[V]) -> V:
        return neg(ctx, t)


class Add(Elementwise):
    name, function = "add", np.add

    def tangent(self, ctx: Context[V], i: int, t: V, args: Operands[V]) -> V:
        return t


class Mul(Elementwise):
    name, function = "mul", np.multiply

    def tangent(self, ctx: Context[V], i: int, t: V, args: Operands[V]) -> V:
        return mul(ctx, known(args[0]), t) if i == 1 else mul(ctx, t, known(args[1]))


class Sin(Elementwise):
    name, function = "sin", np.sin

    def tangent(self, ctx: Context[V], i: int, t: V, args: Operands[V]) -> V:
        return mul(ctx, t, Cos()(ctx, known(args[0])))


class Cos(Elementwise):
    name, function = "cos", np.cos

    def tangent(self, ctx: Context[V], i: int, t: V, args: Operands[V]) -> V:
        return mul(ctx, t, neg(ctx, Sin()(ctx, known(args[0]))))


neg, add, mul = Neg(), Add(), Mul()


class Greater(Elementwise):
    name, function = "gt", np.greater

    def type_of(self, *avals: ShapedArray) -> Sequence[ShapedArray]:
        return [evolve(aval, dtype=BOOL, weak_type=False) for aval in super().type_of(*avals)]

    def jvp(self, ctx: Context[V], primals: Sequence[V], tangents: Tangents[V]) -> tuple[Sequence[V], Tangents[V]]:
        out = self(ctx, *primals)
        return [out], [Zero(ctx.aval(out))]


class Linear(Primitive):
    def jvp(self, ctx: Context[V], primals: Sequence[V], tangents: Tangents[V]) -> tuple[Sequence[V], Tangents[V]]:
        return ctx.bind(self, *primals), ctx.bind(self, *nonzero(tangents))


@frozen
class BroadcastInDim(Linear):
    shape: tuple[int, ...]
    broadcast_dimensions: tuple[int, ...]
    name = "broadcast_in_dim"

    def type_of(self, *avals: ShapedArray) -> Sequence[ShapedArray]:
        if avals[0].shape != tuple([self.shape[dim] for dim in self.broadcast_dimensions]):
            raise TypeError(f"{avals[0]} can't be broadcast to {self.shape} along {self.broadcast_dimensions}")
        return [evolve(avals[0], shape=self.shape)]

    def evaluate(self, *args: HostArray) -> Sequence[HostArray]:
        return [np.broadcast_to(np.expand_dims(args[0], others(self.shape, self.broadcast_dimensions)), self.shape)]

    def batch(self, ctx: Context[V], size: int, args: Sequence[V], mapped: Marks) -> tuple[Sequence[V], Marks]:
        dims = (0, *[dim + 1 for dim in self.broadcast_dimensions])
        return ctx.bind(BroadcastInDim((size, *self.shape), dims), *args), (True,)

    def transpose(self, ctx: Context[V], cts: Tangents[V], args: Operands[V]) -> Cotangents[V]:
        return ctx.bind(ReduceSum(others(self.shape, self.broadcast_dimensions)), instantiate(ctx, cts[0]))


@frozen
class ReduceSum(Linear):
    axes: tuple[int, ...]
    name = "reduce_sum"

    def type_of(self, *avals: ShapedArray) -> Sequence[ShapedArray]:
        (x,) = avals
        return [evolve(x, shape=tuple([x.shape[i] for i in others(x.shape, self.axes)]))]

    def evaluate(self, *args: HostArray) -> Sequence[HostArray]:
        return [np.asarray(np.sum(args[0], self.axes))]

    def batch(self, ctx: Context[V], size: int, args: Sequence[V], mapped: Marks) -> tuple[Sequence[V], Marks]:
        return ctx.bind(ReduceSum(tuple([axis + 1 for axis in self.axes])), *args), (True,)

    def transpose(self, ctx: Context[V], cts: Tangents[V], args: Operands[V]) -> Cotangents[V]:
        (shape,) = [x.aval.shape for x in args if isinstance(x, UndefPrimal)]
        return ctx.bind(BroadcastInDim(shape, others(shape, self.axes)), instantiate(ctx, cts[0]))


def others(shape: tuple[int, ...], axes: tuple[int, ...]) -> tuple[int, ...]:
    return tuple([i for i in range(len(shape)) if i not in axes])


def broadcast(ctx: Context[V], x: V, shape: tuple[int, ...], start: int = 0) -> V:
    own = ctx.aval(x).shape
    return x if own == shape else BroadcastInDim(shape, tuple(range(start, start + len(own))))(ctx, x)


def sum_to(ctx: Context[V], x: V, shape: tuple[int, ...]) -> V:
    own = ctx.aval(x).shape
    return x if own == shape else ReduceSum(tuple(range(len(own))))(ctx, x)


def nonzero(tangents: Tangents[V]) -> list[V]:
    return [t for t in tangents if not isinstance(t, Zero)]


def moving(tangents: Tangents[V]) -> Marks:
    return tuple([not isinstance(t, Zero) for t in tangents])


def instantiate(ctx: Context[V], x: V | Zero) -> V:
    if not isinstance(x, Zero):
        return x
    return broadcast(ctx, ctx.lift(Literal(x.aval.dtype.type(0).item(), evolve(x.aval, shape=()))), x.aval.shape)


def operator(primitive: Primitive, swapped: bool = False) -> Callable[[Array, ArrayLike], Array]:
    return lambda x, y: bind(primitive, y, x)[0] if swapped else bind(primitive, x, y)[0]


class Array:
    __array_ufunc__ = None
    aval: ShapedArray

    def elements(self) -> HostArray:
        raise NotImplementedError

    def __neg__(self) -> Array:
        return bind(neg, self)[0]

    __add__, __radd__ = operator(add), operator(add, swapped=True)
    __mul__, __rmul__ = operator(mul), operator(mul, swapped=True)
    __gt__ = operator(Greater())

    def sum(self) -> Array:
        return bind(ReduceSum(tuple(range(len(self.aval.shape)))), self)[0]

    def __bool__(self) -> bool:
        return bool(self.elements())

    def __array__(self, dtype: np.dtype[Any] | None = None, copy: bool | None = None) -> HostArray:
        return np.array(self.elements(), dtype)

    def __repr__(self) -> str:
        return str(self.elements())


class ConcreteArray(Array):
    def __init__(self, data: HostArray, aval: ShapedArray) -> None:
        self.data, self.aval = data, aval

    def elements(self) -> HostArray:
        return self.data


ArrayLike: TypeAlias = Array | HostArray | float


def asarray(x: ArrayLike) -> Array:
    if isinstance(x, Array):
        return x
    data = np.array(x)
    return ConcreteArray(data, ShapedArray(data.shape, data.dtype, weak_type=type(x) is float))


class EvalContext(Context[Array]):
    def bind(self, primitive: Primitive, *args: Array) -> Sequence[Array]:
        avals = primitive.type_of(*[arg.aval for arg in args])
        return list(map(ConcreteArray, primitive.evaluate(*[arg.elements() for arg in args]), avals))

    def lift(self, value: Array | Literal) -> Array:
        return ConcreteArray(np.asarray(value.value), value.aval) if isinstance(value, Literal) else value

    def aval(self, value: Array) -> ShapedArray:
        return value.aval

    def elements(self, value: Array) -> HostArray:
        return value.elements()


# 4. Forward mode


@frozen(eq=False)
class Over(Context[T], Generic[V, T]):
    parent: Context[V]

    def pure(self, value: V) -> T:
        raise NotImplementedError

    def lift(self, value: Array | Literal) -> T:
        return self.pure(self.parent.lift(value))


@frozen
class Dual(Generic[V]):
    primal: V
    tangent: V | Zero


class JvpContext(Over[V, Dual[V]]):
    def bind(self, primitive: Primitive, *args: Dual[V]) -> Sequence[Dual[V]]:
        primals, tangents = [arg.primal for arg in args], [arg.tangent for arg in args]
        if not nonzero(tangents):
            return list(map(self.pure, self.parent.bind(primitive, *primals)))
        outs, moved = primitive.jvp(self.parent, primals, tangents)
        return [Dual(out, t) for out, t in zip(outs, moved, strict=True)]

    def pure(self, value: V) -> Dual[V]:
        return Dual(value, Zero(self.parent.aval(value)))

    def aval(self, value: Dual[V]) -> ShapedArray:
        return self.parent.aval(value.primal)

    def elements(self, value: Dual[V]) -> HostArray:
        return self.parent.elements(value.primal)


# 5. Vectorisation


@frozen
class Batched(Generic[V]):
    value: V
    mapped: bool


@frozen(eq=False)
class BatchContext(Over[V, Batched[V]]):
    size: int

    def bind(self, primitive: Primitive, *args: Batched[V]) -> Sequence[Batched[V]]:
        values, mapped = [arg.value for arg in args], tuple([arg.mapped for arg in args])
        if not any(mapped):
            return list(map(self.pure, self.parent.bind(primitive, *values)))
        outs, marks = primitive.batch(self.parent, self.size, values, mapped)
        return [Batched(out, mark) for out, mark in zip(outs, marks, strict=True)]

    def pure(self, value: V) -> Batched[V]:
        return Batched(value, False)

    def aval(self, value: Batched[V]) -> ShapedArray:
        aval = self.parent.aval(value.value)
        return evolve(aval, shape=aval.shape[value.mapped :])


# 6. Staging


class StagingContext(Context[Atom]):
    def __init__(self) -> None:
        self.numbers = count()
        self.inputs: list[Var] = []
        self.captured: dict[Array, Var] = {}
        self.eqns: list[Eqn] = []

    def new(self, aval: ShapedArray) -> Var:
        return Var(next(self.numbers), aval)

    def argument(self, aval: ShapedArray) -> Var:
        self.inputs.append(self.new(aval))
        return self.inputs[-1]

    def bind(self, primitive: Primitive, *args: Atom) -> Sequence[Atom]:
        outs = tuple(map(self.new, primitive.type_of(*[arg.aval for arg in args])))
        self.eqns.append(Eqn(primitive, args, outs))
        return outs

    def lift(self, value: Array | Literal) -> Atom:
        if isinstance(value, Literal):
            return value
        if isinstance(value, ConcreteArray) and not value.aval.shape:
            return Literal(value.data.item(), value.aval)
        return self.captured.setdefault(value, self.new(value.aval))

    def aval(self, value: Atom) -> ShapedArray:
        return value.aval

    def finish(self, outs: Sequence[Atom]) -> Jaxpr:
        inputs = [*self.captured.values(), *self.inputs]
        grown = Jaxpr(tuple(inputs), tuple(self.eqns), tuple(outs))
        new = {var: Var(i, var.aval) for i, var in enumerate(grown.bound)}

        def read(atoms: Sequence[Atom]) -> tuple[Atom, ...]:
            return tuple([new[atom] if isinstance(atom, Var) else atom for atom in atoms])

        eqns = [Eqn(eqn.primitive, read(eqn.invars), tuple([new[v] for v in eqn.outvars])) for eqn in self.eqns]
        return Jaxpr(tuple([new[var] for var in inputs]), tuple(eqns), read(outs))


def typecheck(jaxpr: Jaxpr) -> None:
    ctx = StagingContext()
    try:
        again = ctx.finish(interpret(ctx, jaxpr, list(map(ctx.argument, jaxpr.in_avals))))
    except IndexError:
        raise TypeError("an equation reads a variable that nothing has bound before it") from None
    if again != jaxpr:
        raise TypeError(f"the types or the numbering are wrong, for these equations give\n{again}\nand not\n{jaxpr}")


# 7. From Python functions to contexts


class Frame:
    def __init__(self, context: Context[V], outer: Frame | None = None) -> None:
        def bind(primitive: Primitive, args: Sequence[Array]) -> list[Array]:
            outs = context.bind(primitive, *[value_in(arg, context) for arg in args])
            return [out if isinstance(out, Array) else Tracer(self, context, out) for out in outs]

        self.bind, self.alive = bind, True
        self.level: int = 0 if outer is None else outer.level + 1
        self.base: Frame = self if outer is None or isinstance(context, StagingContext) else outer.base


class Tracer(Array, Generic[V]):
    def __init__(self, frame: Frame, context: Context[V], value: V) -> None:
        self.frame, self.context, self.value, self.aval = frame, context, value, context.aval(value)

    def elements(self) -> HostArray:
        return self.context.elements(self.value)


def value_in(x: Array, ctx: Context[V]) -> V:
    if isinstance(x, Tracer):
        if not x.frame.alive:
            raise RuntimeError(f"a traced value of type {x.aval} was used after the transformation that made it")
        if x.context is ctx:
            value: V = x.value
            return value
    return ctx.lift(x)


ROOT: Final = Frame(EvalContext())
innermost: Final[ContextVar[Frame]] = ContextVar("innermost", default=ROOT)


def top_frame(arrays: Sequence[Array]) -> Frame:
    frames = [array.frame for array in arrays if isinstance(array, Tracer)]
    return max([innermost.get().base, *frames], key=lambda frame: frame.level)


class ArrayContext(EvalContext):
    def bind(self, primitive: Primitive, *args: Array) -> Sequence[Array]:
        return top_frame(args).bind(primitive, args)


ARRAYS: Final = ArrayContext()


def bind(primitive: Primitive, *args: ArrayLike) -> Sequence[Array]:
    return ARRAYS.bind(primitive, *map(asarray, args))


def sin(x: ArrayLike) -> Array:
    return bind(Sin(), x)[0]


def cos(x: ArrayLike) -> Array:
    return bind(Cos(), x)[0]


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


def trace(ctx: Context[V], f: Callable[..., object], treedef: TreeDef, args: Sequence[V]) -> tuple[list[V], TreeDef]:
    frame = Frame(ctx, innermost.get())
    token = innermost.set(frame)
    try:
        leaves, out_tree = flatten(f(*treedef.unflatten(Tracer(frame, ctx, arg) for arg in args)))
        return [value_in(leaf, ctx) for leaf in leaves], out_tree
    finally:
        innermost.reset(token)
        frame.alive = False


def jvp(f: Callable[..., R], primals: tuple[object, ...], tangents: tuple[object, ...]) -> tuple[R, R]:
    (xs, treedef), (ts, _) = flatten(primals), flatten(tangents)
    outs, out_tree = trace(JvpContext(ARRAYS), f, treedef, list(map(Dual[Array], xs, ts)))
    moved = [instantiate(ARRAYS, out.tangent) for out in outs]
    return out_tree.unflatten(out.primal for out in outs), out_tree.unflatten(iter(moved))


def vmap(f: Callable[[*Ts], R], in_axes: tuple[int | None, ...] | int = 0) -> Callable[[*Ts], R]:
    @wraps(f)
    def mapped(*args: *Ts) -> R:
        axes = (in_axes,) * len(args) if isinstance(in_axes, int) else in_axes
        xs, treedef = flatten(args)
        marks = [axis is not None for i, axis in enumerate(axes) for _ in flatten(args[i])[0]]
        (size,) = {x.aval.shape[0] for x in compress(xs, marks)}
        outs, out_tree = trace(BatchContext(ARRAYS, size), f, treedef, list(map(Batched, xs, marks)))
        result: R = out_tree.unflatten(stacked(ARRAYS, out, size) for out in outs)
        return result

    return mapped


def stacked(ctx: Context[V], x: Batched[V], size: int) -> V:
    return x.value if x.mapped else broadcast(ctx, x.value, (size, *ctx.aval(x.value).shape), start=1)


Staged: TypeAlias = tuple[Jaxpr, list[Array], TreeDef]


def staged(f: Callable[..., object], treedef: TreeDef, avals: Sequence[ShapedArray]) -> Staged:
    ctx = StagingContext()
    outs, out_tree = trace(ctx, f, treedef, list(map(ctx.argument, avals)))
    return ctx.finish(outs), list(ctx.captured), out_tree


def make_jaxpr(f: Callable[[*Ts], object]) -> Callable[[*Ts], Jaxpr]:
    def traced(*args: *Ts) -> Jaxpr:
        xs, treedef = flatten(args)
        return staged(f, treedef, [x.aval for x in xs])[0]

    return traced


# 10. Transformations of programs, and partial evaluation


def jvp_program(jaxpr: Jaxpr, marks: Marks) -> tuple[Jaxpr, Marks]:
    ctx = StagingContext()
    primals = list(map(ctx.argument, jaxpr.in_avals))
    tangents = [ctx.argument(x.aval) if mark else Zero(x.aval) for x, mark in zip(primals, marks, strict=True)]
    outs = interpret(JvpContext(ctx), jaxpr, list(map(Dual[Atom], primals, tangents)))
    moved = [out.tangent for out in outs if not isinstance(out.tangent, Zero)]
    return ctx.finish([*[out.primal for out in outs], *moved]), moving([out.tangent for out in outs])


def batch_program(jaxpr: Jaxpr, size: int, mapped: Marks) -> tuple[Jaxpr, Marks]:
    ctx = StagingContext()
    avals = [evolve(x, shape=(size,) * mark + x.shape) for x, mark in zip(jaxpr.in_avals, mapped, strict=True)]
    args = [Batched[Atom](ctx.argument(aval), mark) for aval, mark in zip(avals, mapped, strict=True)]
    outs = interpret(BatchContext(ctx, size), jaxpr, args)
    return ctx.finish([out.value for out in outs]), tuple([out.mapped for out in outs])


@frozen
class Split(Generic[T]):
    known: T
    staged: T
    unknown_out: Marks
    residuals: tuple[int | None, ...]


@frozen
class Known(Generic[V]):
    value: V


@frozen
class Unknown:
    atom: Atom


Partial: TypeAlias = Known[V] | Unknown


@frozen(eq=False)
class PartialEvalContext(Over[V, Partial[V]]):
    staged: StagingContext = field(factory=StagingContext)
    residuals: dict[V, Var] = field(factory=dict)
    again: dict[V, Callable[[], Atom]] = field(factory=dict)

    def unknown(self, aval: ShapedArray) -> Unknown:
        return Unknown(self.staged.argument(aval))

    def bind(self, primitive: Primitive, *args: Partial[V]) -> Sequence[Partial[V]]:
        values = [arg.value for arg in args if isinstance(arg, Known)]
        unknown = tuple([isinstance(arg, Unknown) for arg in args])
        if not any(unknown):
            found = self.parent.bind(primitive, *values)
            if isinstance(primitive, BroadcastInDim) and isinstance(values[0], Literal):
                self.again[found[0]] = cache(partial(primitive, self.staged, values[0]))
            return list(map(self.pure, found))
        split = primitive.partial_eval(unknown)
        if split is None:
            return list(map(Unknown, self.staged.bind(primitive, *map(self.instantiate, args))))
        outs = list(map(self.pure, self.parent.bind(split.known, *values)))
        now, computed = iter(outs), iter(outs[split.unknown_out.count(False) :])
        leading = [next(computed) if i is None else args[i] for i in split.residuals]
        operands = [*leading, *compress(args, unknown)]
        later = iter(map(Unknown, self.staged.bind(split.staged, *map(self.instantiate, operands))))
        return [next(later) if mark else next(now) for mark in split.unknown_out]

    def instantiate(self, value: Partial[V]) -> Atom:
        if isinstance(value, Unknown):
            return value.atom
        if isinstance(value.value, Literal):
            return value.value
        if value.value in self.again:
            return self.again[value.value]()
        return self.residuals.setdefault(value.value, self.staged.new(self.parent.aval(value.value)))

    def finish(self, outs: Sequence[Partial[V]]) -> tuple[Jaxpr, list[V]]:
        atoms = list(map(self.instantiate, outs))
        self.staged.inputs[:0] = self.residuals.values()
        return self.staged.finish(atoms), list(self.residuals)

    def pure(self, value: V) -> Partial[V]:
        return Known(value)

    def aval(self, value: Partial[V]) -> ShapedArray:
        return value.atom.aval if isinstance(value, Unknown) else self.parent.aval(value.value)

    def elements(self, value: Partial[V]) -> HostArray:
        return self.parent.elements(value.value) if isinstance(value, Known) else super().elements(value)


def partial_eval(jaxpr: Jaxpr, unknown: Marks, force: Marks = ()) -> Split[Jaxpr]:
    now = StagingContext()
    ctx = PartialEvalContext[Atom](now)
    pairs = zip(jaxpr.in_avals, unknown, strict=True)
    args: list[Partial[Atom]] = [ctx.unknown(x) if mark else Known(now.argument(x)) for x, mark in pairs]
    outs = interpret(ctx, jaxpr, args)
    marks = tuple(map(or_, [isinstance(out, Unknown) for out in outs], force or [False] * len(outs)))
    later, residuals = ctx.finish(list(compress(outs, marks)))
    inputs = [arg.value if isinstance(arg, Known) else None for arg in args]
    known = [out.value for out, mark in zip(outs, marks, strict=True) if isinstance(out, Known) and not mark]
    computed = [atom for atom in residuals if atom not in inputs]
    passed = tuple([inputs.index(atom) if atom in inputs else None for atom in residuals])
    return Split(now.finish([*known, *computed]), later, marks, passed)


# 11. Transposition, and reverse mode


def transpose(ctx: Context[V], jaxpr: Jaxpr, args: Operands[V], cts: Tangents[V]) -> list[V | Zero]:
    env = list(args)
    pending: dict[Atom, V] = {}

    def read(atom: Atom) -> V | UndefPrimal:
        return env[atom.index] if isinstance(atom, Var) else ctx.lift(atom)

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


def transpose_program(jaxpr: Jaxpr, linear: Marks, marks: Marks) -> tuple[Jaxpr, Marks]:
    ctx = StagingContext()
    args = [UndefPrimal(x) if mark else ctx.argument(x) for x, mark in zip(jaxpr.in_avals, linear, strict=True)]
    cts = [ctx.argument(x) if mark else Zero(x) for x, mark in zip(jaxpr.out_avals, marks, strict=True)]
    found = transpose(ctx, jaxpr, args, cts)
    return ctx.finish(nonzero(found)), moving(found)


def linearized(f: Callable[..., R], xs: Sequence[Array], treedef: TreeDef) -> tuple[R, Jaxpr, list[Array]]:
    ctx = PartialEvalContext(ARRAYS)
    duals = [Dual[Partial[Array]](Known(x), ctx.unknown(x.aval)) for x in xs]
    outs, out_tree = trace(JvpContext(ctx), f, treedef, duals)
    ys = [out.primal.value for out in outs if isinstance(out.primal, Known)]
    jaxpr, residuals = ctx.finish([instantiate(ctx, out.tangent) for out in outs])
    return out_tree.unflatten(iter(ys)), jaxpr, residuals


def vjp(f: Callable[[*Ts], R], *primals: *Ts) -> tuple[R, Callable[[R], tuple[*Ts]]]:
    xs, treedef = flatten(primals)
    out, jaxpr, residuals = linearized(f, xs, treedef)

    def f_vjp(cotangents: R) -> tuple[*Ts]:
        args: Operands[Array] = [*residuals, *[UndefPrimal(x.aval) for x in xs]]
        found = transpose(ARRAYS, jaxpr, args, flatten(cotangents)[0])
        result: tuple[*Ts] = treedef.unflatten(instantiate(ARRAYS, ct) for ct in found)
        return result

    return out, f_vjp


def grad(f: Callable[[T, *Ts], Array]) -> Callable[[T, *Ts], T]:
    def gradient(x: T, *rest: *Ts) -> T:
        y, f_vjp = vjp(lambda x: f(x, *rest), x)
        return f_vjp(asarray(np.ones(y.aval.shape)))[0]

    return gradient


# 12. A primitive that holds a program


@frozen
class Call(Primitive):
    function_name: str
    jaxpr: Jaxpr
    name = "call"

    def type_of(self, *avals: ShapedArray) -> Sequence[ShapedArray]:
        if [(x.shape, x.dtype) for x in avals] != [(x.shape, x.dtype) for x in self.jaxpr.in_avals]:
            raise TypeError(f"{self.function_name} takes {self.jaxpr.in_avals}, got {avals}")
        return self.jaxpr.out_avals

    def evaluate(self, *args: HostArray) -> Sequence[HostArray]:
        return compiled(self.jaxpr)(args)

    def jvp(self, ctx: Context[V], primals: Sequence[V], tangents: Tangents[V]) -> tuple[Sequence[V], Tangents[V]]:
        jaxpr, marks = jvp_program(self.jaxpr, moving(tangents))
        outs = ctx.bind(evolve(self, jaxpr=jaxpr), *primals, *nonzero(tangents))
        moved = iter(outs[len(marks) :])
        zeros = map(Zero, self.jaxpr.out_avals)
        return outs[: len(marks)], [next(moved) if mark else zero for mark, zero in zip(marks, zeros, strict=True)]

    def batch(self, ctx: Context[V], size: int, args: Sequence[V], mapped: Marks) -> tuple[Sequence[V], Marks]:
        jaxpr, out_mapped = batch_program(self.jaxpr, size, mapped)
        return ctx.bind(evolve(self, jaxpr=jaxpr), *args), out_mapped

    def transpose(self, ctx: Context[V], cts: Tangents[V], args: Operands[V]) -> Cotangents[V]:
        linear = tuple([isinstance(arg, UndefPrimal) for arg in args])
        jaxpr, marks = transpose_program(self.jaxpr, linear, moving(cts))
        values = [arg for arg in args if not isinstance(arg, UndefPrimal)]
        outs = iter(ctx.bind(evolve(self, jaxpr=jaxpr), *values, *nonzero(cts)))
        found = iter([next(outs) if mark else None for mark in marks])
        return [next(found) if mark else None for mark in linear]

    def partial_eval(self, unknown: Marks) -> Split[Primitive] | None:
        split = partial_eval(self.jaxpr, unknown)
        now, later = evolve(self, jaxpr=split.known), evolve(self, jaxpr=split.staged)
        return Split(now, later, split.unknown_out, split.residuals)


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


# 13. Compiling


@frozen
class SSA:
    name: str
    aval: ShapedArray


def tensor(aval: ShapedArray) -> str:
    element = str(aval.dtype).replace("float", "f").replace("int", "i").replace("bool", "i1")
    return f"tensor<{''.join(f'{size}x' for size in aval.shape)}{element}>"


def types(values: Sequence[SSA]) -> str:
    return ", ".join(tensor(x.aval) for x in values)


def returned(values: Sequence[SSA]) -> str:
    return f"{', '.join(x.name for x in values)} : {types(values)}"


class LoweringContext(Context[SSA]):
    def __init__(self) -> None:
        self.numbers = count()
        self.lines: list[str] = []

    def emit(self, operation: str, *avals: ShapedArray) -> list[SSA]:
        outs = [SSA(f"%{next(self.numbers)}", aval) for aval in avals]
        self.lines.append(f"{', '.join(out.name for out in outs)} = {operation}")
        return outs

    def bind(self, primitive: Primitive, *args: SSA) -> Sequence[SSA]:
        return lowered(primitive, self, args)

    def lift(self, value: Array | Literal) -> SSA:
        text = str(EvalContext().lift(value).elements().tolist()).lower()
        return self.emit(f"stablehlo.constant dense<{text}> : {tensor(value.aval)}", value.aval)[0]

    def aval(self, value: SSA) -> ShapedArray:
        return value.aval


OPERATIONS: dict[type[Primitive], str] = {
    Neg: "negate {0} : {out}",
    Add: "add {0}, {1} : {out}",
    Mul: "multiply {0}, {1} : {out}",
    Sin: "sine {0} : {out}",
    Cos: "cosine {0} : {out}",
    Greater: "compare GT, {0}, {1} : ({types}) -> {out}",
    BroadcastInDim: "broadcast_in_dim {0}, dims = {broadcast_dimensions} : ({types}) -> {out}",
    ReduceSum: "reduce({0} init: {1}) applies stablehlo.add across dimensions = {axes} : ({types}) -> {out}",
}


@singledispatch
def lowered(primitive: Primitive, ctx: LoweringContext, args: Sequence[SSA]) -> Sequence[SSA]:
    (aval,) = primitive.type_of(*[x.aval for x in args])
    if isinstance(primitive, Elementwise):
        args = [broadcast(ctx, x, aval.shape) for x in args]
    if isinstance(primitive, ReduceSum):
        args = [*args, instantiate(ctx, Zero(ShapedArray(())))]
    params = {name: list(value) if isinstance(value, tuple) else value for name, value in asdict(primitive).items()}
    text = OPERATIONS[type(primitive)].format(*[x.name for x in args], types=types(args), out=tensor(aval), **params)
    return ctx.emit(f"stablehlo.{text}", aval)


@lowered.register
def lowered_call(primitive: Call, ctx: LoweringContext, args: Sequence[SSA]) -> Sequence[SSA]:
    return interpret(ctx, primitive.jaxpr, args)


def lower(jaxpr: Jaxpr) -> str:
    ctx = LoweringContext()
    args = [SSA(f"%arg{i}", aval) for i, aval in enumerate(jaxpr.in_avals)]
    outs = interpret(ctx, jaxpr, args)
    inputs = ", ".join(f"{x.name}: {tensor(x.aval)}" for x in args)
    lines = [*ctx.lines, f"return {returned(outs)}"]
    return indented(f"func.func public @main({inputs}) -> ({types(outs)}) {{", *lines) + "\n}"


@cache
def compiled(jaxpr: Jaxpr) -> Callable[[Sequence[HostArray]], Sequence[HostArray]]:
    ins, outs = [[(aval.shape, aval.dtype) for aval in avals] for avals in (jaxpr.in_avals, jaxpr.out_avals)]
    return backend.compile_module(lower(jaxpr), ins, outs)
