"""Errors about values that aren't known: each use has its own error and advice, and the advice is code that runs."""

from __future__ import annotations

import ast
import linecache
import math
import re
from collections.abc import Callable
from pathlib import Path
from typing import Any, Final

import numpy
import numpy as np
import pytest

import tinyjax
import tinyjax.numpy as tnp
from tinyjax import lax
from tinyjax.arrays.advice import _BETWEEN, _counterpart
from tinyjax.errors import (
    ConcretizationError,
    NonConcreteBooleanIndexError,
    TinyjaxError,
    TracerArrayConversionError,
    TracerBoolConversionError,
    TracerIntegerConversionError,
)

NAMES: Final[dict[str, Any]] = {
    "tinyjax": tinyjax, "tnp": tnp, "lax": lax, "np": np, "numpy": numpy, "math": math, "sine": np.sin,
    "table": np.arange(3.0), "names": ["a", "b", "c"], "numbers": [1, 2, 3],
}  # fmt: skip

BOOL, INTEGER, ARRAY, MASK = (
    TracerBoolConversionError,
    TracerIntegerConversionError,
    TracerArrayConversionError,
    NonConcreteBooleanIndexError,
)
#: Code of a user's, the error that it ends in, and the advice.
CASES: Final[list[tuple[str, type[TinyjaxError], str]]] = [
    ("float(n)", ConcretizationError, "tinyjax.numpy.asarray(n, float)"),
    ("int(n * 2)", ConcretizationError, "tinyjax.numpy.asarray(n * 2, int)"),
    ("complex(n)", ConcretizationError, "tinyjax.numpy.asarray(n, complex)"),
    ("math.sin(n)", ConcretizationError, "tinyjax.numpy.sin(n)"),
    ("math.pow(n, 2)", ConcretizationError, "tinyjax.numpy.power(n, 2)"),
    ("n.item()", ConcretizationError, "n"),
    ("x.tolist()", ConcretizationError, "list(x)"),
    ("f'{n:.2f} of {x[0]:3}'", ConcretizationError, "tinyjax.debug.print('{:.2f} of {:3}', n, x[0])"),
    ("np.sin(x)", ARRAY, "tinyjax.numpy.sin(x)"),
    ("sine(x)", ARRAY, "tinyjax.numpy.sin(x)"),
    ("numpy.asarray(x * 2)", ARRAY, "tinyjax.numpy.asarray(x * 2)"),
    ("np.array([n, 1.0])", ARRAY, "tinyjax.numpy.array([n, 1.0])"),
    ("np.linalg.norm(x)", ARRAY, "tinyjax.pure_callback(numpy.asarray, "),
    ("table[n]", ARRAY, "tinyjax.numpy.asarray(table)[n]"),
    ("numbers[n]", INTEGER, "tinyjax.numpy.asarray(numbers)[n]"),
    ("list(range(n))", INTEGER, "tinyjax.lax.fori_loop(0, n, lambda i, total: total + i, 0)"),
    ("[i for i in range(1, n)]", INTEGER, "tinyjax.lax.fori_loop(1, n, lambda i, total: total + i, 0)"),
    ("tnp.ones(n)", INTEGER, "static"),
    ("tnp.zeros((2, n))", INTEGER, "static"),
    ("tnp.full((n,), 1.0)", INTEGER, "static"),
    ("tnp.arange(n)", ConcretizationError, "static"),
    ("x.reshape(n)", INTEGER, "static"),
    ("x.sum(axis=n)", INTEGER, "static"),
    ("tnp.eye(n)", INTEGER, "static"),
    ("lax.iota('float32', n)", INTEGER, "static"),
    ("lax.dynamic_slice(x, (0,), (n,))", INTEGER, "static"),
    ("x[m]", MASK, "tinyjax.numpy.where(m, x, 0)"),
    ("x[x > 1]", MASK, "tinyjax.numpy.where(x > 1, x, 0)"),
    ("(x + 1)[m]", MASK, "tinyjax.numpy.where(m, x + 1, 0)"),
    ("x.at[m].set(5.0)", MASK, "tinyjax.numpy.where(m, 5.0, x)"),
    ("1.0 if n > 0 else 2.0", BOOL, "tinyjax.lax.cond(n > 0, lambda: 1.0, lambda: 0.0)"),
    ("1.0 if n else 2.0", BOOL, "tinyjax.numpy.where(n, 1.0, 2.0)"),
    ("1.0 if x[0] else 2.0", BOOL, "tinyjax.numpy.where(x[0], 1.0, 2.0)"),
    ("1.0 if tnp.any(x) else 2.0", BOOL, "tinyjax.numpy.where(tnp.any(x), 1.0, 2.0)"),
    ("bool(n)", BOOL, "tinyjax.lax.cond(bool(n), "),
    ("n > 0 and n < 2", BOOL, "tinyjax.numpy.logical_and("),
    ("n > 2 or n < 0", BOOL, "tinyjax.numpy.logical_or("),
    ("not n", BOOL, "tinyjax.numpy.logical_not(n)"),
    ("0 < n < 2", BOOL, "tinyjax.numpy.logical_and(0 < n, n < 2)"),
    ("n in numbers", BOOL, "tinyjax.numpy.any(tinyjax.numpy.asarray(numbers) == n)"),
    ("max(n, 2)", BOOL, "tinyjax.numpy.maximum(n, 2)"),
    ("min(x)", BOOL, "tinyjax.numpy.min(x)"),
    ("sorted(x)", BOOL, "tinyjax.numpy.sort(x)"),
]
X, M = np.arange(3.0), np.arange(3.0) > 1
Apply = Callable[[Callable[..., Any]], object]
#: Transformations in which `n` isn't known; in those that map, x and m differ from element to element, too.
TRANSFORMATIONS: Final[dict[str, Apply]] = {
    "jit": lambda f: tinyjax.jit(f)(X, 1, M),
    "make_jaxpr": lambda f: tinyjax.make_jaxpr(f)(X, 1, M),
    "vmap": lambda f: tinyjax.vmap(f)(np.ones((2, 3)), np.arange(2), np.ones((2, 3)) > 0),
    "jit of vmap": lambda f: tinyjax.jit(tinyjax.vmap(f))(np.ones((2, 3)), np.arange(2), np.ones((2, 3)) > 0),
    "scan": lambda f: lax.scan(lambda c, n: (c, f(X + c, n, M & (n > 0))), 0.0, np.arange(2)),
    "cond": lambda f: tinyjax.jit(lambda x, n, m: lax.cond(n > 0, f, f, x, n, m))(X, 1, M),
}
CODE: Final = re.compile(r"`([^`]*)`")


