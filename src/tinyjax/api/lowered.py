"""What a function is on its way to being run: StableHLO text, then a compiled program."""

from __future__ import annotations

from collections.abc import Sequence
from typing import TYPE_CHECKING, Any, Final, Literal, final

from typing_extensions import override

from tinyjax import backend
from tinyjax.api.devices import default_backend
from tinyjax.api.make_jaxpr import closed_values
from tinyjax.errors import InputError
from tinyjax.hlo.lowering import lower
from tinyjax.ir.dtypes import FLOAT0
from tinyjax.ir.naming import named_types
from tinyjax.ir.printing.shown import text_html
from tinyjax.ir.program import ClosedJaxpr
from tinyjax.ir.type_lists import all_match, listed
from tinyjax.meshes import Sharding
from tinyjax.tracebacks import filter_class
from tinyjax.tracing import tree
from tinyjax.tracing.concrete import ConcreteArray
from tinyjax.tracing.functions import flatten_arguments
from tinyjax.tracing.programs import Traced

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
    ) -> None:
        self.closed_jaxpr: Final = ClosedJaxpr(traced.jaxpr, closed_values(traced, "jit"))
        self.in_tree: Final = in_tree
        self.out_tree: Final = traced.treedef
        self._traced = traced
        self._name = name
        self._donated = donated
        self._asked = asked
        self._platform = platform
        self._lie = lie or [None] * len(traced.jaxpr.invars)

    @property
    def layout(self) -> backend.Layout | None:
        """How its inputs, what it closes over before them, and its results lie on a mesh; None without one."""
        return backend.lay_out(self._traced.jaxpr, self._lie, self._asked, self._name)

    def as_text(self, dialect: Literal["stablehlo", "hlo"] | None = None, *, generic: bool = False) -> str:
        """The StableHLO module. Constants are spelled out.

        `dialect`: "hlo" for what XLA makes of it, before it optimises. `generic`: in MLIR's generic form, which tools
        read that don't know how StableHLO is printed.

        >>> from tinyjax import jit
        >>> "stablehlo.multiply %0, %arg0" in jit(lambda x: 2.0 * x).lower(1.0).as_text()
        True
        >>> '"stablehlo.multiply"(' in jit(lambda x: 2.0 * x).lower(1.0).as_text(generic=True)
        True
        """
        captured = len(self.closed_jaxpr.consts)
        layout = self.layout
        text = lower(
            self.closed_jaxpr,
            platform=self._platform or "cpu",
            name=self._name,
            donated=self._donated[captured:],
            in_shardings=() if layout is None else layout.ins[captured:],
            out_shardings=() if layout is None else layout.outs,
        )
        if dialect == "hlo":
            return backend.hlo_text(text)
        if dialect not in (None, "stablehlo"):
            raise InputError(f"as_text: the dialect is 'stablehlo' or 'hlo', got {dialect!r}")
        return backend.generic_text(text) if generic else text

    @override
    def __repr__(self) -> str:
        return f"<lowered {self._name}({named_types(self.closed_jaxpr.input_names, self.closed_jaxpr.in_avals)})>"

    def _repr_html_(self) -> str:
        return text_html(repr(self), self.as_text())

    def compile(self) -> Compiled:
        """The compiled program; an InputError if it was lowered for another platform than the default one."""
        if self._platform is not None and _family(self._platform) != _family(default_backend()):
            raise InputError(
                f"{self._name} was lowered for {self._platform}, and is compiled for {default_backend()} here"
            )
        donated = self._donated if any(self._donated) else ()
        program = backend.compile_program(self._traced.jaxpr, self._name, donated, self._asked, self._lie)
        return Compiled(program, self._traced, self.closed_jaxpr, self.in_tree, self._name)


def _family(platform: str) -> str:
    """A platform by one name: those of GPUs have several."""
    return "gpu" if platform in ("cuda", "rocm") else platform


@final
@filter_class
class Compiled:
    """A compiled function, for arguments of one signature."""

    def __init__(
        self, program: backend.Compiled, traced: Traced, closed: ClosedJaxpr, in_tree: PyTreeDef, name: str
    ) -> None:
        self._program = program
        self._traced = traced
        self._closed = closed
        self.in_tree: Final = in_tree
        self.out_tree: Final = traced.treedef
        self._name = name

    def __call__(self, /, *args: Any, **kwargs: Any) -> Any:  # the function's own arguments, without the static ones
        arrays, treedef = flatten_arguments(self, args, kwargs)
        tree.check_same_structure(self._name, self.in_tree, treedef, "the compiled arguments", "the arguments")
        arrays = [array for array in arrays if array.aval.dtype != FLOAT0]
        values = [array.value for array in arrays if isinstance(array, ConcreteArray)]
        found = tuple(array.aval for array in arrays)
        if len(values) < len(arrays) or not all_match(found, self._closed.in_avals):
            expected = named_types(self._closed.input_names, self._closed.in_avals)
            raise InputError(
                f"{self._name} was compiled for ({expected}), got {listed(found)}"
                + (
                    ""
                    if len(values) == len(arrays)
                    else "; a compiled function can't be transformed, call jit's instead"
                )
            )
        return self._traced.results(list(map(ConcreteArray, self._program([*self._closed.consts, *values]))))

    @override
    def __repr__(self) -> str:
        return f"<compiled {self._name}({named_types(self._closed.input_names, self._closed.in_avals)})>"

    def _repr_html_(self) -> str:
        return text_html(repr(self), self.as_text())

    @property
    def input_shardings(self) -> Any:  # the user's trees
        """How the arguments lie: `(args, kwargs)` with a sharding for each array."""
        return tree.unflatten(self.in_tree, self._program.in_shardings[len(self._closed.consts) :])

    @property
    def output_shardings(self) -> Any:  # the user's tree
        """How the results lie: their tree, with a sharding for each array."""
        return tree.unflatten(self.out_tree, self._program.out_shardings)

    def as_text(self) -> str:
        """The optimised HLO."""
        return self._program.as_text()

    def cost_analysis(self) -> dict[str, float]:
        """XLA's own estimates: FLOPs, bytes accessed, and others."""
        return self._program.cost_analysis()

    def memory_analysis(self) -> backend.MemoryStats:
        """XLA's own account of the memory that a run takes."""
        return self._program.memory_analysis()
