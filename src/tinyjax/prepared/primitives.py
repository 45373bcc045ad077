"""Primitives as callees: a kernel on the host, an executable of one equation on a device."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from typing import Final, TypeVar, final

import numpy as np
from attrs import evolve
from typing_extensions import override

from tinyjax import backend, primitives
from tinyjax.caching import bounded
from tinyjax.contexts import (
    narrow,
)
from tinyjax.contexts.devices import on_device, single_equation
from tinyjax.contexts.evaluation import EvalContext
from tinyjax.errors import MissingRuleError
from tinyjax.ir import contracts
from tinyjax.ir.aval import ShapedArray
from tinyjax.ir.declared import refuse_misfits
from tinyjax.ir.dtypes import HostArray
from tinyjax.ir.primitive import Primitive
from tinyjax.ir.result_types import result_types
from tinyjax.ir.value import ConcreteValue
from tinyjax.prepared import nearby
from tinyjax.prepared.runners import Kernel, KernelOfSeveral, launch_of
from tinyjax.prepared.stored_array import StoredArray, of_host
from tinyjax.prepared.table import TABLE, Entry, Key
from tinyjax.primitives.by_loops import ByLoops

E = TypeVar("E", bound=StoredArray)
#: What the keys of primitives with several outputs begin with, which `apply` doesn't look for.
_SEVERAL: Final = "several"


def apply(primitive: Primitive, operands: Sequence[object], kind: type[E]) -> E | None:
    """The result of a primitive that has been applied to operands of these types before; None: it hasn't, or one of
    them isn't of this kind."""
    host: Sequence[HostArray]
    if len(operands) == 2:  # the most common cases, which the general one would take a third longer for
        x, y = operands
        if not isinstance(x, StoredArray) or not isinstance(y, StoredArray):
            return None
        found = TABLE.entries.get((id(primitive), id(x.aval), id(y.aval)))
        if found is None:
            return None
        if (left := x.host) is None or (right := y.host) is None:
            return _on_device(found, (x, y), kind)
        host = (left, right)
    elif len(operands) == 1:
        (x,) = operands
        if not isinstance(x, StoredArray) or (found := TABLE.entries.get((id(primitive), id(x.aval)))) is None:
            return None
        if (only := x.host) is None:
            return _on_device(found, (x,), kind)
        host = (only,)
    else:
        key = [id(primitive)]
        arrays: list[StoredArray] = []
        several: list[HostArray] = []
        for x in operands:
            if not isinstance(x, StoredArray):
                return None
            key.append(id(x.aval))
            arrays.append(x)
            if (elements := x.host) is not None:
                several.append(elements)
        found = TABLE.entries.get(tuple(key))
        if found is None:
            return None
        if len(several) < len(arrays):
            return _on_device(found, arrays, kind)
        host = several
    runner = found.host
    if runner is None:
        return _on_device(found, [x for x in operands if isinstance(x, StoredArray)], kind) if found.no_host else None
    return of_host(kind, runner.compute(host), runner.aval)


def apply_equal(primitive: Primitive, operands: Sequence[object], kind: type[E]) -> tuple[E, ...] | None:
    """The results of what is equal to a primitive that has been applied to operands of these types before, also if
    they are several."""
    if not primitive.plain or not primitive.built_in:
        return None
    met = shared(primitive)
    if met is not primitive and (done := apply(met, operands, kind)) is not None:
        return (done,)
    arrays = [x for x in operands if isinstance(x, StoredArray)]
    found = TABLE.entries.get((_SEVERAL, id(met), *[id(x.aval) for x in arrays]))
    if found is None or len(arrays) < len(operands):
        return None
    host = [elements for x in arrays if (elements := x.host) is not None]
    if len(host) == len(arrays):
        return None if found.host is None else tuple(found.host.run_all(host, kind))
    outs = None if found.device is None else found.device.run(arrays, kind)
    return None if outs is None else tuple(outs)


@bounded(8192)
def shared(primitive: Primitive) -> Primitive:
    """The first primitive that is equal to this one: what is known of that is found by its identity."""
    return primitive


def _on_device(found: Entry, arrays: Sequence[StoredArray], kind: type[E]) -> E | None:
    if found.near is not None and (near := nearby.compute(found.near, arrays, kind)) is not None:
        return near[0]
    launch = found.device
    if launch is None:
        return None
    buffers: list[backend.Argument] = []
    for x in arrays:
        if x.buffer is None:
            outs = launch.run(arrays, kind)
            return None if outs is None else outs[0]
        buffers.append(x.buffer)
    return launch.launch_one(buffers, kind)


