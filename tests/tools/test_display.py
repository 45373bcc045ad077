"""Results as the last line of a cell: tables in a terminal, HTML in a notebook."""

from __future__ import annotations

import html
import pickle
from collections.abc import Callable
from html.parser import HTMLParser
from pathlib import Path
from typing import Any

import numpy as np
import pytest
from typing_extensions import override

import tinyjax as tj
import tinyjax.numpy as tnp
from tinyjax import Array, NamedSharding, P, ShapedArray, interpreters, lax, random, tools, transforms
from tinyjax.ir import BatchAxis
from tinyjax.ir.printing.display import MOST, Table
from tinyjax.sharding import AbstractMesh
from tinyjax.tools.texts import Svg
from tinyjax.tracing.concrete import as_array

X = ShapedArray((8,), "float32")


def loss(w: Array, x: Array) -> Array:
    def step(carry: Array, row: Array) -> tuple[Array, Array]:
        return carry * row, carry

    return lax.scan(step, tnp.sum(tnp.sin(w * x) ** 2), x)[0]


PROGRAM = tj.make_jaxpr(loss)(X, X)
OTHER = tj.make_jaxpr(lambda w, x: tnp.sum(tnp.cos(w * x) ** 2))(X, X)


LINEAR = tj.make_jaxpr(lambda x: 2.0 * x)(X)
OPTIMIZED, REPORTS = transforms.OPTIMIZATION.report(tj.make_jaxpr(lambda x: tnp.sin(x) + tnp.sin(x) * 1.0)(X))


def explained() -> object:
    f = tj.jit(lambda x, n: x * n, static_argnums=1)
    f(tnp.ones(2), 1)
    return f.explain({"<b>": X}, "<script>")


#: Each with what its text has.
RESULTS: dict[str, tuple[object, str]] = {
    "diff": (tools.diff(PROGRAM, OTHER), "removed"),
    "equal": (tools.diff(PROGRAM, PROGRAM), "no difference: both programs have the same 5 equations"),
    "cost": (tools.program_cost(PROGRAM), "transcendentals"),
    "residuals": (tools.residual_memory(PROGRAM), "argument w"),
    "partition": (tools.partition(PROGRAM, AbstractMesh((4,), ("x",)), P("x")), "lies as"),
    "memory": (tools.live_memory(PROGRAM), "bytes during"),
    "explain": (explained(), "static argument n: '<script>', was 1"),
    "watch": (tj.watch(tj.grad(lambda x: x * x))(3.0), "mul(dual(3., unknown ~f64[])"),
    "liveness": (tools.liveness(PROGRAM, [False]), "needed"),
    "constancy": (tools.constancy(PROGRAM), "varying"),
    "dependence": (tools.dependence(PROGRAM), "depends on"),
    "flow": (tools.liveness(PROGRAM).flow, "fact"),
    "saved residuals": (tj.saved_residuals(loss, X, X), "argument w"),
    "pipeline": (transforms.OPTIMIZATION, "hoist_constants"),
    "reports": (REPORTS, "-1 mul"),
    "report": (REPORTS[2], "simplify"),
    "caches": (tj.cache_info(), "compiled programs"),
    "jvp": (transforms.jvp(PROGRAM), "nonzero_in"),
    "linearize": (transforms.linearize(PROGRAM), "what it is"),
    "partial_eval": (transforms.partial_eval(PROGRAM, [False, True]), "staged: { lambda"),
    "batch": (transforms.batch(PROGRAM, BatchAxis(4), [0, None]), "out_axes"),
    "transpose": (transforms.transpose(LINEAR, [True]), "nonzero_out"),
    "prune": (transforms.prune(PROGRAM, [True]), "used_inputs"),
    "partly evaluated": (
        interpreters.partial_eval(lambda x, y: tnp.sin(x) * y, np.ones(2), ShapedArray((2,), "float64")),
        "residuals",
    ),
    "staged": (interpreters.stage_call("f", lambda x: x * 2, (np.ones(2),), {}), "captured"),
    "sparse": (interpreters.sparse_jacobian(tnp.diff)(np.arange(3.0)), "2 directional derivatives"),
}


