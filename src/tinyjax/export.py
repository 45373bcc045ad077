"""Functions for other processes, as `jax.export` has them: a program with the trees of its arguments and results, as
bytes.

What is in the bytes is the program itself, not what it was lowered to. So a function that was read back can be run on
any platform, transformed, looked at by tools, and differentiated as often as one likes.
"""

from __future__ import annotations

import io
import json
from collections.abc import Callable, Mapping, Sequence
from typing import TYPE_CHECKING, Any, Final, Generic, ParamSpec, TypeVar, final

from attrs import evolve, frozen
from typing_extensions import override

from tinyjax import tree
from tinyjax.api.autodiff import vjp
from tinyjax.api.devices import default_backend
from tinyjax.api.jit import Jitted, jit
from tinyjax.api.traced import Traced
from tinyjax.backend import EMBEDDED_BYTES
from tinyjax.backend.layouts import program_mesh
from tinyjax.checkpoints.trees import described, rebuilt
from tinyjax.errors import FileFormatError, InputError, RefError
from tinyjax.ir.aval import ShapedArray
from tinyjax.ir.dtypes import FLOAT0
from tinyjax.ir.files.archive import Archive, opened, write_archive
from tinyjax.ir.files.loading import program_in
from tinyjax.ir.files.saving import members_of
from tinyjax.ir.holding import HoldsProgram
from tinyjax.ir.immutable import Immutable
from tinyjax.ir.program import Atom, ClosedJaxpr, Eqn
from tinyjax.ir.text.registry import STANDARD, Registry
from tinyjax.meshes import Mesh, NamedSharding
from tinyjax.primitives.resharding import ShardingConstraint
from tinyjax.tracebacks import filter_package, filtered
from tinyjax.tracing.functions import check_callable
from tinyjax.tree.written import register_namedtuple_serialization, register_pytree_node_serialization

if TYPE_CHECKING:
    from jax.tree_util import PyTreeDef

__all__ = [
    "Exported", "default_export_platform", "deserialize", "export", "register_namedtuple_serialization",
    "register_pytree_node_serialization",
]  # fmt: skip


def __dir__() -> list[str]:
    """The public names."""
    return sorted(__all__)


P = ParamSpec("P")
R = TypeVar("R")

#: The member of a program file that says which function it is, and the version of what is in it.
_MEMBER: Final = "function.json"
_VERSION: Final = 1


