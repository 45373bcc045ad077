"""Every law is broken once, by what it is about being wrong, and `check_laws` says so."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from typing import BinaryIO, Final

import numpy as np
import pytest
from attrs import evolve

import tinyjax as tj
import tinyjax.numpy as tnp
from tinyjax import ir, transforms
from tinyjax.backend import execute
from tinyjax.contexts.staging import StagingContext, stage
from tinyjax.errors import LawError, TypingError
from tinyjax.ir import Atom, ClosedJaxpr, HostArray, Jaxpr, Literal
from tinyjax.primitives.conversion import StopGradient
from tinyjax.primitives.elementwise import mul
from tinyjax.testing import LAWS, check_laws, meaning
from tinyjax.testing.subjects import run

PROGRAM: Final = tj.make_jaxpr(lambda x, y: tnp.sin(x) * y * x)(0.5, np.float64(1.5))
ARGS: Final = (0.5, 1.5)


def remade(jaxpr: Jaxpr, change: Callable[[StagingContext, Atom], Atom]) -> Jaxpr:
    """The program with its last output changed."""

    def body(ctx: StagingContext, ins: list[Atom]) -> Sequence[Atom]:
        *others, last = ir.interpret(ctx, jaxpr, ins)
        return [*others, change(ctx, last)]

    return stage(jaxpr.in_avals, body)


def doubled(jaxpr: Jaxpr) -> Jaxpr:
    """Valid, of the same type, and another program, whose last output is twice what it should be."""
    return remade(jaxpr, lambda ctx, out: mul(ctx, out, Literal(2.0, ir.ShapedArray((), float, weak_type=True))))


def wrong(program: ClosedJaxpr) -> ClosedJaxpr:
    return evolve(program, jaxpr=doubled(program.jaxpr))


def stopped(program: ClosedJaxpr) -> ClosedJaxpr:
    """It computes the same, and has no derivative."""
    return evolve(program, jaxpr=remade(program.jaxpr, lambda ctx, out: ctx.bind(StopGradient(), out)[0]))


def refusing(program: object) -> None:
    raise TypingError("no")


class WrongPickle:
    @staticmethod
    def dumps(program: ClosedJaxpr) -> ClosedJaxpr:
        return program

    @staticmethod
    def loads(program: ClosedJaxpr) -> ClosedJaxpr:
        return wrong(program)


def wrong_file(file: BinaryIO, registry: ir.Registry | None) -> ClosedJaxpr:
    found = ir.load(file, registry)
    return wrong(found if isinstance(found, ClosedJaxpr) else ClosedJaxpr(found))


def single(program: ClosedJaxpr, args: Sequence[HostArray]) -> list[HostArray]:
    return [np.asarray(out, np.float32) for out in run(program, args)]


#: What a law is about, and what is put in its place: mostly the same, done to another program.
_IN: Final = "tinyjax.testing."
REPLACED: Final[dict[str, tuple[str, object]]] = {
    "typecheck": (f"{_IN}forms.typecheck", refusing),
    "text": (f"{_IN}forms.parse", lambda text, registry: doubled(ir.parse(text, registry))),
    "files": (f"{_IN}forms.load", wrong_file),
    "pickle": (f"{_IN}forms.pickle", WrongPickle),
    "staging": (f"{_IN}forms.stage", lambda avals, body: doubled(stage(avals, body))),
    "evaluation": (f"{_IN}subjects.run", single),
    "compilation": (f"{_IN}meaning.execute", lambda jaxpr, args, name: execute(doubled(jaxpr), args, name)),
    "partial_eval": (
        f"{_IN}meaning.partial_eval",
        lambda program, *args, **kwargs: transforms.partial_eval(wrong(program), *args, **kwargs),
    ),
    "batch": (f"{_IN}meaning.batch", lambda program, *args: transforms.batch(wrong(program), *args)),
    "jvp": (f"{_IN}derivatives.jvp", lambda program, *args, **kwargs: transforms.jvp(wrong(program), *args, **kwargs)),
    "linearize": (f"{_IN}derivatives.linearize", lambda program, moves: transforms.linearize(wrong(program), moves)),
    "transpose": (
        f"{_IN}derivatives.transpose",
        lambda program, *args, **kwargs: transforms.transpose(wrong(program), *args, **kwargs),
    ),
    "batched_derivatives": (f"{_IN}derivatives.batch", lambda program, *args: transforms.batch(wrong(program), *args)),
}
REPLACED["finite_differences"] = REPLACED["second_derivatives"] = REPLACED["jvp"]
#: And what is put in the place of a pass.
PASSES: Final = {**dict.fromkeys(meaning.PASSES, wrong), "optimized_derivatives": stopped}


def break_law(law: str, patch: pytest.MonkeyPatch) -> None:
    if law in PASSES:
        patch.setitem(meaning.PASSES, law if law in meaning.PASSES else "cse", PASSES[law])
    else:
        target, replacement = REPLACED[law]
        patch.setattr(target, replacement)


@pytest.mark.parametrize("law", LAWS)
def test_every_law_can_be_broken(law: str, monkeypatch: pytest.MonkeyPatch) -> None:
    assert check_laws(PROGRAM, ARGS, laws=[law]).checked == (law,)
    break_law(law, monkeypatch)
    with pytest.raises(LawError, match=f"the program breaks the law '{law}'") as caught:
        check_laws(PROGRAM, ARGS, laws=[law])
    assert caught.value.law == law


def test_what_keeps_values_only_is_no_pass(monkeypatch: pytest.MonkeyPatch) -> None:
    break_law("optimized_derivatives", monkeypatch)
    assert check_laws(PROGRAM, ARGS, laws=["cse", "dce"]).checked == ("dce", "cse")
