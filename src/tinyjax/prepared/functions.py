"""Functions as callees: those made of several primitives, applied as one outside of all transformations.

On the host that is a list of kernels, on a device a compiled program. What the function does is found out by tracing
it, once for each kind of arguments; within a transformation it is called, or replayed: see `replayed`.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from functools import wraps
from typing import Any, Final, ParamSpec, Protocol, TypeVar, final

import numpy as np
from attrs import evolve, frozen

from tinyjax import backend
from tinyjax.deferred import Deferred
from tinyjax.errors import MissingRuleError
from tinyjax.ir.dtypes import HostArray
from tinyjax.ir.program import Atom, Jaxpr, Literal, Var
from tinyjax.ir.value import ConcreteValue
from tinyjax.prepared import nearby
from tinyjax.prepared.closed import ClosedForm, Steps
from tinyjax.prepared.lines import Step, may_differ
from tinyjax.prepared.primitives import kernel_of, several_of
from tinyjax.prepared.replayed import STATIC, are_integers
from tinyjax.prepared.runners import HostRunner, Kernel, Kernels, Launch, LaunchOnMesh, launch_of
from tinyjax.prepared.stored_array import StoredArray, of_host
from tinyjax.prepared.straight import Assemble
from tinyjax.prepared.table import TABLE, Entry, Key
from tinyjax.primitives.annotations import optimization_barrier
from tinyjax.transforms.dce import dce

P = ParamSpec("P")
R = TypeVar("R")

#: What holds arrays that are one argument, and how many of them it holds at most.
_SEQUENCES: Final = (list, tuple)
_LONGEST: Final = 32
#: The functions that NumPy has as one: a table, filled where they are defined.
_CLOSED: Final[dict[Callable[..., object], ClosedForm]] = {}


@final
@frozen(eq=False)
class FunctionProgram:
    """What a function does, as one program, and the arrays that feed its first inputs."""

    jaxpr: Jaxpr
    captured: tuple[ConcreteValue, ...]
    #: What makes the tuple or list that it returns of its arrays; None if it returns an array alone.
    assemble: Assemble | None


class Stager(Protocol):
    """What a function does with arguments like these; None if it can't be one program."""

    def __call__(
        self, function: Callable[..., object], args: tuple[object, ...], kwargs: Mapping[str, object]
    ) -> FunctionProgram | None: ...


#: What finds out what a function does.
STAGING: Final = Deferred[Stager]()
#: What a function returns within transformations, if it has been met there; None if it has to be called.
REPLAYING: Final = Deferred[Callable[[Callable[..., object], tuple[object, ...], Mapping[str, object]], Any]]()
#: Whether loops are Python's, where nothing is to be compiled.
BY_PYTHON: Final = Deferred[Callable[[], bool]]()
#: What makes an operand of a NumPy array without copying it; None if it has to be looked at first.
OPERAND: Final = Deferred[Callable[[object], StoredArray | None]]()


def prepared(function: Callable[P, R]) -> Callable[P, R]:
    """Marks a function whose first argument is an array, which depends on nothing but the types of its arrays, and on
    small other arguments, such as axes. It returns an array, or a tuple or list of them."""

    return _marked(function, False)


def prepared_as(form: ClosedForm) -> Callable[[Callable[P, R]], Callable[P, R]]:
    """Marks such a function of arrays alone, which NumPy has as one."""

    def mark(function: Callable[P, R]) -> Callable[P, R]:
        _CLOSED[function] = form
        return _marked(function, False)

    return mark


def prepared_operation(function: Callable[P, R]) -> Callable[P, R]:
    """The same for a function that makes a new array: if its first argument is a NumPy array, that isn't copied."""
    return _marked(function, True)


def prepared_for_several(function: Callable[P, R]) -> Callable[P, R]:
    """The same for a function that takes lists and tuples with arrays in them, the first argument too."""
    return _marked(function, False, True)


