"""The library that `docs/from-scratch.md` builds: `examples/mini.py` is its code, and does what tinyjax does.

With `examples/mini_cond.py`, which the page adds to it. The page is where they are written; `pytest tests/test_mini.py
--update-golden` extracts them.
"""

from __future__ import annotations

import ast
import re
import symtable
from collections import Counter
from collections.abc import Callable
from itertools import product
from pathlib import Path
from typing import Any, Final, TypeAlias  # Any: of either library

import numpy as np
import pytest
from attrs import field, frozen

import tinyjax as tj
import tinyjax.numpy as tnp
from examples import mini, mini_cond
from tinyjax import ir
from tinyjax.transforms import count_primitives, cse, dce, inline

ROOT: Final = Path(__file__).parent.parent
PAGE: Final = ROOT / "docs" / "from-scratch.md"
EXAMPLES: Final = ROOT / "examples"
#: A block, and whether its output is under it.
BLOCK: Final = re.compile(r"^```python\n(.*?)^```\n(\s*^```text$)?", re.MULTILINE | re.DOTALL)
LIBRARY: Final = "A small tinyjax, in one file: the code of docs/from-scratch.md, which explains it."
ADDED: Final = "A primitive that someone adds to the small tinyjax: the code of a section of docs/from-scratch.md."
HEADER: Final = '''"""{}

Extracted from that page; don't edit it here. `pytest tests/test_mini.py --update-golden` extracts it again.
"""

'''
IMPORTS: Final = """\
from __future__ import annotations

from collections.abc import Callable, Sequence
from itertools import compress
from typing import Any

import numpy as np
from attrs import frozen

from examples.mini import (
{}
)

"""


def extract(page: str) -> dict[Path, str]:
    """The files. Exercises are no part of them."""
    library, _, added = page.partition("\n## Exercises\n")[0].partition("\n## 15. ")
    code, more = code_of(library), code_of(added)
    return {
        EXAMPLES / "mini.py": HEADER.format(LIBRARY) + code,
        EXAMPLES / "mini_cond.py": HEADER.format(ADDED) + IMPORTS.format(imported(more, code)) + more,
    }


def code_of(text: str) -> str:
    """The blocks without output, in order. The others try things out."""
    pieces: list[str] = []
    for section in re.split(r"^## ", text, flags=re.MULTILINE):
        code = [code for code, output in BLOCK.findall(section) if not output]
        if pieces and code:
            pieces.append(f"# {section.splitlines()[0]}\n")
        pieces += code
    return "\n\n".join(pieces)


def imported(added: str, library: str) -> str:
    """The names of the library that are used by what is added to it, in ruff's order."""
    used = {node.id for node in ast.walk(ast.parse(added)) if isinstance(node, ast.Name)}
    table = symtable.symtable(library, "mini", "exec")
    names = {symbol.get_name() for symbol in table.get_symbols() if symbol.is_assigned() and not symbol.is_imported()}
    constants = {name for name in names if name.isupper() and len(name) > 1}
    classes = {name for name in names if name[0].isupper()}
    ordered = sorted(used & names, key=lambda name: (name not in constants, name not in classes, name))
    return "\n".join(f"    {name}," for name in ordered)


def test_extracted(request: pytest.FixtureRequest) -> None:
    for path, code in extract(PAGE.read_text(encoding="utf-8")).items():
        if request.config.getoption("--update-golden"):
            path.write_text(code, encoding="utf-8")
        found = path.read_text(encoding="utf-8")
        assert code == found, f"the page has changed: `pytest tests/test_mini.py --update-golden` writes {path.name}"


def test_trials_leave_the_library_alone() -> None:
    """What the page tries out gives no other meaning to a name of the library, for the blocks after it."""
    names = {*vars(mini), *vars(mini_cond)}
    trials = [code for code, output in BLOCK.findall(PAGE.read_text(encoding="utf-8")) if output]
    bound = {name for code in trials for name in re.findall(r"^(?:def |class )?(\w+)(?: = |\()", code, re.MULTILINE)}
    defined = {name for code in trials for name in re.findall(r"^(?:def |class )(\w+)", code, re.MULTILINE)}
    assigned = {
        n
        for code in trials
        for row in re.findall(r"^([\w, ()*]+) = ", code, re.MULTILINE)
        for n in re.findall(r"\w+", row)
    }
    assert bound
    assert names & (defined | assigned) == {"top_frame"}  # which is put back


