"""From a program to the text of a StableHLO module. A pure function of strings: no MLIR library takes part."""

from __future__ import annotations

from collections import defaultdict, deque
from collections.abc import Mapping, Sequence
from typing import final

from attrs import frozen

from tinyjax.collecting import collecting_seldom
from tinyjax.contexts.watching import Watcher
from tinyjax.errors import InputError, LoweringError
from tinyjax.hlo.called import ORDER, HostCall, Place
from tinyjax.hlo.context import SSA, LoweringContext, LoweringRules, Module
from tinyjax.hlo.keys import in_words
from tinyjax.hlo.manual import ManualMesh, mesh_text, sharding_text
from tinyjax.hlo.regular import Constants
from tinyjax.hlo.tables import rules_for
from tinyjax.hlo.text import identifier, results_text, type_text
from tinyjax.ir.aval import ShapedArray
from tinyjax.ir.declared import explained
from tinyjax.ir.dtypes import FLOAT0, DType
from tinyjax.ir.effects import axis_names, must_stay
from tinyjax.ir.interpret import interpret
from tinyjax.ir.program import ClosedJaxpr, Jaxpr
from tinyjax.ir.shapes import Shape
from tinyjax.meshes.named import NamedSharding
from tinyjax.stack import with_room
from tinyjax.transforms.unread import lowered_but_for_unread


def lower(
    program: Jaxpr | ClosedJaxpr,
    *,
    platform: str = "cpu",
    name: str = "main",
    donated: Sequence[bool] = (),
    rules: LoweringRules | None = None,
    in_shardings: Sequence[NamedSharding | None] = (),
    out_shardings: Sequence[NamedSharding | None] = (),
) -> str:
    """The program as the text of a StableHLO module, whose public function is `@main`.

    The constants of a ClosedJaxpr are spelled out in the text; a Jaxpr takes all its inputs as arguments. Every
    distinct program that is called becomes one private function.

    Args:
      platform: what the module will run on; some primitives have rules for one platform only.
      name: the name of the module.
      donated: for each argument, whether its memory may be used for results. None is, if this is empty.
      rules: the table to lower with, instead of the platform's.
      in_shardings: for each argument, how it lies on a mesh; None where XLA may choose. It may everywhere, if this is
        empty.
      out_shardings: the same for each result.

    Raises:
      MissingRuleError: a primitive has no lowering rule.
      LoweringError: the program needs the axis of a `vmap` that isn't there, or a dtype that StableHLO lacks.
      InputError: `donated` or one of the shardings has the wrong length.
      ShardingError: an argument or a result can't lie so.

    >>> from tinyjax.contexts.devices import single_equation
    >>> from tinyjax.primitives.elementwise import mul
    >>> aval = ShapedArray((3,), "float32")
    >>> print(lower(single_equation(mul, (aval, aval)), name="product"), end="")
    module @product {
      func.func public @main(%arg0: tensor<3xf32>, %arg1: tensor<3xf32>) -> tensor<3xf32> {
        %0 = stablehlo.multiply %arg0, %arg1 : tensor<3xf32>
        return %0 : tensor<3xf32>
      }
    }
    """
    return lower_module(
        program,
        platform=platform,
        name=name,
        donated=donated,
        rules=rules,
        in_shardings=in_shardings,
        out_shardings=out_shardings,
    ).text


@final
@frozen
class LoweredModule:
    """The text of a module, and what its calls of the host call, by the numbers that the text has for them.

    `places` are where its operations are from, by their numbers, if that was asked for."""

    text: str
    host_calls: tuple[HostCall, ...]
    places: tuple[Place, ...] = ()


