"""Programs for the tests of transformations, and two ways of running them: our evaluation, and jax."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from typing import Any, Final

import jax
import jax.numpy as jnp
import numpy as np
from hypothesis import strategies as st

import tinyjax as tj
from tests import strategies
from tests.api.families import FUNCTIONS
from tinyjax import ShapedArray, ir
from tinyjax.contexts.evaluation import EvalContext
from tinyjax.control.call import Calling
from tinyjax.ir import HostArray, Jaxpr, Var
from tinyjax.ir.dtypes import FLOAT64
from tinyjax.primitives.elementwise import Add, Mul, Neg, Sub
from tinyjax.primitives.structure import BroadcastInDim, ReduceSum, Transpose

F64: Final = ShapedArray((), "float64")
VECTOR: Final = ShapedArray((3,), "float64")
#: Random programs on doubles, with calls of calls.
float_programs: Final[st.SearchStrategy[Jaxpr]] = strategies.programs(dtypes=st.just(FLOAT64), max_eqns=8, depth=2)
any_programs: Final[st.SearchStrategy[Jaxpr]] = strategies.programs(max_eqns=8, depth=2)


def program(f: Callable[..., object], *avals: ShapedArray) -> Jaxpr:
    """The program of a function without constants, checked."""
    closed = tj.make_jaxpr(f)(*avals)
    assert closed.consts == ()
    ir.typecheck(closed.jaxpr)
    return closed.jaxpr


def family_program(name: str) -> Jaxpr:
    """The program of a function of the family, on a scalar; its constants are equations."""
    from tinyjax.contexts.staging import stage

    closed = tj.make_jaxpr(FUNCTIONS[name][0])(F64)
    return stage(
        closed.in_avals, lambda ctx, ins: ir.interpret(ctx, closed.jaxpr, [*map(ctx.constant, closed.consts), *ins])
    )


def checked(jaxpr: Jaxpr, ins: Sequence[ShapedArray], outs: Sequence[ShapedArray]) -> Jaxpr:
    """The program itself, which must be valid and of this type; weak marks don't count."""
    found = ir.typecheck(jaxpr)
    assert [aval.strengthen() for aval in found.in_types] == [aval.strengthen() for aval in ins]
    assert [aval.strengthen() for aval in found.out_types] == [aval.strengthen() for aval in outs]
    return jaxpr


def numbers(avals: Sequence[ShapedArray], seed: int = 0) -> list[HostArray]:
    """Arrays of these types, other ones for every seed."""
    generator = np.random.default_rng(seed)
    return [np.asarray(generator.normal(size=aval.shape), aval.dtype) for aval in avals]


def run(jaxpr: Jaxpr, args: Sequence[HostArray | np.generic]) -> list[HostArray]:
    """The results of a program, computed by NumPy."""
    values = [ir.ConcreteValue(np.asarray(arg), aval) for arg, aval in zip(args, jaxpr.in_avals, strict=True)]
    return [np.asarray(out) for out in ir.interpret(EvalContext(), jaxpr, values)]


def in_jax(jaxpr: Jaxpr) -> Callable[..., list[jax.Array]]:
    """The program as a function of jax's, for programs of the primitives that the strategies use."""

    def apply(primitive: ir.Primitive, ins: list[Any]) -> list[Any]:
        match primitive:
            case Neg():
                return [-ins[0]]
            case Add():
                return [ins[0] + ins[1]]
            case Sub():
                return [ins[0] - ins[1]]
            case Mul():
                return [ins[0] * ins[1]]
            case ReduceSum(axes):
                return [jnp.sum(ins[0], axis=axes)]
            case Transpose(permutation):
                return [jnp.transpose(ins[0], permutation)]
            case BroadcastInDim(shape, dims):
                return [jax.lax.broadcast_in_dim(ins[0], shape, dims)]
            case Calling():
                return list(in_jax(primitive.jaxpr)(*ins))
            case _:
                raise NotImplementedError(primitive.name)

    def f(*args: jax.Array) -> list[jax.Array]:
        env: list[Any] = list(map(jnp.asarray, args))

        def read(atom: ir.Atom) -> Any:
            return env[atom.index] if isinstance(atom, Var) else jnp.asarray(atom.value, atom.aval.dtype)

        for eqn in jaxpr.eqns:
            env += apply(eqn.primitive, list(map(read, eqn.invars)))
        return list(map(read, jaxpr.outvars))

    return f


def assert_close(found: Sequence[object], expected: Sequence[object]) -> None:
    """Equal up to rounding, wherever nothing overflows."""
    for pair in zip(found, expected, strict=True):
        one, other = (np.asarray(array).astype(np.complex128) for array in pair)
        assert one.shape == other.shape
        if np.all(np.isfinite(other)) and np.all(np.abs(other) < 1e100):
            scale = 1.0 + np.max(np.abs(other), initial=0.0)
            np.testing.assert_allclose(one / scale, other / scale, rtol=1e-9, atol=1e-9)


def count_eqns(jaxpr: Jaxpr) -> int:
    """The equations of a program and of those within it, each once."""
    return sum(len(nested.eqns) for nested in ir.nested_programs(jaxpr))
