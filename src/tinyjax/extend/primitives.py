"""The library's primitives, to be used as keys of tables of rules, and the functions that rules apply them with.

A class is the key of a rule in a table: one for a base class (`Elementwise`, `Comparison`, `Linear`, …) serves all
that are derived from it. What is in lower case applies a primitive on a context, as rules of primitives and of
interpreters do: `add(ctx, x, y)`. Where it has no parameters it is the primitive itself: `ctx.bind(add, x, y)`.

>>> import tinyjax.numpy as tnp
>>> from tinyjax import make_jaxpr
>>> inverses = {Exp: tnp.log, Tanh: tnp.arctanh}
>>> [eqn.primitive.name for eqn in make_jaxpr(tnp.tanh)(1.0).eqns if type(eqn.primitive) in inverses]
['tanh']
"""

from inspect import signature
from types import FunctionType

from tinyjax.exports import collect
from tinyjax.ir.primitive import Primitive
from tinyjax.registered.control import MODULES as HOLDING
from tinyjax.registered.first_order import MODULES


def _is_vocabulary(value: object) -> bool:
    """Whether it is a class of primitives, a primitive, or a function that is called with a context first."""
    if isinstance(value, FunctionType):
        return next(iter(signature(value).parameters), None) == "ctx"
    return isinstance(value, Primitive) or (isinstance(value, type) and issubclass(value, Primitive))


collect(
    __name__,
    *HOLDING,
    *MODULES,
    only=_is_vocabulary,
    entries=(),  # rules call them for every equation
)
