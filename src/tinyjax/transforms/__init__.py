"""Transformations of programs: pure functions from jaxprs to jaxprs, or to frozen records of jaxprs."""

from tinyjax.transforms.batch import BatchedProgram, batch
from tinyjax.transforms.dce import dce
from tinyjax.transforms.jvp import JvpProgram, jvp
from tinyjax.transforms.linearize import Linearization, linearize
from tinyjax.transforms.partial_eval import PartialEvaluation, Residual, partial_eval
from tinyjax.transforms.transpose import TransposedProgram, transpose

__all__ = [
    "BatchedProgram",
    "JvpProgram",
    "Linearization",
    "PartialEvaluation",
    "Residual",
    "TransposedProgram",
    "batch",
    "dce",
    "jvp",
    "linearize",
    "partial_eval",
    "transpose",
]
