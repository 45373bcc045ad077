"""Files that are damaged, foreign or hostile, and programs that can't be written: what is wrong is said clearly."""

from __future__ import annotations

import io
import json
import random
import stat
import struct
import sys
import zipfile
from collections.abc import Callable, Sequence
from pathlib import Path
from typing import ClassVar, TypeAlias, final

import numpy as np
import pytest
from attrs import frozen
from typing_extensions import override

import tinyjax as tj
from tests.ir.examples import F64, Assorted, affine, double, everything
from tests.ir.test_files import loaded, members, saved
from tinyjax import ir
from tinyjax.errors import FileFormatError, InputError, ParameterError, VerificationError
from tinyjax.ir import ClosedJaxpr, ConcreteValue, Eqn, Jaxpr, Primitive, ShapedArray, Var
from tinyjax.ir.dtypes import BOOL
from tinyjax.primitives.elementwise import mul

X, Y = Var(0, F64), Var(1, F64)
#: The table of a file, to be changed.
Table: TypeAlias = "dict[str, list[list[object]]]"


def archive(parts: dict[str, bytes], compression: int = zipfile.ZIP_STORED) -> bytes:
    file = io.BytesIO()
    with zipfile.ZipFile(file, "w", compression) as out:
        for name, part in parts.items():
            out.writestr(name, part)
    return file.getvalue()


def changed(program: ClosedJaxpr | Jaxpr, change: Callable[[Table], object]) -> bytes:
    """The file of a program with its table changed, and its checksums right."""
    parts = members(saved(program))
    table = json.loads(parts["program.json"])
    change(table)
    return archive({**parts, "program.json": json.dumps(table).encode()})


def test_every_truncation_is_an_error() -> None:
    content = saved(everything())
    for length in range(0, len(content), 3):
        with pytest.raises(FileFormatError, match="the file can't be read: "):
            loaded(content[:length])


def test_no_damage_gives_another_program() -> None:
    content, program = saved(everything()), everything()
    draw = random.Random(0)
    errors = 0
    for _ in range(400):
        damaged = bytearray(content)
        for _ in range(draw.choice([1, 1, 2, 20])):
            damaged[draw.randrange(len(content))] ^= draw.randrange(1, 256)
        try:
            assert loaded(bytes(damaged)) == program
        except FileFormatError:
            errors += 1
    assert errors > 300


def test_whatever_a_table_says_the_result_is_valid_or_our_error() -> None:
    """Checksums don't keep anyone from making a file: each number or string is replaced, one at a time."""
    parts = members(saved(everything()))
    text = parts["program.json"].decode()
    draw = random.Random(1)
    valid = errors = 0
    tokens = [i for i in range(len(text)) if text[i].isdigit() or (text[i] == '"' and text[i + 1] not in ',:]"')]
    for at in tokens:
        end = at + 1
        while end < len(text) and (text[end].isdigit() if text[at].isdigit() else text[end] != '"'):
            end += 1
        other = draw.choice(["0", "1", "2", "3", "-1", "10000000000000000000", "1.5", "null", "[]", '"f"', "true"])
        forged = text[:at] + other + text[end + (text[at] == '"') :]
        try:
            ir.typecheck(loaded(archive({**parts, "program.json": forged.encode()})))
            valid += 1
        except FileFormatError:
            errors += 1
    assert valid > 5
    assert errors > 100


def test_whatever_the_columns_say_the_result_is_valid_or_our_error() -> None:
    parts = members(saved(everything()))
    draw = random.Random(2)
    for name in [name for name in parts if name.startswith("columns/")]:
        for at in range(len(parts[name])):
            column = bytearray(parts[name])
            column[at] = draw.choice([0, 1, 2, 3, 5, 200, 255])
            try:
                ir.typecheck(loaded(archive({**parts, name: bytes(column)})))
            except FileFormatError:
                continue


def refused(content: bytes, message: str) -> None:
    with pytest.raises(FileFormatError, match=message):
        loaded(content)


def test_foreign_files(tmp_path: Path) -> None:
    for content in (b"", b"PK", b"{}", b"\x80\x04N.", np.zeros(3).tobytes()):
        refused(content, "the file can't be read: it is truncated, damaged, or no program file at all")
    refused(archive({"x": b""}), "lacks the member 'header.json'")
    file = io.BytesIO()
    np.savez(file, x=np.zeros(3))
    refused(file.getvalue(), "lacks the member 'header.json'")
    header = {"format": "other", "version": 1, "written_by": "x"}
    refused(archive({"header.json": json.dumps(header).encode()}), "calls its format 'other'")
    path = tmp_path / "empty.tinyjax"
    path.write_bytes(b"")
    with pytest.raises(FileFormatError, match=r"empty\.tinyjax can't be read: "):
        ir.load(path)
    with pytest.raises(FileNotFoundError):
        ir.load(tmp_path / "none.tinyjax")


