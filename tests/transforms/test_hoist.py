"""`transforms.hoist_constants`."""

from __future__ import annotations

import numpy as np
import pytest

import tinyjax as tj
import tinyjax.numpy as tnp
from tests.golden import Golden
from tests.transforms.checks import F64, VECTOR, program
from tests.transforms.test_cse import program_with_tables
from tests.transforms.test_dce import Emit, Noise, names
from tinyjax import Array, ArrayLike, ir, lax, transforms
from tinyjax.contexts.staging import stage
from tinyjax.control.loops import While
from tinyjax.control.scan import Scan
from tinyjax.ir import HostArray, Jaxpr
from tinyjax.primitives.elementwise import mul
from tinyjax.testing import check_laws


def hoisted(j: Jaxpr, *args: ArrayLike) -> Jaxpr:
    check_laws(j, args, laws=["hoist_constants"])
    return transforms.hoist_constants(j)


def inner_names(j: Jaxpr, name: str) -> list[str]:
    (eqn,) = [eqn for eqn in j.eqns if eqn.primitive.name == name]
    return [inner.primitive.name for program in ir.subjaxprs(eqn.primitive) for inner in program.eqns]


def test_golden(golden: Golden) -> None:
    def f(x: Array, y: Array) -> object:
        def body(carry: Array, row: Array) -> tuple[Array, Array]:
            scale = tnp.exp(x) * 2.0
            return carry * scale + row, carry + y * tnp.ones(())

        total, rows = lax.scan(body, y, tnp.arange(3.0))
        last = lax.while_loop(lambda c: c < tnp.sin(x) + 5.0, lambda c: c + tnp.cos(x) + 2.0, y)
        table = lambda z: tnp.sum(tnp.asarray([1.0, 2.0, 4.0]) * z)  # noqa: E731
        chosen = lax.cond(x > y, table, lambda z: z * tnp.sum(tnp.asarray([5.0, 6.0])), y)
        return total, rows, last, chosen, tj.jit(table)(x)

    j = program_with_tables(f)
    k = hoisted(j, 0.5, 1.5)
    golden("hoist_constants", f"{j}\n\n{k}")


def test_out_of_nested_loops() -> None:
    def f(x: Array, y: Array) -> Array:
        def inner(c: Array, _: None) -> tuple[Array, None]:
            return c * tnp.sin(x), None

        def outer(c: Array, _: None) -> tuple[Array, None]:
            return lax.scan(inner, c, None, length=2)[0], None

        out: Array = lax.scan(outer, y, None, length=2)[0]
        return out

    k = hoisted(program(f, F64, F64), 0.5, 2.0)
    assert names(k) == ["sin", "scan"]
    assert "sin" not in inner_names(k, "scan")


def test_what_costs_nothing_is_not_kept() -> None:
    """Repeated and counted again in the loop rather than handed in; but not what is computed from them."""

    def f(x: Array, y: Array) -> Array:
        def body(c: Array, _: None) -> tuple[Array, None]:
            ones = lax.broadcast_in_dim(x, (3,), ())
            return c * ones + tnp.sum(tnp.arange(3.0) * ones), None

        out: Array = lax.scan(body, y, None, length=2)[0]
        return out

    k = hoisted(program(f, F64, VECTOR), 0.5, np.arange(3.0))
    assert inner_names(k, "scan") == ["broadcast_in_dim", "mul", "add"]
    assert names(k)[-1] == "scan"


def test_loops_that_may_not_run() -> None:
    """Nothing that may never end, fail or call Python leaves a loop that may not run."""
    called: list[float] = []

    def look(x: HostArray) -> HostArray:
        called.append(float(x))
        return x

    def body(c: Array, x: Array) -> Array:
        endless: Array = lax.while_loop(lambda z: z > 0.0, lambda z: z * x, x)
        looked: Array = tj.pure_callback(look, F64, x)
        return c + endless + looked + tnp.sin(x)

    def whiling(x: Array, y: Array) -> Array:
        out: Array = lax.while_loop(lambda c: c < 0.0, lambda c: body(c, x), y)
        return out

    k = hoisted(program(whiling, F64, F64), 1.0, 2.0)
    assert names(k) == ["sin", "while"]
    assert called == []

    def scanning(length: int) -> Jaxpr:
        return program(lambda x, y: lax.scan(lambda c, _: (body(c, x), None), y, None, length=length)[0], F64, F64)

    assert names(transforms.hoist_constants(scanning(0))) == ["sin", "scan"]
    assert names(transforms.hoist_constants(scanning(3))) == ["while", "pure_callback", "sin", "scan"]


