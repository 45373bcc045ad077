"""How JAX spells the primitives whose parameters are programs, where it isn't as here.

JAX's rules for derivatives are Python functions, so a printed program doesn't have them: what is read then computes the
same values, and says that it holds no derivative when one is asked for. An importer that has the programs of the rules
passes them as `jvp_jaxpr`, or as `fwd_jaxpr` and `bwd_jaxpr`.
"""

from __future__ import annotations

import re
from collections.abc import Iterator, Mapping, Sequence
from typing import Final

from tinyjax.control.branches import with_types
from tinyjax.control.call import Call
from tinyjax.control.callbacks import HostFunction
from tinyjax.control.checkpoint import (
    Checkpoint,
    DotsSaveable,
    EverythingSaveable,
    NothingSaveable,
    Policy,
    SaveNames,
    SaveNamesExcept,
)
from tinyjax.control.composite_call import CompositeCall, Dictionary, entries
from tinyjax.control.custom_derivatives import CustomJvp, CustomVjp
from tinyjax.control.exported import CallExported
from tinyjax.control.foreign import FfiCall
from tinyjax.control.implicit import LinearSolve
from tinyjax.control.linear_call import LinearCall
from tinyjax.control.reducing import Reduce, ReduceWindow, SelectAndScatter
from tinyjax.control.scan import Scan
from tinyjax.errors import ParameterError, UnsupportedError
from tinyjax.ir.primitive import Primitive
from tinyjax.ir.program import Jaxpr
from tinyjax.ir.text.registry import Member, Reader, Record, Unreadable, build
from tinyjax.ir.type_lists import all_match
from tinyjax.registered.control import STANDARD
from tinyjax.registered.jax_first_order import Avals, Params, primitive_of, without

__all__ = ["STANDARD"]

#: What JAX says about compilation and layout, which is no part of what a program computes.
_COMPILATION: Final = frozenset(
    {
        "donated_invars",
        "in_shardings",
        "out_shardings",
        "in_layouts",
        "out_layouts",
        "ctx_mesh",
        "keep_unused",
        "inline",
    }
    | {"compiler_options_kvs", "resource_env", "backend", "device", "donated", "is_explicit"}
)


def _renamed(params: Params, names: dict[str, str], dropped: frozenset[str]) -> dict[str, object]:
    """The parameters under the names that they have here, without those dropped."""
    return {names.get(key, key): value for key, value in params.items() if key not in dropped}


def _label(value: object, default: str) -> str:
    """A function's name."""
    if isinstance(value, Unreadable):
        return value.text
    return value if isinstance(value, str) else default


def _calling(default: str) -> Reader:
    def read(params: Params, in_avals: Avals, out_avals: Avals) -> Primitive:
        kept = _renamed(params, {"call_jaxpr": "jaxpr", "name": "function_name"}, _COMPILATION)
        kept["function_name"] = _label(kept.get("function_name"), default)
        return primitive_of(Call, kept)

    return read


for _name in ("jit", "pjit", "core_call", "closed_call", "core_closed_call"):
    STANDARD.read_by(_name)(_calling(_name))


#: How Python prints a function of a module.
_FUNCTION: Final = re.compile(r"<function (\w+) at 0x\w+>")
#: The policies that are functions in JAX, which have nothing to print but their names.
_POLICIES: Final[Mapping[str, Policy]] = {
    "nothing_saveable": NothingSaveable(), "everything_saveable": EverythingSaveable(),
}  # fmt: skip


@STANDARD.read_by("checkpoint", "remat", "remat2")
def _checkpoint(params: Params, in_avals: Avals, out_avals: Avals) -> Primitive:
    kept = _renamed(params, {"name": "function_name"}, frozenset())
    kept["function_name"] = _label(kept.get("function_name"), "checkpoint")
    policy = kept.get("policy")
    if isinstance(policy, Unreadable) and (function := _FUNCTION.fullmatch(policy.text)) is not None:
        policy = kept["policy"] = _POLICIES.get(function[1], policy)
    if isinstance(policy, Record | Unreadable | str):
        raise UnsupportedError(f"{policy} is no policy of checkpoint that can be read")
    return primitive_of(Checkpoint, kept)


@STANDARD.read_record_by("DotsSaveable")
def _dots_saveable(fields: Params) -> object:
    """`DotsSaveable(only_if_no_batch_dims=False)` is `DotsSaveable(batch=True)`."""
    kept = dict(fields)
    if "only_if_no_batch_dims" in kept:
        kept["batch"] = kept.pop("only_if_no_batch_dims") is False
    return build(DotsSaveable, kept)


@STANDARD.read_record_by("SaveOnlyTheseNames")
def _save_only_these_names(fields: Params) -> object:
    """`SaveOnlyTheseNames(saveable_names=frozenset({'a'}))` is `SaveNames(names=…)`."""
    return build(SaveNames, _renamed(fields, {"saveable_names": "names"}, frozenset()))


