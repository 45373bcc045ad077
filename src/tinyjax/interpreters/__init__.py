"""Interpreters of programs: how to write one, and five examples."""

from tinyjax.interpreters import control, inverse_rules, jet_rules
from tinyjax.interpreters.base import CONTROL, Form, RuleContext, Rules, Transformed, rule_table
from tinyjax.interpreters.harvest import harvest, plant
from tinyjax.interpreters.hidden import Hidden
from tinyjax.interpreters.inverse import inverse
from tinyjax.interpreters.jet import jet

__all__ = [
    "CONTROL",
    "Form",
    "Hidden",
    "RuleContext",
    "Rules",
    "Transformed",
    "control",
    "harvest",
    "inverse",
    "inverse_rules",
    "jet",
    "jet_rules",
    "plant",
    "rule_table",
]
