"""What a function is on its way to being run: StableHLO text, then a compiled program."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import TYPE_CHECKING, Any, Final, Literal, final

from attrs import evolve
from typing_extensions import override

from tinyjax import backend
from tinyjax.api.adapting import adapted
from tinyjax.api.compiler_options import with_options
from tinyjax.api.devices import default_backend
from tinyjax.api.jit_intake import INTAKE
from tinyjax.api.jit_reroll import border_of, donated_in_stacks, on_cpu
from tinyjax.api.make_jaxpr import closed_values
from tinyjax.api.signature_info import Signature, lying_inputs
from tinyjax.backend import DeviceLike
from tinyjax.errors import InputError, ShardingError
from tinyjax.hlo.locations import with_lines
from tinyjax.hlo.lowering import lower_module
from tinyjax.ir.aval import ShapedArray
from tinyjax.ir.dtypes import FLOAT0
from tinyjax.ir.naming import named_types
from tinyjax.ir.printing.shown import text_html
from tinyjax.ir.program import ClosedJaxpr, Jaxpr
from tinyjax.ir.type_lists import all_match, listed
from tinyjax.ir.value import ConcreteValue
from tinyjax.meshes import NamedSharding, Sharding
from tinyjax.prepared.jitted import JittedCalls
from tinyjax.prepared.runners import alone
from tinyjax.prepared.stacked import free, operands_in_stacks, results_of_stacks
from tinyjax.prepared.straight import MISS
from tinyjax.refs.staged import StagedRefs
from tinyjax.tracebacks import filter_class
from tinyjax.tracing import tree
from tinyjax.tracing.array import Array
from tinyjax.tracing.concrete import ConcreteArray
from tinyjax.tracing.functions import argument_path, as_arrays
from tinyjax.tracing.programs import Traced
from tinyjax.transforms.border import Bordered

if TYPE_CHECKING:
    from jax.tree_util import PyTreeDef


@final
@filter_class
class Lowered:
    """A function in StableHLO, for arguments of one signature."""

    def __init__(
        self,
        traced: Traced,
        name: str,
        donated: tuple[bool, ...],
        in_tree: PyTreeDef,
        asked: backend.Asked | None = None,
        lie: Sequence[Sharding | None] = (),
        platform: str | None = None,
        largest: int | None = backend.EMBEDDED_BYTES,
        without: Sequence[tuple[int, ShapedArray]] = (),
        rolled: bool = False,
        refs: StagedRefs | None = None,
    ) -> None:
        self.closed_jaxpr: Final = ClosedJaxpr(traced.jaxpr, closed_values(traced, "jit"))
        self.in_tree: Final = in_tree
        self.out_tree: Final = traced.treedef
        self._traced = traced
        self._name = name
        self._asked = asked
        # What is compiled: of a program with loops of layers, the one that takes and returns stacks.
        self._where, self._lie = backend.told_where(traced.jaxpr, lie or [None] * len(traced.jaxpr.invars), asked, name)
        here = self._where is None or self._where == backend.default_place()
        stacked = rolled and here and not any(self._lie) and on_cpu(platform)
        self._border: Bordered | None = border_of(traced, asked) if stacked else None
        self._program: Jaxpr = traced.jaxpr
        self._donated: tuple[bool, ...] = donated
        self._stacks: tuple[int, ...] = ()
        self._options: backend.Options = ()
        if self._border is not None:
            stacks = donated_in_stacks(self._border, donated, len(self.closed_jaxpr.consts))
            self._border, self._program = stacks.border, stacks.border.program
            self._donated, self._stacks, self._options = stacks.told, stacks.freed, stacks.options
        self._platform = platform
        if any(self._donated):
            layout = self.layout if self._border is None else None
            self._donated = backend.usable_or_warn(self._program, self._donated, name, layout)
        self._constants = backend.embedded(self.closed_jaxpr.consts, largest)
        erased = [(i, array.aval) for i, array in sorted(traced.erased.items())]
        self._refs = refs
        ins, outs = self.closed_jaxpr.in_avals, self.closed_jaxpr.out_avals
        given = donated[len(donated) - len(ins) :] if donated else (False,) * len(ins)
        lying = lying_inputs(len(ins), self._lie, asked)
        if refs is not None:
            (ins, outs), (given, _), (lying, _) = refs.own(ins, outs), refs.own(given, ()), refs.own(lying, ())
        self._signature = Signature(in_tree, traced.treedef, ins, outs, given, without, erased, lying)

    @property
    def _own_platform(self) -> str:
        """The platform of the arguments, or of the default device."""
        return default_backend() if self._where is None else self._where.platform

    @property
    def layout(self) -> backend.Layout | None:
        """How its inputs, what it closes over before them, and its results lie on a mesh; None without one."""
        return backend.lay_out(self._traced.jaxpr, self._lie, self._asked, self._name)

    def as_text(
        self,
        dialect: Literal["stablehlo", "hlo"] | None = None,
        *,
        debug_info: bool = False,
        generic: bool = False,
    ) -> str:
        """The StableHLO module that is compiled. Arrays that the function closes over are constants, as `jit` says, or
        its first arguments. With loops of layers (`reroll`) on a CPU, its arguments and results are stacks.

        `dialect`: "hlo" for what XLA makes of it, before it optimises. `generic`: in MLIR's generic form, which tools
        read that don't know how StableHLO is printed. `debug_info`: operations say which of the user's lines they
        are from.

        >>> from tinyjax import jit
        >>> ":1:0))" in jit(lambda x: 2.0 * x).lower(1.0).as_text(debug_info=True)
        True
        >>> '"stablehlo.multiply"(' in jit(lambda x: 2.0 * x).lower(1.0).as_text(generic=True)
        True
        """
        layout, constants = self.layout, self._constants
        module = lower_module(
            self._program,
            platform=self._platform or self._own_platform,
            name=self._name,
            donated=backend.passed(constants, self._donated),
            in_shardings=() if layout is None else backend.passed(constants, layout.ins),
            out_shardings=() if layout is None else layout.outs,
            constants=constants,
            located=debug_info,
        )
        text = with_lines(module.text, module.places) if debug_info else module.text
        if dialect == "hlo":
            return backend.hlo_text(text, debug_info)
        if dialect not in (None, "stablehlo"):
            raise InputError(f"as_text: the dialect is 'stablehlo' or 'hlo', got {dialect!r}")
        return backend.generic_text(text, debug_info) if generic else text

    def compiler_ir(self, dialect: Literal["stablehlo", "hlo"] | None = None) -> object:
        """What `as_text` prints, as the compiler's own object, for tools that take one: a module of jaxlib's MLIR, or
        for "hlo" XLA's computation.

        >>> from tinyjax import jit
        >>> "stablehlo.multiply" in str(jit(lambda x: 2.0 * x).lower(1.0).compiler_ir())
        True
        """
        if dialect not in (None, "stablehlo", "hlo"):
            raise InputError(f"compiler_ir: the dialect is 'stablehlo' or 'hlo', got {dialect!r}")
        return backend.compiler_ir_of_text(self.as_text(), dialect or "stablehlo")

    @override
    def __repr__(self) -> str:
        return f"<lowered {self._name}({named_types(self.closed_jaxpr.input_names, self.closed_jaxpr.in_avals)})>"

    def _repr_html_(self) -> str:
        return text_html(repr(self), self.as_text())

    @property
    def args_info(self) -> Any:  # the user's trees
        """The trees of the arguments, `(args, kwargs)`: for each leaf its type, and whether it is donated.

        >>> from tinyjax import jit
        >>> jit(lambda x: 2.0 * x).lower(1.0).args_info
        ((ArgInfo(aval=ShapedArray(~f64[]), donated=False),), {})
        """
        return self._signature.args_info

    @property
    def in_avals(self) -> Any:  # the user's trees
        """The trees of the types of the arguments, as those of `Traced`."""
        return self._signature.in_avals

    @property
    def out_info(self) -> Any:  # the user's tree
        """The tree of the types of the results, which say how these lie where that is asked for."""
        outs: Sequence[Sharding | None] = self._asked.outs if self._asked is not None else ()
        if any(isinstance(each, NamedSharding) and each.mesh.explicit_axes for each in self._lie):
            return self._signature.out_types(self._traced.jaxpr, self._lie, outs)
        return self._signature.out_info(outs if self._refs is None or not outs else self._refs.own((), outs)[1])

    @property
    def donate_argnums(self) -> tuple[int, ...]:
        """Which leaves of the arguments are donated."""
        return self._signature.donate_argnums

    def cost_analysis(self) -> dict[str, float]:
        """XLA's estimates for the program as it is before XLA optimises it: FLOPs, bytes accessed, and others."""
        return backend.costs_of_text(self.as_text())

    def compile(
        self,
        compiler_options: Mapping[str, str | bool | int | float] | None = None,
        *,
        device_assignment: Sequence[DeviceLike] | None = None,
    ) -> Compiled:
        """The compiled program; an InputError if it was lowered for another platform than the default one.

        `compiler_options` are XLA's, by name, besides those that `jit` was given; an XlaError if there is none such.
        `device_assignment` are the devices to run on, if arguments and results lie on a mesh without any.
        """
        if self._platform is not None and _family(self._platform) != _family(self._own_platform):
            raise InputError(
                f"{self._name} was lowered for {self._platform}, and is compiled for {self._own_platform} here"
            )
        donated = self._donated if any(self._donated) else ()
        constants = self._constants
        asked = with_options("compile", self._asked, compiler_options)
        devices: tuple[backend.Device, ...] | None = None if self._where is None else (self._where,)
        if device_assignment is not None:
            chosen = tuple(map(backend.as_device, device_assignment))
            if devices not in (None, chosen):
                raise ShardingError(
                    f"compile: device_assignment is {', '.join(map(str, chosen))}, but {self._name!r} was lowered for "
                    f"what lies on {self._where}"
                )
            devices = chosen
        if devices is not None:
            asked = evolve(asked or backend.Asked(), devices=devices)
        lie = self._lie if self._border is None else ()
        program = backend.compile_program(self._program, self._name, donated, asked, lie, constants, self._options)
        captured = backend.passed(constants, self.closed_jaxpr.consts)
        more = self._border, self._stacks, self._refs
        anywhere = self._asked is not None and self._asked.device is not None
        return Compiled(
            program, self._traced, self.closed_jaxpr, captured, self._signature, self._name, anywhere, *more
        )