@STANDARD.read_record_by("SaveAnyNamesButThese")
def _save_any_names_but_these(fields: Params) -> object:
    """`SaveAnyNamesButThese(names=frozenset({'a'}))` is `SaveNamesExcept(names=…)`."""
    return build(SaveNamesExcept, dict(fields))


_JVP: Final = frozenset({"jvp", "jvp_fun", "jvp_jaxpr_fun", "jvp_jaxpr_thunk", "num_consts", "symbolic_zeros"})
_VJP: Final = frozenset(
    {"fwd", "bwd", "fwd_jaxpr_thunk", "bwd_jaxpr_thunk", "num_consts", "out_trees", "symbolic_zeros"}
)
_BODY: Final = {"name": "function_name", "call_jaxpr": "jaxpr", "fun_jaxpr": "jaxpr"}


@STANDARD.read_by("custom_jvp_call")
def _custom_jvp(params: Params, in_avals: Avals, out_avals: Avals) -> Primitive:
    kept = _renamed(params, _BODY, _JVP)
    kept["function_name"] = _label(kept.get("function_name"), "custom_jvp")
    return primitive_of(CustomJvp, kept)


@STANDARD.read_by("custom_vjp_call", "custom_vjp_call_jaxpr")
def _custom_vjp(params: Params, in_avals: Avals, out_avals: Avals) -> Primitive:
    kept = _renamed(params, _BODY, _VJP)
    kept["function_name"] = _label(kept.get("function_name"), "custom_vjp")
    return primitive_of(CustomVjp, kept)


def _host_function(name: str) -> Reader:
    """A callback can be read from where its function is at hand, and never from text."""

    def read(params: Params, in_avals: Avals, out_avals: Avals) -> Primitive:
        if not isinstance(params.get("function"), HostFunction):
            raise UnsupportedError(
                f"{name} calls a Python function, which text can't hold. Take the equation out, or replace it by "
                "primitives."
            )
        return primitive_of(STANDARD.primitive(name), params)

    return read


for _name in ("pure_callback", "io_callback", "debug_callback", "debug_print"):
    STANDARD.read_by(_name)(_host_function(_name))


@STANDARD.read_by("cond")
def _cond(params: Params, in_avals: Avals, out_avals: Avals) -> Primitive:
    kept = _renamed(params, {}, frozenset({"linear", "branches_platforms"}))
    branches = kept.get("branches")
    if isinstance(branches, tuple) and all(isinstance(branch, Jaxpr) for branch in branches):
        # In JAX they may differ in what is weak.
        kept["branches"] = tuple(_with_types_like(branch, out_avals) for branch in branches)
    return primitive_of(STANDARD.primitive("cond"), kept)


def _with_types_like(program: Jaxpr, avals: Avals) -> Jaxpr:
    """The program with results of these types, if only what is weak is another."""
    return with_types(program, avals) if all_match(program.out_avals, avals) else program


@STANDARD.read_by("scan")
def _scan(params: Params, in_avals: Avals, out_avals: Avals) -> Primitive:
    """JAX 0.11 has trees of the operands (constants, carry, arrays) instead of their numbers."""
    kept = _renamed(params, {}, frozenset({"linear", "_split_transpose", "ft_in", "ft_out"}))
    if "ft_in" in params and "num_carry" not in kept:
        consts, carry = scan_sizes(params, len(in_avals))
        kept |= {"num_consts": consts, "num_carry": carry}
    return primitive_of(Scan, kept)


def scan_sizes(params: Params, operands: int) -> tuple[int, int]:
    """How many of the operands of a scan are constants, and how many carries; a ParameterError if that isn't said."""
    trees = params.get("ft_in")
    if trees is None or "num_carry" in params:
        consts, carry = params.get("num_consts"), params.get("num_carry")
        if isinstance(consts, int) and isinstance(carry, int):
            return consts, carry
        raise ParameterError("a scan says how many constants and carries it has, num_consts and num_carry")
    groups = trees if isinstance(trees, tuple) else _definition(trees)
    if not isinstance(groups, tuple) or len(groups) != 3:
        raise ParameterError(f"{trees} can't be read: it must be trees of constants, carry and arrays", "ft_in")
    leaf = None if isinstance(trees, tuple) else _STAR
    consts, carry, arrays = (_leaves(group, leaf) for group in groups)
    if operands and consts + carry + arrays != operands:
        raise ParameterError(f"{trees} hasn't as many leaves as there are operands, {operands}", "ft_in")
    return consts, carry


def _definition(tree: object) -> object:
    """What is within the brackets of `Pytree(vals=[...], tree=PyTreeDef(...))`, in which leaves are stars."""
    if not isinstance(tree, Record) or tree.name != "Pytree":
        return None
    definition = dict(tree.fields).get("tree")
    return definition.fields[0][1] if isinstance(definition, Record) and len(definition.fields) == 1 else None


def _leaves(tree: object, leaf: object = None) -> int:
    """How many leaves a printed tree has: each is None."""
    if tree == leaf:
        return 1
    if isinstance(tree, Record) and tree.name == "Pytree":
        return _leaves(_definition(tree), _STAR)
    items: Sequence[object] = ()
    if isinstance(tree, tuple):
        items = tree
    elif isinstance(tree, Record):
        items = [item for _, item in tree.fields]
    return sum(_leaves(item, leaf) for item in items)


