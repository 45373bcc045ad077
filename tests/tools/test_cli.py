"""The command line, in this process but for what only another one can show."""

from __future__ import annotations

import io
import json
import os
import re
import subprocess
import sys
from collections.abc import Callable
from pathlib import Path
from typing import Any

import numpy as np
import pytest
from typing_extensions import override

import tinyjax as tj
from tinyjax import ShapedArray, ir
from tinyjax.tools.cli import main
from tinyjax.tools.cli.arguments import Fixed, parse_arguments
from tinyjax.tools.cli.failure import CommandError
from tinyjax.tools.cli.terminal import program_text
from tinyjax.tools.cli.transformations import parse_transformations

MODEL = """
import tinyjax as tj
import tinyjax.numpy as tnp


def loss(w):
    return tnp.sum(tnp.sin(w) ** 2)


def affine(params, x, mode="plain"):
    y = tnp.matmul(x, params["w"]) * params.get("scale", 1)
    return tnp.sum(y if mode == "plain" else -y)


def faster(w):
    s = tnp.sin(w)
    return tnp.sum(s * s)


def both(x, y):
    return {"sum": x + y, "product": [x * y]}


def raises(x):
    raise ValueError("the first line\\nthe second line")


def leaves(x):
    raise SystemExit(3)


def branches(x):
    return x if x > 0 else -x


@tj.jit
def jitted(x):
    return tnp.cos(x) * 2


class Space:
    @staticmethod
    def inner(x):
        return -x


number = 3
table = tnp.asarray([1.0, 2.0])


def closes_over(x):
    return x * table
"""
THEIRS = """
import jax
import jax.numpy as jnp
from jax.extend.core import Primitive

def model(x, n):
    return jnp.sin(x) * n

somewhere = Primitive("somewhere")
somewhere.def_abstract_eval(lambda x: x)

def kernel(tree):
    f = somewhere.bind
    y = f(tree["x"])
    return f(y)
"""
LOSS = """\
{ lambda ; a:f32[8]. let
    b:f32[8] = sin a
    c:f32[8] = integer_pow[y=2] b
    d:f32[] = reduce_sum[axes=(0,)] c
  in (d,) }
"""
Run = Callable[..., tuple[int, str, str]]


@pytest.fixture
def tinyjax(tmp_path: Path, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]) -> Run:
    """Runs a command where there are files; its exit code, and what it printed and complained about."""
    monkeypatch.chdir(tmp_path)
    monkeypatch.delenv("NO_COLOR", raising=False)
    Path("model.py").write_text(MODEL)
    Path("loss.jaxpr").write_text(LOSS)

    def run(*arguments: str) -> tuple[int, str, str]:
        code = main(arguments)
        out, err = capsys.readouterr()
        return code, out, err

    return run


def fails(result: tuple[int, str, str], pattern: str) -> None:
    """The command said in one line what is wrong, and did nothing."""
    code, out, err = result
    assert (code, out) == (2, "")
    assert err.count("\n") == 1, err
    assert "Traceback" not in err
    assert re.search(pattern, err), err


# show


def test_show(tinyjax: Run) -> None:
    assert tinyjax("show", "model.py:loss", "--args", "f32[8]") == (0, LOSS, "")
    assert tinyjax("show", "loss.jaxpr") == (0, LOSS, "")
    code, out, _ = tinyjax("show", "model.py:loss", "--args", "f32[5,8]", "--transform", "grad,vmap,jit")
    (call,) = ir.parse(out).eqns
    assert code == 0
    assert call.primitive.name == "call"
    assert str(ir.parse(out).type) == "(f32[5,8]) -> (f32[5,8])"
    expected = tj.make_jaxpr(tj.vmap(tj.grad(lambda w: tj.numpy.sum(tj.numpy.sin(w) ** 2))))(
        ShapedArray((5, 8), "float32")
    )
    (inner,) = ir.subjaxprs(call.primitive)
    assert inner == expected.jaxpr


def test_show_other_names(tinyjax: Run) -> None:
    assert (
        tinyjax("show", "model.py:Space.inner", "--args", "f32[]")[1]
        == "{ lambda ; a:f32[]. let b:f32[] = neg a in (b,) }\n"
    )
    assert "call[" in tinyjax("show", "model.py:jitted", "--args", "f32[]")[1]
    assert tinyjax("show", "model.py:closes_over", "--args", "f32[2]")[1].startswith("{ lambda a:f64[2]; b:f32[2]. let")