def test_the_files_that_the_page_names_are_there() -> None:
    named = re.findall(r"`((?!examples)\w+/\w+\.py)`", PAGE.read_text(encoding="utf-8"))
    assert named
    assert [name for name in named if not (ROOT / "src" / "tinyjax" / name).is_file()] == []


Function: TypeAlias = Callable[[Any], Any]


@frozen
class Library:
    """What mini and tinyjax both have."""

    sin: Function
    cos: Function
    jit: Callable[[Callable[..., Any]], Callable[..., Any]]
    grad: Callable[[Function], Function]
    vmap: Callable[[Function], Function]
    jvp: Callable[..., Any]
    vjp: Callable[..., Any]
    cond: Callable[..., Any]
    points: Any = field(eq=False)


POINTS: Final = np.array([1.0, 0.5, 0.8])
MINI: Final = Library(
    mini.sin, mini.cos, mini.jit, mini.grad, mini.vmap, mini.jvp, mini.vjp, mini_cond.cond, mini.asarray(POINTS)
)
TINYJAX: Final = Library(tnp.sin, tnp.cos, tj.jit, tj.grad, tj.vmap, tj.jvp, tj.vjp, tj.lax.cond, tnp.asarray(POINTS))


def polynomial(lib: Library) -> Function:
    return lambda x: 3.0 * x * x * x + -x + 1.0


def wave(lib: Library) -> Function:
    def f(x: Any) -> Any:
        y = lib.sin(x) * 2.0
        return -y + x * lib.cos(x * y)

    return f


def constants(lib: Library) -> Function:
    return lambda x: lib.sin(2.0) * x + lib.cos(np.float64(1.0)) * 3.0


def called(lib: Library) -> Function:
    def inner(y: Any, z: Any) -> Any:
        return lib.sin(y) * z

    return lambda x: lib.jit(inner)(x, x * 2.0) + x


def closing(lib: Library) -> Function:
    """Calls that close over values of several levels."""

    def f(x: Any) -> Any:
        def inner(y: Any) -> Any:
            def innermost(w: Any) -> Any:
                return lib.sin(w) * x

            return lib.jit(innermost)(y) + y * x

        def scaled(z: Any) -> Any:
            return lib.jit(inner)(z) * x

        return lib.jit(inner)(x * 2.0) + lib.jvp(scaled, (x,), (np.float64(1.0),))[1]

    return f


def branching(lib: Library) -> Function:
    def f(x: Any) -> Any:
        w = x * 3.0

        def if_true(y: Any) -> Any:
            return lib.sin(y) * x

        def if_false(y: Any) -> Any:
            return y * w * y

        return lib.cond(lib.sin(np.float64(2.0)) > 0.5, if_true, if_false, x * 2.0)

    return f


def predicated(lib: Library) -> Function:
    def f(x: Any) -> Any:
        return lib.cond(x > 0.5, lambda y: lib.sin(y) * y, lambda y: y * x, x)

    return f


def summed(lib: Library) -> Function:
    def f(x: Any) -> Any:
        v = (x + np.arange(1.0, 4.0)) * x
        return (lib.sin(v) * v).sum() * 0.5

    return f


def stress(lib: Library) -> Function:
    """Autodidax's test of compositionality: calls within calls, with closures over values of every level."""

    def f(x: Any) -> Any:
        def bar(y: Any) -> Any:
            def baz(w: Any) -> Any:
                def second(x: Any) -> Any:
                    return y

                def total(y: Any) -> Any:
                    return w + y

                def scaled(w: Any) -> Any:
                    return lib.jit(lib.sin)(x) * y

                q = lib.jit(second)(x)
                q = q + lib.jit(lambda: y)()
                q = q + lib.jit(total)(y)
                return lib.jit(scaled)(1.0) + q

            primal, tangent = lib.jvp(baz, (x + 1.0,), (y,))
            return tangent + x * primal

        return lib.jit(bar)(x)

    return f


Family: TypeAlias = Callable[[Library], Function]
FUNCTIONS: Final[dict[str, Family]] = {
    f.__name__: f for f in (polynomial, wave, constants, called, closing, branching, predicated, summed, stress)
}


def identity(lib: Library, f: Function) -> Function:
    return f


