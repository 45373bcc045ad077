"""The command line where things are odd: closed streams, broken pipes, locales, numbers, files; arguments by name."""

from __future__ import annotations

import subprocess
import sys
from pathlib import Path
from xml.etree import ElementTree

import pytest

from tinyjax.tools.cli import main
from tinyjax.tools.cli.arguments import parse_arguments
from tinyjax.tools.cli.failure import CommandError

NAMED = """
def scaled(x, *, scale, offset=1):
    return x * scale + offset


def café(x):
    return x * 2
"""
PROGRAM = "{ lambda ; a:f32[]. let b:f32[] = mul a a in (b,) }\n"


@pytest.fixture
def folder(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    """A directory with good and bad files, which is the current one."""
    (tmp_path / "named.py").write_text(NAMED, encoding="utf-8")
    (tmp_path / "good.jaxpr").write_text(PROGRAM)
    (tmp_path / "other.jaxpr").write_text(PROGRAM.replace("mul", "add"))
    (tmp_path / "binary").write_bytes(bytes(range(256)))
    (tmp_path / "empty").write_text("")
    (tmp_path / "folder.py").mkdir()
    (tmp_path / "odd.py").write_text("class Stop(BaseException): ...\n\n\nraise Stop\n")
    monkeypatch.chdir(tmp_path)
    return tmp_path


#: A line for a shell, in which t is the command; its exit code, and what it says.
SHELL = [
    ("t diff good.jaxpr other.jaxpr | true; exit ${PIPESTATUS[0]}", 1, ""),
    ("t show good.jaxpr | true; exit ${PIPESTATUS[0]}", 0, ""),
    ("t --help | true; exit ${PIPESTATUS[0]}", 0, ""),
    ("t show good.jaxpr >&-", 2, "standard output is closed"),
    ("t check good.jaxpr --quiet >&-", 0, ""),
    ("t check - <&-", 2, "standard input is closed"),
    ("t show good.jaxpr > /dev/full", 2, "No space left on device"),
    ("t show missing <&- >&- 2>&-", 2, ""),
    ("t run good.jaxpr --seed -1", 2, "expected an integer, 0 or more, got '-1'"),
    ("t diff good.jaxpr <(cat good.jaxpr)", 0, ""),
    ("t check - < binary", 2, "<stdin> is neither"),
    ("LC_ALL=C PYTHONUTF8=0 PYTHONCOERCECLOCALE=0 t show named.py:café --args 'f32[]' --as lines", 0, ""),
]


@pytest.mark.skipif(sys.platform == "win32", reason="lines for a POSIX shell")
@pytest.mark.parametrize(
    ("line", "code", "problem"),
    [pytest.param(*case, id=case[0], marks=() if i < 4 else (pytest.mark.sweep,)) for i, case in enumerate(SHELL)],
)
@pytest.mark.usefixtures("folder")
def test_streams(line: str, code: int, problem: str) -> None:
    shell = ["bash", "-c", f't() {{ "{sys.executable}" -m tinyjax "$@"; }}\n{line}']
    done = subprocess.run(shell, capture_output=True, check=False)
    errors = done.stderr.decode()
    assert done.returncode == code, errors
    assert problem in errors
    assert len(errors.splitlines()) == bool(problem)


SUBJECTS = ["", ".", "/", "missing", "binary", "empty", "folder.py", "folder.py:f", "named.py", "named.py:", "odd.py:f"]
SUBJECTS += ["named.py:a..b", "named.py:scaled", "named.py:__name__", "good.jaxpr/x", "/dev/null", "named.py:\udcff"]
SUBJECTS += ["x" * 5000, "\0", "named.py:" + "x" * 5000]


@pytest.mark.parametrize("command", ["show", "run", "check", "cost", "keys", "partition", "port", "view"])
@pytest.mark.usefixtures("folder")
def test_odd_subjects(command: str, capsys: pytest.CaptureFixture[str]) -> None:
    for subject in SUBJECTS:
        assert main([command, subject]) in (1, 2), subject
        said = capsys.readouterr().err
        assert said.startswith(("tinyjax", subject.partition(":")[0])), said
        assert "Traceback" not in said
        assert len(said.splitlines()) <= 4


@pytest.mark.parametrize("value", ["-1", "1.5", "1e3", "", "x", "\u0663", "9" * 5000])
@pytest.mark.parametrize(("command", "option"), [("run", "--seed"), ("cost", "--most"), ("diff", "--context")])
@pytest.mark.usefixtures("folder")
def test_odd_numbers(command: str, option: str, value: str, capsys: pytest.CaptureFixture[str]) -> None:
    programs = ["good.jaxpr"] * (1 + (command == "diff"))
    assert main([command, *programs, f"{option}={value}"]) == 2
    assert "expected an integer, 0 or more" in capsys.readouterr().err


@pytest.mark.usefixtures("folder")
def test_too_much_memory(capsys: pytest.CaptureFixture[str]) -> None:
    assert main(["run", "named.py:café", "--args", "f32[99999999999999]"]) == 2
    assert "there is not enough memory" in capsys.readouterr().err


@pytest.mark.usefixtures("folder")
def test_names_are_read_as_python_reads_them(capsys: pytest.CaptureFixture[str]) -> None:
    """An accent may be a character of its own, which Python's names never have."""
    assert main(["show", "named.py:cafe\u0301", "--args", "f32[]"]) == 0
    assert "mul a 2.0" in capsys.readouterr().out


@pytest.mark.usefixtures("folder")
def test_all_that_can_be_checked_is(capsys: pytest.CaptureFixture[str]) -> None:
    assert main(["check", "missing", "empty", "good.jaxpr"]) == 2
    said = capsys.readouterr()
    assert "there is no file missing" in said.err
    assert "empty: invalid:" in said.err
    assert "ok: (f32[]) -> (f32[])" in said.out


@pytest.mark.usefixtures("folder")
def test_what_users_raise_that_is_no_exception(capsys: pytest.CaptureFixture[str]) -> None:
    assert main(["show", "odd.py:f"]) == 2
    assert "importing odd.py raised" in capsys.readouterr().err


@pytest.mark.usefixtures("folder")
def test_keyword_only_arguments(capsys: pytest.CaptureFixture[str]) -> None:
    function = "named.py:scaled"
    assert main(["run", function, "--args", "f32[2], scale=f32[2]", "--inputs", "[1., 2.]", "scale=[3., 4.]"]) == 0
    assert capsys.readouterr().out == "result: f32[2] = [4., 9.]\n"
    assert main(["run", function, "--inputs", "[1., 2.]", "scale=3", "offset=0"]) == 0
    assert capsys.readouterr().out == "result: f64[2] = [3., 6.]\n"
    assert main(["show", function, "--args", "scale=f32[2] x=f32[2], offset=5"]) == 0
    assert "add c 5.0:f32[]" in capsys.readouterr().out
    assert main(["run", function, "--args", "f32[] scale=f32[]", "--transform", "grad(argnums=1)", "--numpy"]) == 0
    capsys.readouterr()
    assert main(["show", function, "--args", "f32[] scale=i32[]", "--transform", "grad(argnums=1)"]) == 2
    assert "scale is i32[]" in capsys.readouterr().err
    assert main(["run", function, "--args", "f32[], scale=f32[]", "--inputs", "1", "other=2"]) == 2
    assert "--args by name: scale" in capsys.readouterr().err
    assert main(["show", function]) == 2
    assert "for each of x, scale=, such as f32[8,8]" in capsys.readouterr().err
    assert main(["show", "good.jaxpr", "--args", "a=f32[]"]) == 2
    assert "have no names" in capsys.readouterr().err


@pytest.mark.parametrize(
    ("text", "problem"),
    [
        ("a=f32[] f32[]", "arguments by position come before those by name"),
        ("a=1 a=2", "a is given twice"),
        ("2=f32[]", "expected a type"),
        ("a=", "expected a type"),
        ("[a=f32[]]", "neither a type"),
    ],
)
def test_wrong_names(text: str, problem: str) -> None:
    with pytest.raises(CommandError, match=problem):
        parse_arguments(text)


@pytest.mark.usefixtures("folder")
def test_generic_form(capsys: pytest.CaptureFixture[str]) -> None:
    assert main(["show", "good.jaxpr", "--as", "generic"]) == 0
    assert '"stablehlo.multiply"(%arg0, %arg0) : (tensor<f32>, tensor<f32>) -> tensor<f32>' in capsys.readouterr().out


@pytest.mark.usefixtures("folder")
def test_svg(capsys: pytest.CaptureFixture[str]) -> None:
    assert main(["show", "good.jaxpr", "--as", "svg"]) == 0
    assert ElementTree.fromstring(capsys.readouterr().out).tag.endswith("svg")
    assert main(["show", "good.jaxpr", "--as", "svg", "-o", "p.svg"]) == 0
    assert Path("p.svg").read_text().startswith("<svg")