def test_trees_and_literals(tinyjax: Run) -> None:
    args = "{'w': f32[3], 'scale': 2} f32[2,3], 'negative'"
    code, out, _ = tinyjax("show", "model.py:affine", "--args", args)
    assert code == 0
    jaxpr = ir.parse(out)
    assert str(jaxpr.type) == "(f32[3], f32[2,3]) -> (f32[])"
    assert [eqn.primitive.name for eqn in jaxpr.eqns] == ["dot_general", "mul", "neg", "reduce_sum"]
    _, out, _ = tinyjax("show", "model.py:affine", "--args", args, "--transform", "grad(argnums=(0, 1))")
    assert str(ir.parse(out).type) == "(f32[3], f32[2,3]) -> (f32[3], f32[2,3])"


def test_show_lines(tinyjax: Run) -> None:
    """Where each equation comes from."""
    code, out, _ = tinyjax(
        "show", "model.py:loss", "--args", "f32[2,8]", "--transform", "vmap,jvp,jit", "--as", "lines"
    )
    # jvp takes the tangent too.
    assert (code, out) == (2, "")
    _, out, _ = tinyjax(
        "show", "model.py:loss", "--args", "f32[2,8] f32[2,8]", "--transform", "vmap,jvp,jit", "--as", "lines"
    )
    first, *rest = out.splitlines()
    assert first.endswith("# model.py:6 (<module>)"), "the call, at the definition"
    assert rest[1] == "jaxpr of call: (f32[2,8], f32[2,8]) -> (f32[2], f32[2])"
    assert {line.partition("  # ")[2].strip() for line in rest[2:]} == {"jvp of vmap of model.py:7 (loss)"}


@pytest.mark.parametrize(
    ("form", "start"),
    [
        ("stablehlo", "module @loss {\n  func.func public @main(%arg0: tensor<8xf32>)"),
        ("hlo", "HloModule loss"),
        ("cost", "equation "),
        ("dot", "digraph program {"),
    ],
)
def test_show_as(tinyjax: Run, form: str, start: str) -> None:
    for program in (("model.py:loss", "--args", "f32[8]"), ("loss.jaxpr",)):
        code, out, err = tinyjax("show", *program, "--as", form)
        assert (code, err) == (0, "")
        assert out.startswith(start)
        assert out.endswith("\n")
        assert not out.endswith("\n\n")


def test_show_after_passes(tinyjax: Run) -> None:
    Path("twice.jaxpr").write_text(
        "{ lambda ; a:f32[]. let b:f32[] = sin a; c:f32[] = sin a; d:f32[] = cos a; e:f32[] = add b c in (e,) }"
    )
    _, out, _ = tinyjax("show", "twice.jaxpr", "--passes", "cse,dce")
    assert [eqn.primitive.name for eqn in ir.parse(out).eqns] == ["sin", "add"]
    _, all_passes, _ = tinyjax("show", "twice.jaxpr", "--passes", "all")
    assert ir.parse(all_passes) == tj.transforms.optimize(ir.parse(Path("twice.jaxpr").read_text()))
    fails(
        tinyjax("show", "twice.jaxpr", "--passes", "cse,magic"), r"there is no 'magic'; there are cse, dce, .* and all"
    )


def test_show_into_files(tinyjax: Run) -> None:
    spec = ("model.py:closes_over", "--args", "f64[2]")
    assert tinyjax("show", *spec, "-o", "saved.tinyjax") == (0, "saved.tinyjax\n", "")
    assert tinyjax("show", *spec, "-o", "text.jaxpr")[0] == 0
    closed = ir.load("saved.tinyjax")
    assert isinstance(closed, ir.ClosedJaxpr)
    assert ir.parse_closed(Path("text.jaxpr").read_text()) == closed
    assert tinyjax("diff", "saved.tinyjax", "text.jaxpr") == (0, "", "")
    assert tinyjax("show", "loss.jaxpr", "--as", "stablehlo", "-o", "loss.mlir")[0] == 0
    assert Path("loss.mlir").read_text() == tinyjax("show", "loss.jaxpr", "--as", "stablehlo")[1]
    fails(tinyjax("show", "loss.jaxpr", "-o", "nowhere/loss.jaxpr"), "No such file or directory")


# run


def test_run(tinyjax: Run) -> None:
    x = np.linspace(0.0, 1.0, 8, dtype=np.float32)
    np.save("x.npy", x)
    expected = np.sum(np.sin(x) ** 2)
    for program in (("model.py:loss",), ("loss.jaxpr",), ("loss.jaxpr", "--numpy"), ("model.py:loss", "--numpy")):
        code, out, _ = tinyjax("run", *program, "--inputs", "x.npy")
        assert code == 0
        found = re.fullmatch(r"result: f32\[\] = (.*)\n", out)
        assert found is not None
        np.testing.assert_allclose(float(found[1]), expected, rtol=1e-5)
    _, out, _ = tinyjax("run", "loss.jaxpr", "--inputs", str(list(map(float, x))), "-o", "out.npy")
    assert out == "out.npy\n"
    np.testing.assert_allclose(np.load("out.npy"), expected, rtol=1e-5)


