"""The direction of imports: down only. And what importing the library costs: neither jax nor jaxlib."""

from __future__ import annotations

import ast
import io
import re
import subprocess
import sys
import tokenize
from pathlib import Path

import pytest

import tinyjax

ROOT = Path(tinyjax.__file__).parent
#: Lowest first. Modules at the top level are listed by name.
LAYERS = [
    {"annotated", "called", "errors", "stack", "caching", "collecting", "atomic", "deferred", "tracebacks", "wrapping"},
    {"exports"},
    {"ir"},
    {"meshes"},
    {"primitives"},
    {"contexts"},
    {"transforms"},
    {"control"},
    {"propagation"},
    {"registered"},
    {"hlo"},
    {"backend"},
    {"prepared"},
    {"arrays"},
    {"tracing"},
    {"tree"},
    {"refs"},
    {"checkpoint_policies", "flatten_util"},
    {"lax"},
    {"numpy"},
    {"image", "ops"},
    {"api"},
    {
        "ad",
        "ad_checkpoint",
        "checkpoints",
        "core",
        "distributed",
        "dlpack",
        "dtypes",
        "memory",
        "ref",
        "sharding",
        "stages",
        "tree_util",
        "typing",
    },
    {"random"},
    {"scipy"},
    {"nn"},
    {"custom_batching", "custom_derivatives", "debug", "export", "extend", "interpreters", "test_util"},
    {"tools", "interop"},
    {"ffi", "profiler", "testing"},
    {"experimental", "example_libraries"},
    {"__init__"},
    {"__main__"},
]
LEVEL = {name: level for level, names in enumerate(LAYERS) for name in names}
FILES = sorted(ROOT.rglob("*.py"))


def imported_modules(path: Path) -> set[str]:
    """The modules that a file imports when it runs, at any depth of nesting, also by a name in a string; except those
    that are for type checking only."""
    module = ast.parse(path.read_text())
    for node in ast.walk(module):
        if isinstance(node, ast.If) and isinstance(node.test, ast.Name) and node.test.id.strip("_") == "TYPE_CHECKING":
            node.body = [ast.Pass()]
    found: set[str] = set()
    for node in ast.walk(module):
        if isinstance(node, ast.Import):
            found |= {alias.name for alias in node.names}
        elif isinstance(node, ast.ImportFrom) and node.module is not None:
            assert node.level == 0, f"{path} imports relatively"
            found |= {f"{node.module}.{alias.name}" for alias in node.names} | {node.module}
        elif isinstance(node, ast.Call) and ast.unparse(node.func).rpartition(".")[2] in {
            "import_module",
            "__import__",
        }:
            found |= {arg.value for arg in node.args if isinstance(arg, ast.Constant) and isinstance(arg.value, str)}
    return found


def room(module: str) -> str | None:
    """The package or top-level module of tinyjax that a module belongs to."""
    parts = module.split(".")
    if parts[0] != "tinyjax" or len(parts) == 1:
        return None
    return parts[1] if parts[1] in LEVEL else None


@pytest.mark.parametrize("path", FILES, ids=lambda path: str(path.relative_to(ROOT)))
def test_imports_point_down(path: Path) -> None:
    own = path.relative_to(ROOT).parts[0].removesuffix(".py")
    assert own in LEVEL, f"{own} has no place in the layers"
    above = {module for module in imported_modules(path) if (found := room(module)) and LEVEL[found] > LEVEL[own]}
    assert not above


def test_the_ir_proper_knows_little_of_how_it_is_shown_and_stored() -> None:
    """Programs and values show themselves, errors show equations, and programs are pickled: no other file of the IR
    needs what prints, reads and stores it."""
    found: dict[str, set[str]] = {}
    for path in (ROOT / "ir").glob("*.py"):
        rooms = {module.split(".")[2] for module in imported_modules(path) if module.startswith("tinyjax.ir.")}
        if path.name != "__init__.py" and (others := rooms & {"printing", "text", "files"}):
            found[path.name] = others
    shown = {"printing"}
    assert found == {
        "program.py": {"files"},
        "program_value.py": shown,
        "described.py": shown,
        "typecheck.py": shown,
    }


@pytest.mark.parametrize("path", FILES, ids=lambda path: str(path.relative_to(ROOT)))
def test_one_door_to_jaxlib(path: Path) -> None:
    if path.is_relative_to(ROOT / "backend"):
        return
    outside = {module for module in imported_modules(path) if module.split(".")[0] in {"jax", "jaxlib"}}
    if path.is_relative_to(ROOT / "interop"):
        # It is about JAX, so it uses what JAX makes public, and nothing else.
        private = {module for module in outside if any(part.startswith("_") for part in module.split("."))}
        assert not private | {module for module in outside if module.split(".")[0] == "jaxlib"}
        return
    assert outside <= {"jax", "jax.tree_util"}, "only the backend may use jaxlib or anything private of jax"


