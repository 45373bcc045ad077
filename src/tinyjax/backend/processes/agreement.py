"""Whether processes launch the same: compared before each launch, and in full before the first one of a program.

XLA runs whatever each process gives it. Where the programs differ, or their order, elements that belong to one are
taken for those of another, or processes wait for each other for ever.
"""

from __future__ import annotations

import hashlib
import json
import zlib
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from itertools import zip_longest
from struct import Struct
from typing import TYPE_CHECKING, Final, TypeVar, final

import attrs
import numpy as np

from tinyjax.backend.embedding import Constants
from tinyjax.backend.layouts import Layout, input_label
from tinyjax.backend.processes.group import Group
from tinyjax.backend.stages import Options
from tinyjax.errors import DisagreementError, ParameterError
from tinyjax.ir.dtypes import HostArray
from tinyjax.ir.files.content import content_hash
from tinyjax.ir.program import Jaxpr

if TYPE_CHECKING:
    import numpy.typing as npt

T = TypeVar("T")

#: How many bytes of a hash are compared.
_DIGEST: Final = 16
#: The number of an input, and a checksum of its elements.
_MARK: Final = Struct("<II")
#: How many lines of two programs that differ are shown of each.
_SHOWN: Final = 8
#: How long to wait for the text of another process's program, which is only for a message.
_TEXT_SECONDS: Final = 30.0


@final
@attrs.frozen
class Record:
    """What a process launches, as far as all must launch the same."""

    name: str
    program: str
    mesh: str
    devices: tuple[str, ...]
    in_shardings: tuple[str, ...]
    out_shardings: tuple[str, ...]
    donated: tuple[int, ...]
    options: tuple[str, ...]
    versions: str
    #: By the numbers of inputs, hashes of what is spelled out in the text instead.
    constants: tuple[tuple[int, str], ...] = ()

    @property
    def digest(self) -> bytes:
        """A hash of all but the name."""
        shown = json.dumps(attrs.asdict(attrs.evolve(self, name="")))
        return hashlib.sha256(shown.encode()).digest()[:_DIGEST]


