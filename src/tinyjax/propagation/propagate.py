"""How the values of a program lie along the Explicit axes of a mesh: found out from its inputs, equation by equation.

Types say nothing of it, so no transformation has to: a program is looked at when it is to be run, or when somebody asks
how a value lies. What an operation's result might be like in several ways is an error, unless the program says it
afterwards.
"""

from __future__ import annotations

from collections.abc import Sequence

from tinyjax.contexts.staging import StagingContext, stage
from tinyjax.errors import TypingError
from tinyjax.ir import contracts
from tinyjax.ir.primitive import Primitive
from tinyjax.ir.program import Atom, Eqn, Jaxpr, Literal, Var
from tinyjax.ir.shapes import REDUCED, UNREDUCED
from tinyjax.ir.varying import without
from tinyjax.meshes.mesh import Mesh
from tinyjax.primitives.matrices import OfMatrices
from tinyjax.propagation import indexing, products  # noqa: F401  (they fill the table)
from tinyjax.propagation.control import PROGRAMS
from tinyjax.propagation.rules import RULES
from tinyjax.propagation.specs import (
    Lies,
    Open,
    Site,
    Spec,
    Summed,
    divided,
    lying,
    parts_of,
    replicated,
    sums_of,
)


def propagate(jaxpr: Jaxpr, ins: Sequence[Lies], mesh: Mesh) -> list[Lies]:
    """How the outputs of a program lie whose inputs lie so."""
    env = lies_of_variables(jaxpr, ins, mesh)
    return [replicated(atom.aval) if isinstance(atom, Literal) else env[atom.index] for atom in jaxpr.outvars]


def lies_of_variables(jaxpr: Jaxpr, ins: Sequence[Lies], mesh: Mesh) -> list[Lies]:
    """How all variables of a program lie, by their numbers."""
    env: list[Lies] = list(ins)
    for eqn in jaxpr.eqns:
        operands = [replicated(atom.aval) if isinstance(atom, Literal) else env[atom.index] for atom in eqn.invars]
        site = Site(mesh, eqn, tuple([_label(jaxpr, atom) for atom in eqn.invars]))
        found = results_of(site, eqn, operands)
        env += [site.checked(lies, var.aval, operands) for lies, var in zip(found, eqn.outvars, strict=True)]
    return env


def _label(jaxpr: Jaxpr, atom: Var | Literal) -> str:
    names = jaxpr.input_names
    return names[atom.index] if isinstance(atom, Var) and atom.index < len(names) else ""


def results_of(site: Site, eqn: Eqn, operands: Sequence[Lies]) -> Sequence[Lies]:
    """How the results of an equation lie whose operands lie so."""
    primitive = eqn.primitive
    program = PROGRAMS.find(type(primitive))
    if program is not None:
        return program(primitive, operands, site, lambda jaxpr, ins: propagate(jaxpr, ins, site.mesh))
    open_ = [lies for lies in operands if isinstance(lies, Open)]
    if open_:
        worst = next((lies for lies in open_ if lies.error is not None), open_[0])
        return [worst if worst.error is not None or var.aval.ndim else () for var in eqn.outvars]
    known = [lies for lies in operands if not isinstance(lies, Open)]
    if any(map(sums_of, known)):
        return _sums(site, eqn, known)
    return _parts(site, eqn, list(map(parts_of, known)))


def _sums(site: Site, eqn: Eqn, operands: Sequence[Spec | Summed]) -> Sequence[Lies]:
    """The results for operands of which some are sums yet to be made, or results of such: a sum again, if the primitive
    is linear in it."""
    primitive = eqn.primitive
    if RULES.find(type(primitive)) is None and not isinstance(primitive, OfMatrices):
        inner = _spelled_out(eqn)
        if inner is not None:
            return propagate(inner, operands, site.mesh)
    names = {name for lies in operands for part in parts_of(lies) for name in part}
    varying = [REDUCED + name for name in names]
    found = [without(sums_of(lies), varying) for lies in operands]  # what meets parts is in parts
    count = len(eqn.outvars)
    try:
        wanted, results = primitive.varying(found, [var.aval for var in eqn.outvars])
    except TypingError as error:
        return [site.refuse(operands, str(error).partition(". Make the sum")[0])] * count
    for atom, own, axes in zip(eqn.invars, found, wanted, strict=True):
        missing = [name for name in axes if name.startswith(UNREDUCED) and name not in own]
        if missing and not (isinstance(atom, Literal) and atom.value == 0):
            why = f"an operand is unreduced along {missing[0][len(UNREDUCED) :]!r}, and another isn't"
            return [site.refuse(operands, why)] * count
    lies = _parts(site, eqn, list(map(parts_of, operands)))
    return [
        each if isinstance(each, Open) else lying(parts_of(each), axes)
        for each, axes in zip(lies, results, strict=True)
    ]


def _parts(site: Site, eqn: Eqn, specs: Sequence[Spec]) -> Sequence[Lies]:
    """The results for operands that are divided so."""
    primitive = eqn.primitive
    if not any(map(divided, specs)):
        return [replicated(var.aval) for var in eqn.outvars]
    rule = RULES.find(type(primitive))
    if rule is not None:
        return rule(primitive, specs, site)
    if isinstance(primitive, OfMatrices):
        return products.of_matrices(primitive, specs, site)
    inner = _spelled_out(eqn)
    if inner is not None:
        return propagate(inner, specs, site.mesh)
    return [site.refuse(specs, f"it isn't known how a result of {primitive.name} lies")] * len(eqn.outvars)


def _spelled_out(eqn: Eqn) -> Jaxpr | None:
    """What an equation stands for, if its primitive is defined by others."""
    primitive = eqn.primitive
    if type(primitive).expand is Primitive.expand:
        return None
    undefined = False

    def run(ctx: StagingContext, ins: list[Atom]) -> Sequence[Atom]:
        nonlocal undefined
        outs = contracts.expand(primitive, ctx, ins)
        undefined = outs is None
        return outs or ()

    program = stage([atom.aval for atom in eqn.invars], run)
    return None if undefined else program