@final
class PreparedEvaluation(EvalContext):
    """Evaluation, but quick for plain primitives that it has met with operands of the same types."""

    __slots__ = ()

    @override
    def bind(self, primitive: Primitive, *args: ConcreteValue) -> tuple[ConcreteValue, ...]:
        if primitive.plain:
            key = [id(primitive)]
            host = []
            for arg in args:
                data = arg.data
                if type(data) is not np.ndarray:
                    break
                key.append(id(arg.aval))
                host.append(data)
            else:
                found = TABLE.entries.get(tuple(key))
                if found is None and primitive.built_in:
                    primitive = shared(primitive)
                    key[0] = id(primitive)
                    found = TABLE.entries.get(tuple(key)) or TABLE.entries.get((_SEVERAL, *key))
                if found is not None and (runner := found.host) is not None:
                    return tuple([ConcreteValue(elements, aval) for elements, aval in runner.results(host)])
                first = prepare_and_compute(primitive, args, host)
                if first is not None:
                    return (first,)
                _prepare_several(primitive, [arg.aval for arg in args])
        return self._compiled(primitive, args) or super().bind(primitive, *args)

    def _compiled(self, primitive: Primitive, args: Sequence[ConcreteValue]) -> tuple[ConcreteValue, ...] | None:
        return on_device(self._executor, primitive, args) if isinstance(primitive, ByLoops) else None

    def bind_first(self, primitive: Primitive, *args: ConcreteValue) -> tuple[ConcreteValue, ...]:
        """The same for what the table was asked for already, and doesn't have."""
        if primitive.built_in and primitive.plain:
            primitive = shared(primitive)
            if not args and (found := TABLE.entries.get((id(primitive),))) is not None and found.host is not None:
                return (ConcreteValue(found.host.compute(()), found.host.aval),)
        if not primitive.plain:
            outs = self._compiled(primitive, args)
            if outs is None:
                return super().bind(primitive, *args)
            _prepare_device(primitive, args, no_host=True)
            return outs
        host: list[HostArray] = [data for arg in args if type(data := arg.data) is np.ndarray]
        if len(host) == len(args):
            first = prepare_and_compute(primitive, args, host)
            if first is not None:
                return (first,)
            _prepare_several(primitive, [arg.aval for arg in args])
        near = _prepare_nearby(primitive, args)
        if near is not None:
            return (near,)
        outs = super().bind(primitive, *args)
        if outs and not outs[0].on_host:
            _prepare_device(primitive, args)
        return outs


def kernel_of(primitive: Primitive, avals: Sequence[ShapedArray]) -> Kernel | None:
    """How a plain primitive is computed. None: it hasn't exactly one output, or doesn't say what type that has."""
    try:
        types = result_types(primitive, avals)
    except MissingRuleError:
        return None
    if len(types) != 1:
        return None
    if primitive.built_in:
        function = narrow.host_function(primitive, avals, types[0])
    else:
        function = contracts.host_function(primitive, avals, types)
    return Kernel(function, types[0], fresh=isinstance(function, np.ufunc))


def several_of(primitive: Primitive, avals: Sequence[ShapedArray]) -> Callable[..., list[HostArray]] | None:
    """How a plain primitive with several outputs is computed, or with none; None: it doesn't say what types these have.
    Also None if the primitive is a user's, as what that returns is checked."""
    try:
        types = result_types(primitive, avals)
    except MissingRuleError:
        return None
    dtypes = [out.dtype for out in types]
    if not primitive.built_in:
        return None
    if isinstance(primitive, primitives.matrices.OfMatrices) and primitive.is_one(avals[0].ndim, types):
        of_one = primitive.of_one
        return lambda *args: [np.array(out, dtype, order="C") for out, dtype in zip(of_one(*args), dtypes, strict=True)]
    evaluate = primitive.evaluate

    def compute(*args: HostArray) -> list[HostArray]:
        outs = evaluate(*narrow.widened(primitive, args))
        return [np.asarray(out, dtype) for out, dtype in zip(outs, dtypes, strict=True)]

    return compute


def prepare(primitive: Primitive, avals: Sequence[ShapedArray]) -> Kernel | None:
    """Prepares a plain primitive for operands of these types on the host."""
    kernel = kernel_of(primitive, avals)
    if kernel is not None:
        key = (id(primitive), *map(id, avals))
        TABLE.put(key, evolve(TABLE.met(key, (primitive, *avals)), host=kernel))
    return kernel


def _prepare_several(primitive: Primitive, avals: Sequence[ShapedArray]) -> None:
    """The same for one with several outputs."""
    function = several_of(primitive, avals)
    if function is not None and len(types := result_types(primitive, avals)) > 1:
        key = (_SEVERAL, id(primitive), *map(id, avals))
        runner = KernelOfSeveral(function, types)
        TABLE.put(key, evolve(TABLE.met(key, (primitive, *avals)), host=runner))


def prepare_and_compute(
    primitive: Primitive, args: Sequence[ConcreteValue], host: Sequence[HostArray]
) -> ConcreteValue | None:
    """Prepares it for operands like these on the host, and computes the result; None if it isn't for them."""
    runner = prepare(primitive, [arg.aval for arg in args])
    if runner is None:
        return None
    try:
        return ConcreteValue(runner.compute(host), runner.aval)
    except Exception:
        TABLE.entries.pop((id(primitive), *[id(arg.aval) for arg in args]), None)  # or it would fail otherwise
        refuse_misfits(primitive)
        raise


def _prepare_device(primitive: Primitive, args: Sequence[ConcreteValue], no_host: bool = False) -> None:
    """The same on the device where the operands are; `no_host`: those of the host go there, too."""
    avals = tuple([arg.aval for arg in args])
    program = single_equation(primitive, avals)
    executable = backend.execute.executable(program, args, primitive.name)
    launch = launch_of(executable, (), program.out_avals, primitive.name)
    if launch is not None:
        key: Key = (id(primitive), *map(id, avals))
        if len(program.out_avals) > 1:
            key = (_SEVERAL, *key)
        TABLE.put(key, evolve(TABLE.met(key, (primitive, *avals)), device=launch, no_host=no_host))


def _prepare_nearby(primitive: Primitive, args: Sequence[ConcreteValue]) -> ConcreteValue | None:
    """Prepares it for small operands on a CPU device, and computes the result; None if it isn't for them."""
    avals = [arg.aval for arg in args]
    if not nearby.is_quick((primitive,), avals):
        return None
    kernel = kernel_of(primitive, avals)
    if kernel is None or not nearby.is_quick((), (kernel.aval,)):
        return None
    arrays = nearby.compute(kernel, [StoredArray(arg) for arg in args], StoredArray)
    if arrays is None:
        return None
    key = (id(primitive), *map(id, avals))
    TABLE.put(key, evolve(TABLE.met(key, (primitive, *avals)), near=kernel))
    return arrays[0].value