class Balanced(HTMLParser):
    """Whether elements are closed as they were opened, and what they are."""

    EMPTY = frozenset({"path", "rect", "circle", "line", "br"})

    def __init__(self, text: str) -> None:
        super().__init__()
        self.open: list[str] = []
        self.tags: list[str] = []
        self.text: list[str] = []
        self.feed(text)
        self.close()

    @override
    def handle_starttag(self, tag: str, attrs: list[tuple[str, str | None]]) -> None:
        self.tags.append(tag)
        self.open.append(tag)

    @override
    def handle_startendtag(self, tag: str, attrs: list[tuple[str, str | None]]) -> None:
        self.tags.append(tag)

    @override
    def handle_endtag(self, tag: str) -> None:
        assert self.open.pop() == tag

    @override
    def handle_data(self, data: str) -> None:
        self.text.append(data)


def notebook(result: Any) -> Balanced:
    found = Balanced(result._repr_html_())
    assert not found.open
    assert "script" not in found.tags
    return found


@pytest.mark.parametrize("name", RESULTS)
def test_results_show_themselves(name: str) -> None:
    result, expected = RESULTS[name]
    text = repr(result)
    assert expected in text
    assert "object at" not in text
    assert max(map(len, text.splitlines())) < 200
    assert text.startswith(str(result))
    shown = notebook(result)
    assert "table" in shown.tags


#: What each public function of `tools` gives.
CALLS: dict[str, Callable[[], object]] = {
    "backward": lambda: tools.liveness(PROGRAM).flow,
    "constancy": lambda: tools.constancy(PROGRAM),
    "cost_of": lambda: tools.cost_of(loss, X, X),
    "dependence": lambda: tools.dependence(PROGRAM),
    "diff": lambda: tools.diff(PROGRAM, OTHER),
    "forward": lambda: tools.dependence(PROGRAM).flow,
    "live_memory": lambda: tools.live_memory(PROGRAM),
    "key_reuse": lambda: tools.key_reuse(tj.make_jaxpr(lambda key: random.bits(key) + random.bits(key))(random.key(0)))[
        0
    ],
    "liveness": lambda: tools.liveness(PROGRAM),
    "memory_plot": lambda: tools.memory_plot(PROGRAM),
    "partition": lambda: tools.partition(PROGRAM, AbstractMesh((4,), ("x",)), P("x")),
    "program_cost": lambda: tools.program_cost(PROGRAM),
    "residual_memory": lambda: tools.residual_memory(PROGRAM),
    "sharding_picture": lambda: tools.sharding_picture((8,), NamedSharding(AbstractMesh((2,), "x"), P("x"))),
    "to_dot": lambda: tools.to_dot(PROGRAM),
    "to_html": lambda: tools.to_html(PROGRAM),
    "to_svg": lambda: tools.to_svg(PROGRAM, engine="own"),
}


@pytest.mark.parametrize("name", dir(tools))
def test_everything_public_shows_itself(name: str) -> None:
    if isinstance(getattr(tools, name), type) or name in {"save_html", "check_key_reuse"}:
        assert name not in CALLS
        return
    result: Any = CALLS[name]()
    shown = Balanced(result._repr_html_())
    assert not shown.open
    assert shown.tags
    text = repr(result)
    assert "object at" not in text
    assert text.strip()
    assert max(map(len, text.splitlines())) < 300


@pytest.mark.parametrize("make", [tools.memory_plot, lambda p: tools.to_svg(p, engine="own")])
def test_pictures_are_text(make: Callable[[tj.ClosedJaxpr], Svg], tmp_path: Path) -> None:
    picture = make(PROGRAM)
    assert isinstance(picture, str)
    assert picture._repr_html_() == picture._repr_svg_() == str(picture)
    (tmp_path / "picture.svg").write_text(picture, encoding="utf-8")
    assert (tmp_path / "picture.svg").read_text(encoding="utf-8") == picture
    assert pickle.loads(pickle.dumps(picture))._repr_svg_() == picture
    assert repr(picture) == f"<SVG, {len(picture):,} characters: a notebook shows it; elsewhere, write it to a file>"