def prepared_with_loops(function: Callable[P, R]) -> Callable[P, R]:
    """The same for a function with loops in it, which are compiled for arrays of the host too: so all of it is, as one
    program, and from the first call on, so that no digit depends on how often it was called."""
    return _marked(function, False, compiled=True)


def _marked(
    function: Callable[P, R], takes_numpy: bool, several: bool = False, compiled: bool = False
) -> Callable[P, R]:
    @wraps(function)
    def run(*args: P.args, **kwargs: P.kwargs) -> R:
        if args:  # else the array was given by name, or is missing
            first = args[0]
            done = None
            if several:
                first = _first_of(first)
            if isinstance(first, StoredArray):
                if compiled and BY_PYTHON.use():
                    pass
                elif first.runs_prepared:
                    done = _run(function, first, args, kwargs, several, compiled)
                else:
                    done = REPLAYING.use(function, args, kwargs)
            elif takes_numpy and type(first) is np.ndarray and (array := OPERAND.use(first)) is not None:
                done = _run(function, array, (array, *args[1:]), kwargs)
            else:
                done = REPLAYING.use(function, args, kwargs)
            if done is not None:
                result: R = done
                return result
        return function(*args, **kwargs)

    return run


def _run(
    function: Callable[..., object],
    first: StoredArray,
    args: tuple[object, ...],
    kwargs: Mapping[str, object],
    several: bool = False,
    compiled: bool = False,
) -> Any:  # what the function returns
    """The result; None if it has to be called. `several`: also with lists and tuples of arrays; `compiled`: as one
    program on a device, wherever the arrays are."""
    kind: type[StoredArray] = type(first)
    # The most common case, which the general one would take twice as long for.
    if len(args) == 1 and not kwargs and not several:
        found = TABLE.entries.get((function, id(first.aval)))
        if (
            found is not None
            and (runner := found.host) is not None
            and found.assemble is None
            and first.host is not None
        ):
            return of_host(kind, runner.compute((first.host,)), runner.aval)
    key: list[object] = [function, *kwargs] if kwargs else [function]
    arrays: list[StoredArray] = []
    host: list[HostArray] = []
    for arg in (*args, *kwargs.values()) if kwargs else args:
        if type(arg) is kind:
            key.append(id(arg.aval))
            arrays.append(arg)
            if (elements := arg.host) is not None:
                host.append(elements)
        elif (cls := type(arg)) in STATIC or isinstance(arg, np.dtype) or (cls is tuple and are_integers(arg)):
            key.append(cls)
            key.append(arg)
        elif several and isinstance(arg, _SEQUENCES) and cls in _SEQUENCES:
            if not _key_of_sequence(arg, kind, key, arrays, host):
                return None
        else:
            return None
    known = tuple(key)
    found = TABLE.entries.get(known)
    on_device = compiled or len(host) < len(arrays)
    if found is None and not on_device:
        # On the host it is quicker to call it once than to look what it does.
        TABLE.put(known, Entry((function, *[array.aval for array in arrays])))
        return None
    if found is None or (found.device if on_device else found.host) is None:
        if found is not None and (found.no_device if on_device else found.no_host):
            return None
        found = _prepare(known, found, function, args, kwargs, arrays, on_device)
    if not on_device:
        runner = found.host
        if runner is None:
            return None
        if found.assemble is None:
            return of_host(kind, runner.compute(host), runner.aval)
        return found.assemble(runner.run_all(host, kind))
    if found.near is not None and (near := nearby.compute(found.near, arrays, kind)) is not None:
        return near[0] if found.assemble is None else found.assemble(near)
    launch = found.device
    if launch is None:
        return None
    if found.assemble is None:
        buffers: list[backend.Argument] = []
        for array in arrays:
            if (buffer := array.buffer) is None:
                break
            buffers.append(buffer)
        else:
            return launch.launch_one(buffers, kind)
    outs = launch.run(arrays, kind)
    if outs is None:
        return None
    return outs[0] if found.assemble is None else found.assemble(outs)


