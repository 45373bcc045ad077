"""What JAX prints is read, and computes what JAX computes."""

from __future__ import annotations

from collections.abc import Callable
from typing import Final, TypeAlias

import jax
import jax.numpy as jnp
import numpy as np
import pytest
from jax import lax
from jax.ad_checkpoint import checkpoint_name
from jax.dtypes import float0
from jax.extend.core import Primitive

import tinyjax as tj
from tests.api.families import FUNCTIONS, TRANSFORMATIONS, Theirs
from tests.control.loops import SCANS, WHILES
from tests.ir.parsing import refusal
from tinyjax import checkpoint_policies, ir
from tinyjax.control.checkpoint import Checkpoint, Policy
from tinyjax.errors import MissingRuleError
from tinyjax.interop.jax import from_jax
from tinyjax.primitives.annotations import Name
from tinyjax.testing import check_laws

F: TypeAlias = Callable[..., object]

X: Final = np.linspace(-1.5, 2.0, 12, dtype=np.float32).reshape(3, 4)
V: Final = X[1]
S: Final = np.float32(0.7)
N: Final = np.int32(1)
C: Final = np.asarray([1 + 2j, -0.5j], np.complex64)
B: Final = np.asarray([True, False, True, True])
_NO_BITS: Final = np.zeros((), float0)


#: Compiling takes longer than anything else here.
_FAST: Final = {"xla_backend_optimization_level": 0, "xla_llvm_disable_expensive_passes": True}


def check(f: F, *args: object) -> None:
    """The text of f's program, read and evaluated, gives what f gives."""
    closed = jax.make_jaxpr(f)(*args)
    jaxpr = ir.parse(str(closed))
    check_laws(jaxpr, laws=["text"])
    found = tj.eval_jaxpr(jaxpr, [np.asarray(const) for const in closed.consts], *jax.tree.leaves(args))
    expected = jax.tree.leaves(jax.jit(f, compiler_options=_FAST)(*args))
    assert len(found) == len(expected)
    for ours, theirs in zip(found, map(np.asarray, expected), strict=True):
        assert (ours.shape, ours.dtype) == (theirs.shape, theirs.dtype)
        if theirs.dtype == jnp.bfloat16:
            np.testing.assert_allclose(np.asarray(ours, np.float32), np.asarray(theirs, np.float32), rtol=2e-2)
        else:
            np.testing.assert_allclose(np.asarray(ours), theirs, rtol=2e-5, atol=2e-6)


def _scatter(x: jax.Array) -> jax.Array:
    return x.at[np.array([1, 3])].set(2.0, mode="drop").at[0].add(x[2]).at[1].mul(2.0).at[2].max(0.5).at[3].min(0.1)


@jax.custom_jvp
def _tripled(x: jax.Array) -> jax.Array:
    return jnp.sin(x) * 3


_tripled.defjvp(lambda primals, tangents: (_tripled(*primals), tangents[0]))


@jax.custom_vjp
def _doubled(x: jax.Array) -> jax.Array:
    return x * 2


_doubled.defvjp(lambda x: (_doubled(x), x), lambda x, ct: (ct * x,))

#: With its flags as some write them.
_SVD: Final[F] = jnp.linalg.svd
_shared = jax.jit(lambda x: jnp.sin(x) * jnp.cos(x) + 1)


def _while(x: jax.Array) -> jax.Array:
    return lax.while_loop(lambda c: jnp.logical_and(c[0] < 10, c[1] > 0), lambda c: (c[0] * 2 + x, c[1] - 1), (x, 5))[0]


def _tree(c: dict[str, jax.Array], x: jax.Array) -> object:
    return lax.scan(lambda c, y: ({"a": c["a"] + y[0], "b": (c["b"],)[0]}, (c["a"], None)), c, x)


