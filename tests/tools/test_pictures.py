"""Pictures of programs: HTML for notebooks, DOT, SVG, the viewer's page, the plot of live memory."""

from __future__ import annotations

import json
import re
import shutil
import stat
import subprocess
import sys
from collections.abc import Callable
from html.parser import HTMLParser
from itertools import pairwise
from pathlib import Path
from typing import ClassVar, Final, cast, final
from xml.etree import ElementTree

import numpy as np
import pytest
from attrs import frozen
from hypothesis import given, settings
from hypothesis import strategies as st
from typing_extensions import override

import tinyjax as tj
import tinyjax.numpy as tnp
from tests.golden import Golden
from tests.ir.examples import F64, Apply, Assorted, affine, chain, double, everything, nested, program, twice_each
from tests.strategies import programs
from tinyjax import Array, tools
from tinyjax.errors import GraphvizError, InputError
from tinyjax.ir import ClosedJaxpr, Eqn, Jaxpr, Primitive, ShapedArray, SourceInfo, Var
from tinyjax.ir.printing.html import format_html
from tinyjax.ir.printing.outline import outline
from tinyjax.tools.cost.memory import live_memory
from tinyjax.tools.memory_plots import size_text
from tinyjax.tools.svg import Engine
from tinyjax.tools.svg_layout import layered

HOSTILE: Final = "</script></title><script>alert(1)</script><!-- ]]> & \" ' \\ \x00 \x1b \ud800 \u2028 {{data}} \\N"
VOID: Final = {"meta", "input", "br", "rect", "path", "circle"}


@final
class Elements(HTMLParser):
    """Which elements and attributes there are. Fails if tags don't match."""

    def __init__(self, text: str) -> None:
        super().__init__()
        self.open: list[str] = []
        self.tags: list[str] = []
        self.titles: list[str] = []
        self.text: list[str] = []
        self.feed(text)
        self.close()
        assert not self.open

    @override
    def handle_starttag(self, tag: str, attrs: list[tuple[str, str | None]]) -> None:
        self.tags.append(tag)
        self.titles += [value or "" for name, value in attrs if name == "title"]
        assert not any(name.startswith("on") for name, _ in attrs)
        if tag not in VOID:
            self.open.append(tag)

    @override
    def handle_endtag(self, tag: str) -> None:
        if tag not in VOID:
            assert self.open.pop() == tag

    @override
    def handle_data(self, data: str) -> None:
        if self.open[-1:] not in (["style"], ["script"]):
            self.text.append(data)


@final
@frozen
class Hostile(Primitive):
    """A primitive whose name, parameter and source try to be something else."""

    parameter: str
    jaxpr: Jaxpr
    name: ClassVar[str] = HOSTILE

    @override
    def type_of(self, *avals: ShapedArray) -> tuple[ShapedArray, ...]:
        return avals


def hostile() -> Jaxpr:
    x = Var(0, F64)
    source = SourceInfo(HOSTILE, 1, HOSTILE)
    return Jaxpr((x,), (Eqn(Hostile(HOSTILE, double()), (x,), (Var(1, F64),), source),), (Var(1, F64),))


def model() -> ClosedJaxpr:
    """With a conditional, a loop and a program that occurs twice."""
    twice = tj.jit(lambda v: tnp.sin(v) * 2.0 + tnp.cos(v))

    def body(x: tj.Array) -> tj.Array:
        y = tj.lax.cond(x[0] > 0, twice, lambda v: tj.lax.fori_loop(0, 3, lambda i, c: c * 2.0, v), x)
        return tnp.sum(twice(y) @ np.arange(3.0))

    return tj.make_jaxpr(body)(ShapedArray((3,), np.float64))


def portable(picture: str) -> str:
    """A picture without its style, and with one line in place of all of this file's: for golden files."""
    unstyled = re.sub(r"<style>.*?</style>", "", picture)
    return re.sub(r"[^\s\"]*test_pictures\.py:\d+ \([^\s)]*\)", "model.py:1 (f)", unstyled)


def own_svg(jaxpr: Jaxpr | ClosedJaxpr) -> str:
    return tools.to_svg(jaxpr, engine="own")


def balanced(dot: str) -> None:
    """Strings end on their lines, and braces match outside them."""
    bare = re.sub(r'"(?:[^"\\\n]|\\.)*"', '""', dot)
    assert bare.count("{") == bare.count("}")
    assert not [line for line in bare.splitlines() if line.count('"') % 2]