@final
@frozen(repr=False)
class Exported(HoldsProgram, Immutable, Generic[P, R]):
    """A function for arguments of one signature, which can be written down: what `export` and `deserialize` return.

    `call` is the function: it takes and returns the trees of the original. Every function of `transforms` and `tools`
    takes the record as a program.
    """

    #: The function with its program, and the names of its arguments.
    traced: Traced[P, R]
    #: What modules are for, unless they are asked for another one.
    platforms: tuple[str, ...]

    @property
    @override
    def closed_jaxpr(self) -> ClosedJaxpr:
        return self.traced.jaxpr

    @override
    def with_program(self, program: ClosedJaxpr) -> Exported[P, R]:
        """The same function as another program of the same types."""
        return evolve(self, traced=self.traced.with_program(program))

    @property
    def fun_name(self) -> str:
        return self.traced.fun_name

    @property
    def in_tree(self) -> PyTreeDef:
        """The structure of `(args, kwargs)`."""
        return self.traced.in_tree

    @property
    def out_tree(self) -> PyTreeDef:
        return self.traced.out_tree

    @property
    def in_avals(self) -> tuple[ShapedArray, ...]:
        """The types of the leaves of the arguments."""
        return self.traced.jaxpr.in_avals

    @property
    def out_avals(self) -> tuple[ShapedArray, ...]:
        """The types of the leaves of the results."""
        return self.traced.jaxpr.out_avals

    @filtered
    def call(self, /, *args: P.args, **kwargs: P.kwargs) -> R:
        """The function. It can be transformed like any other."""
        return self.traced(*args, **kwargs)

    def mlir_module(self, platform: str | None = None) -> str:
        """The StableHLO text of the function, for the first of its platforms or the one that is given."""
        return self.traced.lower(lowering_platforms=(platform or self.platforms[0],)).as_text()

    @property
    def mlir_module_serialized(self) -> bytes:
        """The StableHLO of the function as a portable artifact, which other tools read: constants are part of it."""
        from tinyjax.backend.export import portable_artifact  # imports jax

        return portable_artifact(self.closed_jaxpr, self.platforms[0], self.fun_name)

    @property
    def nr_devices(self) -> int:
        """On how many devices `call` runs: those of the mesh that the program names, if it names one; else those that
        its arguments lie on. A module is for one."""
        found = program_mesh(self.closed_jaxpr.jaxpr)
        return 1 if found is None else found.size

    def in_shardings_jax(self, mesh: Mesh | None = None) -> tuple[NamedSharding | None, ...]:
        """How the leaves of the arguments lie on a mesh, by default the one it was exported for: as `jit` was told, or
        the types said; None where nobody said it. `call` brings them there by itself.

        Raises:
          ShardingError: the mesh hasn't the axes that the program names.

        >>> import tinyjax as tj
        >>> mesh = tj.sharding.AbstractMesh((4,), ("a",))
        >>> place = tj.NamedSharding(mesh, tj.P("a"))
        >>> exported = export(tj.jit(lambda x: 2 * x))(tj.ShapeDtypeStruct((32,), "int32", sharding=place))
        >>> exported.nr_devices, exported.in_shardings_jax(mesh)
        (4, (NamedSharding(mesh=Mesh('a': 4), spec=P('a',)),))
        """
        jaxpr = self.closed_jaxpr.jaxpr
        users: dict[Atom, list[Eqn]] = {atom: [] for atom in jaxpr.invars}
        for eqn in jaxpr.eqns:
            for atom in users.keys() & set(eqn.invars):
                users[atom].append(eqn)
        only = [users[atom][0] if len(users[atom]) == 1 else None for atom in jaxpr.invars]
        return _on(mesh, only[len(self.closed_jaxpr.consts) :])

    def out_shardings_jax(self, mesh: Mesh | None = None) -> tuple[NamedSharding | None, ...]:
        """How the leaves of the results lie on a mesh, likewise."""
        makers: dict[Atom, Eqn] = {out: eqn for eqn in self.closed_jaxpr.jaxpr.eqns for out in eqn.outvars}
        return _on(mesh, [makers.get(atom) for atom in self.closed_jaxpr.jaxpr.outvars])

    def has_vjp(self) -> bool:
        """Whether what is written down can be differentiated: always, by `vjp` and `grad` of `call`."""
        return True

    def vjp(self) -> Exported[..., tuple[Any, ...]]:
        """The derivative, exported: it takes the leaves of the arguments, then a cotangent for each leaf of the result
        (of dtype `float0` where that has none), and returns a tuple with a cotangent for each of the arguments.

        >>> import tinyjax as tj
        >>> exported = export(tj.jit(tj.numpy.sin))(tj.ShapedArray((), "float64"))
        >>> exported.vjp().call(0.0, 2.0)
        (Array(2., dtype=float64),)
        """
        inputs = [info.aval for info in tree.leaves(self.traced.args_info)]
        cotangents = [ShapedArray(found.shape, found.dtype).tangent for found in tree.leaves(self.traced.out_info)]

        def on_leaves(*leaves: Any) -> list[Any]:
            args, kwargs = tree.unflatten(self.in_tree, leaves)
            return tree.leaves(self.traced(*args, **kwargs))

        def derivative(*given: Any) -> tuple[Any, ...]:
            _, pull_back = vjp(on_leaves, *given[: len(inputs)])
            return tuple(pull_back(list(given[len(inputs) :])))

        derivative.__name__ = f"{self.fun_name}_vjp"
        return export(jit(derivative), platforms=self.platforms)(*inputs, *cotangents)

    def serialize(self, vjp_order: int = 0) -> bytearray:
        """The function as bytes that `deserialize` reads on any machine. They are a program file, so `ir.load` reads
        the program in them.

        `vjp_order` is for those who come from JAX, and changes nothing: derivatives of all orders follow from the
        program.

        Raises:
          ParameterError: the program calls a Python function, which no other process has.
          InputError: arguments or results have nodes of classes of which it wasn't said how they are written down.
        """
        traced = self.traced
        content = {
            "version": _VERSION,
            "fun_name": traced.fun_name,
            "platforms": self.platforms,
            "in_tree": _described(traced.in_tree, "the arguments"),
            "out_tree": _described(traced.out_tree, "the results"),
            "input_names": traced.input_names,
            "without_inputs": _without_bits([info.aval for info in tree.leaves(traced.args_info)]),
            "without_outputs": _without_bits(tree.leaves(traced.out_info)),
        }
        stream = io.BytesIO()
        write_archive(stream, {**members_of(traced.jaxpr), _MEMBER: json.dumps(content).encode()})
        return bytearray(stream.getvalue())

    @override
    def __str__(self) -> str:
        return str(self.traced)

    @override
    def __repr__(self) -> str:
        return f"<exported {repr(self.traced)[8:-1]}>"