# fmt: off
PROGRAMS: Final[dict[str, tuple[F, tuple[object, ...]]]] = {
    "the one of the issue": (
        lambda a, b: lax.dot_general(a, b, (((1,), (0,)), ((), ())), preferred_element_type=jnp.float32),
        (X, V),
    ),
    "literals": (lambda x: (x * 2 + 1, jnp.where(x > 0, jnp.inf, -1e-30), x - jnp.nan, x + -0.0), (S,)),
    "literals of other types": (
        lambda x, n, c: (n + 7, jnp.logical_and(n > 0, True), c * (1 - 2.5j), x.astype(jnp.bfloat16) * 2, 3.0, True, 5),
        (S, N, C),
    ),
    "elementary functions": (
        lambda x: [f(x) for f in (jnp.exp, jnp.log1p, jnp.expm1, jnp.sin, jnp.cos, jnp.tan, jnp.tanh, jnp.arctan,
                                  jnp.sinh, jnp.cosh, jnp.arcsinh, jnp.sqrt, lax.rsqrt, jnp.cbrt, lax.logistic, lax.erf,
                                  lax.erfc, lax.lgamma, lax.digamma, jnp.floor, jnp.ceil, jnp.sign, jnp.abs, jnp.exp2,
                                  jnp.round, jnp.square, jnp.isfinite, lax.erf_inv, jnp.arcsin, jnp.arccos)],
        (np.asarray([0.1, 0.5, 0.9], np.float32),),
    ),
    "powers": (lambda x: (x**2, x**-3, jnp.abs(x) ** 2.5, lax.integer_pow(x, 4), lax.atan2(x, x + 1)), (V,)),
    "comparisons": (lambda x, y: (x < y, x <= y, x > y, x >= y, x == y, x != y, jnp.maximum(x, y), x % y), (V, X)),
    "integers": (
        lambda n: (~n, n >> 1, n << 2, lax.shift_right_logical(n, jnp.int32(1)), lax.population_count(n), lax.clz(n),
                   n // 2, n % 3, n & 6, n | 1, n ^ 3, -n,
                   lax.div(n, jnp.int32(2)), lax.nextafter(jnp.float32(n), jnp.float32(9))),
        (np.int32(13),),
    ),
    "complex": (lambda c: (jnp.real(c), jnp.imag(c), jnp.conj(c), jnp.abs(c), lax.complex(c.real, c.imag)), (C,)),
    "shapes": (
        lambda x: (x.T, x.reshape(2, 6), x[::-1], jnp.expand_dims(x, 0), jnp.squeeze(x[:1]), x[1:, ::2],
                   jnp.concatenate([x, x], 1), jnp.pad(x, ((1, 0), (0, 2))), jnp.broadcast_to(x[0], (5, 4)),
                   jnp.split(x, [1, 3], axis=1), jnp.stack([x, x]), jnp.tile(x, (2, 1)), jnp.arange(4),
                   jnp.zeros((2, 3)), jnp.triu(x), jnp.eye(3)),
        (X,),
    ),
    "reductions": (
        lambda x, b: (x.sum(0), x.prod(), x.max(1), x.min(), x.mean(), x.var(1), x.argmax(1), x.argmin(), b.any(),
                      b.all(), jnp.linalg.norm(x), jnp.cumsum(x, 1), jnp.cumprod(x), lax.cummax(x),
                      lax.cummin(x, reverse=True), lax.cumlogsumexp(x, 1)),
        (X, B),
    ),
    "sorting": (lambda x: (jnp.sort(x), jnp.argsort(x), lax.sort((x, -x), num_keys=2), jnp.median(x)), (V,)),
    "contractions": (
        lambda x: (x @ x.T, jnp.einsum("ij,kj->ik", x, x), jnp.dot(x, x.T, precision="highest"),
                   jnp.matmul(x[None], x.T[None]), x.astype(jnp.bfloat16) @ x.astype(jnp.bfloat16).T),
        (X,),
    ),
    "indexing": (
        lambda x, n: (x[n], x[:, 1], jnp.take(x, jnp.array([2, 0]), axis=1), x[jnp.array([0, 2])], x[-1]),
        (X, N),
    ),
    "along an axis": (lambda x: jnp.take_along_axis(x, jnp.argsort(x, axis=1), axis=1), (X,)),
    "scatters": (_scatter, (V,)),
    "dynamic slices": (
        lambda x, n: (lax.dynamic_slice(x, (n, n), (2, 2)), lax.dynamic_update_slice(x, x[:1] * 2, (n, n))),
        (X, N),
    ),
    "mapped dynamic slices": (
        jax.vmap(lambda x, i: lax.dynamic_slice(x, (i,), (2,))),
        (X, np.asarray([0, 1, 3], np.int32)),
    ),
    "jit": (jax.jit(lambda x: jnp.sin(x) + 1), (S,)),
    "a shared program": (lambda x: _shared(x) + _shared(x * 2), (V,)),
    "programs that refer to others": (lambda x: jnp.std(x) + jnp.var(x) + jnp.std(x * 2), (V,)),
    "networks": (lambda x: (jax.nn.relu(x), jax.nn.softmax(x), jax.nn.gelu(x), jax.nn.silu(x), jax.nn.softplus(x),
                            jax.nn.logsumexp(x), jax.nn.one_hot(jnp.arange(3), 4)), (V,)),
    "cond": (lambda x: lax.cond(x > 0, lambda y: y * 2, lambda y: y + 1, x), (S,)),
    "switch": (lambda n, x: lax.switch(n, [lambda y: y * 2, jnp.sin, lambda y: y], x), (N, S)),
    "scan": (lambda x: lax.scan(lambda c, y: (c + y, c * y), S, x, reverse=True, unroll=2), (V,)),
    "scan over trees": (_tree, ({"a": S, "b": S * 2}, (V, None))),
    "scan with constants": (lambda x, s: lax.scan(lambda c, y: (c * s + y, None), s, x)[0], (V, S)),
    "while": (_while, (S,)),
    "fori": (lambda x: lax.fori_loop(0, 5, lambda i, c: c + i * x, x), (S,)),
    "map": (lambda x: lax.map(jnp.sin, x), (V,)),
    "associative scan": (lambda x: lax.associative_scan(jnp.add, x), (V,)),
    "checkpoint": (jax.checkpoint(lambda x: jnp.sin(jnp.sin(x))), (S,)),
    "checkpoint with a policy": (
        jax.checkpoint(lambda x: jnp.sin(x @ x.T), policy=jax.checkpoint_policies.dots_saveable),
        (X,),
    ),
    "grad of checkpoint": (jax.grad(jax.checkpoint(lambda x: jnp.sin(jnp.sin(x)))), (S,)),
    "custom_jvp": (_tripled, (S,)),
    "vmap of custom_jvp": (jax.vmap(_tripled), (V,)),
    "custom_vjp": (_doubled, (V,)),
    "grad of custom_vjp": (jax.grad(lambda x: _doubled(x).sum()), (V,)),
    "constants": (lambda x: x + jnp.asarray(V) * np.arange(4.0, dtype=np.float32), (X,)),
    "named axes": (jax.vmap(lambda x: lax.psum(x, "i") * lax.axis_index("i") + lax.pmax(x, "i"), axis_name="i"), (V,)),
    "barriers": (
        lambda x: (lax.optimization_barrier((x, x)), lax.stop_gradient(x), jnp.copy(x), jax.device_put(x)),
        (S,),
    ),
    "precision": (lambda x: lax.reduce_precision(x, 8, 7), (V,)),
    "bits": (lambda x: lax.bitcast_convert_type(x, jnp.int32), (V,)),
    "grad of max": (jax.grad(lambda x: jnp.sum(jnp.max(x) ** 2.5)), (V,)),
    "grad of a scan": (jax.grad(lambda x: lax.scan(lambda c, y: (jnp.sin(c) * y, c * y), S, x)[1].sum()), (V,)),
    "grad of a vmapped scan": (
        jax.grad(lambda x: jax.vmap(lambda y: lax.scan(lambda c, z: (jnp.sin(c) * z * y[0], c * z), S, y)[1])(x).sum()),
        (X,),
    ),
    "hessian": (jax.hessian(lambda x: jnp.sum(jnp.tanh(x) ** 3)), (V,)),
    "several equations for one": (
        lambda x: (lax.top_k(x, 2), jnp.unstack(x), jnp.stack([x, x], 1), x.at[1].subtract(3.0), jnp.lexsort((x, x))),
        (V,),
    ),
    "definitions within parameters": (lambda x, b: jnp.linalg.solve(x @ x.T + 9 * jnp.eye(3), b), (X, V[:3])),
    "mapped definitions within parameters": (jax.vmap(jnp.linalg.inv), (np.stack([np.eye(2, dtype=np.float32)] * 2),)),
    "results that nothing reads": (lambda x: (jnp.atleast_1d(x), jnp.frexp(x)[0])[1], (S,)),
    "gradients that nothing reads": (jax.grad(lambda x: jnp.sum(jnp.atleast_1d(x) * 2.0)), (S,)),
    "names of branches": (jax.grad(lambda x: jax.scipy.special.expn(2, x)), (S,)),
    "flags that are numbers": (lambda x: _SVD(x, full_matrices=0, compute_uv=0), (X,)),
    "gamma": (lambda x: jax.random.gamma(jax.random.key(1), x), (np.array([0.5, 3.0], np.float32),)),
    "gradient of gamma": (
        jax.grad(lambda x: jax.random.loggamma(jax.random.key(1), x).sum()), (np.array([0.5, 3.0], np.float32),)
    ),
    "composite": (
        lambda x: lax.composite(lambda x, *, k, names: jnp.sin(x) * k, "my.sine", version=2)(
            x, k=2.0, names=("a", "b")
        ),
        (V,),
    ),
    "composite within programs": (
        lambda x: lax.map(jax.jit(lax.composite(lambda x: jnp.where(x > 0, x, -x), "my.abs")), x), (V,)
    ),
    "composite with arrays": (
        lambda x: lax.composite(lambda x, **_: x + 1, "my.op")(
            x, a=np.arange(6, dtype=np.float32).reshape(2, 3), c=np.array([1 + 2j, -3j]), e=np.zeros((0, 2), np.int8),
            s=np.float32(0.5), d={"k": [np.array(3), (True, "x")]},
        ),
        (V,),
    ),
    "nothing": (lambda: (), ()),
    "no inputs": (lambda: jnp.zeros((2, 3)), ()),
}
# fmt: on


