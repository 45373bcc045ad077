"""Transformations of programs: pure functions from jaxprs to jaxprs, or to frozen records of jaxprs."""

from tinyjax.exports import publish
from tinyjax.transforms.batch import BatchedProgram as BatchedProgram
from tinyjax.transforms.batch import batch as batch
from tinyjax.transforms.checkify import CHECKING as CHECKING
from tinyjax.transforms.checkify import Checked as Checked
from tinyjax.transforms.checkify import checkify as checkify
from tinyjax.transforms.cse import COMMUTATIVE as COMMUTATIVE
from tinyjax.transforms.cse import MERGING as MERGING
from tinyjax.transforms.cse import cse as cse
from tinyjax.transforms.dce import (
    PRUNING as PRUNING,
)
from tinyjax.transforms.dce import (
    PrunedPrimitive as PrunedPrimitive,
)
from tinyjax.transforms.dce import (
    PrunedProgram as PrunedProgram,
)
from tinyjax.transforms.dce import (
    dce as dce,
)
from tinyjax.transforms.dce import (
    prune as prune,
)
from tinyjax.transforms.decided import SHORTCUTS as SHORTCUTS
from tinyjax.transforms.fold_constants import FOLDING as FOLDING
from tinyjax.transforms.fold_constants import fold_constants as fold_constants
from tinyjax.transforms.hoist_constants import (
    HOISTING as HOISTING,
)
from tinyjax.transforms.hoist_constants import (
    Before as Before,
)
from tinyjax.transforms.hoist_constants import (
    Hoisted as Hoisted,
)
from tinyjax.transforms.hoist_constants import (
    hoist_constants as hoist_constants,
)
from tinyjax.transforms.inline import (
    INLINING as INLINING,
)
from tinyjax.transforms.inline import (
    Inlinable as Inlinable,
)
from tinyjax.transforms.inline import (
    inline as inline,
)
from tinyjax.transforms.inline import (
    once_or_small as once_or_small,
)
from tinyjax.transforms.jvp import JvpProgram as JvpProgram
from tinyjax.transforms.jvp import jvp as jvp
from tinyjax.transforms.linearity import LINEARITY as LINEARITY
from tinyjax.transforms.linearity import Kind as Kind
from tinyjax.transforms.linearity import Nonlinear as Nonlinear
from tinyjax.transforms.linearize import Linearization as Linearization
from tinyjax.transforms.linearize import linearize as linearize
from tinyjax.transforms.near_repeats import Stopped as Stopped
from tinyjax.transforms.partial_eval import PartialEvaluation as PartialEvaluation
from tinyjax.transforms.partial_eval import partial_eval as partial_eval
from tinyjax.transforms.patterns import (
    AnyLiteral as AnyLiteral,
)
from tinyjax.transforms.patterns import (
    Apply as Apply,
)
from tinyjax.transforms.patterns import (
    Match as Match,
)
from tinyjax.transforms.patterns import (
    Number as Number,
)
from tinyjax.transforms.patterns import (
    Several as Several,
)
from tinyjax.transforms.patterns import (
    Variable as Variable,
)
from tinyjax.transforms.patterns import (
    pattern as pattern,
)
from tinyjax.transforms.patterns import (
    variables as variables,
)
from tinyjax.transforms.pipeline import (
    OPTIMIZATION as OPTIMIZATION,
)
from tinyjax.transforms.pipeline import (
    Pass as Pass,
)
from tinyjax.transforms.pipeline import (
    PassReport as PassReport,
)
from tinyjax.transforms.pipeline import (
    Pipeline as Pipeline,
)
from tinyjax.transforms.pipeline import (
    count_primitives as count_primitives,
)
from tinyjax.transforms.pipeline import (
    optimize as optimize,
)
from tinyjax.transforms.reroll import Repeat as Repeat
from tinyjax.transforms.reroll import Repeats as Repeats
from tinyjax.transforms.reroll import repeats as repeats
from tinyjax.transforms.reroll import reroll as reroll
from tinyjax.transforms.residuals import Residual as Residual
from tinyjax.transforms.rewrite import Rewrite as Rewrite
from tinyjax.transforms.rewrite import rewrite as rewrite
from tinyjax.transforms.rolling import LOOPING as LOOPING
from tinyjax.transforms.simplify import simplify as simplify
from tinyjax.transforms.simplify_arrays import ARRAY_RULES as ARRAY_RULES
from tinyjax.transforms.simplify_numbers import EXACT_RULES as EXACT_RULES
from tinyjax.transforms.simplify_numbers import FAST_RULES as FAST_RULES
from tinyjax.transforms.transpose import TransposedProgram as TransposedProgram
from tinyjax.transforms.transpose import transpose as transpose
from tinyjax.transforms.unroll import UNROLLING as UNROLLING
from tinyjax.transforms.unroll import unroll as unroll

publish(__name__)