@pytest.mark.parametrize("path", FILES, ids=lambda path: str(path.relative_to(ROOT)))
def test_files_are_rooms(path: Path) -> None:
    if path.name != "__init__.py":
        assert len(path.read_text().splitlines()) <= 400, "split it: one purpose a file"


#: What `docs/architecture.md` says to read first.
FIRST_SITTING = [
    "ir/aval.py",
    "ir/program.py",
    "ir/primitive.py",
    "ir/context.py",
    "ir/interpret.py",
    "contexts/evaluation.py",
    "contexts/staging.py",
    "contexts/jvp.py",
    "transforms/jvp.py",
    "tracing/core.py",
    "primitives/annotations.py",
]


def lines_of_code(path: Path) -> int:
    """Without docstrings, comments and blank lines."""
    source = path.read_text()
    words = (tokenize.COMMENT, tokenize.NL, tokenize.NEWLINE, tokenize.INDENT, tokenize.DEDENT, tokenize.ENDMARKER)
    lines: set[int] = set()
    for token in tokenize.generate_tokens(io.StringIO(source).readline):
        if token.type not in words:
            lines |= set(range(token.start[0], token.end[0] + 1))
    for node in ast.walk(ast.parse(source)):
        if isinstance(node, ast.Module | ast.ClassDef | ast.FunctionDef) and ast.get_docstring(node) is not None:
            lines -= set(range(node.body[0].lineno, (node.body[0].end_lineno or 0) + 1))
    return len(lines)


def test_tracing_is_a_thin_layer() -> None:
    """Without the making of messages, which has a room of its own. (Decision 041: cells take 21 lines.)"""
    assert sum(map(lines_of_code, (ROOT / "tracing").glob("*.py"))) <= 1_035


def test_the_first_sitting_is_one() -> None:
    page = (ROOT.parent.parent / "docs" / "architecture.md").read_text()
    assert all(f"`{name}`" in page for name in FIRST_SITTING)
    assert sum(lines_of_code(ROOT / name) for name in FIRST_SITTING) <= 800


@pytest.mark.parametrize("name", FIRST_SITTING)
def test_the_first_sitting_neither_caches_nor_displays_nor_words_messages(name: str) -> None:
    """Those have rooms of their own: what is remembered is asked for there, and an error comes with its message."""
    used = imported_modules(ROOT / name)
    assert not {module for module in used if module.startswith(("tinyjax.caching", "tinyjax.ir.printing"))}
    assert not used & {"functools.cache", "functools.lru_cache", "linecache"}
    for node in ast.walk(ast.parse((ROOT / name).read_text())):
        if isinstance(node, ast.Raise) and isinstance(node.exc, ast.Call):
            parts = list(ast.walk(node.exc))
            assert not any(isinstance(part, ast.JoinedStr) for part in parts), ast.unparse(node)
            if isinstance(node.exc.func, ast.Name):  # a class of errors, or a function that makes one
                assert not any(isinstance(getattr(part, "value", None), str) for part in parts), ast.unparse(node)


def test_import_does_not_import_jax() -> None:
    code = "import sys, tinyjax; assert not {'jax', 'jaxlib', 'scipy'} & set(sys.modules), sorted(sys.modules)"
    subprocess.run([sys.executable, "-c", code], check=True)


def test_only_tracing_sets_what_is_in_force() -> None:
    """As docs/architecture.md says: others may ask which frame is the innermost one."""
    variables = {str(path.relative_to(ROOT)) for path in FILES if "ContextVar(" in path.read_text()}
    assert variables == {"tracing/concrete.py"}
    setting = {path for path in FILES if re.search(r"import .*\bactive\b|\.active\b", path.read_text())}
    assert {path.relative_to(ROOT).parts[0] for path in setting} == {"tracing"}


def test_the_readme_says_how_large_it_is() -> None:
    readme = (ROOT.parent.parent / "README.md").read_text()
    said = re.search(r"About ([\d,]+) lines, of which ([\d,]+) .*in (\d+) lines of\ncode: eleven", readme, re.DOTALL)
    assert said is not None
    assert len(FIRST_SITTING) == 11
    assert sum(lines_of_code(ROOT / name) for name in FIRST_SITTING) == pytest.approx(int(said[3]), rel=0.02)
    lines = sum(len(path.read_text().splitlines()) for path in FILES)
    assert lines == pytest.approx(int(said[1].replace(",", "")), rel=0.05)
    assert sum(map(lines_of_code, FILES)) == pytest.approx(int(said[2].replace(",", "")), rel=0.05)