def _on(mesh: Mesh | None, eqns: Sequence[Eqn | None]) -> tuple[NamedSharding | None, ...]:
    """What equations say of how their operand lies, for another mesh perhaps."""
    primitives = [None if eqn is None else eqn.primitive for eqn in eqns]
    said = [p.sharding if isinstance(p, ShardingConstraint) else None for p in primitives]
    return tuple(place if mesh is None or place is None else NamedSharding(mesh, place.spec) for place in said)


def default_export_platform() -> str:
    """The platform that modules are for, unless `platforms` says otherwise: the default one here, such as "cpu".

    >>> export(lambda x: 2.0 * x)(1.0).platforms == (default_export_platform(),)
    True
    """
    return default_backend()


@filtered
def export(fun_jit: Callable[P, R], *, platforms: Sequence[str] | None = None) -> Callable[..., Exported[P, R]]:
    """A function that exports a jitted function for given arguments: `export(jit(f))(*args)`.

    Arguments are trees of arrays or of their types (`ShapeDtypeStruct`). Static arguments become part of the program:
    what is exported is called without them.

    Args:
      fun_jit: what `jit` returns, or a function, which is jitted.
      platforms: what modules are for, such as `("cpu", "cuda")`: the default platform here, unless given. `call` runs
        on any.

    >>> import tinyjax as tj
    >>> exported = export(tj.jit(lambda p, x: {"y": p["w"] * x}))(
    ...     {"w": 2.0}, tj.ShapedArray((3,), "float64")
    ... )
    >>> exported
    <exported <lambda>(p['w']: ~f64[], x: f64[3]), 1 equation>
    >>> again = deserialize(exported.serialize())
    >>> again.call({"w": 2.0}, tj.numpy.ones(3))
    {'y': Array([2., 2., 2.], dtype=float64)}
    >>> tj.grad(lambda w: again.call({"w": w}, tj.numpy.ones(3))["y"].sum())(2.0)
    Array(3., dtype=float64, weak_type=True)
    """
    check_callable("export", fun_jit)
    jitted = fun_jit if isinstance(fun_jit, Jitted) else jit(fun_jit)
    names = (platforms,) if isinstance(platforms, str) else tuple(platforms or (default_export_platform(),))

    @filtered
    def make(*args: Any, **kwargs: Any) -> Exported[P, R]:  # the user's arguments
        traced = jitted.trace(*args, **kwargs)
        if traced.has_refs:
            raise RefError(
                f"export: {traced.fun_name} takes Refs or closes over them, which no file knows. Pass what they hold "
                "as arrays, and return what it becomes."
            )
        return Exported(traced.self_contained(), names)

    return make