@final
class Launches:
    """The launches of a program for devices of several processes."""

    def __init__(
        self,
        group: Group,
        processes: Sequence[int],
        jaxpr: Jaxpr,
        layout: Layout,
        donated: Sequence[int],
        options: Options,
        versions: str,
        constants: Constants = (),
    ) -> None:
        self._group = group
        self._processes = tuple(sorted(processes))
        self._jaxpr = jaxpr
        self._layout = layout
        self._donated = tuple(donated)
        self._options = tuple([f"{name}={value}" for name, value in options])
        self._versions = versions
        self._others = [process for process in self._processes if process != group.index]
        self._key = hashlib.sha256(repr(self._processes).encode()).digest()[:8]
        self._digest: bytes | None = None
        self._captured: dict[int, str] = {}
        self._constants = {i: _digest_of(value) for i, value in enumerate(constants) if value is not None}

    def capture(self, i: int, array: HostArray) -> None:
        """Notes what all launches have as input `i`."""
        self._captured[i] = _digest_of(array)

    def launch(self, name: str, given: Iterable[tuple[int, HostArray]], run: Callable[[], T]) -> T:
        """Runs the program once all processes have come to it and agree; what `agree` raises, or a DistributedError if
        one is gone. `given` are inputs that must be the same in all."""
        group = self._group
        with group.launching:
            what = self.agree(name, given)
            return group.run(run, what)

    def _record(self, name: str) -> Record:
        layout = self._layout
        outs = ["chosen by XLA" if sharding is None else str(sharding.spec) for sharding in layout.outs]
        return Record(
            name=name,
            program=_hash_of(self._jaxpr),
            mesh=str(layout.mesh),
            devices=tuple(map(str, layout.devices or ())),
            in_shardings=tuple([str(sharding.spec) for sharding in layout.ins]),
            out_shardings=tuple(outs),
            donated=self._donated,
            options=self._options,
            versions=self._versions,
            constants=tuple(self._constants.items()),
        )

    def agree(self, name: str, given: Iterable[tuple[int, HostArray]]) -> str:
        """Waits until all processes come to the same launch, and says what it is; a DisagreementError, in all of them,
        if they launch different programs."""
        group = self._group
        number = group.launches.get(self._processes, 0) + 1
        what = f"launch {number} of {_together(self._processes)}, of {name!r}"
        marks = _marks_of(given)
        full = b""
        if self._digest is None:
            record = self._record(name)
            self._digest = record.digest
            labelled = {self._label(i, name): digest for i, digest in self._captured.items()}
            full = json.dumps({"record": attrs.asdict(record), "digests": labelled}).encode()
        key = self._key + number.to_bytes(8, "little")
        own = self._digest + len(marks).to_bytes(4, "little") + marks + full
        found = group.peers.exchange(b"launch" + key, own, self._processes, group.timeouts.launch, what)
        group.launches[self._processes] = number
        if any(said[:_DIGEST] != self._digest for said in found.values()):
            self._disagree(name, key, what)
        if marks or full:
            self._compare_arguments(name, own, found, what)
        return what

    def _label(self, i: int, name: str) -> str:
        names = self._jaxpr.input_names
        if i in self._captured or i in self._constants or (any(names) and not any(names[i : i + 1])):
            return f"an array that {name!r} refers to (input {i})"
        return input_label(self._jaxpr, i, name)

    def _compare_arguments(self, name: str, own: bytes, found: Mapping[int, bytes], what: str) -> None:
        marks, digests = _argument_marks(own)
        for process, said in sorted(found.items()):
            others, other_digests = _argument_marks(said)
            unlike = [self._label(i, name) for i, mark in marks.items() if others.get(i, mark) != mark]
            unlike += [label for label, digest in digests.items() if other_digests.get(label, digest) != digest]
            if unlike:
                here, there = sorted((self._group.index, process))
                self._refuse(_other_elements(what, unlike[0], here, there))

    def _disagree(self, name: str, key: bytes, what: str) -> None:
        """The error, with what differs."""
        record = self._record(name)
        text = str(self._jaxpr)
        own = json.dumps({"record": attrs.asdict(record), "text": text}).encode()
        found = self._group.peers.exchange(b"differ" + key, own, self._processes, _TEXT_SECONDS, what)
        said = {process: json.loads(content) for process, content in found.items()}
        said[self._group.index] = json.loads(own)
        first = self._processes[0]
        for process in self._processes[1:]:
            pair = dict(said[first]["record"]["constants"]), dict(said[process]["record"]["constants"])
            unlike = [i for i, digest in pair[0].items() if pair[1].get(i, digest) != digest]
            if unlike:
                self._refuse(_other_elements(what, self._label(unlike[0], name), first, process))
            lines = list(_differences(first, said[first], process, said[process]))
            if lines:
                shown = "\n".join(lines)
                self._refuse(
                    f"{what}: processes {first} and {process} don't launch the same.\n{shown}\nNothing was launched."
                )
        self._refuse(f"{what}: the processes don't launch the same")

    def _refuse(self, message: str) -> None:
        self._group.peers.fail(message)
        self._group.peers.reported = True
        raise DisagreementError(message)


def check_same(group: Group, processes: Sequence[int], array: npt.ArrayLike, what: str) -> None:
    """Waits until all processes come to the same place; a DisagreementError, in all of them, if they have other
    elements there."""
    members = tuple(sorted(processes))
    key = hashlib.sha256(repr(members).encode()).digest()[:8]
    with group.launching:
        number = group.checks[members] = group.checks.get(members, 0) + 1
        own = _digest_of(array).encode()
        place = f"putting {what} on devices of {_together(members)}"
        found = group.peers.exchange(
            b"same" + key + number.to_bytes(8, "little"), own, members, group.timeouts.launch, place
        )
        for process, said in sorted(found.items()):
            if said != own:
                here, there = sorted((group.index, process))
                message = (
                    f"{place}: it has other elements in process {here} than in process {there}. To make an array of "
                    "what each has of it, use make_array_from_process_local_data(sharding, local)"
                )
                group.peers.fail(message)
                group.peers.reported = True
                raise DisagreementError(message)