#: Programs with tangents of integers, which JAX prints as literals of no bits.
WITHOUT_BITS: Final[dict[str, F]] = {
    "a result": lambda x, i: jax.jvp(lambda x, i: (x * i, i), (x, i), (x, _NO_BITS)),
    "an operand": lambda x, i: jax.jit(lambda x, i, t: (x * i, t))(x, i, _NO_BITS),
    "repeated": lambda x, i: jax.jvp(lambda x, i: (x * i, i), (x, jnp.stack([i, i])), (x, np.zeros(2, float0))),
}


@pytest.mark.parametrize("name", WITHOUT_BITS)
def test_literals_without_bits(name: str) -> None:
    jaxpr = jax.make_jaxpr(WITHOUT_BITS[name])(S, N)
    assert "(b'',):float0[]" in str(jaxpr)
    read = ir.parse(str(jaxpr))
    assert [str(aval) for aval in read.out_avals] == [str(aval) for aval in from_jax(jaxpr).out_avals]
    programs = read, from_jax(jaxpr).jaxpr  # which has constants in place of what computes nothing
    bits = ([eqn for eqn in program.eqns if any(x.aval.dtype != float0 for x in eqn.outvars)] for program in programs)
    ours, theirs = ([eqn.primitive.name for eqn in eqns] for eqns in bits)
    assert ours == theirs
    check_laws(read, laws=["text", "files", "pickle", "typecheck"])


