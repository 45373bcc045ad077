"""`check_laws`: every law, tried on a program."""

from __future__ import annotations

from collections.abc import Callable, Collection, Sequence
from typing import Final, final

import numpy as np
from attrs import frozen
from typing_extensions import override

from tinyjax.control.loops import While
from tinyjax.errors import (
    AxisNameError,
    CallbackError,
    ForwardModeError,
    InputError,
    LawError,
    LinearityError,
    LoweringError,
    MissingRuleError,
    ParameterError,
    RegistryError,
    UnsupportedError,
)
from tinyjax.ir.dtypes import HostArray
from tinyjax.ir.files.content import content_hash
from tinyjax.ir.holding import AnyProgram, as_closed
from tinyjax.ir.program import ClosedJaxpr, Eqn, Jaxpr
from tinyjax.ir.text.registry import Registry
from tinyjax.ir.traverse import nested_programs
from tinyjax.testing import derivatives, forms, meaning
from tinyjax.testing.differences import BrokenError
from tinyjax.testing.subjects import Subject, sample
from tinyjax.tracing.array import ArrayLike
from tinyjax.tracing.concrete import as_array
from tinyjax.transforms.dce import dce

Law = Callable[[Subject], None]
#: What runs a program, and says nothing of one that can't be run again and again. The others leave that part out.
_RUNNING: Final = frozenset(
    {
        *("evaluation", "compilation", "finite_differences", "transpose"),
        *("second_derivatives", "batched_derivatives", "optimized_derivatives"),
    }
)
_ALL: Final[dict[str, Law]] = {
    "typecheck": forms.typechecks,
    "text": forms.text,
    "files": forms.files,
    "pickle": forms.pickled,
    "staging": forms.staging,
    "evaluation": forms.evaluation,
    "compilation": meaning.compiled,
    **{name: meaning.keeps(name) for name in meaning.PASSES},
    "partial_eval": meaning.partial_evaluation,
    "batch": meaning.batching,
    "jvp": derivatives.forward_mode,
    "finite_differences": derivatives.finite_differences,
    "linearize": derivatives.linearization,
    "transpose": derivatives.transposition,
    "second_derivatives": derivatives.second_derivatives,
    "batched_derivatives": derivatives.batches_of_derivatives,
    "optimized_derivatives": derivatives.derivatives_after_passes,
}
#: What only a program that means the same in every process can be.
_WRITTEN: Final = frozenset({"text", "files", "pickle"})
#: The names of all laws, in the order in which they are tried.
LAWS: Final[tuple[str, ...]] = tuple(_ALL)
#: What says that a program hasn't got what a law is about, such as a derivative.
_LACKING: Final = (
    MissingRuleError,
    UnsupportedError,
    LoweringError,
    ForwardModeError,
    CallbackError,
    RegistryError,
    AxisNameError,
)
#: Programs longer than this are not searched for the first equation that is to blame.
_SEARCHED: Final = 200


@final
@frozen
class LawReport:
    """Which laws a program obeys; and which are none for it, each with why."""

    checked: tuple[str, ...]
    skipped: tuple[tuple[str, str], ...]

    @override
    def __str__(self) -> str:
        lines = [f"checked: {', '.join(self.checked)}"]
        return "\n".join([*lines, *(f"skipped: {name}: {why}" for name, why in self.skipped)])


