"""Costs are linear in the length of a program and in the depth of programs within programs. Counted, not timed.

What is counted are the lines of Python that are run. A stage is anything that the library does with a program.
"""

from __future__ import annotations

import concurrent.futures.thread  # noqa: F401 (which deep programs need: so that importing it isn't counted)
import copy
import io
import pickle
import sys
import threading
from collections.abc import Callable
from itertools import count
from types import FrameType
from typing import Any, Final, TypeAlias

import numpy as np
import pytest

import tinyjax as tj
import tinyjax.numpy as tnp
from tests.transforms.checks import F64
from tinyjax import Array, interpreters, ir, lax, tools, transforms
from tinyjax.contexts.staging import StagingContext, stage
from tinyjax.control.call import Call
from tinyjax.hlo.lowering import lower
from tinyjax.ir import Atom, BatchAxis, Context, Eqn, Jaxpr, Literal
from tinyjax.primitives.elementwise import mul
from tinyjax.primitives.trigonometric import cos, sin

#: Makes a program of about a size, unlike any other made before: the library remembers what it has done.
Family: TypeAlias = Callable[[int], Jaxpr]
#: Prepares something to be done with a program.
Stage: TypeAlias = Callable[[Jaxpr], Callable[[], object]]
Scalars: TypeAlias = Callable[[Array], Array]

X: Final = tnp.asarray(0.5)
_SEEDS: Final = count(1)


def seed() -> float:
    """A number that no program has had yet."""
    return 0.5 + next(_SEEDS) / 2**20


def operations(run: Callable[[], object]) -> int:
    """How many lines of Python a call runs, also in the threads that it starts."""
    counted = 0

    def trace(frame: FrameType, event: str, argument: object) -> Callable[..., Any]:  # as sys.settrace has it
        nonlocal counted
        counted += event == "line"
        return trace

    in_threads: Callable[[Any], None] = threading.settrace  # takes None too, whatever its stub says
    before, before_in_threads = sys.gettrace(), threading.gettrace()
    in_threads(trace)
    sys.settrace(trace)
    try:
        run()
    finally:
        sys.settrace(before)
        in_threads(before_in_threads)
    return counted


# Families of programs.