def function(code: str) -> Callable[..., Any]:
    """The function that returns what an expression is, with its source where Python looks for it."""
    text = f"def f(x, n, m):\n    return {code}\n"
    file = f"<{code}>"
    linecache.cache[file] = (len(text), None, text.splitlines(keepends=True), file)
    names = dict(NAMES)
    exec(compile(text, file, "exec"), names)  # noqa: S102 (of this file)
    found: Callable[..., Any] = names["f"]
    return found


@pytest.mark.parametrize("name", TRANSFORMATIONS)
@pytest.mark.parametrize(("code", "kind", "advice"), CASES, ids=[case[0] for case in CASES])
def test_advice(code: str, kind: type[TinyjaxError], advice: str, name: str) -> None:
    apply = TRANSFORMATIONS[name]
    f = function(code)
    with pytest.raises(kind) as caught:
        apply(f)
    assert type(caught.value) is kind
    message = str(caught.value)
    hints = CODE.findall(message)
    if advice == "static":
        assert "must be known when the program is traced" in message
        assert ("static_argnames='n'" in message) == (name == "jit")
    else:
        assert any(hint.startswith(advice) for hint in hints), message
    for hint in hints:
        check_runs(hint, f, apply)


def check_runs(hint: str, f: Callable[..., Any], apply: Apply) -> None:
    if "static_argnames" in hint:
        static = eval(hint, {"tinyjax": tinyjax, "f": f})  # noqa: S307 (of the library)
        static(X, {"<x.reshape(n)>": 3, "<x.sum(axis=n)>": 0}.get(f.__code__.co_filename, 1), M)
    elif "bool(" not in hint:
        apply(function(hint))


def test_statements() -> None:
    def chooses(x: Any) -> Any:
        if x > 0:
            return x
        return -x

    def loops(x: Any) -> Any:
        while x < 10:
            x = x + 1
        return x

    for f, advice in (
        (chooses, "tinyjax.lax.cond(x > 0,"),
        (loops, "tinyjax.lax.while_loop("),
    ):
        with pytest.raises(BOOL, match=re.escape(advice)) as caught:
            tinyjax.jit(f)(1.0)
        for hint in CODE.findall(str(caught.value)):
            tinyjax.jit(lambda x, hint=hint: eval(hint, {"tinyjax": tinyjax, "x": x}))(1.0)  # noqa: S307


def test_without_source() -> None:
    names: dict[str, Any] = dict(NAMES)
    exec("def f(x):\n    return 1.0 if x > 0 else np.sin(x)", names)  # noqa: S102
    with pytest.raises(BOOL, match=r"tinyjax.lax.cond\(x, lambda: 1.0"):
        tinyjax.jit(names["f"])(1.0)
    with pytest.raises(ARRAY, match="pure_callback"):
        tinyjax.jit(lambda x: names["f"](-1) + eval("np.sin(x)", {"np": np, "x": x}))(1.0)  # noqa: S307


def test_static_of_a_tree_is_no_name() -> None:
    def f(sizes: Any) -> Any:
        return tnp.ones(sizes["n"])

    with pytest.raises(INTEGER) as caught:
        tinyjax.jit(f)({"n": 3})
    assert "static_argnames" not in str(caught.value)
    assert "argument sizes['n']" in str(caught.value)


def test_the_files_in_between_are_there() -> None:
    assert all(Path(name).is_file() for name in _BETWEEN)


def test_counterparts() -> None:
    """Whatever function of NumPy's or `math`'s is called, the advice names ours if there is one."""
    for home in (np, math):
        shared = [name for name in dir(home) if callable(getattr(tnp, name, None))]
        shared = [name for name in shared if not isinstance(getattr(tnp, name), type)]
        assert len(shared) > 20
        for name in shared:
            call = ast.parse(f"{name}(x, axis=1)", mode="eval").body
            assert isinstance(call, ast.Call)
            assert _counterpart(name, call) == f"Use `tinyjax.numpy.{name}(x, axis=1)`."
    call = ast.Call(ast.Name("float32"), [ast.Name("x")], [])
    assert _counterpart("float32", call) == "Use `tinyjax.numpy.float32(x)`."
    assert _counterpart("ndarray", call) is None
    assert _counterpart("busday_count", call) is None


def test_they_are_the_errors_that_users_expect() -> None:
    for kind in (BOOL, INTEGER, ARRAY, MASK):
        assert issubclass(kind, ConcretizationError)
        assert issubclass(kind, TypeError)
    assert issubclass(MASK, IndexError)