def table(page: str) -> dict[str, list[dict[str, object]]]:
    found = re.search(r'<script type="application/json" id="data">(.*?)</script>', page, re.DOTALL)
    assert found
    return cast("dict[str, list[dict[str, object]]]", json.loads(found[1]))


PICTURES: Final[list[Callable[[Jaxpr | ClosedJaxpr], str]]] = [
    format_html,
    tools.to_dot,
    own_svg,
    tools.to_html,
    tools.memory_plot,
]


def test_html_of_a_program(golden: Golden) -> None:
    text = model()._repr_html_()
    assert text == format_html(model())
    Elements(text)
    golden("picture_html", portable(text).replace("<div", "\n<div"))


def test_dot_of_a_program(golden: Golden) -> None:
    balanced(tools.to_dot(model()))
    golden("picture_dot", portable(tools.to_dot(model())))


def test_svg_of_a_program(golden: Golden) -> None:
    text = own_svg(affine())
    ElementTree.fromstring(text)
    golden("picture_svg", portable(text).replace("><", ">\n<"))


def test_memory_plot_of_a_program(golden: Golden) -> None:
    plot = tools.memory_plot(model())
    ElementTree.fromstring(plot)
    golden("picture_memory", portable(plot))


def test_hovering_shows_types_and_lines() -> None:
    parser = Elements(affine()._repr_html_())
    assert "a: f64[3], 24 bytes\ninput" in parser.titles
    assert "b: f64[3], 24 bytes\nmul at model.py:12 (loss)" in parser.titles
    assert "model.py:12 (loss)" in parser.titles
    assert "~f64[]" in parser.titles


def test_html_reads_like_the_program() -> None:
    text = "".join(Elements(affine()._repr_html_()).text)
    for word in ("b:f64[3] = mul 2.0 a", "c:f64[3] = add b 1.0", "in (c) }"):
        assert word in text


def test_programs_within_are_collapsible_and_open_if_small() -> None:
    assert format_html(nested(2)).count("<details open>") == 2
    text = format_html(nested(200))
    assert "<details open>" not in text
    assert text.count("<details>") > 200
    assert "@f13 =" in text


@pytest.mark.parametrize("picture", PICTURES)
def test_a_shared_program_is_drawn_once(picture: Callable[[Jaxpr | ClosedJaxpr], str]) -> None:
    small, large = picture(twice_each(10)), picture(twice_each(100))
    assert len(large) < 14 * len(small)


def test_outline_has_each_program_once_and_in_one_place() -> None:
    parts = outline(twice_each(5))
    assert len({part.jaxpr for part in parts}) == len(parts) == 6
    shown = [item.number for part in parts for held in part.held.values() for item in held if item.here]
    assert sorted(shown) == list(range(1, 6))
    labels = {item.label for held in outline(everything().jaxpr)[0].held.values() for item in held}
    assert labels == {"rules.forward", "rules.backward[0]", "rules.backward[1]", "branches[0]", "branches[1]"}


@given(programs())
@settings(max_examples=15)
def test_pictures_are_well_formed(jaxpr: Jaxpr) -> None:
    Elements(format_html(jaxpr))
    balanced(tools.to_dot(jaxpr))
    ElementTree.fromstring(own_svg(jaxpr))
    page = tools.to_html(jaxpr)
    Elements(page)
    assert [len(cast("list[object]", part["eqns"])) for part in table(page)["programs"]] == [
        len(part.jaxpr.eqns) for part in outline(jaxpr)
    ]


def test_of_everything() -> None:
    Elements(format_html(everything()))
    balanced(tools.to_dot(everything()))
    ElementTree.fromstring(own_svg(everything()))
    Elements(tools.to_html(everything()))


def test_hostile_names_stay_text() -> None:
    page = tools.to_html(hostile(), title=HOSTILE)
    plain = tools.to_html(double(), title="x")
    assert Elements(page).tags == Elements(plain).tags
    assert "<script>alert" not in page
    assert "{{data}}" in page  # not taken for the place of the data
    page.encode()
    (primitive, _) = table(page)["primitives"]
    assert "alert(1)" in str(primitive)
    text = format_html(hostile())
    assert set(Elements(text).tags) == {"div", "style", "details", "summary", "span"}
    text.encode()
    for svg in (own_svg(hostile()), tools.memory_plot(hostile())):
        ElementTree.fromstring(svg)
        assert "<script" not in svg
    balanced(tools.to_dot(hostile()))
    tools.to_dot(hostile()).encode()