def test_run_on_archives(tinyjax: Run) -> None:
    np.savez("data.npz", a=np.arange(3.0), b=np.ones(3))
    code, out, _ = tinyjax("run", "model.py:both", "--inputs", "data.npz")
    assert (code, out) == (0, "result['product'][0]: f64[3] = [0., 1., 2.]\nresult['sum']: f64[3] = [1., 2., 3.]\n")
    assert tinyjax("run", "model.py:both", "--inputs", "data.npz:b", "data.npz:a", "-o", "out.npz")[0] == 0
    with np.load("out.npz") as found:
        assert {name: found[name].tolist() for name in found.files} == {
            "result['sum']": [1.0, 2.0, 3.0],
            "result['product'][0]": [0.0, 1.0, 2.0],
        }
    fails(
        tinyjax("run", "model.py:both", "--inputs", "data.npz", "-o", "out.npy"), "can hold one array, and there are 2"
    )
    fails(
        tinyjax("run", "model.py:both", "--inputs", "data.npz", "-o", "out.txt"),
        "to .npy and .npz files, not to out.txt",
    )
    fails(tinyjax("run", "model.py:both", "--inputs", "data.npz:c"), "there is no array 'c' in data.npz; it has a, b")


def test_run_on_random_numbers(tinyjax: Run) -> None:
    args = ("--args", "f32[2,2], {'k': i32[3]}, bool[4], c64[2], f32[]")
    Path("echo.py").write_text("def echo(*args): return args\n")
    first, again, other = (tinyjax("run", "echo.py:echo", *args, "--seed", seed)[1] for seed in ("1", "1", "2"))
    assert first == again
    assert first != other
    assert "result[1]['k']: i32[3] = [" in first
    assert tinyjax("run", "loss.jaxpr")[0] == 0


def test_run_after_transformations(tinyjax: Run) -> None:
    tinyjax("run", "loss.jaxpr", "--transform", "grad", "--inputs", "[0,1,2,3,4,5,6,7]", "-o", "g.npy")
    x = np.arange(8, dtype=np.float32)
    np.testing.assert_allclose(np.load("g.npy"), 2 * np.sin(x) * np.cos(x), rtol=1e-5)
    assert tinyjax("run", "model.py:loss", "--inputs", "[0.0]", "--transform", "grad")[1] == "result: f64[1] = [0.]\n"


def test_run_with_wrong_inputs(tinyjax: Run) -> None:
    fails(
        tinyjax("run", "loss.jaxpr", "--inputs", "[1,2]"),
        r"input 0 is f32\[8\], got an array of int64 with shape \(2,\)",
    )
    fails(tinyjax("run", "loss.jaxpr", "--inputs", "1", "2"), "takes 1 arrays, got 2")
    fails(tinyjax("run", "loss.jaxpr", "--inputs", "x.npy"), "there is no file x.npy")
    fails(tinyjax("run", "loss.jaxpr", "--inputs", "x.npz"), "there is no file x.npz")
    Path("x.npy").write_bytes(b"\x80\x04N.")
    Path("x.npz").write_bytes(b"PK\x03\x04")
    fails(tinyjax("run", "loss.jaxpr", "--inputs", "x.npy"), "x.npy can't be read: ")
    fails(tinyjax("run", "loss.jaxpr", "--inputs", "x.npz"), "x.npz can't be read: ")
    fails(tinyjax("run", "loss.jaxpr", "--inputs", "__import__('os')"), "is no .npy or .npz file and no Python literal")
    fails(tinyjax("run", "model.py:loss"), "loss needs --inputs, or --args for random ones")
    fails(tinyjax("run", "model.py:loss", "--inputs", "'text'"), "running loss: argument w of loss: ")


# check


def test_check(tinyjax: Run) -> None:
    assert tinyjax("check", "loss.jaxpr") == (0, "loss.jaxpr: ok: (f32[8]) -> (f32[]), 3 equations\n", "")
    assert tinyjax("check", "loss.jaxpr", "--quiet") == (0, "", "")
    ir.save("loss.tinyjax", ir.parse(LOSS))
    assert tinyjax("check", "loss.tinyjax", "loss.jaxpr")[0] == 0
    assert tinyjax("check", "model.py:loss", "--args", "f32[8]")[0] == 0