@pytest.mark.parametrize("name", PROGRAMS)
def test_programs_that_jax_prints(name: str) -> None:
    f, args = PROGRAMS[name]
    check(f, *args)


@pytest.mark.parametrize("name", [*FUNCTIONS, "power", *WHILES])
def test_families(name: str) -> None:
    f = {**FUNCTIONS, **SCANS, **WHILES}[name][1]
    check(f, np.float64(0.7))


_PAIRS: Final = [("vmap", "jvp"), ("jit", "grad"), ("vmap", "grad")]


@pytest.mark.parametrize(("name", "outer"), list(zip(FUNCTIONS, [*_PAIRS, *_PAIRS], strict=True)))
def test_transformed_families(name: str, outer: tuple[str, str]) -> None:
    f: Theirs = FUNCTIONS[name][1]
    for transformation in reversed(outer):
        f = TRANSFORMATIONS[transformation][1](f)
    check(f, np.float64(0.7))


def test_the_text_of_the_issue() -> None:
    text = (
        "{ lambda c:f32[10]; a:f32[5,10]. let b:f32[5] = dot_general[dimension_numbers=(([1], [0]), ([], [])) "
        "preferred_element_type=float32] a c in (b,) }"
    )
    matrix, vector = np.arange(50, dtype=np.float32).reshape(5, 10), np.ones(10, np.float32)
    (found,) = tj.eval_jaxpr(ir.parse(text), [vector], matrix)
    np.testing.assert_array_equal(found, matrix.sum(1))