_STAR: Final = Unreadable("*")


@STANDARD.read_by("ffi_call")
def _ffi_call(params: Params, in_avals: Avals, out_avals: Avals) -> Primitive:
    """JAX writes attributes as a tuple."""
    attributes = params.get("attributes", ())
    if isinstance(attributes, tuple):
        attributes = Dictionary(entries("attributes", dict(attributes)))
    found = {"attributes": attributes, "result_avals": tuple([aval.strengthen() for aval in out_avals])}
    return primitive_of(FfiCall, {**params, **found})


@STANDARD.read_by("call_exported")
def _call_exported(params: Params, in_avals: Avals, out_avals: Avals) -> Primitive:
    """JAX writes the name of what is called."""
    if "exported" in params:
        raise UnsupportedError(
            "the text of JAX's programs doesn't say what exported functions compute. Trace the function that calls it, "
            "by `from_jax` or `of_jax` of tinyjax.interop.jax"
        )
    return primitive_of(CallExported, {**params})


@STANDARD.read_by("composite")
def _composite(params: Params, in_avals: Avals, out_avals: Avals) -> Primitive:
    """JAX writes the leaves of each attribute, and the tree that they are of."""
    if "name" not in params:
        return primitive_of(CompositeCall, params)
    name, attributes = params["name"], params.get("attributes", ())
    if isinstance(name, Member):  # as names with a dot are read
        name = f"{name.enumeration}.{name.name}"
    # Its program is `call_jaxpr` from JAX 0.11 on.
    names = {"name": "function_name", "call_jaxpr": "jaxpr"}
    kept = {names.get(key, key): value for key, value in params.items()} | {"function_name": name}
    if isinstance(attributes, tuple) and any(len(entry) == 3 for entry in attributes):
        found = {key: _unflattened(iter(leaves), tree.fields[0][1]) for key, leaves, tree in attributes}
        given = {key: value for key, value in found.items() if value is not None}
        kept["attributes"] = entries("attributes", given)
    return primitive_of(CompositeCall, kept)


def _unflattened(leaves: Iterator[object], tree: object) -> object:
    """A value of the leaves of a printed tree, in which they are stars."""
    if tree == _STAR:
        return next(leaves)
    if tree is None or tree == frozenset():
        return None if tree is None else {}
    if isinstance(tree, tuple):
        return [_unflattened(leaves, item) for item in tree]
    if isinstance(tree, Record) and tree.name == "dict":
        return {key: _unflattened(leaves, item) for key, item in tree.fields}
    raise UnsupportedError(f"{tree} is no tree of attributes that can be read")


@STANDARD.read_record_by("HashableArray")
def _hashable_array(fields: Params) -> object:
    """An array among JAX's parameters."""
    (array,) = fields.values()
    return array[0] if isinstance(array, tuple) and len(array) == 1 else array


@STANDARD.read_by("reduce")
def _reduce(params: Params, in_avals: Avals, out_avals: Avals) -> Primitive:
    """JAX holds the Python function as well as its program."""
    kept = _renamed(params, {}, frozenset({"computation"}))
    return primitive_of(Reduce, without("reduce", kept, out_sharding=(None,)))


@STANDARD.read_by("reduce_window")
def _reduce_window(params: Params, in_avals: Avals, out_avals: Avals) -> Primitive:
    return primitive_of(ReduceWindow, without("reduce_window", params, consts=((),)))


@STANDARD.read_by("select_and_scatter")
def _select_and_scatter(params: Params, in_avals: Avals, out_avals: Avals) -> Primitive:
    kept = without("select_and_scatter", params, select_consts=((),), scatter_consts=((),))
    return primitive_of(SelectAndScatter, kept)


@STANDARD.read_by("custom_linear_solve")
def _linear_solve(params: Params, in_avals: Avals, out_avals: Avals) -> Primitive:
    """JAX holds the programs, and the numbers of their constants, in named tuples."""
    kept = dict(params)
    programs, lengths = kept.pop("jaxprs", None), kept.get("const_lengths")
    if isinstance(programs, Record):
        kept |= {name: item for name, item in programs.fields if item is not None}
    if isinstance(lengths, Record):
        kept["const_lengths"] = tuple([length for _, length in lengths.fields])
    return primitive_of(LinearSolve, kept)


@STANDARD.read_by("linear_call")
def _linear_call(params: Params, in_avals: Avals, out_avals: Avals) -> Primitive:
    """JAX's transpose is a Python function, which an importer has called."""
    if "callee" not in params:
        return primitive_of(LinearCall, params)
    residuals = [params[key] for key in ("num_callee_consts", "num_res")]
    count = sum(n for n in residuals if isinstance(n, int))
    return primitive_of(LinearCall, {"jaxpr": params["callee"], "const_lengths": (count, 0)})