@pytest.mark.parametrize(
    ("before", "after", "message"),
    [
        ("sin a", "sin q", "line 2, column 20: q is not bound\n\n        b:f32[8] = sin q\n                       ^\n"),
        ("d:f32[] =", "d:f32[3] =", "line 4, column "),
        ("in (d,) }", "in (d", "line 6, column 1: expected ',' or ')', got the end of the text"),
    ],
)
def test_check_shows_the_place(tinyjax: Run, before: str, after: str, message: str) -> None:
    Path("bad.jaxpr").write_text(LOSS.replace(before, after))
    code, out, err = tinyjax("check", "bad.jaxpr", "loss.jaxpr")
    assert code == 1
    assert out.startswith("loss.jaxpr: ok: ")
    assert err.startswith("bad.jaxpr: invalid: bad.jaxpr, ")
    assert message in err
    assert "^" in err


def test_check_damaged_files(tinyjax: Run) -> None:
    ir.save("loss.tinyjax", ir.parse(LOSS))
    whole = Path("loss.tinyjax").read_bytes()
    Path("loss.tinyjax").write_bytes(whole[: len(whole) // 2])
    code, _, err = tinyjax("check", "loss.tinyjax")
    assert code == 1
    assert err.startswith("loss.tinyjax: invalid: ")
    fails(tinyjax("show", "loss.tinyjax"), "tinyjax show: error: ")
    Path("loss.tinyjax").write_bytes(b"\xff\xfe\x00")
    fails(tinyjax("check", "loss.tinyjax"), "is neither the text of a program nor one that was saved")
    fails(tinyjax("check", "nothing.jaxpr"), "there is no file nothing.jaxpr")


def test_standard_input(tinyjax: Run, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(sys, "stdin", io.StringIO(LOSS))
    assert tinyjax("check", "-") == (0, "-: ok: (f32[8]) -> (f32[]), 3 equations\n", "")


def test_programs_of_jax(tinyjax: Run) -> None:
    Path("jax.jaxpr").write_text(
        "{ lambda ; a:f32[5,10] c:f32[10]. let b:f32[5] = dot_general[dimension_numbers=(([1], [0]), ([], []))"
        " preferred_element_type=float32] a c in (b,) }"
    )
    assert tinyjax("run", "jax.jaxpr", "--numpy")[1].startswith("result: f32[5] = [")


def test_primitives_of_ones_own(tinyjax: Run) -> None:
    Path("own.py").write_text(
        "from typing import ClassVar, final\n"
        "from attrs import frozen\n"
        "from tinyjax import ir\n"
        "@final\n@frozen\n"
        "class Twice(ir.Primitive):\n"
        "    name: ClassVar[str] = 'twice'\n"
        "    def type_of(self, x): return (x,)\n"
        "    def evaluate(self, x): return (2 * x,)\n"
        "REGISTRY = ir.STANDARD.extended(Twice)\n"
    )
    Path("own.jaxpr").write_text("{ lambda ; a:f32[]. let b:f32[] = twice a in (b,) }")
    assert tinyjax("check", "own.jaxpr")[0] == 1
    assert tinyjax("check", "own.jaxpr", "--registry", "own.py:REGISTRY")[0] == 0
    assert (
        tinyjax("run", "own.jaxpr", "--registry", "own.py:REGISTRY", "--inputs", "4", "--numpy")[1]
        == "result: f32[] = 8.\n"
    )
    fails(tinyjax("check", "own.jaxpr", "--registry", "own.py:Twice"), "Twice in own.py is a ")
    fails(tinyjax("check", "own.jaxpr", "--registry", "REGISTRY"), "expected FILE.py:NAME, got 'REGISTRY'")


# partition


def test_partition(tinyjax: Run) -> None:
    words = ("partition", "model.py:loss", "--args", "f32[8]", "--mesh", "x=4", "--shardings", "P('x')")
    code, out, err = tinyjax(*words)
    assert (code, err) == (0, "")
    assert out.startswith("Mesh('x': 4): 4 devices\n")
    assert [line.split() for line in out.splitlines() if line.startswith("all-reduce")] == [
        ["all-reduce", "f32[]", "x", "4", "1", "XLA", "model.py:7", "(loss)"]
    ]
    code, out, _ = tinyjax(*words, "--out-shardings", "P()", "--json", "--no-compile")
    assert code == 0
    found = json.loads(out)
    assert (found["mesh"], found["input_bytes"], found["collectives"]) == ({"x": 4}, 8, None)


def test_partition_of_trees(tinyjax: Run, tmp_path: Path) -> None:
    """One specification may be for all arrays of a node."""
    (tmp_path / "layers.py").write_text("def f(params, x):\n    return sum(x @ w for w in params['layers'])\n")
    types = "{'layers': [f32[8,8], f32[8,8]]}, f32[4,8]"
    words = ("partition", "layers.py:f", "--args", types, "--mesh", "x=4", "--no-compile", "--json", "--shardings")
    code, out, err = tinyjax(*words, "{'layers': P('x')}, None")
    assert (code, err) == (0, "")
    assert [found["bytes"] for found in json.loads(out)["inputs"]] == [64, 64, 128]
    fails(tinyjax(*words, "{'layers': [P('x')]}, None"), "shardings has 2 entries for 3 arrays")


@pytest.mark.parametrize(
    ("option", "text", "problem"),
    [
        ("--mesh", "4", "--mesh: expected the sizes of axes, such as x=4,y=2, got '4'"),
        ("--mesh", "x=-1", "--mesh: expected the sizes of axes"),
        ("--shardings", "P('z')", "the mesh has no axis 'z'; its axes are 'x'"),
        ("--shardings", "P(", "--shardings: expected specifications such as \"P('x'), P(None, 'y')\", got 'P('"),
        ("--shardings", "print(1)", "--shardings: expected P('x', None), None, or a tree of them, got print(1)"),
        ("--shardings", "P(1)", "--shardings: a part of a specification is None, 'x' or ('x', 'y'), not 1"),
        ("--shardings", "[P(), None]", "shardings has 2 entries for 1 arrays: f32[8]"),
    ],
)
def test_partition_of_odd_options(tinyjax: Run, option: str, text: str, problem: str) -> None:
    mesh = () if option == "--mesh" else ("--mesh", "x=4")
    fails(tinyjax("partition", "model.py:loss", "--args", "f32[8]", *mesh, option, text), re.escape(problem))


# diff, cost, view


def test_diff(tinyjax: Run) -> None:
    args = ("--args", "f32[8]")
    assert tinyjax("diff", "model.py:loss", "loss.jaxpr", *args) == (0, "", "")
    code, out, err = tinyjax("diff", "model.py:loss", "model.py:faster", *args)
    assert (code, err) == (1, "")
    assert "-     c:f32[8] = integer_pow[y=2] b\n+     c:f32[8] = mul b b\n" in out
    assert "\x1b" not in out
    assert "\x1b[32m" in tinyjax("diff", "model.py:loss", "model.py:faster", *args, "--color", "always")[1]
    assert tinyjax("diff", "model.py:loss", "model.py:faster", *args, "--quiet") == (1, "", "")
    fails(tinyjax("diff", "model.py:loss", "nothing.jaxpr", *args), "there is no file nothing.jaxpr")


def test_cost(tinyjax: Run) -> None:
    code, out, _ = tinyjax("cost", "loss.jaxpr", "--residuals")
    assert code == 0
    assert re.search(r"^total +15 +8 +164 +96 peak$", out, re.MULTILINE)
    assert "64 bytes in 2 residuals" in out
    _, out, _ = tinyjax("cost", "model.py:loss", "--args", "f32[8]", "--transform", "grad", "--most", "1")
    lines = [line.split()[:2] for line in out.splitlines() if line.startswith("model.py")]
    assert lines == [["model.py:7", "(loss)"]], "one row, whatever was made of the line"


def test_view(tinyjax: Run, monkeypatch: pytest.MonkeyPatch) -> None:
    opened: list[str] = []
    monkeypatch.setattr("webbrowser.open", opened.append)
    assert tinyjax("view", "loss.jaxpr", "-o", "loss.html") == (0, "loss.html\n", "")
    assert opened == []
    page = Path("loss.html").read_text()
    assert page.lower().startswith("<!doctype html>")
    assert "integer_pow" in page
    monkeypatch.setattr("tempfile.tempdir", os.getcwd())
    code, out, _ = tinyjax("view", "model.py:loss", "--args", "f32[8]")
    assert code == 0
    assert opened == [Path(out.strip()).resolve().as_uri()]
    assert Path(out.strip()).read_text().lower().startswith("<!doctype html>")


# What can't be done.


@pytest.mark.parametrize(
    ("arguments", "message"),
    [
        (["show", "nothing.py:f"], r"show: error: there is no file nothing\.py$"),
        (["show", "nothing.jaxpr"], "there is no file nothing.jaxpr"),
        (["show", "model.py"], "model.py needs a function: model.py:NAME, one of loss, affine, "),
        (["show", "model.py:lass"], "there is no 'lass' in model.py; its functions are loss, affine, "),
        (["show", "model.py:Space.outer"], "there is no 'outer' in Space in model.py"),
        (["show", "model.py:number"], "number in model.py is no function: int"),
        (["show", "model.py:affine"], r"affine needs --args: a type for each of params, x, such as f32\[8,8\]"),
        (
            ["show", "model.py:loss", "--args", "f32[8"],
            r"--args: expected a type such as f32\[8,8\].* at column 1: >>>f32",
        ),
        (["show", "model.py:loss", "--args", "f32[8] f33[8]"], "'f33' is no dtype; .* at column 8: "),
        (["show", "model.py:loss", "--args", "os.system('true')"], "'os' is neither a type such as .* nor a literal"),
        (
            ["show", "model.py:loss", "--args", "f32[8], f32[8]"],
            r"tracing loss raised TypeError: loss\(\) takes 1 posit",
        ),
        (["show", "model.py:raises", "--args", "f32[]"], r"raised ValueError: the first line \(at .*model.py:25\)$"),
        (["show", "model.py:leaves", "--args", "f32[]"], r"raised SystemExit: 3 \(at .*model.py:29\)$"),
        (["show", "model.py:branches", "--args", "f32[]"], r"can't decide a branch .* \(at .*model.py:33\)$"),
        (["run", "model.py:raises", "--args", "f32[]"], r"running raises raised ValueError: the first line "),
        (
            ["show", "model.py:loss", "--args", "f32[8]", "--transform", "grod"],
            "there is no 'grod'; there are checkpoint, ",
        ),
        (
            ["show", "model.py:loss", "--args", "f32[8]", "--transform", "grad(x=1)"],
            "grad has no option 'x'; it has argnums",
        ),
        (
            ["show", "model.py:loss", "--args", "f32[8]", "--transform", "jit(a=1)"],
            "jit has no option 'a'; it has none",
        ),
        (["show", "model.py:loss", "--args", "f32[8]", "--transform", "grad(argnums=f())"], "must be a Python literal"),
        (["show", "model.py:loss", "--args", "f32[8]", "--transform", "grad,,jit"], "expected names such as grad,vmap"),
        (
            ["show", "model.py:loss", "--args", "f32[8]", "--transform", "vmap,grad"],
            "tracing grad of vmap of loss: grad of",
        ),
        (["show", "loss.jaxpr", "--args", "{'a': f32[8]}", "--transform", "jit"], "loss.jaxpr takes arrays only"),
        (
            ["show", "loss.jaxpr", "--args", "f32[9]", "--transform", "jit"],
            r"the program takes \(f32\[8\]\), got \(f32\[9\]\)",
        ),
        (["shaw"], "invalid choice: 'shaw'"),
        (["show"], r"the following arguments are required: PROGRAM \(see tinyjax show --help\)"),
        (["show", "x", "--as", "png"], "argument --as: invalid choice: 'png'"),
    ],
)
def test_errors(tinyjax: Run, arguments: list[str], message: str) -> None:
    fails(tinyjax(*arguments), message)


def test_files_that_raise(tinyjax: Run) -> None:
    Path("broken.py").write_text("import sys\n\n1 / 0\n")
    fails(tinyjax("show", "broken.py:f"), r"importing broken.py raised ZeroDivisionError: .* \(at .*broken.py:3\)$")
    Path("broken.py").write_text("def f(:\n")
    fails(tinyjax("show", "broken.py:f"), "importing broken.py raised SyntaxError: invalid syntax")
    assert str(Path.cwd()) not in sys.path


def test_traceback(tinyjax: Run) -> None:
    code, _, err = tinyjax("show", "model.py:raises", "--args", "f32[]", "--traceback")
    assert code == 2
    assert err.startswith("Traceback (most recent call last):")
    assert "the second line" in err
    assert err.splitlines()[-1].startswith("tinyjax show: error: tracing raises raised ValueError: the first line")


def test_files_next_to_a_file(tinyjax: Run) -> None:
    os.mkdir("package")
    Path("package", "beside.py").write_text("TWO = 2.0\n")
    Path("package", "main.py").write_text("from beside import TWO\ndef f(x): return x * TWO\n")
    assert (
        tinyjax("show", "package/main.py:f", "--args", "f32[]")[1]
        == "{ lambda ; a:f32[]. let b:f32[] = mul a 2.0:f32[] in (b,) }\n"
    )


# port


def test_port(tinyjax: Run) -> None:
    Path("theirs.py").write_text(THEIRS)
    code, out, _ = tinyjax("port", "theirs.py:model", "--args", "f32[3], 2")
    assert (code, out) == (0, "theirs.py:model: nothing is missing: 2 equations\n")
    Path("theirs_too.py").write_text(THEIRS)
    for subject in ("theirs.py:kernel", "theirs_too:kernel"):
        code, out, _ = tinyjax("port", subject, "--args", "{'x': f32[3]}")
        first, second = out.splitlines()
        assert code == 1
        assert first == f"{subject}: tinyjax has nothing for these, with the number of equations, and their lines:"
        assert re.fullmatch(r"  somewhere \(2\) at .*theirs\w*.py:14 \(kernel\), .*theirs\w*.py:15 \(kernel\)", second)


def test_what_cant_be_ported(tinyjax: Run) -> None:
    Path("theirs.py").write_text(THEIRS)
    fails(tinyjax("port", "theirs.py:model"), "model needs --args: a type for each of x, n")
    fails(tinyjax("port", "no_such_module:f"), "importing no_such_module raised ModuleNotFoundError: No module")
    fails(tinyjax("port", "json:loads_", "--args", ""), "there is no 'loads_' in json; its functions are ")
    fails(tinyjax("port", "theirs.py:jnp"), "jnp in theirs.py is no function: module")
    fails(tinyjax("port", "model"), "'model' names no function: MODULE:FUNC or FILE.py:FUNC")
    Path("wrong.py").write_text("import jax.numpy as jnp\n\ndef f(x):\n    return jnp.ones(3) + x\n")
    _, _, said = tinyjax("port", "wrong.py:f", "--args", "f32[8]")
    assert re.search(r"tracing f raised TypeError: add got incompatible shapes .* \(at .*wrong\.py:4\)$", said.strip())


@pytest.mark.sweep
def test_a_module_that_is_ported_may_set_jax_up_in_the_environment(tinyjax: Run) -> None:
    Path("wide.py").write_text(
        "import os\n\nos.environ['JAX_ENABLE_X64'] = '1'\n\nimport jax\n\n\ndef f(x):\n    return x\n"
    )
    command = [sys.executable, "-m", "tinyjax", "port", "wide.py:f", "--args", "f64[3]"]
    environment = {name: value for name, value in os.environ.items() if name != "JAX_ENABLE_X64"}
    done = subprocess.run(command, capture_output=True, text=True, env=environment, check=False)
    assert (done.returncode, done.stdout) == (0, "wide.py:f: nothing is missing: 0 equations\n"), done.stderr


# Help, and colours.


def test_keys(tinyjax: Run) -> None:
    Path("draws.py").write_text(
        "from tinyjax import random\n\n"
        "def twice(key):\n"
        "    noise = random.normal(key)\n"
        "    return noise + random.uniform(key)\n\n"
        "def once(key):\n"
        "    return random.normal(key)\n"
    )
    code, out, errors = tinyjax("keys", "draws.py:twice", "--args", "key<fry>[]")
    assert (code, errors) == (1, "")
    (line,) = out.splitlines()
    found = r"argument key is used by random_bits at draws\.py:4 .*, and then by random_bits at draws\.py:5 .*"
    assert re.fullmatch(found, line)
    assert tinyjax("keys", "draws.py:once", "--args", "key<fry>[]") == (0, "", "")
    assert tinyjax("keys", "loss.jaxpr") == (0, "", "")


def test_help(tinyjax: Run) -> None:
    code, out, _ = tinyjax("--help")
    assert code == 0
    assert "exit codes: 0 all is well; 1 a problem, or a difference, was found; 2 " in out
    for command in ("show", "run", "check", "diff", "cost", "keys", "partition", "port", "view"):
        assert re.search(rf"^    {command}\s", out, re.MULTILINE)
        code, text, _ = tinyjax(command, "--help")
        assert code == 0
        examples = text.partition("\nexamples:\n")[2].splitlines()
        assert len(examples) >= 2
        assert all(f"tinyjax {command} " in line for line in examples)
    assert tinyjax("--version") == (0, f"tinyjax {tj.__version__}\n", "")
    code, out, _ = tinyjax()
    assert (code, out.startswith("usage: tinyjax")) == (2, True)


def test_colors(tinyjax: Run, monkeypatch: pytest.MonkeyPatch) -> None:
    plain, always = (tinyjax("show", "loss.jaxpr", "--color", when)[1] for when in ("auto", "always"))
    assert plain == LOSS
    assert re.sub(r"\x1b\[\d+m", "", always) == LOSS
    assert "\x1b[34msin\x1b[0m a" in always

    class Terminal(io.StringIO):
        @override
        def isatty(self) -> bool:
            return True

    def shown() -> str:
        monkeypatch.setattr(sys, "stdout", terminal := Terminal())
        assert main(["show", "loss.jaxpr"]) == 0
        return terminal.getvalue()

    monkeypatch.delenv("TERM", raising=False)
    assert shown() == always
    monkeypatch.setenv("NO_COLOR", "1")
    assert shown() == LOSS
    monkeypatch.setenv("NO_COLOR", "")
    assert shown() == always
    monkeypatch.setenv("TERM", "dumb")
    assert shown() == LOSS


def test_colored_text_is_the_text() -> None:
    text = (
        "let @c0 = array(f32[2], [1.0, -inf]) in\n"
        "{ lambda ; a:~f64[2]. let b:bool[] = f[mode='x=1' n=-2] a 1e-5 in (b,) }"
    )
    assert re.sub(r"\x1b\[\d+m", "", program_text(text, color=True)) == text


# What --args says.

F32 = ShapedArray((), "float32")


@pytest.mark.parametrize(
    ("text", "expected"),
    [
        ("", []),
        ("f32[]", [F32]),
        ("f32[ ] f32[]", [F32, F32]),
        ("f32[],f32[],", [F32, F32]),
        ("~f64[2, 3]", [ShapedArray((2, 3), "float64", weak_type=True)]),
        ("float32[] bfloat16[1]", [F32, ShapedArray((1,), "bfloat16")]),
        ("[f32[], (f32[],), (f32[])]", [[F32, (F32,), F32]]),
        ("{'a': f32[], 2: [f32[],],}", [{"a": F32, 2: [F32]}]),
        (
            "1 -2.5 1e3 3j True None 'f32[]' \"it's\"",
            [Fixed(v) for v in (1, -2.5, 1e3, 3j, True, None, "f32[]", "it's")],
        ),
        ("(), {}, []", [(), {}, []]),
        ("(1, f32[])", [(Fixed(1), F32)]),
    ],
)
def test_arguments(text: str, expected: list[Any]) -> None:
    found = parse_arguments(text)
    assert found.positional == tuple(expected)
    assert not found.named


@pytest.mark.parametrize(
    ("text", "message"),
    [
        ("f32[-1]", "expected a type such as f32"),
        ("[f32[]", r"expected ',' or '\]', got the end, at column 7"),
        ("f32[])", r"expected a type or a literal, got '\)', at column 6: f32\[\]>>>\)"),
        ("[f32[] f32[]]", r"expected ',' or '\]', got 'f32\[\]'"),
        ("{f32[]: 1}", "expected a type such as"),
        ("{'a' f32[]}", "expected ':' after the key 'a'"),
        ("{'a': f32[] 'b': f32[]}", "expected ',' or '}'"),
        ("lambda: 0", "'lambda' is neither"),
        ("1 + 1", r"got '\+'"),
        ("[" * 1000, "trees may be 100 deep"),
    ],
)
def test_arguments_that_are_none(text: str, message: str) -> None:
    with pytest.raises(CommandError, match=message):
        parse_arguments(text)


def test_transformations() -> None:
    text = "vmap(in_axes=(0, None), axis_name='i'), jit"
    assert ", ".join(map(str, parse_transformations(text))) == text
    assert parse_transformations(" ") == []
    for hostile in ("grad)", "(grad", "grad;jit", "grad.jit", "grad(1)", "1", "f(g)", "(" * 10_000, "\0"):
        with pytest.raises(CommandError, match=r"^--transform: "):
            parse_transformations(hostile)


# Other processes.


@pytest.mark.sweep
def test_module_and_pipes(tinyjax: Run) -> None:
    """The exit code of the process; and that nobody minds if what is printed isn't read to its end."""
    command = [sys.executable, "-m", "tinyjax"]
    long = "; ".join(["b0:f32[] = sin a", *(f"b{i}:f32[] = sin b{i - 1}" for i in range(1, 3000))])
    Path("long.jaxpr").write_text(f"{{ lambda ; a:f32[]. let {long} in (b2999,) }}")
    done = subprocess.run(
        ["sh", "-c", f"{sys.executable} -m tinyjax show long.jaxpr | head -n 1"],
        capture_output=True,
        text=True,
        check=True,
    )
    assert (done.stdout, done.stderr) == ("{ lambda ; a:f32[]. let\n", "")
    Path("other.jaxpr").write_text(LOSS.replace("sin", "cos"))
    failed = subprocess.run(
        [*command, "diff", "loss.jaxpr", "other.jaxpr"], capture_output=True, text=True, check=False
    )
    assert (failed.returncode, failed.stderr) == (1, "")
    assert "+     b:f32[8] = cos a" in failed.stdout


@pytest.mark.skipif(not hasattr(os, "openpty"), reason="needs a pseudo-terminal")
def test_in_a_terminal(tinyjax: Run) -> None:
    parent, child = os.openpty()
    environment = {name: value for name, value in os.environ.items() if name != "NO_COLOR"} | {"TERM": "xterm"}
    code = subprocess.run(
        [sys.executable, "-m", "tinyjax", "show", "loss.jaxpr"], stdout=child, env=environment, check=False
    )
    os.close(child)
    text = os.read(parent, 100_000).decode()
    os.close(parent)
    assert code.returncode == 0
    assert "\x1b[34msin\x1b[0m a" in text