def test_newer_files() -> None:
    parts = members(saved(double()))
    header = {"format": "tinyjax program", "version": 2, "written_by": "tinyjax 9.1", "more": 1}
    content = archive({**parts, "header.json": json.dumps(header).encode(), "program.json": b"new"})
    refused(content, r"written by tinyjax 9\.1 in version 2 .*reads version 1\. Load it with a newer tinyjax")


def test_members_that_are_missing_or_wrong() -> None:
    parts = members(saved(everything()))
    for name in parts:
        refused(archive({key: part for key, part in parts.items() if key != name}), f"lacks the member '{name}'")
        refused(archive({**parts, name: b"\xff" + parts[name]}), "the file can't be read: ")
    refused(archive({**parts, "program.json": b"[" * 100_000}), "'program.json' is wrong: ")
    refused(archive({**parts, "arrays/0": b"123"}), r"an array of shape \(2,\) and dtype float32 has 8 bytes, not 3")


def test_bombs() -> None:
    parts = members(saved(double()))
    bomb = archive({**parts, "program.json": b" " * 10_000_000}, zipfile.ZIP_DEFLATED)
    assert len(bomb) < 100_000
    refused(bomb, "the member 'header.json' is compressed or encrypted, which program files never are")
    content = bytearray(saved(double()))
    directory = content.index(b"PK\x01\x02")
    struct.pack_into("<II", content, directory + 20, 2**31, 2**31)
    refused(bytes(content), rf"the member 'header.json' has {2**31} bytes, it says, of {len(content)} in all")
    content = bytearray(archive({"a": bytes(3000), "b": bytes(3000)}))
    for place in (content.index(b"PK\x01\x02"), content.rindex(b"PK\x01\x02")):
        struct.pack_into("<II", content, place + 20, 5000, 5000)
    refused(bytes(content), "its members say that they have 10000 bytes")
    twice = content.replace(b"b", b"a")
    refused(bytes(twice), "has the member 'a' twice")


def test_encrypted_members() -> None:
    content = bytearray(saved(double()))
    content[content.index(b"PK\x01\x02") + 8] |= 1
    refused(bytes(content), "compressed or encrypted")


def parameter(value: object) -> Jaxpr:
    return Jaxpr((), (Eqn(Assorted(value), (), ()),), ())


def set_values(*entries: Sequence[object]) -> Callable[[Table], None]:
    """Makes a table say that these are the parts of the parameter of the first equation."""

    def change(table: Table) -> None:
        last = table["values"][-1]
        table["values"][:] = [*map(list, entries), [*last[:3], [["parameter", len(entries) - 1]]]]
        table["programs"][-1][3] = len(table["values"])

    return change


def test_references_that_lead_nowhere() -> None:
    refused(changed(parameter((1,)), set_values(["tuple", [0]])), "value 0: refers to value 0, which does not come")
    refused(changed(parameter((1,)), set_values(["tuple", [1]], ["tuple", [0]])), "does not come before it")
    refused(changed(parameter((1,)), set_values(["tuple", [-1]])), "does not come before it")
    refused(changed(parameter(1), set_values(["program", 0])), "value 0: refers to program 0, and there are 0")
    refused(changed(parameter(1), set_values(["aval", 7])), "value 0: refers to type 7, and there are 0")
    refused(changed(parameter(1), lambda table: table["programs"].clear()), "column 'primitive' has 1 entries")
    refused(changed(parameter(1), lambda table: table["programs"].append([0, 0, 0, 1])), "comes after 1 values")
    refused(changed(parameter(1), lambda table: table["programs"][0].__setitem__(1, 2**60)), "too few for programs")
    refused(changed(parameter(1), lambda table: table["programs"][0].__setitem__(0, -1)), "can't have the sizes")
    refused(changed(everything(), lambda table: table.update(consts=[[9]])), "'program.json' is wrong: Expected")
    refused(changed(affine(), lambda table: table["sources"].__setitem__(0, [0])), "Expected `int`, got `array`")


