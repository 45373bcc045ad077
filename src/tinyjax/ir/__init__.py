"""The IR: programs as immutable values, what primitives and contexts are, and the loop that interprets programs.

>>> x = Var(0, ShapedArray((3,), "float32"))
>>> identity = Jaxpr(invars=(x,), eqns=(), outvars=(x,))
>>> identity
{ lambda ; a:f32[3]. let  in (a,) }
>>> print(typecheck(identity))
(f32[3]) -> (f32[3])
"""

from tinyjax.exports import publish_later

publish_later(
    __name__,
    entries=("content_hash", "interpret", "load", "parse", "parse_closed", "save", "typecheck"),
    apart=("format_closed", "format_eqn", "nested_programs", "subjaxprs", "variable_names"),
)