def _family(platform: str) -> str:
    """A platform by one name: those of GPUs have several."""
    return "gpu" if platform in ("cuda", "rocm") else platform


@final
@filter_class
class Compiled:
    """A compiled function, for arguments of one signature."""

    def __init__(
        self,
        program: backend.Compiled,
        traced: Traced,
        closed: ClosedJaxpr,
        captured: Sequence[ConcreteValue],
        signature: Signature,
        name: str,
        anywhere: bool,
        border: Bordered | None = None,
        stacks: tuple[int, ...] = (),
        refs: StagedRefs | None = None,
    ) -> None:
        self._program = program
        # How many of the program's inputs may lie anywhere: where nothing is said of a device, those closed over.
        self._moved = len(program.in_avals) if anywhere else len(captured)
        self._refs = refs
        self._stacks = stacks
        self._border = border
        self._traced = traced
        self._closed = closed
        self._captured = captured
        self._signature = signature
        self.in_tree: Final = signature.in_tree
        self.out_tree: Final = signature.out_tree
        self._name = name
        self._calls = JittedCalls(INTAKE)
        # Whether nothing but a launch is to be done.
        self._plain = border is None and not signature.donate_argnums and not traced.cells

    def __call__(self, /, *args: Any, **kwargs: Any) -> Any:  # the function's own arguments, without the static ones
        if (prepared := self._calls.run(args, kwargs, ())) is not MISS:
            return prepared
        leaves, treedef = tree.flatten((args, kwargs))
        tree.check_same_structure(self._name, self.in_tree, treedef, "the compiled arguments", "the arguments")
        if self._refs is None:
            arrays = self._arrays(leaves, treedef)
            results = self._traced.results(self._run(arrays))
            avals = tuple([array.aval for array in arrays])
            if self._plain and avals == self._closed.in_avals and len(avals) == len(leaves):
                launch = alone(self._program, self._captured, self._traced.jaxpr.out_avals)
                if launch is not None:
                    self._calls.keep(args, kwargs, (), treedef, avals, self._traced.assemble, launch)
            return results
        leaves, refs = self._refs.taken(self._name, self, leaves, treedef)
        arrays = self._arrays(leaves, treedef)
        outs = self._refs.run(self._traced.jaxpr, refs, lambda held: self._run([*arrays, *held]))
        return self._traced.results(outs)

    def _arrays(self, leaves: Sequence[object], treedef: PyTreeDef) -> list[Array]:
        arrays = as_arrays(leaves, lambda i: f"argument {argument_path(self, treedef, i)} of {self._name}")
        return [array for array in arrays if array.aval.dtype != FLOAT0]

    def _run(self, arrays: Sequence[Array]) -> Sequence[Array]:
        """The results of the program for its inputs, but for those that it was compiled with."""
        arrays = adapted(arrays, self._closed.in_avals)
        concrete = all(isinstance(array, ConcreteArray) for array in arrays)
        found = tuple(array.aval for array in arrays)
        if not concrete or not all_match(found, self._closed.in_avals):
            expected = named_types(self._closed.input_names, self._closed.in_avals)
            raise InputError(
                f"{self._name} was compiled for ({expected}), got {listed(found)}"
                + ("" if concrete else "; a compiled function can't be transformed, call jit's instead")
            )
        if self._border is not None:
            return self._by_stacks(self._border, arrays)
        values = [array.value for array in arrays if isinstance(array, ConcreteArray)]
        return list(map(ConcreteArray, self._program([*self._captured, *values], self._moved)))

    def _by_stacks(self, border: Bordered, arrays: Sequence[Array]) -> Sequence[Array]:
        """The results of a program that takes and returns stacks."""
        operands = [array for array in arrays if isinstance(array, ConcreteArray)]
        values = operands_in_stacks(border, len(self._closed.consts), operands)
        if values is None:
            raise InputError(
                f"{self._name} was compiled for one CPU device, with its arguments in stacks (jit's reroll), and these "
                "are elsewhere. Put them there by tinyjax.device_put, or call what jit returns."
            )
        outs = self._program([*self._captured, *values], self._moved)
        free(values, self._stacks)
        return results_of_stacks(border, outs, self._traced.jaxpr.out_avals, ConcreteArray)

    @override
    def __repr__(self) -> str:
        return f"<compiled {self._name}({named_types(self._closed.input_names, self._closed.in_avals)})>"

    def _repr_html_(self) -> str:
        return text_html(repr(self), self.as_text())

    @property
    def args_info(self) -> Any:  # the user's trees
        """The trees of the arguments, `(args, kwargs)`: for each leaf its type, and whether it is donated."""
        return self._signature.args_info

    @property
    def in_avals(self) -> Any:  # the user's trees
        """The trees of the types of the arguments, as those of `Traced`."""
        return self._signature.in_avals

    @property
    def out_info(self) -> Any:  # the user's tree
        """The tree of the types of the results, which say how these lie."""
        return self._signature.out_info(self._out_shardings)

    @property
    def donate_argnums(self) -> tuple[int, ...]:
        """Which leaves of the arguments are donated."""
        return self._signature.donate_argnums

    @property
    def input_shardings(self) -> Any:  # the user's trees
        """How the arguments lie: `(args, kwargs)` with a sharding for each array; None for leaves of dtype float0."""
        found: Sequence[Sharding | None] = self._program.in_shardings
        if self._border is not None:  # all on one device
            found = [found[0]] * (len(self._closed.in_avals) + len(self._captured))
        shardings: Sequence[Sharding | None] = found[len(self._captured) :]
        if self._refs is not None:
            shardings = self._refs.own(shardings, ())[0]
        return self._signature.arguments(shardings, lambda aval: None)

    @property
    def _out_shardings(self) -> Sequence[Sharding]:
        found: Sequence[Sharding] = self._program.out_shardings
        if self._border is not None:
            found = [found[number] for number, _ in self._border.results]
        return found if self._refs is None else self._refs.own((), found)[1]

    @property
    def output_shardings(self) -> Any:  # the user's tree
        """How the results lie: their tree, with a sharding for each array."""
        shardings: list[Sharding | None] = [*self._out_shardings]
        return self._signature.results(shardings, lambda aval: None)

    def as_text(self) -> str:
        """The optimised HLO."""
        return self._program.as_text()

    def runtime_executable(self) -> object:
        """What jaxlib runs: an object of its own, for its statistics and its devices.

        >>> from tinyjax import jit
        >>> jit(lambda x: 2.0 * x).lower(1.0).compile().runtime_executable() is None
        False
        """
        return self._program.runtime_executable()

    def cost_analysis(self) -> dict[str, float]:
        """XLA's own estimates: FLOPs, bytes accessed, and others."""
        return self._program.cost_analysis()

    def memory_analysis(self) -> backend.MemoryStats:
        """XLA's own account of the memory that a run takes."""
        return self._program.memory_analysis()