def test_parameters_that_are_too_large() -> None:
    doubled: list[Sequence[object]] = [["int", 1], *[["tuple", [i, i]] for i in range(60)]]
    refused(changed(parameter(1), set_values(*doubled)), "a parameter of .* parts, nested 24 deep, is too large")
    chained: list[Sequence[object]] = [["int", 1], *[["tuple", [i]] for i in range(100_000)]]
    refused(changed(parameter(1), set_values(*chained, ["set", [100_000]])), "nested 1001 deep, is too large")
    chained = [["int", 1], *[["tuple", [i]] for i in range(900)]]
    refused(changed(parameter(1), set_values(*chained, ["record", "Window", [["sizes", 900]]])), "can't be made")


def test_names_that_mean_nothing() -> None:
    refused(changed(parameter(1), set_values(["type", "os.system"])), "value 0: .* there is no type 'os.system'")
    before = set(sys.modules)  # all that the registry has is loaded by now
    refused(changed(parameter(1), set_values(["enum", "antigravity", "X"])), "no class 'antigravity' in the registry")
    refused(changed(parameter(1), set_values(["record", "Popen", []])), "'Popen' can't be made: there is no class")
    refused(changed(parameter(1), set_values(["enum", "Window", "X"])), "Window is no enumeration")
    refused(changed(parameter(1), set_values(["enum", "Mode", "X"])), "Mode has no member 'X'")
    refused(changed(parameter(1), set_values(["enum", "Mode", 1])), "Mode has no flags")
    refused(changed(parameter(1), set_values(["enum", "Flags", 64])), "64")
    refused(changed(parameter(1), set_values(["dtype", "O"])), "there is no dtype 'O'")
    refused(changed(parameter(1), set_values(["float", "zz"])), "'zz' are not the 64 bits of a float")
    refused(changed(parameter(1), set_values(["int", "x"])), "'x' is no integer")
    refused(changed(parameter(1), set_values(["pickle", "x"])), "Invalid value 'pickle'")
    assert set(sys.modules) == before
    with pytest.raises(FileFormatError, match=r"primitive 'assorted' can't be made: .*STANDARD\.extended\(TheClass\)"):
        ir.load(io.BytesIO(saved(parameter(1))))


def test_parameters_of_the_wrong_kind() -> None:
    def values(*entries: list[object]) -> Callable[[Table], None]:
        return lambda table: table.update(values=[*entries, table["values"][-1]])

    reduce = tj.make_jaxpr(lambda x: x.sum(0))(np.zeros((2, 3)))
    refused(
        changed(reduce, values(["str", "ab"], ["int", 1])), "primitive 'reduce_sum' can't be made: parameter 'axes'"
    )
    refused(changed(reduce, values(["int", 7], ["tuple", [0]])), "it holds a program that is not valid: equation 0")
    window = parameter(everything().eqns[0].primitive)
    assert loaded(saved(window)) == window


def test_invalid_programs() -> None:
    parts = members(saved(double()))
    later = archive({**parts, "columns/operand": bytes([1, 2, 2])})
    refused(later, "program that is not valid: equation 0 of the program: reads b:f64.*, which is only bound by this")
    refused(
        archive({**parts, "columns/operand": bytes([1, 0, 4])}), "column 'operand' refers to entry 2 of a table of 2"
    )
    refused(archive({**parts, "columns/operand": bytes([1, 0])}), "column 'operand' has 2 entries, too few")
    refused(archive({**parts, "columns/operand": bytes([1, 0, 2, 2])}), "but the programs take 3")
    refused(archive({**parts, "columns/source": bytes([9])}), "column 'source' refers to entry 9")
    refused(archive({**parts, "columns/primitive": bytes([1])}), "column 'primitive' refers to entry 1")
    types = changed(affine(), lambda table: table["avals"][0].__setitem__(0, "bfloat16"))
    refused(types, "program that is not valid: ")
    refused(changed(double(), lambda table: table["avals"][0].__setitem__(1, [-1])), "no array type of shape")
    refused(changed(double(), lambda table: table.update(columns=[])), "Expected `object`, got `array` - at `")
    table = parts["program.json"].replace(b'"u1"', b'"f8"')
    refused(archive({**parts, "program.json": table}), "its columns are .*, which are not those of this version")
    table = parts["program.json"].replace(b'"u1"', b'"u2"')
    refused(archive({**parts, "program.json": table}), "column 'primitive' ends in the middle of an entry")