def jit(lib: Library, f: Function) -> Function:
    def compiled(x: Any) -> Any:
        return f(x)

    return lib.jit(compiled)


def jvp(lib: Library, f: Function) -> Function:
    return lambda x: lib.jvp(f, (x,), (np.float64(1.0),))[1]


def grad(lib: Library, f: Function) -> Function:
    return lib.grad(f)


def vmap(lib: Library, f: Function) -> Function:
    return lambda x: (lib.vmap(f)(x * lib.points) * lib.points).sum()


TRANSFORMATIONS: Final[dict[str, Callable[[Library, Function], Function]]] = {
    "jit": jit,
    "jvp": jvp,
    "grad": grad,
    "vmap": vmap,
}
ORDERS: Final = [order for n in range(4) for order in product(TRANSFORMATIONS, repeat=n)]
POINT: Final = np.float64(0.7)
#: A mapped predicate is left to an exercise of the page.
APPLICABLE: Final = [
    (function, order) for function in FUNCTIONS for order in ORDERS if function != "predicated" or "vmap" not in order
]
SAMPLE: Final = [(function, order) for function, order in APPLICABLE if len(order) < 2] + [
    ("summed", ("jit", "vmap")),
    *(("stress", order) for order in product(["jit", "jvp", "grad"], repeat=2)),
]


def transformed(lib: Library, function: str, order: tuple[str, ...]) -> Function:
    f = FUNCTIONS[function](lib)
    for name in reversed(order):
        f = TRANSFORMATIONS[name](lib, f)
    return f


def check_values(function: str, order: tuple[str, ...]) -> None:
    found = transformed(MINI, function, order)(mini.asarray(POINT))
    expected = transformed(TINYJAX, function, order)(POINT)
    np.testing.assert_allclose(np.asarray(found), np.asarray(expected), rtol=1e-12, atol=1e-12)


def check_programs(function: str, order: tuple[str, ...]) -> None:
    same_program(transformed(MINI, function, order), transformed(TINYJAX, function, order))


def same_program(ours: Function, theirs: Function) -> None:
    found, expected = mini.make_jaxpr(ours)(POINT), tj.make_jaxpr(theirs)(POINT).jaxpr
    mini.typecheck(found)
    parsed = ir.parse(str(found))
    if parsed == expected:
        if max(map(len, str(found).splitlines())) <= 80 and "let @f" not in str(expected):
            assert str(found) == str(expected)  # where tinyjax needs neither to break lines nor to share programs
    else:  # tinyjax keeps less for the way back: what is read, and only what it is made of, to make it again
        operations, again = _operations(parsed), _operations(expected)
        assert operations.keys() == again.keys()
        assert again.total() <= 1.5 * operations.total()


def _operations(program: ir.Jaxpr) -> Counter[str]:
    return Counter(dict(count_primitives(dce(cse(inline(program))))))


@pytest.mark.parametrize("function", FUNCTIONS)
def test_programs(function: str) -> None:
    for order in [order for name, order in APPLICABLE if name == function and len(order) < 3]:
        check_programs(function, order)


@pytest.mark.parametrize("order", [order for order in ORDERS if len(order) == 3], ids=".".join)
def test_stress(order: tuple[str, ...]) -> None:
    check_programs("stress", order)


@pytest.mark.parametrize(("function", "order"), SAMPLE)
def test_values(function: str, order: tuple[str, ...]) -> None:
    check_values(function, order)


@pytest.mark.sweep
@pytest.mark.parametrize(("function", "order"), [case for case in APPLICABLE if len(case[1]) == 3])
def test_programs_of_triples(function: str, order: tuple[str, ...]) -> None:
    check_programs(function, order)


@pytest.mark.sweep
@pytest.mark.parametrize(("function", "order"), [case for case in APPLICABLE if len(case[1]) == 2])
def test_values_of_pairs(function: str, order: tuple[str, ...]) -> None:
    check_values(function, order)


def test_values_of_every_dtype_are_what_they_say() -> None:
    (index,) = mini.bind(mini_cond.Convert(mini_cond.INT, False), mini.asarray(np.array([1.0, -1.0])) > 0.0)
    assert np.asarray(index).dtype == index.aval.dtype == np.int32