_IDENTITY = "{ lambda ; b:f32[3]. let  in (b,) }"
_PJIT = (
    f"pjit[donated_invars=(False,) in_shardings=(UnspecifiedValue,) inline=False jaxpr={_IDENTITY} keep_unused=False "
    "name=f out_shardings=(UnspecifiedValue,) resource_env=None] a"
)
_THUNK = (
    f"custom_jvp_call[call_jaxpr={_IDENTITY} jvp_jaxpr_thunk=<function _memoize.<locals>.memoized at 0x7f1c0c3c> "
    "num_consts=0 symbolic_zeros=False name=f] a"
)


@pytest.mark.parametrize(
    ("policy", "expected"),
    [
        (jax.checkpoint_policies.nothing_saveable, checkpoint_policies.nothing_saveable),
        (jax.checkpoint_policies.everything_saveable, checkpoint_policies.everything_saveable),
        (jax.checkpoint_policies.dots_saveable, checkpoint_policies.dots_saveable),
        (
            jax.checkpoint_policies.dots_with_no_batch_dims_saveable,
            checkpoint_policies.dots_with_no_batch_dims_saveable,
        ),
        (
            jax.checkpoint_policies.save_only_these_names("a", "b"),
            checkpoint_policies.save_only_these_names("a", "b"),
        ),
        (
            jax.checkpoint_policies.save_any_names_but_these("a"),
            checkpoint_policies.save_any_names_but_these("a"),
        ),
    ],
)
def test_policies_of_checkpoint_that_say_what_they_are(policy: Callable[..., bool], expected: Policy) -> None:
    printed = str(jax.make_jaxpr(jax.checkpoint(jnp.sin, policy=policy))(1.0))
    (eqn,) = ir.parse(printed).eqns
    assert isinstance(eqn.primitive, Checkpoint)
    assert eqn.primitive.policy == expected


def test_a_policy_of_checkpoint_that_does_not_is_named() -> None:
    policies = jax.checkpoint_policies
    policy = policies.save_from_both_policies(policies.dots_saveable, policies.save_only_these_names("a"))
    printed = str(jax.make_jaxpr(jax.checkpoint(jnp.sin, policy=policy))(1.0))
    with pytest.raises(ir.ParseError, match="is no policy of checkpoint that can be read"):
        ir.parse(printed)


@pytest.mark.parametrize(
    "name", ["", " x ", "3", "f32[3]", "a] b]", "a=1 b=2", 'it\'s "so"', "(", "{ a }", "a\nb", "None"]
)
def test_names_are_read_as_they_were_given(name: str) -> None:
    """JAX prints them without quotes."""

    def named(x: jax.Array) -> tuple[jax.Array, jax.Array]:
        return checkpoint_name(x, name), checkpoint_name(checkpoint_name(x, name), "a")

    program = ir.parse(str(jax.make_jaxpr(named)(np.float32(1))))
    assert [eqn.primitive for eqn in program.eqns] == [Name(label) for label in (name, name, "a")]
    assert ir.parse(str(program)) == program


_REMAT = f"remat[differentiated=False jaxpr={_IDENTITY} policy=None prevent_cse=True] a"


@pytest.mark.parametrize(
    ("text", "same"),
    [
        ("exp[accuracy=None] a", "exp a"),
        (f"pjit[name=f jaxpr={_IDENTITY}] a", f"call[function_name=f jaxpr={_IDENTITY}] a"),
        (_PJIT, f"call[function_name=f jaxpr={_IDENTITY}] a"),
        (_THUNK, f"custom_jvp[function_name=f jaxpr={_IDENTITY} num_captured=0] a"),
        (_REMAT, f"checkpoint[function_name=checkpoint jaxpr={_IDENTITY}] a"),
        ("round[rounding_method=1] a", "round[rounding_method=RoundingMethod.TO_NEAREST_EVEN] a"),
        ("mul a 2:f32[]", "mul a 2.0:f32[]"),
        ("name[name=x] a", "name[label=x] a"),
        ("add_any a a", "add a a"),
        ("rev[dimensions=(np.int64(0),)] a", "rev[dimensions=(0,)] a"),
    ],
)
def test_spellings_of_other_versions(text: str, same: str) -> None:
    program = "{{ lambda ; a:f32[3]. let c:f32[3] = {} in (c,) }}"
    assert ir.parse(program.format(text)) == ir.parse(program.format(same))


