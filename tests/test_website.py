"""The site: every public name is on a page, every primitive in the index, links lead somewhere."""

from __future__ import annotations

import contextlib
import doctest
import inspect
import io
import re
from functools import cache
from pathlib import Path
from typing import Any, ClassVar, Final, TypeVar, final

import griffe
import pytest
from attrs import frozen
from typing_extensions import override

import tinyjax
from tinyjax import ShapedArray, ir
from tinyjax.extend.primitives import Unary, sin
from website import examples, primitive_index, reference
from website.assemble import BROUGHT_IN, NAVIGATION, ROOT, made_pages, relinked
from website.docstrings import as_markdown
from website.names import MODULES, Entry, entries, is_function, module_named

V = TypeVar("V")
DOCS: Final = sorted((ROOT / "docs").rglob("*.md"))
_LINK: Final = re.compile(r"\]\((?!\w+:)([^)#\s]*)(?:#([^)\s]*))?\)")


@cache
def made() -> dict[str, str]:
    return dict(made_pages())


def test_every_public_module_has_a_page() -> None:
    exported = {f"tinyjax.{name}" for name in dir(tinyjax) if inspect.ismodule(getattr(tinyjax, name))}
    assert {name for name in exported if not any(module.startswith(name) for module in MODULES)} == set()


@pytest.mark.parametrize(
    "path", [*DOCS, ROOT / "README.md", *sorted((ROOT / "examples").glob("*.py"))], ids=lambda path: path.name
)
def test_examples_import_from_public_modules(path: Path) -> None:
    """Also with what pages show of source files left out: blocks marked `py`."""
    source = path.read_text(encoding="utf-8")
    if path.suffix == ".md":
        source = "\n".join(re.findall(r"^```python\n(.*?)^```$", source, re.MULTILINE | re.DOTALL))
    modules = set(re.findall(r"^\s*(?:>>> )?(?:from|import) (tinyjax[\w.]*)", source, re.MULTILINE))
    assert modules - {*MODULES, "tinyjax.experimental", "tinyjax.interop", "tinyjax.tools.cli"} == set()


@pytest.mark.parametrize("module", MODULES)
def test_every_public_name_is_on_a_page(module: str) -> None:
    page = made()[reference.path_of(module)]
    names = [entry for entry in entries() if entry.page == module]
    assert names
    for entry in names:
        forms = (f"::: {module}.{entry.name}\n", f"| `{entry.name}` |", f"- `{entry.name}` is [")
        assert sum(form in page for form in forms) == 1, entry
        assert f"::: {entry.described_as}\n" in made()[reference.path_of(entry.described_as.rpartition(".")[0])] or (
            f"| `{entry.name}` |" in page
        )


def test_what_several_modules_export_is_described_once() -> None:
    described = [line for text in made().values() for line in text.splitlines() if line.startswith("::: ")]
    assert len(described) == len(set(described))
    assert "- `Context` is [`tinyjax.ir.Context`][tinyjax.ir.Context]" in reference.page("tinyjax.extend")
    assert "- `arccos` is [`tinyjax.numpy.acos`][tinyjax.numpy.acos]" in reference.page("tinyjax.numpy")


def test_every_primitive_is_in_the_index() -> None:
    page = primitive_index.page()
    for name in ("sin", "scan", "dot_general", "custom_vjp", "psum"):
        assert f"| `{name}` {{ #{name} }} |" in page
    rows = [line for line in page.splitlines() if re.match(r"\| `\w+` \{", line)]
    assert len(rows) == len(primitive_index.primitives()) > 100


@final
@frozen
class Half(Unary):
    name: ClassVar[str] = "half"
    steps: int

    @override
    def derivative(self, ctx: ir.Context[V], x: V, y: V) -> V:
        return sin(ctx, x)


@final
@frozen
class Bare(ir.Primitive):
    name: ClassVar[str] = "bare"

    @override
    def type_of(self, *avals: ShapedArray, **_: Any) -> tuple[ShapedArray, ...]:
        return avals


