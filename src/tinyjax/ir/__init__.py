"""The IR: programs as immutable values, what primitives and contexts are, and the loop that interprets programs.

>>> x = Var(0, ShapedArray((3,), "float32"))
>>> identity = Jaxpr(invars=(x,), eqns=(), outvars=(x,))
>>> identity
{ lambda ; a:f32[3]. let  in (a,) }
>>> print(typecheck(identity))
(f32[3]) -> (f32[3])
"""

from tinyjax.errors import ParseError
from tinyjax.ir.aval import ShapedArray
from tinyjax.ir.context import Context
from tinyjax.ir.dtypes import DType, HostArray, Scalar
from tinyjax.ir.effects import NO_EFFECTS, Effect, Effects, NamedAxisEffect
from tinyjax.ir.files.content import content_hash
from tinyjax.ir.files.program_files import load, save
from tinyjax.ir.holding import AnyProgram, HoldsProgram
from tinyjax.ir.interpret import interpret
from tinyjax.ir.parameters import Opaque
from tinyjax.ir.primitive import BatchAxis, Outputs, Primitive, Split, UndefPrimal, Zero
from tinyjax.ir.printing.printer import format_closed, format_eqn, variable_names
from tinyjax.ir.program import Atom, ClosedJaxpr, Eqn, Jaxpr, Literal, Var
from tinyjax.ir.program_type import JaxprType
from tinyjax.ir.roles import Evaluator, Foreign
from tinyjax.ir.rules import RuleTable
from tinyjax.ir.shapes import Shape
from tinyjax.ir.source import SourceCursor, SourceInfo
from tinyjax.ir.text.parser import parse, parse_closed
from tinyjax.ir.text.registry import STANDARD, Reader, Record, Registry
from tinyjax.ir.traverse import nested_programs, subjaxprs
from tinyjax.ir.typecheck import typecheck
from tinyjax.ir.value import Buffer, ConcreteValue
from tinyjax.tracebacks import filter_package

__all__ = [
    "NO_EFFECTS",
    "STANDARD",
    "AnyProgram",
    "Atom",
    "BatchAxis",
    "Buffer",
    "ClosedJaxpr",
    "ConcreteValue",
    "Context",
    "DType",
    "Effect",
    "Effects",
    "Eqn",
    "Evaluator",
    "Foreign",
    "HoldsProgram",
    "HostArray",
    "Jaxpr",
    "JaxprType",
    "Literal",
    "NamedAxisEffect",
    "Opaque",
    "Outputs",
    "ParseError",
    "Primitive",
    "Reader",
    "Record",
    "Registry",
    "RuleTable",
    "Scalar",
    "Shape",
    "ShapedArray",
    "SourceCursor",
    "SourceInfo",
    "Split",
    "UndefPrimal",
    "Var",
    "Zero",
    "content_hash",
    "format_closed",
    "format_eqn",
    "interpret",
    "load",
    "nested_programs",
    "parse",
    "parse_closed",
    "save",
    "subjaxprs",
    "typecheck",
    "variable_names",
]


def __dir__() -> list[str]:
    """The public names."""
    return sorted(__all__)


# The others are called for every equation.
filter_package(__name__, ("content_hash", "interpret", "load", "parse", "parse_closed", "save", "typecheck"))
