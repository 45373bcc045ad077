"""Programs whose types don't say along which axes of a mesh values vary: what is evaluated and lowered."""

from __future__ import annotations

from tinyjax.caching import remembered
from tinyjax.ir.aval import ShapedArray
from tinyjax.ir.program import Atom, Jaxpr, Literal, Var
from tinyjax.ir.roles import Tracking
from tinyjax.primitives.casts import Cast
from tinyjax.transforms.rebuild import Rebuilding, bottom_up


@remembered
def unvarying(jaxpr: Jaxpr) -> Jaxpr:
    """The program without the axes along which its types say that values vary, in programs within it too, and without
    casts from one such type to another.

        { lambda ; a:f64[]{V:x} b:f64[]. let c:f64[]{V:x} = pvary[axes=(x,)] b; d:f64[]{V:x} = mul a c in (d,) }
        { lambda ; a:f64[] b:f64[]. let c:f64[] = mul a b in (c,) }
    """
    return bottom_up(jaxpr, _unvarying)


def _unvarying(jaxpr: Jaxpr) -> Jaxpr:
    grown = Rebuilding([Var(var.index, _plain(var.aval)) for var in jaxpr.invars], jaxpr.names)
    env: list[Atom] = list(grown.invars)

    def read(atom: Atom) -> Atom:
        return env[atom.index] if isinstance(atom, Var) else Literal(atom.value, _plain(atom.aval))

    for eqn in jaxpr.eqns:
        ins = tuple(map(read, eqn.invars))
        primitive = eqn.primitive
        if isinstance(primitive, Cast):
            env += ins
            continue
        if isinstance(primitive, Tracking):
            primitive = primitive.untracked()
        env += grown.emit(primitive, ins, [_plain(var.aval) for var in eqn.outvars], eqn.source)
    return grown.finish(list(map(read, jaxpr.outvars)))


def _plain(aval: ShapedArray) -> ShapedArray:
    return aval.varying_over(())
