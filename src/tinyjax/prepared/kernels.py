"""Kernels: how plain primitives are computed on the host, found once for a primitive and the types of its operands."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from typing import Final, final

import numpy as np
from attrs import frozen

from tinyjax.caching import IdentityCache, register
from tinyjax.errors import MissingRuleError
from tinyjax.ir import contracts
from tinyjax.ir.aval import ShapedArray
from tinyjax.ir.dtypes import DType, HostArray
from tinyjax.ir.primitive import Primitive
from tinyjax.ir.program import Atom, Jaxpr, Literal
from tinyjax.ir.result_types import result_types
from tinyjax.ir.value import ConcreteValue, owned, set_writeable
from tinyjax.primitives.numpy_values import QUIET


@final
@frozen
class Kernel:
    """How the output of a primitive is computed on the host from operands of certain types."""

    function: Callable[..., HostArray | np.generic]
    aval: ShapedArray
    dtype: DType
    #: Whether results never share memory with operands.
    fresh: bool


#: Kernels by primitive and types of operands. What is found here has been checked: nothing has to be promoted or
#: broadcast, whatever the operation that asks.
KERNELS: Final[IdentityCache[Kernel]] = IdentityCache(8192, "prepared.kernels")
register(KERNELS)


def kernel_of(primitive: Primitive, avals: Sequence[ShapedArray]) -> Kernel | None:
    """None: the primitive hasn't exactly one output, or doesn't say of what type."""
    try:
        types = result_types(primitive, avals)
    except MissingRuleError:
        return None
    if len(types) != 1:
        return None
    if primitive.built_in:
        function = primitive.host_function(*avals)
    else:
        function = contracts.host_function(primitive, avals, types)
    kernel = Kernel(function, types[0], types[0].dtype, fresh=isinstance(function, np.ufunc))
    return KERNELS.keep((primitive, *avals), kernel)


def run_kernel(kernel: Kernel, host: Sequence[HostArray]) -> HostArray:
    """The elements of the output, which nobody can write to."""
    result = _quiet().run(kernel.function, *host)
    fresh = kernel.fresh or isinstance(result, np.generic)
    if type(result) is not np.ndarray or result.dtype is not kernel.dtype:
        result = np.asarray(result, kernel.dtype)
    if not fresh:
        return owned(result, host)
    set_writeable(result, False)
    return result


_quiet: Final = QUIET.copy


def by_kernel(primitive: Primitive, args: Sequence[ConcreteValue]) -> ConcreteValue | None:
    """The output of a plain primitive; None if it has several, or an argument isn't on the host."""
    key = [id(primitive)]
    host = []
    for arg in args:
        data = arg.data
        if type(data) is not np.ndarray:
            return None
        key.append(id(arg.aval))
        host.append(data)
    found = KERNELS.entries.get(tuple(key))
    kernel = found[1] if found is not None else kernel_of(primitive, [arg.aval for arg in args])
    return None if kernel is None else ConcreteValue(run_kernel(kernel, host), kernel.aval)


# Programs.

#: A kernel, and where its operands are.
_Step = tuple[Callable[..., HostArray | np.generic], DType, tuple[int, ...]]


@final
@frozen(eq=False)
class HostProgram:
    """A program of plain primitives only, as a list of kernels: what computing it on the host takes, and no more.

    Values are counted from the constants (literals, and arrays that feed the first inputs), then the other inputs, then
    the results of the steps.
    """

    constants: tuple[HostArray, ...]
    steps: tuple[_Step, ...]
    outs: tuple[int, ...]
    out_avals: tuple[ShapedArray, ...]

    @staticmethod
    def of(jaxpr: Jaxpr, captured: Sequence[HostArray]) -> HostProgram | None:
        """None if something in the program isn't plain."""
        literals: list[HostArray] = []
        kernels: list[tuple[Kernel, tuple[int, ...]]] = []

        def place(atom: Atom) -> int:
            if not isinstance(atom, Literal):
                return atom.index
            literals.append(np.asarray(atom.value, atom.aval.dtype))
            return -len(literals)

        for eqn in jaxpr.eqns:
            kernel = kernel_of(eqn.primitive, [atom.aval for atom in eqn.invars]) if eqn.primitive.plain else None
            if kernel is None:
                return None
            kernels.append((kernel, tuple(map(place, eqn.invars))))
        outs = tuple(map(place, jaxpr.outvars))
        n = len(literals)  # which come first, the last one first
        steps = [(kernel.function, kernel.dtype, tuple([n + at for at in places])) for kernel, places in kernels]
        constants = (*reversed(literals), *captured)
        return HostProgram(constants, tuple(steps), tuple([n + at for at in outs]), jaxpr.out_avals)

    def run(self, args: Sequence[HostArray]) -> list[HostArray]:
        """The results, which nobody can write to."""
        values = [*self.constants, *args]
        _quiet().run(_run_steps, self.steps, values)
        return [owned(values[at], args) for at in self.outs]


def _run_steps(steps: Sequence[_Step], values: list[HostArray]) -> None:
    for function, dtype, places in steps:
        result = function(*[values[at] for at in places])
        if type(result) is not np.ndarray or result.dtype is not dtype:
            result = np.asarray(result, dtype)
        values.append(result)
