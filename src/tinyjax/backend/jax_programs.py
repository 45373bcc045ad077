"""What of JAX's programs can only be reached through its private modules. Imports jax: to be imported at first need."""

from __future__ import annotations

import importlib
import inspect
from collections.abc import Callable, Hashable, Sequence
from types import CodeType
from typing import Any, Final

import jax
import numpy as np
from jax._src import ad_checkpoint, config, core, literals, pjit, source_info_util
from jax._src.interpreters import partial_eval
from jax.extend.core import Jaxpr as JaxJaxpr
from jax.extend.core import JaxprEqn, primitives
from jax.typing import ArrayLike

from tinyjax.backend.buffers import DeviceBuffer
from tinyjax.backend.devices import keys_in_jax, type_of_jax
from tinyjax.backend.early import for_jax
from tinyjax.caching import PlainCache, register
from tinyjax.errors import UnsupportedError
from tinyjax.ir.aval import ShapedArray
from tinyjax.ir.dtypes import (
    BOOL,
    FLOAT64,
    FLOATS,
    INTEGERS,
    KEY_NAMES,
    SUPPORTED,
    DType,
    HostArray,
    Scalar,
    short_name,
)
from tinyjax.ir.literals import python_scalar
from tinyjax.ir.source import SourceInfo
from tinyjax.ir.value import ConcreteValue
from tinyjax.primitives.keys import as_keys

#: From 0.11 on, scans say by trees which operand is what, and backward rules return logs, too.
_NEW = jax.__version_info__ >= (0, 11)
#: The dtypes of keys that are values here, by the names that JAX prints.
_KEYS = {short_name(dtype): dtype for dtype in KEY_NAMES}

#: Lines by the instruction: by the identity of the code, which an entry keeps alive, and the place in it.
_LINES: Final[PlainCache[tuple[int, int], tuple[CodeType, SourceInfo]]] = PlainCache(4096, "lines of JAX's programs")
register(_LINES)


def literal(value: Scalar, aval: ShapedArray) -> ArrayLike:
    """What JAX stages as a literal of this type. Only its own typed numbers are weak and of any dtype."""
    dtype = aval.dtype
    if not aval.weak_type or dtype == BOOL:
        return np.asarray(value, dtype)[()]
    if dtype in FLOATS:
        found: ArrayLike = literals.TypedFloat(float(value.real), dtype)
    elif dtype in INTEGERS:
        found = literals.TypedInt(int(value.real), dtype)
    else:
        found = literals.TypedComplex(value, dtype)
    return found


def scalar_of(data: object) -> Scalar:
    """The one element of an array, as a Python number."""
    found: Scalar = np.asarray(data).item()
    return found


def array_of(value: ConcreteValue) -> ArrayLike:
    """The value as JAX takes it, which it stages as a constant."""
    if value.aval.shape == () and value.aval.dtype in SUPPORTED:
        return literal(python_scalar(scalar_of(value.data), value.dtype), value.aval)
    if value.dtype in KEY_NAMES:
        return keys_in_jax(value)
    data = value.data
    array = for_jax(data.array, type_of_jax) if isinstance(data, DeviceBuffer) else np.asarray(data)
    if not value.aval.weak_type:
        return array
    with jax.ensure_compile_time_eval():
        weak: jax.Array = primitives.convert_element_type_p.bind(
            array, new_dtype=value.dtype, weak_type=True, sharding=None
        )
    return weak


def operand(x: HostArray) -> ArrayLike:
    """An array of NumPy as JAX takes it: keys as typed ones."""
    return keys_in_jax(ConcreteValue.of(x)) if x.dtype in KEY_NAMES else x


def as_jax(value: ArrayLike) -> ArrayLike:
    """A literal as a result: an array, unless JAX is tracing, for then it stays a literal."""
    if isinstance(value, jax.Array) or not core.trace_ctx.is_top_level():
        return value
    weak = isinstance(value, literals.TypedFloat | literals.TypedInt | literals.TypedComplex)
    found: jax.Array = primitives.convert_element_type_p.bind(
        value, new_dtype=jax.typeof(value).dtype, weak_type=weak, sharding=None
    )
    return found


def as_typed(value: Scalar, aval: ShapedArray) -> ArrayLike:
    """A Python number as a scalar of this type, if it can be one without loss of its kind; else as it is."""
    kinds = {bool: 0, int: 1, float: 2, complex: 3}
    highest = 0 if aval.dtype == BOOL else 1 if aval.dtype in INTEGERS else 2 if aval.dtype in FLOATS else 3
    fits = aval.shape == () and kinds[type(value)] <= highest and (kinds[type(value)] == 0) == (highest == 0)
    return literal(python_scalar(value, aval.dtype), aval) if fits else value