def test_the_page_may_load_nothing(tmp_path: Path) -> None:
    tools.save_html(tmp_path / "page.html", model(), title="A <title>")
    page = (tmp_path / "page.html").read_text(encoding="utf-8")
    assert "<title>A &lt;title&gt;</title>" in page
    assert "default-src 'none'" in page
    urls = set(re.findall(r"(?:https?:)?//[\w.]+", re.sub(r"^\s*//.*$", "", page, flags=re.MULTILINE)))
    assert urls <= {"http://www.w3.org"}  # the name of SVG's namespace
    assert not re.search(r"\b(src|href)=|@import|url\((?!#)", page)
    assert "innerHTML" not in page


def test_the_script_is_valid(tmp_path: Path) -> None:
    node = shutil.which("node")
    if node is None:
        pytest.skip("node isn't installed")
    scripts = re.findall(r"<script>\n(.*?)</script>", tools.to_html(double()), re.DOTALL)
    path = tmp_path / "viewer.js"
    path.write_text(scripts[0], encoding="utf-8")
    subprocess.run([node, "--check", str(path)], check=True)


@pytest.mark.parametrize("picture", PICTURES)
def test_large_and_deep_programs(picture: Callable[[Jaxpr | ClosedJaxpr], str]) -> None:
    small, large = picture(chain(300)), picture(chain(3000))
    assert len(large) < 11 * len(small)
    deep = picture(nested(1000))
    assert len(deep) < 6 * len(picture(nested(250)))


def test_long_programs_are_cut_in_notebooks_only() -> None:
    text = format_html(chain(3000))
    assert text.count('<div class="e">') == 2000
    assert "\N{HORIZONTAL ELLIPSIS} 1000 more equations" in text
    assert len(cast("list[object]", table(tools.to_html(chain(3000)))["programs"][0]["eqns"])) == 3000


def test_long_parameters_are_cut() -> None:
    jaxpr = program([F64], lambda ctx, x: ctx.bind(Assorted(tuple(range(1000))), x))
    for picture in (format_html, own_svg):
        assert "\N{HORIZONTAL ELLIPSIS}" in picture(jaxpr)


@given(st.lists(st.tuples(st.integers(0, 30), st.integers(0, 30)), max_size=60))
@settings(max_examples=40)
def test_layouts_have_no_overlaps_and_edges_point_down(pairs: list[tuple[int, int]]) -> None:
    edges = [(min(pair), max(pair)) for pair in pairs if pair[0] != pair[1]]
    sizes = [(20.0 + 7 * (node % 5), 10.0 + 4 * (node % 3)) for node in range(31)]
    layout = layered(sizes, edges)
    boxes = [(x - w / 2, y, x + w / 2, y + h) for (x, y), (w, h) in zip(layout.places, sizes, strict=True)]
    for number, (left, top, right, bottom) in enumerate(boxes):
        assert left >= -1e-6
        assert right <= layout.width + 1e-6
        assert bottom <= layout.height + 1e-6
        for other in boxes[:number]:
            assert left >= other[2] or other[0] >= right or top >= other[3] or other[1] >= bottom
    for (start, end), route in zip(edges, layout.routes, strict=True):
        assert boxes[start][3] < boxes[end][1]
        if route:
            assert route[0] == (layout.places[start][0], boxes[start][3])
            assert route[-1] == layout.places[end]
            assert all(above[1] <= below[1] for above, below in pairwise(route))


def test_a_chain_is_drawn_straight() -> None:
    layout = layered([(20.0, 10.0)] * 5, [(i, i + 1) for i in range(4)])
    assert len({x for x, _ in layout.places}) == 1


