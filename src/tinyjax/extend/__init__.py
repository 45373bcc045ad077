"""What a package that adds primitives of its own needs, in one place: see docs/primitives.md.

The library's own primitives, for tables and rules, are in `tinyjax.extend.primitives`, lowering tables in
`tinyjax.hlo`.
"""

from tinyjax.api.partial_evaluation import PartlyEvaluated as PartlyEvaluated
from tinyjax.api.partial_evaluation import partial_eval as partial_eval
from tinyjax.control.composite import Composite as Composite
from tinyjax.exports import publish
from tinyjax.extend.array_rules import ArrayPrimitive as ArrayPrimitive
from tinyjax.extend.array_rules import Results as Results
from tinyjax.extend.array_rules import run_in as run_in
from tinyjax.ir.context import Context as Context
from tinyjax.ir.effects import Effect as Effect
from tinyjax.ir.effects import Effects as Effects
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
from tinyjax.ir.roles import Evaluator as Evaluator
from tinyjax.ir.rules import RuleTable as RuleTable
from tinyjax.ir.text.registry import Registry as Registry
from tinyjax.primitives.structure import instantiate as instantiate
from tinyjax.registered.jax_expansions import STANDARD as STANDARD
from tinyjax.tracing.concrete import as_array as as_array
from tinyjax.tracing.core import bind as bind

publish(__name__)