def test_literals_are_compared_to_the_bit() -> None:
    def literal(value: float) -> mini.Literal:
        return mini.Literal(value, mini.ShapedArray(()))

    assert literal(float("nan")) == literal(float("nan"))
    assert literal(0.0) != literal(-0.0)
    assert hash(literal(2.0)) == hash(literal(2.0))


def wrong_programs() -> dict[str, mini.Jaxpr]:
    scalar, vector = mini.ShapedArray(()), mini.ShapedArray((3,))
    x, y, z = (mini.Var(i, scalar) for i in range(3))
    return {
        "unbound": mini.Jaxpr((x,), (mini.Eqn(mini.Sin(), (z,), (y,)),), (y,)),
        "its_own_result": mini.Jaxpr((x,), (mini.Eqn(mini.Sin(), (y,), (y,)),), (y,)),
        "misnumbered": mini.Jaxpr((x,), (mini.Eqn(mini.Sin(), (x,), (z,)),), (x,)),
        "bound_twice": mini.Jaxpr((x,), (mini.Eqn(mini.Sin(), (x,), (x,)),), (x,)),
        "wrong_result": mini.Jaxpr((x,), (mini.Eqn(mini.Sin(), (x,), (mini.Var(1, vector),)),), (x,)),
        "read_as_another_type": mini.Jaxpr((x,), (mini.Eqn(mini.Sin(), (mini.Var(0, vector),), (y,)),), (y,)),
        "wrong_operands": mini.Jaxpr((x,), (mini.Eqn(mini.ReduceSum((0,)), (x, x), (y,)),), (y,)),
    }


@pytest.mark.parametrize("name", wrong_programs())
def test_wrong_programs_are_rejected(name: str) -> None:
    with pytest.raises((TypeError, ValueError)):
        mini.typecheck(wrong_programs()[name])


def test_escaped_tracers_are_caught() -> None:
    kept: list[mini.Array] = []

    def keep(x: mini.Array) -> mini.Array:
        kept.append(x)
        return x

    x = mini.asarray(POINT)
    mini.jvp(keep, (x,), (x,))
    mini.make_jaxpr(keep)(x)
    mini.vmap(keep)(mini.asarray(POINTS))
    mini.grad(keep)(x)
    for tracer in kept:
        with pytest.raises(RuntimeError, match="used after the transformation that made it"):
            _ = tracer + 1.0
        with pytest.raises(RuntimeError, match="used after"):
            mini.jvp(lambda y, tracer=tracer: y * tracer, (x,), (x,))


def test_a_trace_that_closed_over_a_tracer_is_not_remembered() -> None:
    seen: list[mini.Array] = []
    scaled = mini.jit(lambda y: y * seen[-1])

    def closing(x: mini.Array) -> mini.Array:
        seen.append(x)
        result: mini.Array = scaled(mini.asarray(2.0))
        return result

    for value in (3.0, 5.0):
        out, tangent = mini.jvp(closing, (np.float64(value),), (np.float64(1.0),))
        assert (float(np.asarray(out)), float(np.asarray(tangent))) == (2.0 * value, 2.0)


def test_a_function_is_traced_once_for_each_signature() -> None:
    traced: list[mini.ShapedArray] = []

    @mini.jit
    def f(x: mini.Array) -> mini.Array:
        traced.append(x.aval)
        return x * 2.0

    for x in (1.0, 2.0, np.float64(1.0), np.float64(3.0), POINTS, POINTS):
        f(mini.asarray(x))
    assert list(map(str, traced)) == ["~f64[]", "f64[]", "f64[3]"]


@pytest.mark.parametrize("transformation", [mini.make_jaxpr, mini.jit, mini.vmap])
def test_python_cannot_branch_on_what_is_not_known(transformation: Callable[..., Any]) -> None:
    with pytest.raises(TypeError, match="aren't known, so Python can't branch"):
        transformation(lambda x: x if x > 0.0 else -x)(mini.asarray(POINTS))


def test_trees() -> None:
    def f(params: Any, x: Any) -> Any:
        return {"y": [params["w"] * x, (x,)], "z": params["b"]}

    params = {"w": POINT, "b": np.float64(2.0)}
    found, expected = mini.jit(f)(params, POINT), tj.jit(f)(params, POINT)
    assert tj.tree.structure(found) == tj.tree.structure(expected)
    assert [float(np.asarray(leaf)) for leaf in mini.flatten(found)[0]] == [float(x) for x in tj.tree.leaves(expected)]