def test_declarations_are_no_html() -> None:
    assert Svg("<?xml version='1.0'?>\n<!DOCTYPE svg>\n<svg></svg>")._repr_html_() == "<svg></svg>"


def test_a_page_is_shown_in_a_frame() -> None:
    page = tools.to_html(PROGRAM)
    shown = page._repr_html_()
    assert shown.startswith('<iframe sandbox="allow-scripts" srcdoc="')
    assert html.unescape(shown.split('srcdoc="')[1].split('"')[0]) == page


def test_what_is_compiled() -> None:
    lowered = tj.jit(loss).lower(tnp.ones(8, "float32"), tnp.ones(8, "float32"))
    every: list[tuple[Any, str]] = [(lowered, "lowered"), (lowered.compile(), "compiled")]
    for found, head in every:
        assert repr(found) == f"<{head} loss(w: f32[8], x: f32[8])>"
        shown = notebook(found)
        assert found.as_text().strip().splitlines()[-1] in "".join(shown.text)


def test_pictures_of_memory() -> None:
    for name in ("cost", "memory"):
        assert "svg" in notebook(RESULTS[name][0]).tags


def test_rows_of_programs_within_are_indented() -> None:
    lines = str(tools.dependence(PROGRAM)).splitlines()
    assert sum(line.startswith("  ") for line in lines) == 3
    assert lines[-1].startswith("  ") or lines[-1].split()[2] == "scan"


def test_equal_programs() -> None:
    same = tools.diff(OTHER, OTHER)
    assert str(same) == repr(same) == same.text(color=True)
    assert "no difference" in "".join(notebook(same).text)
    assert str(tools.diff(tj.make_jaxpr(lambda x: x + x)(1.0), tj.make_jaxpr(lambda x: x + x)(1.0))).endswith(
        "the same 1 equation"
    )


def test_marks_of_differences() -> None:
    page: Any = RESULTS["diff"][0]
    assert 'class="del"' in page._repr_html_()


def test_long_tables_are_cut() -> None:
    def f(x: Array) -> Array:
        for _ in range(MOST + 50):
            x = tnp.sin(x)
        return x

    found = tools.liveness(tj.make_jaxpr(f)(1.0))
    assert len(str(found).splitlines()) == MOST + 3
    assert "more rows)" in str(found)


def test_an_empty_program() -> None:
    program = tj.make_jaxpr(lambda x: x)(1.0)
    every: list[object] = [tools.program_cost(program), tools.live_memory(program), tools.residual_memory(program)]
    every += [tools.liveness(program), tools.diff(program, program), tools.dependence(program)]
    every += [tj.saved_residuals(lambda x: x, 1.0), transforms.Pipeline([]), transforms.linearize(program)]
    for result in every:
        notebook(result)
        assert repr(result)


@pytest.mark.parametrize(
    ("elements", "cells"),
    [
        (np.arange(3), ["0", "1", "2"]),
        (np.array([[1.5, 2.0], [np.nan, np.inf]]), ["1.5", "nan", "inf"]),
        (np.array([True, False]), ["True", "False"]),
        (np.array([1 + 2j]), ["1.+2.j"]),
        (np.arange(10000).reshape(100, 100), ["9999", "…", "0", "303"]),
        (np.float32(2.5), ["2.5"]),
        (np.ones((2, 2, 2)), ["[[[1., 1.]"]),
        (np.zeros((0, 3)), ["[]"]),
        (np.ones(3, "bfloat16") if hasattr(np, "bfloat16") else np.ones(3, "float16"), ["1."]),
    ],
    ids=str,
)
def test_arrays(elements: np.ndarray[Any, Any], cells: list[str]) -> None:
    array = as_array(elements)
    for found in (array, tj.device_put(array)):
        shown = notebook(found)
        text = "".join(shown.text)
        assert str(array.aval) in text
        for cell in cells:
            assert cell in text
        assert len(shown.tags) < 300
        assert ("table" in shown.tags) == (np.ndim(elements) in (1, 2) and np.size(elements) > 0)


def test_columns() -> None:
    shown = Table(("a", "<b>"), (("1", "2"), ("long", "3")), numbers=1)
    assert shown.text == "a     <b>\n1       2\nlong    3"
    assert "&lt;b&gt;" in shown.html