def _first_of(xs: object) -> object:
    """The first array of a sequence that may hold others."""
    while type(xs) in _SEQUENCES and isinstance(xs, _SEQUENCES) and xs:
        xs = xs[0]
    return xs


def _key_of_sequence(
    xs: Sequence[object],
    kind: type[StoredArray],
    key: list[object],
    arrays: list[StoredArray],
    host: list[HostArray],
) -> bool:
    """Whether arguments in a list or tuple can be told apart: then they are put where the others are."""
    if len(xs) > _LONGEST:
        return False
    key.append((type(xs), len(xs)))
    for x in xs:
        if type(x) is kind and isinstance(x, StoredArray):
            key.append(id(x.aval))
            arrays.append(x)
            if (elements := x.host) is not None:
                host.append(elements)
        elif (cls := type(x)) in STATIC:
            key.append(cls)
            key.append(x)
        elif not (isinstance(x, _SEQUENCES) and cls in _SEQUENCES and _key_of_sequence(x, kind, key, arrays, host)):
            return False
    return True


def within(arg: object, change: Callable[[object], object]) -> object:
    """An argument, changed; where it is a list or tuple, so is what it holds."""
    if isinstance(arg, _SEQUENCES) and type(arg) in _SEQUENCES:
        return type(arg)(within(item, change) for item in arg)
    return change(arg)


def parts_of(result: object) -> tuple[Sequence[object], Assemble | None]:
    """What a function returns one by one, and what makes such a tuple, with or without names, or list of it; None for
    an array alone."""
    if isinstance(result, list):
        return result, list
    if not isinstance(result, tuple):
        return (result,), None
    make: Assemble = getattr(type(result), "_make", tuple)
    return result, make


def _prepare(
    key: Key,
    known: Entry | None,
    function: Callable[..., object],
    args: tuple[object, ...],
    kwargs: Mapping[str, object],
    arrays: Sequence[StoredArray],
    on_device: bool,
) -> Entry:
    """The entry for a function, with a runner for the place where the arrays are, if there can be one."""
    if known is None:
        known = Entry((function, *[array.aval for array in arrays]))
    program = STAGING.use(function, args, kwargs)
    if program is None:
        return TABLE.put(key, evolve(known, no_host=True, no_device=True))
    program = evolve(program, jaxpr=dce(_flat(program.jaxpr)))
    known = evolve(known, assemble=program.assemble)
    alone = len(args) == len(arrays) and not kwargs
    if on_device and not _all_depend(program):
        return TABLE.put(key, evolve(known, no_device=True))
    if on_device:
        launch = _on_device(function.__name__, program, arrays)
        eqns = program.jaxpr.eqns
        avals = [atom.aval for eqn in eqns for atom in (*eqn.invars, *eqn.outvars)]
        near: HostRunner | None = None
        if nearby.is_quick((), avals):
            kernels = _on_host(program)
            quick = nearby.is_quick([eqn.primitive for eqn in eqns], avals)
            closed = _closed(function, program, kernels, arrays) if alone else None
            near = closed or (kernels if quick else None)
        return TABLE.put(key, evolve(known, device=launch, near=near, no_device=launch is None))
    kernels = _on_host(program)
    closed = _closed(function, program, kernels, arrays) if alone else None
    runner = closed or kernels
    return TABLE.put(key, evolve(known, host=runner, no_host=runner is None))


def _flat(jaxpr: Jaxpr) -> Jaxpr:
    """What a program computes, without the rules of functions in it: nobody transforms it here."""
    if not jaxpr.inner:
        return jaxpr
    from tinyjax.transforms.inline import inline  # few have such functions

    return inline(jaxpr, lambda eqn: True)