def chain(n: int) -> Jaxpr:
    """Sines and products, each of what was computed before."""
    number = Literal.of(seed())

    def body(ctx: Context[Atom], x: Atom) -> Atom:
        for _ in range(n // 2):
            (x,) = ctx.bind(mul, *ctx.bind(sin, x), number)
        return x

    return stage([F64], lambda ctx, ins: [body(ctx, *ins)])


def calls(depth: int) -> Jaxpr:
    """Calls within calls. Only the innermost one needs a residual: one at each level would make programs whose calls
    have as many operands as they are deep."""
    number = Literal.of(seed())
    jaxpr = stage([F64], lambda ctx, ins: ctx.bind(sin, *ctx.bind(mul, *ins, number)))
    for _ in range(depth):
        jaxpr = _twice_a_call(jaxpr)
    return jaxpr


def _twice_a_call(inner: Jaxpr) -> Jaxpr:
    def body(ctx: StagingContext, ins: list[Atom]) -> tuple[Atom, ...]:
        return ctx.bind(mul, *ctx.bind(Call("f", inner), *ins), Literal.of(2.0))

    return stage([F64], body)


def within(wrap: Callable[[Scalars], Scalars]) -> Family:
    """A function within a function, and so on, each made by `wrap`."""

    def family(depth: int) -> Jaxpr:
        number = seed()
        f: Scalars = lambda x: x * number  # noqa: E731
        for _ in range(depth):
            f = wrap(f)
        return tj.make_jaxpr(f)(X).jaxpr

    return family


def in_scan(length: int) -> Callable[[Scalars], Scalars]:
    return lambda f: lambda x: lax.scan(lambda c, _: (f(c) * 0.5, None), x, None, length=length)[0]


def in_cond(f: Scalars) -> Scalars:
    return lambda x: lax.cond(x > 0.0, lambda y: f(y) * 1.5, lambda y: y, x)


def in_while(f: Scalars) -> Scalars:
    return lambda x: lax.while_loop(lambda c: c < 0.2, lambda c: f(c) * 1.5, x)


NESTED: Final[dict[str, Family]] = {
    "calls": calls,
    "scans": within(in_scan(3)),
    "scans of one step": within(in_scan(1)),
    "conds": within(in_cond),
    "whiles": within(in_while),
}

# Stages.


def again(j: Jaxpr) -> Jaxpr:
    """An equal program, none of whose equations is the same object."""
    return Jaxpr(j.invars, tuple(Eqn(e.primitive, e.invars, e.outvars, e.source) for e in j.eqns), j.outvars)


def with_another_end(j: Jaxpr) -> Jaxpr:
    last = j.eqns[-1]
    return Jaxpr(j.invars, (*j.eqns[:-1], Eqn(cos, last.invars[:1], last.outvars, last.source)), j.outvars)


def written(j: Jaxpr) -> bytes:
    file = io.BytesIO()
    ir.save(file, j)
    return file.getvalue()


def prepared(prepare: Callable[[Jaxpr], Any], run: Callable[[Any], object]) -> Stage:  # of anything
    """Does something with what is prepared of a program, which doesn't count."""

    def prepare_it(j: Jaxpr) -> Callable[[], object]:
        ready = prepare(j)
        return lambda: run(ready)

    return prepare_it


def plain(run: Callable[[Jaxpr], object]) -> Stage:
    return prepared(lambda j: j, run)


def running(j: Jaxpr) -> Scalars:
    return lambda x: tj.eval_jaxpr(j, (), x)[0]


IR: Final[dict[str, Stage]] = {
    "hash": prepared(again, hash),
    "equality": prepared(lambda j: (j, again(j)), lambda both: both[0] == both[1]),
    "typecheck": plain(ir.typecheck),
    "content_hash": plain(ir.content_hash),
    "nested_programs": plain(ir.nested_programs),
    "print": plain(str),
    "parse": prepared(str, ir.parse),
    "html": plain(Jaxpr._repr_html_),
    "pickle": plain(pickle.dumps),
    "unpickle": prepared(pickle.dumps, pickle.loads),
    "copy": plain(copy.deepcopy),
    "save": plain(written),
    "load": prepared(written, lambda content: ir.load(io.BytesIO(content))),
}
FORWARD: Final[dict[str, Stage]] = {
    "jvp": plain(transforms.jvp),
    "batch": plain(lambda j: transforms.batch(j, BatchAxis(3), [0])),
    "dce": plain(transforms.dce),
    "cse": plain(transforms.cse),
    "simplify": plain(transforms.simplify),
    "fold_constants": plain(transforms.fold_constants),
    "inline": plain(transforms.inline),
    "hoist_constants": plain(transforms.hoist_constants),
    "reroll": plain(transforms.reroll),
    "count_primitives": plain(transforms.count_primitives),
    "pipeline": plain(lambda j: transforms.OPTIMIZATION.report(j, check=True)),
    "pipeline of jvp": prepared(lambda j: transforms.jvp(j).jaxpr, transforms.optimize),
}
REVERSE: Final[dict[str, Stage]] = {
    "partial_eval": prepared(lambda j: transforms.jvp(j).jaxpr, lambda j: transforms.partial_eval(j, [False, True])),
    "linearize": plain(transforms.linearize),
    "transpose": prepared(
        transforms.linearize, lambda lin: transforms.transpose(lin.linear, [False] * len(lin.residuals) + [True])
    ),
    "residual_memory": plain(lambda j: str(tools.residual_memory(j))),
    "grad": plain(lambda j: tj.make_jaxpr(tj.grad(running(j)))(X)),
}
TOOLS: Final[dict[str, Stage]] = {
    "diff": prepared(lambda j: (j, with_another_end(j)), lambda both: str(tools.diff(*both))),
    "cost": plain(lambda j: str(tools.program_cost(j))),
    "live_memory": plain(lambda j: str(tools.live_memory(j))),
    "memory_plot": plain(tools.memory_plot),
    "constancy": plain(tools.constancy),
    "dependence": plain(tools.dependence),
    "liveness": plain(tools.liveness),
    "dot": plain(tools.to_dot),
    "viewer": plain(tools.to_html),
    "lower": plain(lower),
    "trace": plain(lambda j: tj.make_jaxpr(running(j))(X)),
    "vmap": plain(lambda j: tj.make_jaxpr(tj.vmap(running(j)))(np.ones(3))),
}
STAGES: Final = IR | FORWARD | REVERSE | TOOLS


def growth(family: Family, prepare: Stage, size: int) -> float:
    """By how much a stage takes more for a program twice as long, or deep."""
    prepare(family(4))()  # what is imported the first time
    taken = []
    for n in (size, 2 * size):
        tj.clear_caches()  # another test may have left what is remembered of one of the two
        prepare(family(4))()  # what is found out about a primitive the first time
        taken.append(operations(prepare(family(n))))
    return taken[1] / taken[0]


@pytest.mark.parametrize("name", STAGES)
def test_linear_in_length(name: str) -> None:
    assert growth(chain, STAGES[name], 100) < 2.1


@pytest.mark.parametrize("name", STAGES)
def test_linear_in_depth(name: str) -> None:
    assert growth(calls, STAGES[name], 30) < 2.1


@pytest.mark.parametrize("name", IR | FORWARD | TOOLS)
@pytest.mark.parametrize("family", ["scans", "scans of one step", "conds", "whiles"])
def test_linear_in_depth_of_control_flow(family: str, name: str) -> None:
    # The rule of while looks for the user's line at each equation, through a stack that is never deep but not constant.
    assert growth(NESTED[family], STAGES[name], 12) < (2.5 if family == "whiles" else 2.2)


@pytest.mark.parametrize("name", REVERSE)
def test_reverse_mode_is_linear_in_depth_of_loops(name: str) -> None:
    assert growth(NESTED["scans"], STAGES[name], 12) < 2.2


def test_counting_finds_what_is_quadratic() -> None:
    def slow(j: Jaxpr) -> list[int]:
        return [i for eqn in j.eqns for i, other in enumerate(j.eqns) if other is eqn]

    assert growth(chain, plain(slow), 50) > 3


@pytest.mark.sweep
def test_nothing_recurses_along_a_program() -> None:
    j = chain(3_000)
    for prepare in STAGES.values():
        prepare(j)()


@pytest.mark.sweep
@pytest.mark.parametrize("family", NESTED)
def test_any_depth_will_do(family: str) -> None:
    j = NESTED[family](1_000 if family == "calls" else 120)
    for name, prepare in STAGES.items():
        if family != "whiles" or name not in REVERSE:  # which have no transpose
            prepare(j)()
    if family != "scans":  # which would run for ages
        np.testing.assert_allclose(running(j)(X), running(ir.parse(str(j)))(X))
    assert again(j) == j != NESTED[family](120)


@pytest.mark.sweep
def test_functions_call_functions_to_any_depth() -> None:
    """1,000 compiled functions, each of which calls the next one: traced under every transformation, and compiled."""

    def deep(depth: int) -> Scalars:
        f: Scalars = tj.jit(tnp.sin)
        for _ in range(depth):
            f = _sum_of(f)
        return f

    for transformation in (lambda f: f, tj.grad, lambda f: tj.vmap(f, axis_size=3, in_axes=None), tj.checkpoint):
        assert tj.make_jaxpr(transformation(deep(1_000)))(X).eqns
    f = deep(1_000)
    assert tj.jit(f).lower(X).as_text().count("func.func private") == 1_001
    np.testing.assert_allclose(f(X), np.sin(0.5) * 1.01**1_000, rtol=1e-10)


def _sum_of(f: Scalars) -> Scalars:
    return tj.jit(lambda x: f(x) * 1.01)


@pytest.mark.sweep
def test_interpreters_go_to_any_depth() -> None:
    f = running(calls(300))
    (value, _) = interpreters.jet(f, (X,), ((np.asarray(1.0), np.asarray(0.0)),))
    np.testing.assert_allclose(value, f(X))


@pytest.mark.parametrize("transformation", ["plain", "jvp", "vmap"])
def test_calls_of_one_function_cost_the_same(transformation: str) -> None:
    """However large the function is that is called many times, and although it was traced anew."""

    def tracing(size: int) -> Callable[[], object]:
        def calling(x: Array) -> Array:
            inner = tj.jit(_powers(size))
            for _ in range(50):
                x = inner(x)
            return x

        change: dict[str, Callable[[], object]] = {
            "plain": lambda: tj.make_jaxpr(calling)(X),
            "jvp": lambda: tj.make_jaxpr(lambda x: tj.jvp(calling, (x,), (x,)))(X),
            "vmap": lambda: tj.make_jaxpr(tj.vmap(calling))(np.ones(3)),
        }
        change[transformation]()  # so that equal programs are known, which aren't these
        return change[transformation]

    def extra(size: int) -> int:
        return operations(tracing(size)) - operations(tracing(size // 2))

    # Twice as long a body is traced and looked up once; it must not be gone through at each of the 50 calls.
    assert extra(64) < 64 * 300


def _powers(size: int) -> Scalars:
    def f(x: Array) -> Array:
        for _ in range(size):
            x = x * x
        return x

    return f