def lower_module(
    program: Jaxpr | ClosedJaxpr,
    *,
    platform: str = "cpu",
    name: str = "main",
    donated: Sequence[bool] = (),
    rules: LoweringRules | None = None,
    watcher: Watcher | None = None,
    in_shardings: Sequence[NamedSharding | None] = (),
    out_shardings: Sequence[NamedSharding | None] = (),
    located: bool = False,
    constants: Constants = (),
) -> LoweredModule:
    """The same as `lower`, with what the text can't say: the Python functions that the program calls.

    A `watcher` is told of every rule that is applied. `located`: the text has numbers of places instead of scopes.
    `constants` are what some of the first inputs of a Jaxpr are, which are spelled out; the others are arguments, which
    is what `donated` and `in_shardings` are about.
    """
    jaxpr, consts = (program.jaxpr, program.consts) if isinstance(program, ClosedJaxpr) else (program, constants)
    table = rules_for(platform) if rules is None else rules
    if in_shardings or out_shardings:
        given = iter(in_shardings)
        ins = [next(given, None) if value is None else None for value in consts] if in_shardings else ()
        from tinyjax.propagation.said import with_what_is_known  # only here, as it takes a while to load

        jaxpr = with_what_is_known(jaxpr, [*ins, *given], out_shardings)
    if jaxpr.inner or any(eqn.primitive.name == "reduce_max" for eqn in jaxpr.eqns):
        from tinyjax.transforms.lost_nans import lost_nans  # few programs have maxima

        jaxpr = lost_nans(jaxpr)
    lie = (tuple(in_shardings), tuple(out_shardings))
    return explained(
        jaxpr,
        lambda: lowered_but_for_unread(
            lambda jaxpr: _lower(jaxpr, consts, name, donated, lie, Module(table, watcher, located)), jaxpr
        ),
    )


@collecting_seldom
def _lower(
    jaxpr: Jaxpr,
    consts: Constants,
    name: str,
    donated: Sequence[bool],
    shardings: tuple[Sequence[NamedSharding | None], Sequence[NamedSharding | None]],
    module: Module,
) -> LoweredModule:
    unbound = axis_names(jaxpr.effects)
    if unbound:
        names = ", ".join(map(repr, sorted(unbound)))
        raise LoweringError(
            f"the program uses the named axis {names}, which exists only inside `vmap(..., axis_name=...)`. Apply that "
            "vmap before compiling."
        )
    consts = (*consts, *[None] * (len(jaxpr.invars) - len(consts)))
    avals = [aval for aval, value in zip(jaxpr.in_avals, consts, strict=True) if value is None]
    if any(aval.dtype == FLOAT0 for aval in (*avals, *jaxpr.out_avals)):
        raise LoweringError(
            "StableHLO has no arrays of dtype float0. Tangents of integers and booleans hold nothing: drop them from "
            "the arguments and the results of what is compiled."
        )
    if donated and len(donated) != len(avals):
        raise InputError(f"donated says which of {len(avals)} arguments are donated; it has {len(donated)} entries")
    args = [SSA(f"%arg{i}", aval) for i, aval in enumerate(avals)]
    marks = _marks(
        _donation_marks(avals, jaxpr.out_avals, donated, not any(shardings)),
        _sharding_marks(module, avals, shardings[0], "argument"),
    )
    out_marks = _marks(_sharding_marks(module, jaxpr.out_avals, shardings[1], "result"))
    functions: dict[str, _Function] = {}

    def write_pending() -> None:
        while module.pending:
            function, called, manual, known = module.pending.popleft()
            ordered = [ORDER] if must_stay(called.effects) else []
            given = [aval for i, aval in enumerate(called.in_avals) if not known or known[i] is None]
            args = [SSA(f"%arg{i}", aval) for i, aval in enumerate((*ordered, *in_words(given)))]
            header = _header(f"private @{function}", args, (*ordered, *in_words(called.out_avals)), [""] * len(args))
            functions[function] = _function(module, called, header, args, known, False, bool(ordered), manual)

    if module.watcher is not None:
        module.on_call = lambda: with_room(write_pending)
    functions["main"] = _function(
        module, jaxpr, _header("public @main", args, jaxpr.out_avals, marks, out_marks), args, consts
    )
    write_pending()
    lines = [f"module @{identifier(name)} {{"]
    lines += [f"  sdy.mesh @{symbol} = {mesh_text(mesh)}" for mesh, symbol in module.meshes.items()]
    lines += module.foreign.values()
    for function in _callees_first(functions):
        lines += functions[function].lines
    lines.append("}\n")
    return LoweredModule("\n".join(lines), tuple(module.host_calls), tuple(module.places or ()))


@final
@frozen
class _Function:
    """The lines of a function, and the functions that it calls."""

    lines: list[str]
    callees: list[str]


