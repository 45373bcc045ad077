"""Nothing that the library does leaves reference cycles: what isn't needed any more is freed at once, with no garbage
collector."""

from __future__ import annotations

import gc
import weakref
from collections.abc import Callable, Iterator
from contextlib import suppress
from functools import partial
from typing import Any

import numpy as np
import pytest

import tinyjax as tj
from tinyjax import lax
from tinyjax import numpy as tnp

X = np.arange(1.0, 4.0)


def fresh() -> Callable[[Any], Any]:
    """A function that nobody has transformed yet."""
    return lambda x: tnp.sin(x) * 2.0 + x


def scalar() -> Callable[[Any], Any]:
    f = fresh()
    return lambda x: f(x).sum()


def custom_jvp() -> Callable[[Any], Any]:
    f = tj.custom_jvp(lambda x: tnp.sin(x).sum())
    f.defjvp(lambda primals, tangents: (tnp.sin(primals[0]).sum(), (tnp.cos(primals[0]) * tangents[0]).sum()))
    return f


def custom_vjp() -> Callable[[Any], Any]:
    f = tj.custom_vjp(lambda x: tnp.sin(x).sum())
    f.defvjp(lambda x: (tnp.sin(x).sum(), x), lambda x, ct: (ct * tnp.cos(x),))
    return f


def cumulative(x: Any) -> Any:
    return lax.scan(lambda c, a: (c + a, c * a), 0.0, x)[0]


def branches(x: Any) -> Any:
    return lax.cond(x.sum() > 0.0, lambda x: x * 1.0, lambda x: 2.0 * x, x).sum()


def loop(x: Any) -> Any:
    return lax.fori_loop(0, 3, lambda i, x: x * 1.5, x).sum()


def unstable(c: Any, x: Any) -> Any:
    return (c, c), x


CASES: dict[str, Callable[[], object]] = {
    "eager": lambda: tnp.sin(tnp.asarray(X)) * 2.0,
    "jit": lambda: tj.jit(fresh())(X),
    "jit, static": lambda: tj.jit(lambda x, n: x * n, static_argnums=1)(X, 2),
    "lower": lambda: tj.jit(fresh()).lower(X).as_text(),
    "compile": lambda: tj.jit(fresh()).lower(X).compile()(X),
    "trace": lambda: tj.jit(fresh()).trace(X),
    "make_jaxpr": lambda: tj.make_jaxpr(fresh())(X),
    "str": lambda: str(tj.make_jaxpr(fresh())(X)),
    "eval_shape": lambda: tj.eval_shape(fresh(), X),
    "jvp": lambda: tj.jvp(fresh(), (X,), (X,)),
    "vjp": lambda: tj.vjp(fresh(), X)[1](X),
    "grad": lambda: tj.grad(scalar())(X),
    "value_and_grad": lambda: tj.value_and_grad(scalar())(X),
    "linearize": lambda: tj.linearize(fresh(), X)[1](X),
    "linear_transpose": lambda: tj.linear_transpose(lambda x: 2.0 * x, X)(X),
    "vmap": lambda: tj.vmap(fresh(), axis_name="i")(X),
    "jacfwd": lambda: tj.jacfwd(fresh())(X),
    "jacrev": lambda: tj.jacrev(fresh())(X),
    "hessian": lambda: tj.hessian(scalar())(X),
    "jit of hessian": lambda: tj.jit(tj.hessian(scalar()))(X),
    "grad of jit": lambda: tj.grad(tj.jit(scalar()))(X),
    "jit of grad of vmap": lambda: tj.jit(tj.grad(lambda x: tj.vmap(fresh())(x).sum()))(X),
    "checkpoint": lambda: tj.grad(tj.checkpoint(scalar()))(X),
    "custom_jvp": lambda: tj.jit(tj.grad(custom_jvp()))(X),
    "custom_jvp in jit": lambda: tj.grad(tj.jit(custom_jvp()))(X),
    "custom_vjp": lambda: tj.grad(custom_vjp())(X),
    "custom_vjp in jit": lambda: tj.grad(tj.jit(custom_vjp()))(X),
    "scan": lambda: tj.jit(tj.grad(cumulative))(X),
    "scan, eager": lambda: cumulative(X),
    "cond": lambda: tj.jit(tj.grad(branches))(X),
    "while_loop": lambda: lax.while_loop(lambda x: x < 3.0, lambda x: x + 1.0, 0.0),
    "fori_loop": lambda: tj.jit(tj.grad(loop))(X),
    "map": lambda: lax.map(lambda a: a * 2.0, X),
    "callback": lambda: tj.jit(lambda x: tj.pure_callback(np.sin, tj.ir.ShapedArray((3,), "float64"), x))(X),
    "watch": lambda: str(tj.watch(tj.jit(scalar()))(X)),
    "transforms": lambda: tj.transforms.linearize(tj.transforms.jvp(tj.make_jaxpr(scalar())(X).jaxpr).jaxpr),
    "jit: no number": lambda: tj.jit(lambda x: x * float(x))(1.0),
    "jit: shapes": lambda: tj.jit(lambda x: x + np.ones(4))(X),
    "jit: the user's error": lambda: tj.jit(lambda x: int("x"))(X),
    "jit: no array": lambda: tj.jit(lambda x: x)("text"),
    "grad: no scalar": lambda: tj.grad(lambda x: x)(X),
    "grad: no number": lambda: tj.grad(lambda x: "text")(X),
    "grad of jit: the user's error": lambda: tj.grad(tj.jit(lambda x: int("x")))(1.0),
    "vmap: sizes": lambda: tj.vmap(lambda x, y: x)(X, np.ones(4)),
    "scan: carry": lambda: lax.scan(unstable, 0.0, X),
    "cond: branches": lambda: tj.jit(lambda x: lax.cond(True, lambda: x, lambda: 2))(X),
    "custom_jvp: no rule": lambda: tj.jvp(tj.custom_jvp(lambda x: x), (X,), (X,)),
    "escaped": lambda: tj.jit(escaped)(X),
}


def escaped(x: Any) -> Any:
    return tj.vjp(lambda y: (y, tj.make_jaxpr(lambda z: y)(1.0)), x)


@pytest.fixture(scope="module", autouse=True)
def _nothing_older() -> Iterator[None]:
    """The collector looks at what these tests make only, which is quick."""
    gc.collect()
    gc.freeze()
    yield
    gc.unfreeze()


@pytest.fixture(autouse=True)
def _no_collector() -> Iterator[None]:
    gc.disable()
    yield
    gc.set_debug(0)
    gc.garbage.clear()
    gc.enable()


@pytest.mark.parametrize("name", CASES)
def test_no_cycles(name: str) -> None:
    do = CASES[name]
    with suppress(Exception):
        do()  # imports, and classes that are made there, are no concern of ours
    gc.collect()
    with suppress(Exception):
        do()
    gc.set_debug(gc.DEBUG_SAVEALL)
    gc.collect()
    assert [type(found).__name__ for found in gc.garbage] == []


def test_what_a_function_closes_over_is_freed_with_it() -> None:
    class Big:
        pass

    transforms: tuple[Callable[..., Callable[..., Any]], ...] = (tj.jit, tj.grad, tj.make_jaxpr, tj.checkpoint)
    for transform in transforms:
        big = Big()
        freed = weakref.ref(big)
        transform(partial(lambda big, x: x.sum() if big else x, big))(X)
        del big
        assert freed() is None, transform