_SCAN = (
    "{{ lambda ; a:f32[] b:f32[] c:f32[2]. let\n"
    "    d:f32[] e:f32[2] = scan[\n"
    "      ft_in={}\n"
    "      ft_out=((None,), (RightsOnly(Right(None)),))\n"
    "      jaxpr={{ lambda ; a:f32[] b:f32[] c:f32[]. let  in (b, c) }}\n"
    "      length=2 reverse=False unroll=1\n"
    "    ] a b c\n"
    "  in (d, e) }}"
)


@pytest.mark.parametrize(
    "trees",
    [
        "((None,), (None,), (None,))",
        "(((), (None,)), (RightsOnly(Right(None)),), (None,))",
        "Pytree(vals=[None, None, None], tree=PyTreeDef((([], [*]), {'a': *, 'b': ()}, ([*], None))))",
        "((None,), Pytree(vals=(None,), tree=PyTreeDef({'a': (*,)})), (None,))",
    ],
)
def test_trees_of_scan_in_jax_011(trees: str) -> None:
    params = ir.parse(_SCAN.format(trees)).eqns[0].params
    assert (params["num_consts"], params["num_carry"]) == (1, 1)


@pytest.mark.parametrize("trees", ["((), (None,), (None,))", "(None,)", "3", "Pytree(vals=(), tree=3)", "<x y>"])
def test_trees_of_scan_that_do_not_fit(trees: str) -> None:
    error = refusal(_SCAN.format(trees))
    assert (error.line, error.column) == (3, 7)
    assert "leaves as there are operands" in error.problem or "can't be read" in error.problem


def test_one_minus_square() -> None:
    """A primitive of JAX 0.11, which its derivative of tanh uses."""
    text = "{ lambda ; a:f64[] b:i32[2]. let c:f64[] = one_minus_square a; d:i32[2] = one_minus_square b in (c, d) }"
    jaxpr = ir.parse(text)
    check_laws(jaxpr, laws=["text"])
    x, n = np.float64(1e-9), np.asarray([2, -3], np.int32)
    first, second = tj.eval_jaxpr(jaxpr, [], x, n)
    assert float(first) == 1.0
    np.testing.assert_array_equal(second, [-3, -8])
    assert float(tj.grad(lambda x: tj.eval_jaxpr(jaxpr, [], x, n)[0])(x)) == -2e-9


def test_variables_called_like_words() -> None:
    """JAX names its variables a, b, ..., zz, aaa without sparing words that mean something else."""
    text = (
        "{ lambda ; in:f32[] inf:f32[] let:c64[]. let\n"
        "    nan:f32[] = mul in inf:f32[]\n"
        "    lambda:f32[] = add nan inf\n"
        "    x:f32[] = mul in\n      in\n"
        "    y:c64[] = mul let (1+2j):c64[]\n"
        "  in (in, nan, lambda, inf, inf:f32[], y) }"
    )
    jaxpr = ir.parse(text)
    check_laws(jaxpr, laws=["text"])
    assert str(jaxpr).endswith("in (a, d, e, b, inf:f32[], f) }")
    assert [str(eqn) for eqn in jaxpr.eqns[:2]] == ["d:f32[] = mul a inf:f32[]", "e:f32[] = add d b"]


def test_what_text_cannot_hold() -> None:
    problem = refusal(str(jax.make_jaxpr(lambda x: jax.debug.print("{}", x))(S))).problem
    assert "calls a Python function, which text can't hold" in problem
    kernel = Primitive("kernel")
    kernel.def_abstract_eval(lambda x: x)
    problem = refusal(str(jax.make_jaxpr(kernel.bind)(V))).problem
    assert "no primitive 'kernel'" in problem


def test_calls_of_functions_elsewhere() -> None:
    kernel = jax.ffi.ffi_call("kernel", jax.ShapeDtypeStruct((2,), np.float32), vmap_method="broadcast_all")

    def f(x: jax.Array) -> jax.Array:
        return jnp.asarray(kernel(x, power=2, near="a", exact=True))

    assert ir.parse(str(jax.make_jaxpr(f)(V))) == from_jax(f, V).jaxpr


def test_a_custom_derivative_is_missed_when_it_is_asked_for() -> None:
    program = ir.parse(str(jax.make_jaxpr(_tripled)(S)))
    with pytest.raises(MissingRuleError, match=r"holds no derivative of '_tripled'.*read from what JAX printed"):
        tj.grad(lambda x: tj.eval_jaxpr(program, [], x)[0])(S)