def _function(
    module: Module,
    jaxpr: Jaxpr,
    header: str,
    args: Sequence[SSA],
    consts: Constants,
    is_main: bool = True,
    ordered: bool = False,
    manual: ManualMesh | None = None,
) -> _Function:
    """The function that computes `jaxpr` of constants, which are spelled out, and arguments. Where it has effects, what
    keeps them in order is the first argument and the first result. Others than main take and return words of keys."""
    ctx = LoweringContext(module, manual=manual)
    if ordered:
        args = ctx.after_effects(args)
    if not is_main:
        given = [aval for i, aval in enumerate(jaxpr.in_avals) if not consts or consts[i] is None]
        args = ctx.together(args, given)
    arguments = iter(args)
    inputs = [next(arguments) if value is None else ctx.constant(value) for value in consts] if consts else args
    outs = interpret(ctx, jaxpr, inputs)
    if not is_main:
        outs = ctx.apart(outs)
    if ordered:
        outs = [ctx.order(), *outs]
    return _Function([header, *ctx.lines, ctx.results("return", outs), "  }"], list(ctx.callees))


def _callees_first(functions: Mapping[str, _Function]) -> list[str]:
    """The names of all functions, each after those that it calls, so `main` is last.

    XLA reads a function when it first needs it. In this order it never needs one that it hasn't read, so its stack
    doesn't overflow where calls are nested deeply.
    """
    order: list[str] = []
    seen = {"main"}
    path = [("main", iter(functions["main"].callees))]
    while path:
        function, callees = path[-1]
        for callee in callees:
            if callee not in seen:
                seen.add(callee)
                path.append((callee, iter(functions[callee].callees)))
                break
        else:
            order.append(function)
            path.pop()
    return order


def _header(
    name: str,
    args: Sequence[SSA],
    out_avals: Sequence[ShapedArray],
    marks: Sequence[str],
    out_marks: Sequence[str] = (),
) -> str:
    inputs = ", ".join([f"{arg.name}: {type_text(arg.aval)}{mark}" for arg, mark in zip(args, marks, strict=True)])
    results = results_text(out_avals)
    if any(out_marks):
        marked = [f"{type_text(aval)}{mark}" for aval, mark in zip(out_avals, out_marks, strict=True)]
        results = f"({', '.join(marked)})"
    return f"  func.func {name}({inputs}) -> {results} {{"


def _marks(*kinds: Sequence[str]) -> list[str]:
    """The attributes to write behind each type."""
    found = []
    for attributes in zip(*kinds, strict=True):
        given = [attribute for attribute in attributes if attribute]
        found.append(f" {{{', '.join(given)}}}" if given else "")
    return found


def _sharding_marks(
    module: Module, avals: Sequence[ShapedArray], shardings: Sequence[NamedSharding | None], what: str
) -> list[str]:
    """How each array lies on its mesh, as an attribute."""
    if not shardings:
        return [""] * len(avals)
    if len(shardings) != len(avals):
        raise InputError(f"there is a sharding for each {what}: got {len(shardings)} for {len(avals)}")
    marks = []
    for i, (aval, sharding) in enumerate(zip(avals, shardings, strict=True)):
        if sharding is None:
            marks.append("")
            continue
        sharding.check(aval.shape, f"{what} {i}")
        text = sharding_text(module.mesh(sharding.mesh), sharding, len(aval.shape))
        marks.append(f"sdy.sharding = #sdy.sharding{text}")
    return marks


def _donation_marks(
    avals: Sequence[ShapedArray], out_avals: Sequence[ShapedArray], donated: Sequence[bool], alias: bool
) -> list[str]:
    """The attribute of each argument that says what becomes of its memory.

    A donated argument gives its memory to the first result of the same type that has none yet. If there is none, XLA
    may use the memory as it likes; so it may unless `alias`.
    """
    marks = [""] * len(avals)
    if not any(donated):
        return marks
    free: defaultdict[tuple[Shape, DType], deque[int]] = defaultdict(deque)
    for i, aval in enumerate(out_avals):
        free[aval.shape, aval.dtype].append(i)
    for i, (aval, donate) in enumerate(zip(avals, donated, strict=True)):
        if donate:
            results = free[aval.shape, aval.dtype] if alias else None
            marks[i] = f"tf.aliasing_output = {results.popleft()} : i32" if results else "jax.buffer_donor = true"
    return marks