def x64_enabled() -> bool:
    """Whether JAX has 64-bit types now."""
    return jax.dtypes.canonicalize_dtype(np.float64) == FLOAT64


def trace_context() -> Hashable:
    """What JAX's switches are now, of those that change what is traced."""
    found: Hashable = config.trace_context()
    return found


def static_arguments(function: object) -> tuple[tuple[int, ...], tuple[str, ...]]:
    """Positions and names of the arguments that are static as `jax.jit` or `jax.custom_vjp` made the function."""
    if isinstance(function, jax.custom_vjp):
        parameters = list(inspect.signature(function).parameters)
        return tuple(function.nondiff_argnums), tuple(
            [parameters[n] for n in function.nondiff_argnums if n < len(parameters)]
        )
    info = getattr(function, "_jit_info", None)
    if not isinstance(info, pjit.PjitInfo):
        return (), ()
    bound = inspect.ismethod(function)  # its first argument is given
    return tuple([number - bound for number in info.static_argnums if number >= bound]), info.static_argnames


def bind_scan(
    args: Sequence[ArrayLike], body: object, *, length: int, reverse: bool, num_consts: int, num_carry: int,
    num_ys: int, unroll: int,
) -> Sequence[jax.Array]:  # fmt: skip
    """One scan of a body that has been staged, as it is: `lax.scan` would rearrange operands that pass through."""
    if _NEW:
        ft = importlib.import_module("jax._src.flattree")

        num_xs = len(args) - num_consts - num_carry
        groups: dict[str, Any] = {
            "ft_in": ft.pack((ft.nones(num_consts), ft.nones(num_carry), ft.nones(num_xs))),
            "ft_out": ft.pack((ft.nones(num_carry), ft.nones(num_ys).filter_with_mask([True] * num_ys))),
        }
    else:
        groups = {"num_consts": num_consts, "num_carry": num_carry}
    found: Sequence[jax.Array] = primitives.scan_p.bind(
        *args, jaxpr=body, length=length, reverse=reverse, unroll=unroll, **groups
    )
    return found


def platform_index(platforms: tuple[tuple[str, ...] | None, ...]) -> jax.Array:
    """The position of the group with the platform that JAX compiles for."""
    conditionals = importlib.import_module("jax._src.lax.control_flow.conditionals")
    index: jax.Array = conditionals.platform_index_p.bind(platforms=platforms)
    return index


def scan_groups(params: dict[str, object]) -> tuple[int, int] | None:
    """How many constants and how many carries a scan of JAX has; None if its parameters say so themselves."""
    if "ft_in" not in params:
        return None
    consts, carry, _ = _unpacked(params["ft_in"])
    return len(consts), len(carry)


def _unpacked(tree: Any) -> tuple[Any, Any, Any]:  # a FlatTree
    consts, carry, xs = tree.unpack()
    return consts, carry, xs


def line_of(eqn: JaxprEqn) -> SourceInfo | None:
    """The line of user code that an equation of JAX comes from."""
    traceback: Any = eqn.source_info.traceback  # its stub knows no frames, and not that it may be None
    for code, at in zip(*traceback.raw_frames(), strict=True) if traceback else ():
        if source_info_util.is_user_filename(code.co_filename):
            found = _LINES.entries.get((id(code), at))
            if found is None:
                frame = source_info_util.raw_frame_to_frame(code, at)
                line = SourceInfo(frame.file_name, frame.start_line, frame.function_name)
                found = _LINES.put((id(code), at), (code, line))
            return found[1]
    return None


def function_name(jaxpr: JaxJaxpr) -> str:
    """The name of the Python function that a program of JAX was traced from."""
    return jaxpr.debug_info.func_name or "fn"


def names_of_policy(policy: object) -> tuple[str, frozenset[str]] | None:
    """For a policy that goes by names: whether it saves "only" these or all names "except" them, and the names."""
    if isinstance(policy, ad_checkpoint.SaveOnlyTheseNames):
        return "only", frozenset(policy.saveable_names)
    if isinstance(policy, ad_checkpoint.SaveAnyNamesButThese):
        return "except", frozenset(policy.names)
    return None


def keeps(policy: Callable[..., object], eqn: JaxprEqn) -> bool:
    """Whether a policy lets derivatives keep the results of an equation, be it in another memory."""
    answer = policy(eqn.primitive, *[atom.aval for atom in eqn.invars], **eqn.params)
    return answer is not partial_eval.Recompute and bool(answer)


def key_ndim(aval: Any) -> int:  # an aval of JAX
    """How many axes an array of keys of this type has."""
    return len(aval.shape)


