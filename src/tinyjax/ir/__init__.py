"""The IR: programs as immutable values, what primitives and contexts are, and the loop that interprets programs.

>>> x = Var(0, ShapedArray((3,), "float32"))
>>> identity = Jaxpr(invars=(x,), eqns=(), outvars=(x,))
>>> identity
{ lambda ; a:f32[3]. let  in (a,) }
>>> print(typecheck(identity))
(f32[3]) -> (f32[3])
"""

from tinyjax.errors import ParseError as ParseError
from tinyjax.exports import publish
from tinyjax.ir.aval import ShapedArray as ShapedArray
from tinyjax.ir.context import Context as Context
from tinyjax.ir.dtypes import DType as DType
from tinyjax.ir.dtypes import HostArray as HostArray
from tinyjax.ir.dtypes import Scalar as Scalar
from tinyjax.ir.effects import (
    NO_EFFECTS as NO_EFFECTS,
)
from tinyjax.ir.effects import (
    Effect as Effect,
)
from tinyjax.ir.effects import (
    Effects as Effects,
)
from tinyjax.ir.effects import (
    NamedAxisEffect as NamedAxisEffect,
)
from tinyjax.ir.files.content import content_hash as content_hash
from tinyjax.ir.files.program_files import load as load
from tinyjax.ir.files.program_files import save as save
from tinyjax.ir.holding import AnyProgram as AnyProgram
from tinyjax.ir.holding import HoldsProgram as HoldsProgram
from tinyjax.ir.interpret import interpret as interpret
from tinyjax.ir.parameters import Opaque as Opaque
from tinyjax.ir.primitive import (
    BatchAxis as BatchAxis,
)
from tinyjax.ir.primitive import (
    Outputs as Outputs,
)
from tinyjax.ir.primitive import (
    Primitive as Primitive,
)
from tinyjax.ir.primitive import (
    Split as Split,
)
from tinyjax.ir.primitive import (
    UndefPrimal as UndefPrimal,
)
from tinyjax.ir.primitive import (
    Zero as Zero,
)
from tinyjax.ir.printing.printer import (
    format_closed as format_closed,
)
from tinyjax.ir.printing.printer import (
    format_eqn as format_eqn,
)
from tinyjax.ir.printing.printer import (
    variable_names as variable_names,
)
from tinyjax.ir.program import (
    Atom as Atom,
)
from tinyjax.ir.program import (
    ClosedJaxpr as ClosedJaxpr,
)
from tinyjax.ir.program import (
    Eqn as Eqn,
)
from tinyjax.ir.program import (
    Jaxpr as Jaxpr,
)
from tinyjax.ir.program import (
    Literal as Literal,
)
from tinyjax.ir.program import (
    Var as Var,
)
from tinyjax.ir.program_type import JaxprType as JaxprType
from tinyjax.ir.roles import Evaluator as Evaluator
from tinyjax.ir.roles import Foreign as Foreign
from tinyjax.ir.rules import RuleTable as RuleTable
from tinyjax.ir.shapes import Shape as Shape
from tinyjax.ir.source import SourceCursor as SourceCursor
from tinyjax.ir.source import SourceInfo as SourceInfo
from tinyjax.ir.text.parser import parse as parse
from tinyjax.ir.text.parser import parse_closed as parse_closed
from tinyjax.ir.text.registry import STANDARD as STANDARD
from tinyjax.ir.text.registry import Reader as Reader
from tinyjax.ir.text.registry import Record as Record
from tinyjax.ir.text.registry import Registry as Registry
from tinyjax.ir.traverse import nested_programs as nested_programs
from tinyjax.ir.traverse import subjaxprs as subjaxprs
from tinyjax.ir.typecheck import typecheck as typecheck
from tinyjax.ir.value import Buffer as Buffer
from tinyjax.ir.value import ConcreteValue as ConcreteValue

# The others are called for every equation.
publish(__name__, entries=("content_hash", "interpret", "load", "parse", "parse_closed", "save", "typecheck"))