def check_laws(
    program: AnyProgram,
    args: Sequence[ArrayLike] | None = None,
    *,
    laws: Collection[str] = LAWS,
    skip: Collection[str] = (),
    seed: int = 0,
    registry: Registry | None = None,
) -> LawReport:
    """Checks the laws that every program obeys, on a Jaxpr, a ClosedJaxpr or what `trace` returns.

    - `typecheck`, `text`, `files`, `pickle`, `staging`: it is valid, and the same program again after it has been
      printed and parsed, saved and loaded, pickled, and interpreted in a staging context.
    - `evaluation`, `compilation`: its outputs are of the types it says, and the same when XLA computes them.
    - `dce`, `cse`, `inline`, `fold_constants`, `simplify`, `hoist_constants`, `optimize`, `reroll`: a pass changes
      neither its type nor a bit of its outputs.
    - `partial_eval`: its two parts compose to it. `batch`: it computes what a loop would.
    - `jvp`: tangents are linear. `finite_differences`: and the derivative. `linearize`: in two parts, too.
      `transpose`: `<ct, J v> = <Jᵀ ct, v>`. `second_derivatives`, `batched_derivatives`: in any nesting.
      `optimized_derivatives`: no pass changes the derivative.

    Args:
      program: it is run many times: effects mustn't, so of programs with effects only the static laws are checked.
      args: its arguments, without the constants of a closed program. Random ones, if there are none: give some if it
        doesn't end for all, or computes nothing but nan.
      laws: which laws.
      skip: which not. `finite_differences` is not obeyed by a program that has, on purpose, another derivative than
        its own.
      seed: of arguments, tangents and cotangents. What is checked is the same each time.
      registry: of the primitives that parsing and loading know, if there are others than `ir.STANDARD`'s.

    Returns:
      Which laws were checked, and which don't apply: it can't be differentiated, say.

    Raises:
      LawError: a law is broken. It names the law and the first equation with which it is, and shows what differs.
      InputError: there is no such law, or arguments don't fit.

    >>> import tinyjax as tj
    >>> print(check_laws(tj.make_jaxpr(lambda x: x * 2.0)(1.0), laws=["jvp", "batch"]))
    checked: batch, jvp
    >>> from tinyjax import lax
    >>> loop = tj.make_jaxpr(lambda x: lax.while_loop(lambda c: c < 9.0, lambda c: c * 2.0, x))(1.0)
    >>> [name for name, why in check_laws(loop, [3.0]).skipped]
    ['transpose']
    """
    closed = as_closed(program, "check_laws")
    unknown = [name for name in (*laws, *skip) if name not in _ALL]
    if unknown:
        raise InputError(f"check_laws: there is no law {unknown[0]!r}; they are {', '.join(LAWS)}")
    checked: list[str] = []
    skipped: list[tuple[str, str]] = []
    subject: Subject | None = None
    for name, law in _ALL.items():
        if name not in laws or name in skip:
            continue
        if subject is None:
            _try("typecheck", forms.typechecks, Subject(closed, [], seed))
            subject = Subject(closed, _arguments(closed, args, seed), seed, registry)
        reason = _reason(name, subject) or _try(name, law, subject)
        if reason is None:
            checked.append(name)
        else:
            skipped.append((name, reason))
    return LawReport(tuple(checked), tuple(skipped))


def _arguments(closed: ClosedJaxpr, args: Sequence[ArrayLike] | None, seed: int) -> list[HostArray]:
    avals = closed.in_avals
    if args is None:
        return [sample(aval, np.random.default_rng([seed, i])) for i, aval in enumerate(avals)]
    if len(args) != len(avals):
        raise InputError(f"check_laws: the program takes {len(avals)} inputs, got {len(args)}")
    found = []
    for i, (arg, aval) in enumerate(zip(args, avals, strict=True)):
        array = np.asarray(as_array(arg))
        if array.shape != aval.shape:
            raise InputError(f"check_laws: input {i} is {aval}, got an array of shape {array.shape}")
        found.append(array.astype(aval.dtype))
    return found


def _reason(name: str, subject: Subject) -> str | None:
    """Why a law is none for a program."""
    if name in _WRITTEN:
        try:
            content_hash(subject.program)
        except ParameterError as error:  # it refers to a Python function, say
            return str(error)
    effects = subject.program.jaxpr.effects
    if name in _RUNNING and effects:
        return f"it has effects: {', '.join(sorted(map(str, effects)))}"
    return None


def _try(name: str, law: Law, subject: Subject) -> str | None:
    """Why a law is none for a program, if that only shows when it is tried."""
    try:
        law(subject)
    except BrokenError as broken:
        raise _blame(name, law, subject, str(broken)) from None
    except _LACKING as error:
        return str(error).partition("\n")[0]
    except LinearityError as error:
        # `while` says that it has no reverse mode; what else isn't linear is made wrongly.
        if any(
            isinstance(eqn.primitive, While) for each in nested_programs(subject.program.jaxpr) for eqn in each.eqns
        ):
            return str(error).partition("\n")[0]
        raise _blame(name, law, subject, str(error)) from error
    except Exception as error:
        raise _blame(name, law, subject, f"{type(error).__name__}: {error}") from error
    return None


def _blame(name: str, law: Law, subject: Subject, difference: str) -> LawError:
    """The error: with the smallest beginning of the program that breaks the law."""
    jaxpr = subject.program.jaxpr
    equation: Eqn | None = None
    smallest = subject.program
    for i, eqn in enumerate(jaxpr.eqns if name != "typecheck" and len(jaxpr.eqns) <= _SEARCHED else ()):
        part = ClosedJaxpr(Jaxpr(jaxpr.invars, jaxpr.eqns[: i + 1], eqn.outvars), subject.program.consts)
        for tried in (_cleaned(part), part):
            try:
                law(subject.of(tried))
            except _LACKING:
                continue
            except Exception as error:  # noqa: BLE001 (a rule may raise anything)
                equation, smallest = eqn, tried
                difference = str(error) if isinstance(error, BrokenError) else f"{type(error).__name__}: {error}"
                break
        if equation is not None:
            break
    return LawError(name, difference, smallest, equation)


def _cleaned(part: ClosedJaxpr) -> ClosedJaxpr:
    """Without what the last equation doesn't need, unless that is what goes wrong."""
    try:
        return dce(part)
    except Exception:  # noqa: BLE001 (the pass itself may be what is wrong)
        return part