def _closed(
    function: Callable[..., object], program: FunctionProgram, kernels: Kernels | None, arrays: Sequence[StoredArray]
) -> HostRunner | None:
    """What NumPy has for the function and such operands, if it has it."""
    form = _CLOSED.get(function)
    n, outs, single = len(arrays), program.jaxpr.out_avals, program.assemble is None
    if form is None or len(program.jaxpr.invars) != n:
        return None
    found = form(None if kernels is None else _steps_of(kernels, single), [array.aval for array in arrays])
    if found is None:
        return None
    if single:
        return Kernel(found, outs[0], fresh=True)
    return Kernels((), n, (Step(found, range(n), outs, several=True),), tuple(range(n, n + len(outs))), outs)


def _steps_of(kernels: Kernels, single: bool) -> Steps:
    if single:
        return lambda *host: kernels.compute(host)
    return lambda *host: [result for result, _ in kernels.results(host)]


def _on_host(program: FunctionProgram) -> Kernels | None:
    """The function's primitives one after the other; None if one of them isn't plain, or there is no result."""
    captured = [value.data for value in program.captured if isinstance(value.data, np.ndarray)]
    if len(captured) < len(program.captured) or not program.jaxpr.outvars:
        return None
    # The values that every run has are negative here, the last one first; what is computed of them alone is another.
    known: list[HostArray] = captured[::-1]
    places: dict[int, int] = {var.index: i - len(known) for i, var in enumerate(program.jaxpr.invars[: len(known)])}
    steps: list[Step] = []
    operands = count = len(program.jaxpr.invars) - len(known)
    for i, var in enumerate(program.jaxpr.invars[len(known) :]):
        places[var.index] = i

    def place(atom: Atom) -> int:
        if not isinstance(atom, Literal):
            return places[atom.index]
        known.append(np.asarray(atom.value, atom.aval.dtype))
        return -len(known)

    for eqn in program.jaxpr.eqns:
        if eqn.primitive == optimization_barrier:  # there is no compiler here that could move anything across
            places.update({out.index: place(atom) for out, atom in zip(eqn.outvars, eqn.invars, strict=True)})
            continue
        if not eqn.primitive.plain:
            return None
        avals = [atom.aval for atom in eqn.invars]
        made = kernel_of(eqn.primitive, avals)
        if made is None:
            together = several_of(eqn.primitive, avals)
            if together is None:
                return None
            results = [out.aval for out in eqn.outvars]
            steps.append(Step(together, list(map(place, eqn.invars)), results, several=True))
            for out in eqn.outvars:
                places[out.index] = count
                count += 1
            continue
        at = list(map(place, eqn.invars))
        (out,) = eqn.outvars
        if all(i < 0 for i in at) and made.aval.size <= backend.LARGEST:
            known.append(made.compute([known[-i - 1] for i in at]))
            places[out.index] = -len(known)
        else:
            steps.append(Step(made.function, at, [made.aval], inexact=may_differ(made.function, avals, made.aval)))
            places[out.index] = count
            count += 1
    outs = list(map(place, program.jaxpr.outvars))
    n = len(known)
    ready = [evolve(step, places=[n + i for i in step.places]) for step in steps]
    return Kernels(tuple(known[::-1]), operands, tuple(ready), tuple([n + i for i in outs]), program.jaxpr.out_avals)


def _all_depend(program: FunctionProgram) -> bool:
    """Whether all results depend on operands. One that doesn't isn't where they are."""
    jaxpr = program.jaxpr
    depends = {var.index for var in jaxpr.invars[len(program.captured) :]}
    for eqn in jaxpr.eqns:
        if any(isinstance(atom, Var) and atom.index in depends for atom in eqn.invars):
            depends.update([var.index for var in eqn.outvars])
    return all(isinstance(out, Var) and out.index in depends for out in jaxpr.outvars)


def _on_device(name: str, program: FunctionProgram, arrays: Sequence[StoredArray]) -> Launch | LaunchOnMesh | None:
    values = [*program.captured, *(array.value for array in arrays)]
    try:
        executable = backend.execute.executable(program.jaxpr, values, name)
    except MissingRuleError:  # something in it is only for the host
        return None
    return launch_of(executable, program.captured, program.jaxpr.out_avals, name)