def test_an_equation_needs_a_primitive() -> None:
    parts = members(saved(parameter(1)))
    refused(archive({**parts, "columns/primitive": bytes([0])}), "an equation applies 1, which is not a primitive")


def test_bools_are_true_or_false() -> None:
    aval = ShapedArray((2,), BOOL)
    closed = ClosedJaxpr(Jaxpr((Var(0, aval),), (), ()), (ConcreteValue(np.array([True, False]), aval),))
    refused(archive({**members(saved(closed)), "arrays/0": bytes([1, 2])}), "neither True nor False")


@final
@frozen
class Mul(Primitive):
    """Another primitive of the same name as one of the library."""

    name: ClassVar[str] = "mul"

    @override
    def type_of(self, *avals: ShapedArray) -> tuple[ShapedArray, ...]:
        return avals[:1]


@final
@frozen
class OurMul(Primitive):
    """Likewise, with a class of another name."""

    name: ClassVar[str] = "mul"

    @override
    def type_of(self, *avals: ShapedArray) -> tuple[ShapedArray, ...]:
        return avals[:1]


def test_a_primitive_is_never_taken_for_another_one() -> None:
    ours = Jaxpr((X,), (Eqn(OurMul(), (X, X), (Y,)),), (Y,))
    with pytest.raises(FileFormatError, match="'mul' of the file is a OurMul, but that of the registry is a Mul"):
        ir.load(io.BytesIO(saved(ours)))
    assert ir.load(io.BytesIO(saved(ours)), ir.Registry().extended(OurMul)) == ours
    both = Jaxpr((X,), (Eqn(Mul(), (X, X), (Y,)), Eqn(mul, (X, X), (Var(2, F64),))), (Y,))
    with pytest.raises(ParameterError, match=r"damaged_files\.Mul can't be in one file, .* rename one of them"):
        saved(both)


def test_python_functions_are_not_written(tmp_path: Path) -> None:
    closed = tj.make_jaxpr(lambda x: tj.pure_callback(np.sin, x, x))(1.0)
    path = tmp_path / "f.tinyjax"
    path.write_bytes(b"as it was")
    with pytest.raises(ParameterError, match=r"pure_callback\.function can't be written to a file: .* holds no code"):
        ir.save(path, closed)
    assert path.read_bytes() == b"as it was"
    assert list(tmp_path.iterdir()) == [path]


def test_what_else_can_not_be_written() -> None:
    with pytest.raises(ParameterError, match=r"assorted\.parameter\[1\] can't be written .* dtype\('<U3'\)"):
        saved(parameter((1, np.dtype("U3"))))
    with pytest.raises(VerificationError, match="a malformed program can't be written: variable number 1 is bound as"):
        saved(Jaxpr((X,), (Eqn(mul, (X, X), (Y,)),), (Var(1, ShapedArray((), np.float32)),)))
    with pytest.raises(VerificationError, match="variable number 3 is bound where number 1 is due"):
        saved(Jaxpr((X,), (Eqn(mul, (X, X), (Var(3, F64),)),), ()))
    with pytest.raises(VerificationError, match="variable number 1 is read before it is bound"):
        saved(Jaxpr((X,), (), (Y,)))
    call: Callable[..., object] = ir.save
    read: Callable[..., object] = ir.load
    with pytest.raises(InputError, match="only a Jaxpr or ClosedJaxpr can be saved, got int: 3"):
        call(io.BytesIO(), 3)
    with pytest.raises(InputError, match="a file is a path, or an open binary file, got 3"):
        call(3, double())
    with pytest.raises(InputError, match="open it in binary mode"):
        read(io.StringIO("x"))


def test_a_file_is_replaced_when_it_is_complete(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    path = tmp_path / "p.tinyjax"
    ir.save(path, double())
    before = path.read_bytes()
    plain = tmp_path / "plain"
    plain.write_bytes(b"")
    assert stat.S_IMODE(path.stat().st_mode) == stat.S_IMODE(plain.stat().st_mode)

    def fail(*args: object) -> None:
        raise OSError("the disk is full")

    monkeypatch.setattr("os.fsync", fail)
    with pytest.raises(OSError, match="the disk is full"):
        ir.save(path, affine())
    monkeypatch.undo()
    assert path.read_bytes() == before
    link = tmp_path / "link"
    link.symlink_to(path)
    ir.save(link, affine())
    assert link.is_symlink()
    assert ir.load(path) == affine()
    assert sorted(file.name for file in tmp_path.iterdir()) == ["link", "p.tinyjax", "plain"]