def test_effects_stay_in_loops() -> None:
    def run_body(ctx: ir.Context[ir.Atom], ins: list[ir.Atom]) -> list[ir.Atom]:
        (noisy,) = ctx.bind(Emit(Noise()), ins[0])
        return [*ctx.bind(mul, ins[1], noisy)]

    body = stage([F64, F64], run_body)
    j = stage([F64, F64], lambda ctx, ins: ctx.bind(Scan(body, 3, False, 1, 1), *ins))
    assert transforms.hoist_constants(j) is j


def test_arrays_of_closed_programs() -> None:
    first, second = tnp.asarray([1.0, 2.0]), tnp.asarray([3.0, 4.0])
    given = tj.make_jaxpr(lambda x: first * x)(F64)
    assert len(given.consts) == 1
    inner = program_with_tables(lambda x, y: tnp.sum(second * x) + tj.jit(lambda z: tnp.sum(second * z))(y))
    closed = ir.ClosedJaxpr(inner)
    result = transforms.hoist_constants(closed)
    assert ir.typecheck(result) == ir.typecheck(closed)
    assert [np.asarray(const).tolist() for const in result.consts] == [[3.0, 4.0]]
    assert not any("constant" in [e.primitive.name for e in p.eqns] for p in ir.nested_programs(result.jaxpr))
    args = (2.0, 3.0)
    assert tj.eval_jaxpr(result.jaxpr, result.consts, *args) == tj.eval_jaxpr(closed.jaxpr, (), *args)
    assert transforms.hoist_constants(given) is given


def test_arrays_leave_all_kinds_of_programs() -> None:
    """Folding writes arrays where they are read; hoisting collects them."""

    def table(x: Array) -> Array:
        return tnp.sum(tnp.sin(tnp.arange(3.0)) * x)

    def f(x: Array, y: Array) -> object:
        chosen = lax.cond(x > y, table, lambda z: z * tnp.sum(tnp.arange(2.0) * 3.0 * z), x)
        total, _ = lax.scan(lambda c, r: (table(c) + r, None), x, tnp.ones(2))
        last = lax.while_loop(lambda c: table(c) < 3.0, lambda c: c + tnp.abs(table(c)) + 1.0, y)
        return chosen, total, last, tj.jit(table)(y), tj.checkpoint(table)(x)

    j = program(f, F64, F64)
    folded = transforms.fold_constants(j)
    assert [eqn for eqn in folded.eqns if eqn.primitive.name == "constant"] == []
    k = hoisted(folded, 0.5, 0.25)
    counts = dict(transforms.count_primitives(k))
    assert counts["constant"] == names(k).count("constant") == 2
    closed = transforms.hoist_constants(ir.ClosedJaxpr(folded))
    assert len(closed.consts) == 2
    assert "constant" not in dict(transforms.count_primitives(closed))
    check_laws(closed, [0.5, 0.25], laws=["hoist_constants"])
    check_laws(j, [0.5, 0.25], laws=["fold_constants"])


@pytest.mark.parametrize("loop", [Scan, While])
def test_derivatives_of_loops(loop: type[ir.Primitive]) -> None:
    def f(x: Array) -> Array:
        total: Array
        if loop is Scan:
            total, _ = lax.scan(lambda c, r: (c * tnp.sin(x) + r, None), x, tnp.arange(3.0))
        else:
            total = lax.while_loop(lambda c: c < 5.0 + tnp.cos(x), lambda c: c * 2.0 + tnp.sin(x), x)
        return total

    check_laws(program(f, F64), [0.7], laws=["hoist_constants", "optimized_derivatives"])