def test_rows_of_the_index_say_whose_rules_they_are() -> None:
    columns = {column.head: column for column in primitive_index.COLUMNS}
    assert columns["jvp"].find(Half) == ("Smooth.jvp", None)
    assert columns["jvp"].find(Bare) == (None, None)
    assert columns["lowering"].find(Bare) == (None, None)
    scan = ir.STANDARD.primitive("scan")
    assert columns["partial_eval"].find(scan) == ("Scan.partial_eval", None)
    assert columns["cost"].find(ir.STANDARD.primitive("sin")) == ("tinyjax.tools.cost.COSTS[Smooth]", None)
    assert columns["inverse"].find(ir.STANDARD.primitive("exp")) == ("tinyjax.interpreters.INVERSE_RULES[Exp]", None)
    row = primitive_index.row(Half, [columns["jvp"], columns["transpose"]])
    assert row == (
        "| `half` { #half } | `Half` | `tests.test_website` | <code>steps: int</code> | "
        '<span title="Smooth.jvp">○</span> |  |'
    ).replace("tests.test_website", Half.__module__)


def test_doctests_become_blocks_and_names_links() -> None:
    text = "Like `scan`, but `f` and `nothing` aren't.\n\n>>> 1 + 1\n2\n\nAnd `jit`.\n"
    assert as_markdown(text, "tinyjax.lax", frozenset({"f"})).splitlines() == [
        "Like [`scan`][tinyjax.lax.scan], but `f` and `nothing` aren't.",
        "",
        "",
        "```pycon",
        ">>> 1 + 1",
        "2",
        "```",
        "",
        "",
        "And [`jit`][tinyjax.jit].",
    ]
    assert as_markdown("The `scan` itself.", "tinyjax.lax", frozenset({"scan"})) == "The `scan` itself."