def _other_elements(what: str, label: str, here: int, there: int) -> str:
    return (
        f"{what}: {label} has other elements in process {here} than in process {there}. An array that isn't on devices "
        "yet must be the same in all processes; to make one of what each has of it, use "
        "make_array_from_process_local_data(sharding, local)"
    )


def _together(processes: Sequence[int]) -> str:
    return f"processes {', '.join(map(str, processes[:-1]))} and {processes[-1]}"


def _digest_of(array: npt.ArrayLike) -> str:
    return hashlib.blake2b(np.asarray(array).tobytes(), digest_size=_DIGEST).hexdigest()


def _marks_of(given: Iterable[tuple[int, HostArray]]) -> bytes:
    """Of each of these arrays, which input it is and a checksum: it is quick, as every launch compares them."""
    return b"".join([_MARK.pack(i, zlib.crc32(array.tobytes())) for i, array in given])


def _argument_marks(said: bytes) -> tuple[dict[int, int], Mapping[str, str]]:
    """What a process has said of arguments: the checksums, and at the first launch the hashes of what is captured."""
    start = _DIGEST + 4
    end = start + int.from_bytes(said[_DIGEST:start], "little")
    digests: Mapping[str, str] = json.loads(said[end:])["digests"] if len(said) > end else {}
    return dict(_MARK.iter_unpack(said[start:end])), digests


def _hash_of(jaxpr: Jaxpr) -> str:
    try:
        return content_hash(jaxpr)
    except ParameterError:  # it calls functions of Python, which are known to this process only
        return hashlib.sha256(str(jaxpr).encode()).hexdigest()


def _differences(
    i: int, one: Mapping[str, Mapping[str, object]], j: int, other: Mapping[str, Mapping[str, object]]
) -> Iterator[str]:
    left, right = one["record"], other["record"]
    for field in attrs.fields(Record):
        a, b = left[field.name], right[field.name]
        if a == b:
            continue
        if field.name == "program":
            yield "  programs (hashes):"
            yield f"    process {i}: {str(a)[:16]}"
            yield f"    process {j}: {str(b)[:16]}"
            yield from _lines_that_differ(i, str(one["text"]), j, str(other["text"]))
        elif isinstance(a, list) and isinstance(b, list) and len(a) == len(b) and "shardings" in field.name:
            what = "argument" if field.name == "in_shardings" else "result"
            for at, (x, y) in enumerate(zip(a, b, strict=True)):
                if x != y:
                    yield f"  the sharding of {what} {at}:"
                    yield f"    process {i}: {x}"
                    yield f"    process {j}: {y}"
        else:
            yield f"  {field.name.replace('_', ' ')}:"
            yield f"    process {i}: {_shown(a)}"
            yield f"    process {j}: {_shown(b)}"


def _shown(value: object) -> str:
    return ", ".join(map(str, value)) or "none" if isinstance(value, list) else str(value)


def _lines_that_differ(i: int, one: str, j: int, other: str) -> Iterator[str]:
    """The lines between the first and the last in which two texts differ."""
    left, right = one.splitlines(), other.splitlines()
    start = next((at for at, (a, b) in enumerate(zip_longest(left, right)) if a != b), None)
    if start is None:
        return
    shared = min(len(left), len(right)) - start
    end = next((at for at in range(shared) if left[-1 - at] != right[-1 - at]), shared)
    for process, lines in ((i, left[start : len(left) - end]), (j, right[start : len(right) - end])):
        yield f"  in process {process}:"
        for line in lines[:_SHOWN] or ["(nothing)"]:
            yield f"    {line.strip()}"
        if len(lines) > _SHOWN:
            yield f"    ({len(lines) - _SHOWN} more lines)"
