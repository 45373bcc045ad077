"""Interpreters of programs: how to write one, and five examples."""

from tinyjax.interpreters import control, inverse_rules, jet_rules, sparsity_rules
from tinyjax.interpreters.base import CONTROL, Form, RuleContext, Rules, Transformed, rule_table
from tinyjax.interpreters.harvest import harvest, plant
from tinyjax.interpreters.hidden import Hidden
from tinyjax.interpreters.inverse import inverse
from tinyjax.interpreters.jet import jet
from tinyjax.interpreters.sparse_jacobian import SparseJacobian, color_columns, sparse_jacobian
from tinyjax.interpreters.sparsity import jacobian_sparsity

__all__ = [
    "CONTROL",
    "Form",
    "Hidden",
    "RuleContext",
    "Rules",
    "SparseJacobian",
    "Transformed",
    "color_columns",
    "control",
    "harvest",
    "inverse",
    "inverse_rules",
    "jacobian_sparsity",
    "jet",
    "jet_rules",
    "plant",
    "rule_table",
    "sparse_jacobian",
    "sparsity_rules",
]