def key_dtype(aval: object) -> DType | None:
    """The dtype of arrays of this type, if they are of keys that are values here, too."""
    dtype = getattr(aval, "dtype", "")
    return None if isinstance(dtype, np.dtype) else _KEYS.get(str(dtype))


def partitionable() -> bool:
    """Whether JAX makes the bits of Threefry's keys as it does unless it is told otherwise."""
    return bool(config.threefry_partitionable.value)


def key_impl(dtype: DType) -> Any:  # a tuple of functions
    """What makes keys of this dtype and uses them; an UnsupportedError if this version of JAX has nothing such."""
    try:
        return dtype_in_jax(dtype)._impl  # noqa: SLF001 (JAX says it nowhere else)
    except ValueError:
        raise UnsupportedError(f"this version of JAX has no keys of {KEY_NAMES[dtype]!r}") from None


def dtype_in_jax(dtype: DType) -> Any:  # one of JAX's own for keys
    """The dtype as JAX has it."""
    return jax.random.key_dtype(KEY_NAMES[dtype]) if dtype in KEY_NAMES else dtype


def dtype_of(aval: Any) -> DType:  # an aval of JAX
    """The dtype as we have it."""
    return key_dtype(aval) or aval.dtype


def is_key(aval: object) -> bool:
    """Whether this is the type of an array of typed keys."""
    dtype = getattr(aval, "dtype", None)
    return not (dtype is None or isinstance(dtype, np.dtype)) and jax.numpy.issubdtype(dtype, jax.dtypes.prng_key)


def is_token(aval: object) -> bool:
    """Whether this is the type of what says in which order things are done."""
    return isinstance(aval, core.AbstractToken)


def is_foreign_key(aval: object) -> bool:
    """Whether this is the type of an array of keys that aren't values here: somebody's own."""
    return is_key(aval) and key_dtype(aval) is None


def key_shape(aval: Any) -> tuple[int, ...]:  # an aval of JAX
    """The shape of the integers that keys of this type consist of."""
    return (*aval.shape, *aval.dtype._impl.key_shape)  # noqa: SLF001 (JAX says it nowhere else)


def integers_of(value: Any) -> Any:  # an array of JAX, or anything else
    """The integers that typed keys consist of which aren't values here; any other array as it is."""
    return jax.random.key_data(value) if is_foreign_key(value) else value


def elements_of(value: Any) -> HostArray:  # an array of JAX, or anything else
    """The elements on the host; of keys that aren't values here, their integers. A token has none."""
    if isinstance(value, core.Token):
        return np.zeros(0, BOOL)
    dtype = key_dtype(value)
    if dtype is not None:
        return as_keys(np.asarray(jax.random.key_data(value)), dtype)
    return np.asarray(integers_of(value))


def like(value: Any, given: jax.Array) -> jax.Array:  # a leaf of the user's
    """An array in the place of a leaf: as keys that aren't values here, if they stood there."""
    if not is_foreign_key(value):
        return given
    keys: jax.Array = jax.random.wrap_key_data(given, impl=jax.random.key_impl(value))
    return keys


_RANDOM = frozenset({"random_seed", "random_bits", "random_split", "random_fold_in"})


def random_function(eqn: JaxprEqn) -> Callable[..., jax.Array] | None:
    """What a primitive on keys computes, as a function of their integers; None if it computes what ours does."""
    params, name = eqn.params, eqn.primitive.name
    if name not in _RANDOM:
        return None
    first: Any = eqn.invars[0].aval if eqn.invars else None
    if partitionable() and (key_dtype(first) is not None or f"key<{params.get('impl')}>" in _KEYS):
        return None
    impl: Any = params.get("impl") or first.dtype._impl  # noqa: SLF001
    table: dict[str, Callable[..., jax.Array]] = {
        "random_seed": lambda seeds: _mapped(impl.seed, seeds, 0),
        "random_bits": lambda keys: _mapped(
            lambda key: impl.random_bits(key, params["bit_width"], params["shape"]), keys, 1
        ),
        "random_split": lambda keys: _mapped(lambda key: impl.split(key, params["shape"]), keys, 1),
        "random_fold_in": lambda keys, data: _mapped_over_both(impl.fold_in, keys, data),
    }
    return table[name]


def _mapped(function: Callable[[jax.Array], jax.Array], x: jax.Array, ndim: int) -> jax.Array:
    """The function of the last `ndim` axes, over the others."""
    for _ in range(x.ndim - ndim):
        function = jax.vmap(function)
    return function(x)


def _mapped_over_both(
    function: Callable[[jax.Array, jax.Array], jax.Array], keys: jax.Array, data: jax.Array
) -> jax.Array:
    for _ in range(data.ndim):
        function = jax.vmap(function)
    return function(keys, data)