def test_classes_have_signatures_and_comments_are_docstrings(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    (tmp_path / "a_sample.py").write_text(
        "from attrs import field, frozen\n\n\n"
        "@frozen\nclass Axis:\n"
        "    size: int\n    name: str = 'x'\n    rest: tuple[int, ...] = field(factory=tuple)\n\n\n"
        "#: Of `grad`,\n#: two lines.\nBOTH = 2\n"
    )
    monkeypatch.syspath_prepend(tmp_path)
    extensions = griffe.load_extensions("website.griffe_docstrings")
    module = griffe.load("a_sample", search_paths=[tmp_path], extensions=extensions)
    axis = module["Axis"]
    assert isinstance(axis, griffe.Class)
    assert [(parameter.name, parameter.annotation, parameter.default) for parameter in axis.parameters][1:] == [
        ("size", "int", None),
        ("name", "str", "'x'"),
        ("rest", "tuple[int, ...]", "..."),
    ]
    comment = module["BOTH"].docstring
    assert comment is not None
    assert comment.value == "Of [`grad`][tinyjax.grad],\ntwo lines."


EXAMPLES: Final = sorted(examples.examples())


@pytest.mark.parametrize("module", sorted({name.rpartition(".")[0] for name in EXAMPLES}))
def test_examples(module: str, request: pytest.FixtureRequest) -> None:
    """Those that stand beside the docstrings."""
    for name in EXAMPLES:
        if name.rpartition(".")[0] == module:
            namespace: dict[str, object] = {}
            exec(examples.IMPORTS, namespace)
            source = examples.examples()[name]
            found = ""
            for example in doctest.DocTestParser().get_examples(source):
                output = io.StringIO()
                with contextlib.redirect_stdout(output):
                    exec(compile(example.source, name, "single"), namespace)
                source_lines = example.source.splitlines()
                found += ">>> " + "\n... ".join(source_lines) + "\n" + output.getvalue()
            if request.config.getoption("--update-golden"):
                text = examples.FILE.read_text(encoding="utf-8")
                examples.FILE.write_text(text.replace(f"{name}\n{source}", f"{name}\n{found}"), encoding="utf-8")
            else:
                assert found == source, name


def described(module: str) -> list[tuple[Entry, object]]:
    """The names that are described on the page of a module, and what they are; not those that only types have."""
    found = [entry for entry in entries() if entry.page == module and entry.is_described_here]
    return [(entry, getattr(module_named(module), entry.name, None)) for entry in found]


@pytest.mark.parametrize("module", sorted(set(MODULES) - {"tinyjax.extend.primitives"}))
def test_every_function_has_an_example(module: str) -> None:
    """In its docstring or beside it, and not in both. (Rules apply the functions of `extend.primitives` all alike.)"""
    for entry, value in described(module):
        if is_function(value):
            assert (">>>" in (inspect.getdoc(value) or "")) != (entry.described_as in EXAMPLES), entry.described_as


@pytest.mark.parametrize("module", MODULES)
def test_every_function_and_class_has_a_docstring(module: str) -> None:
    """Its own: not that of a base class, and not the one that attrs writes. (Keys of trees are JAX's.)"""
    for entry, value in described(module):
        if entry.defined_in:
            own: str | None = vars(value).get("__doc__") if inspect.isclass(value) else value.__doc__
            assert own, entry.described_as
            assert not own.startswith("Method generated by attrs"), entry.described_as


@pytest.mark.parametrize("module", MODULES)
def test_arguments_that_a_docstring_describes_are_the_functions(module: str) -> None:
    """One a line: the site is built strictly, and the generator warns of all others."""
    for entry, value in described(module):
        methods = [vars(value)[name] for name in vars(value) if name[0] != "_"] if inspect.isclass(value) else []
        for function in (value, *methods):
            _, found, section = (inspect.getdoc(function) or "").partition("\nArgs:\n")
            if found and callable(function):
                described_names = re.findall(r"^  (\S.*?):", section.partition("\n\n")[0], re.MULTILINE)
                shown = {"", "*", "**"}
                names = {star + name for name in inspect.signature(function).parameters for star in shown}
                assert described_names, entry.described_as
                assert set(described_names) <= names, entry.described_as


def test_every_page_is_listed() -> None:
    listed = {entry if isinstance(entry, str) else entry[1] for entries in NAVIGATION.values() for entry in entries}
    pages = {path.relative_to(ROOT / "docs").as_posix() for path in DOCS if path.parent.name != "decisions"}
    assert pages | made().keys() == listed | {"index.md"}


def test_links_to_files_outside_of_docs() -> None:
    text = "[a](docs/trees.md#x) [b](LICENSE) `[c](docs/trees.md)` [d](https://x.y/z) [e](#here)"
    assert relinked(text, "README.md", "index.md") == (
        "[a](trees.md#x) [b](license.md) `[c](docs/trees.md)` [d](https://x.y/z) [e](#here)"
    )
    assert relinked("[a](../examples/mini.py)", "docs/from-scratch.md", "from-scratch.md") == "[a](examples/mini.md)"
    assert relinked("[a](013-b.md)", "docs/decisions/012-a.md", "decisions/012-a.md") == "[a](../decisions/013-b.md)"


@pytest.mark.parametrize(
    "page", [*DOCS, *[ROOT / path for path in BROUGHT_IN if path.endswith(".md")]], ids=lambda page: page.stem
)
def test_links_lead_to_files(page: Path) -> None:
    text = re.sub(r"^```.*?^```$|`[^`\n]+`", "", page.read_text(encoding="utf-8"), flags=re.MULTILINE | re.DOTALL)
    for match in _LINK.finditer(text):
        target = page.parent / match[1] if match[1] else page
        assert target.exists(), match[0]
        if match[2]:
            headings = re.findall(r"^#+ (.*)$", target.read_text(encoding="utf-8"), re.MULTILINE)
            slugs = {re.sub(r"[^\w -]", "", heading).strip().lower().replace(" ", "-") for heading in headings}
            assert match[2] in slugs, match[0]