def deserialize(blob: bytes | bytearray, registry: Registry | None = None) -> Exported[..., Any]:
    """The function in what `serialize` has returned. No code is run for what is in it, so it may be anyone's.

    Args:
      registry: says which primitives and records the names in it are, if there are others than the library's.

    Raises:
      FileFormatError: it isn't that, or isn't intact.

    >>> import tinyjax as tj
    >>> blob = export(tj.jit(tj.numpy.sin))(tj.ShapedArray((), "float64")).serialize()
    >>> deserialize(blob).call(0.0)
    Array(0., dtype=float64)
    """
    if not isinstance(blob, bytes | bytearray):
        raise InputError(f"deserialize takes the bytes that serialize returned, got {type(blob).__name__}")
    with opened(io.BytesIO(bytes(blob))) as archive:
        content = _content(archive)
        program = program_in(archive, STANDARD if registry is None else registry)
        closed = program if isinstance(program, ClosedJaxpr) else ClosedJaxpr(program)
        try:
            return _function(content, closed)
        except FileFormatError:
            raise
        except (KeyError, TypeError, ValueError, InputError) as error:
            raise FileFormatError(f"it doesn't say what its function takes and returns ({error})") from error


def _content(archive: Archive) -> Mapping[str, Any]:
    if _MEMBER not in archive:
        raise FileFormatError("it is no exported function; a program alone is read by ir.load")
    try:
        content = json.loads(archive.read(_MEMBER))
    except ValueError as error:
        raise FileFormatError(f"its member {_MEMBER!r} is damaged ({error})") from error
    if not isinstance(content, dict) or content.get("version") != _VERSION:
        raise FileFormatError("it was written by another version of tinyjax, in another format: export it again")
    return content


def _function(content: Mapping[str, Any], closed: ClosedJaxpr) -> Exported[..., Any]:
    in_tree, out_tree = (rebuilt(content[key]) for key in ("in_tree", "out_tree"))
    no_inputs, no_outputs = (
        tuple((int(i), ShapedArray(tuple(map(int, shape)), FLOAT0)) for i, shape in content[key])
        for key in ("without_inputs", "without_outputs")
    )
    paths, platforms = list(map(str, content["input_names"])), tuple(map(str, content["platforms"]))
    for i, _ in no_inputs:  # in order
        paths.insert(i, "")
    counts = len(closed.in_avals) + len(no_inputs), len(closed.out_avals) + len(no_outputs)
    if counts != (in_tree.num_leaves, out_tree.num_leaves) or len(paths) != counts[0] or not platforms:
        raise ValueError("its trees have other leaves than its program has inputs and outputs")
    traced: Traced[..., Any] = Traced(
        closed, in_tree, out_tree, True, no_inputs, no_outputs, ((), ()), (), (), None, (), EMBEDDED_BYTES, False, None,
        str(content["fun_name"]), tuple(paths), None,
    )  # fmt: skip
    return Exported(traced, platforms)


def _without_bits(avals: Sequence[ShapedArray]) -> list[tuple[int, tuple[int, ...]]]:
    """The places and shapes of those of dtype float0, which are no inputs of a program, nor outputs."""
    return [(i, aval.shape) for i, aval in enumerate(avals) if aval.dtype == FLOAT0]


def _described(treedef: PyTreeDef, what: str) -> object:
    """A structure as JSON."""
    found = described(treedef)
    if (kind := _unknown(found)) is not None:
        raise InputError(
            f"serialize: {what} have nodes of {kind}, and nobody has said how these are written down. Say it by "
            "tinyjax.export.register_pytree_node_serialization or register_namedtuple_serialization, or export a "
            "function that takes and returns dictionaries, lists and tuples."
        )
    return found


def _unknown(content: Any) -> str | None:
    """A class that has only a name in a structure that was written down."""
    if isinstance(content, dict) and "other" in content:
        return str(content["other"])
    parts = content.values() if isinstance(content, dict) else content if isinstance(content, list) else ()
    return next((found for part in parts if (found := _unknown(part)) is not None), None)


filter_package(__name__, (default_export_platform.__name__, deserialize.__name__, export.__name__))
filter_package(__name__, (register_namedtuple_serialization.__name__, register_pytree_node_serialization.__name__), "")