def test_svg_by_graphviz(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """What is run in its place says what it was given."""
    dot = tmp_path / "dot"
    code = "import sys; text = sys.stdin.read(); sys.stdout.write('<svg>%d</svg>' % text.count('mul'))"
    dot.write_text(f"#!{sys.executable}\n{code if sys.platform != 'win32' else ''}\n", encoding="utf-8")
    dot.chmod(dot.stat().st_mode | stat.S_IXUSR)
    monkeypatch.setenv("PATH", str(tmp_path))
    assert tools.to_svg(double()) == "<svg>2</svg>"
    assert tools.to_svg(double(), engine="own").startswith('<svg xmlns="http://www.w3.org/2000/svg" class=')
    assert tools.to_svg(chain(500)).startswith("<svg xmlns")
    dot.write_text(f"#!{sys.executable}\nimport sys; sys.exit('syntax error in line 1')\n", encoding="utf-8")
    with pytest.raises(GraphvizError, match=r"could not draw the program: syntax error in line 1\. `engine='own'`"):
        tools.to_svg(double(), engine="dot")


def test_svg_without_graphviz(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("PATH", str(tmp_path))
    ElementTree.fromstring(tools.to_svg(model()))
    with pytest.raises(GraphvizError, match=r"Graphviz isn't installed: .* or use `engine='own'`, which needs nothing"):
        tools.to_svg(double(), engine="dot")
    with pytest.raises(InputError, match="engine is 'auto', 'dot' or 'own', not 'neato'"):
        tools.to_svg(double(), engine=cast(Engine, "neato"))


def test_graphviz_accepts_the_text() -> None:
    dot = shutil.which("dot")
    if dot is None:
        pytest.skip("Graphviz isn't installed")
    for jaxpr in (model(), everything(), hostile(), Jaxpr((), (), ())):
        done = subprocess.run([dot, "-Tsvg"], input=tools.to_dot(jaxpr).encode(), capture_output=True, check=True)
        assert not done.stderr
        ElementTree.fromstring(done.stdout)


def test_programs_without_equations_or_inputs() -> None:
    for jaxpr in (Jaxpr((), (), ()), Jaxpr((Var(0, F64),), (), (Var(0, F64),))):
        for picture in PICTURES:
            assert picture(jaxpr)
    applied = program([], lambda ctx: ctx.bind(Apply("f", Jaxpr((), (), ()))))
    balanced(tools.to_dot(applied))


def test_the_plot_shows_the_peak() -> None:
    memory = live_memory(tj.make_jaxpr(lambda x: tnp.sum(tnp.sin(x) * tnp.cos(x)))(ShapedArray((1000,), np.float64)))
    plot = tools.memory_plot(memory)
    assert plot == tools.memory_plot(memory.jaxpr)
    assert f"peak {size_text(memory.peak)} at equation {memory.peak_at}" in plot
    assert plot.count('class="h"') == len(memory.during)
    heights = [float(y) for y in re.findall(r"[ML][\d.]+ ([\d.]+)H", plot)][len(memory.during) :]
    assert heights.index(min(heights)) == memory.peak_at


def test_sizes_are_spelled() -> None:
    assert [size_text(n) for n in (0, 1023, 1024, 10**6, 2**40, 2**80)] == [
        "0 B",
        "1023 B",
        "1 KiB",
        "977 KiB",
        "1 TiB",
        "1048576 EiB",
    ]


def test_pictures_in_the_docs(request: pytest.FixtureRequest) -> None:
    """Those that docs/pictures.md shows; `--update-golden` draws them."""
    folder = Path(__file__).parents[2] / "docs" / "pictures"

    def loss(w: tj.Array, x: tj.Array) -> tj.Array:
        return tnp.sum(tnp.tanh(x @ w) ** 2)

    def repeated(x: tj.Array) -> tj.Array:
        return tnp.sum(tj.lax.fori_loop(0, 10, lambda i, v: tnp.cos(v) * 0.5, x))

    w, x = ShapedArray((3, 2), np.float64), ShapedArray((4, 3), np.float64)

    def network(ws: list[tj.Array], v: tj.Array) -> tj.Array:
        for weights in ws:
            v = tnp.tanh(v @ weights)
        return tnp.sum(v**2)

    weights = [ShapedArray((64, 64), np.float32)] * 12
    batch = ShapedArray((256, 64), np.float32)
    pictures = {
        "graph": own_svg(tj.make_jaxpr(tj.grad(loss))(w, x)),
        "nested": own_svg(tj.make_jaxpr(repeated)(ShapedArray((3,), np.float64))),
        "memory": tools.memory_plot(tj.make_jaxpr(tj.grad(network))(weights, batch)),
    }
    for name, picture in pictures.items():
        text = re.sub(r"\n[^<]*test_pictures\.py[^<]*", "", picture)
        path = folder / f"{name}.svg"
        if request.config.getoption("--update-golden"):
            folder.mkdir(exist_ok=True)
            path.write_text(text, encoding="utf-8")
        assert path.read_text(encoding="utf-8") == text, f"{path} is out of date; `pytest --update-golden` draws it"


def many_results(count: int) -> ClosedJaxpr:
    """A program with an equation that has this many results."""

    def f(x: Array) -> tuple[Array, ...]:
        return tuple(tj.lax.split(x, (1,) * count))

    return tj.make_jaxpr(f)(np.zeros(count, np.float32))


def test_equations_with_many_results_wrap_in_notebooks() -> None:
    assert ' class="e w"' in format_html(many_results(20))
    assert ' class="o w"' in format_html(many_results(20))
    assert ' w"' not in format_html(many_results(3)).partition("</style>")[2]


#: As much of a browser as the viewer's script needs to make its rows.
BROWSER = """
class Node {
  constructor(tag) { this.tag = tag; this.parts = []; this.dataset = {}; this.style = {}; this.className = "";
    this.classList = { add() {} }; this.clientHeight = 2000; this.scrollTop = 0; this.value = ""; }
  append(...parts) { for (const part of parts) this.parts.push(...(part instanceof Fragment ? part.parts : [part])); }
  replaceChildren(...parts) { this.parts = parts; }
  setAttribute() {} addEventListener() {} remove() {} querySelector() { return null; } focus() {}
  get text() { return this.parts.map((part) => typeof part === "string" ? part : part.text).join(""); }
  set textContent(text) { this.parts = [String(text)]; if (text === "") this.parts = []; }
  get textContent() { return this.text; }
}
class Fragment extends Node {}
const byId = { data: new Node("script") };
byId.data.parts = [require("fs").readFileSync(process.argv[2], "utf8")];
globalThis.document = { getElementById: (id) => byId[id] = byId[id] || new Node("div"),
  createElement: (tag) => new Node(tag), createDocumentFragment: () => new Fragment(),
  documentElement: new Node("html"), createTextNode: (text) => text };
globalThis.addEventListener = () => {};
globalThis.matchMedia = () => ({ matches: false, addEventListener() {} });
require(process.argv[3]);
for (const row of byId.rows.parts) console.log(row.text);
"""


@pytest.mark.skipif(shutil.which("node") is None, reason="needs node")
@pytest.mark.parametrize("count", [2, 8, 9, 40])
def test_equations_with_many_results_take_several_rows_in_the_viewer(count: int, tmp_path: Path) -> None:
    program = many_results(count)
    page = tools.to_html(program)
    data = page.partition('<script type="application/json" id="data">')[2].partition("</script>")[0]
    assert data, "where the table is in the page"
    (tmp_path / "data.json").write_text(data)
    (tmp_path / "browser.js").write_text(BROWSER)
    script = Path(tools.__file__).parent / "viewer.js"
    command = ["node", "browser.js", "data.json", str(script)]
    done = subprocess.run(command, cwd=tmp_path, capture_output=True, text=True, check=False)
    assert done.returncode == 0, done.stderr
    rows = done.stdout.splitlines()
    results = -(-count // 8)
    assert len(rows) == 1 + results + -(-count // 16)
    assert sum("split" in row for row in rows) == 1
    assert max(row.count(":f32[1]") for row in rows) <= 8
    printed = "".join(" ".join(rows).split())
    assert printed.count(":f32[1]") == count
    assert printed.endswith(")}")


def test_the_plot_looks_into_loops() -> None:
    def step(carry: Array, row: Array) -> tuple[Array, Array]:
        big = tnp.outer(carry, carry)
        return tnp.sin(big).sum(axis=0), row

    def f(x: Array) -> Array:
        return tj.lax.scan(step, x, np.zeros((5, 3), np.float32))[0] * 2.0

    program = tj.make_jaxpr(f)(np.zeros(100, np.float32))
    memory = tools.live_memory(program)
    at = next(i for i, eqn in enumerate(program.eqns) if eqn.primitive.name == "scan")
    (inner,) = memory.within(at)
    assert max(inner.during) == memory.during[at] == memory.peak
    assert min(inner.during) < memory.peak / 2
    plot = tools.memory_plot(memory)
    assert "sin" in plot
    assert f"<title>{at}.0: " in plot
    edges = [float(x) for x in re.findall(r'<rect class="h" x="([0-9.]+)"', plot)]
    assert edges == sorted(edges)
    assert len(edges) == len(memory.during) - 1 + len(inner.during)


def test_memory_of_branches_and_calls() -> None:
    def f(x: Array) -> Array:
        return tj.lax.cond(x.sum() > 0, lambda: tnp.outer(x, x).sum(), lambda: tj.jit(tnp.sum)(x))

    memory = tools.live_memory(tj.make_jaxpr(f)(np.zeros(50, np.float32)))
    for at in range(len(memory.during)):
        for inner in memory.within(at):
            assert max(inner.during, default=0) <= memory.during[at]
            assert inner.inputs <= memory.during[at]
