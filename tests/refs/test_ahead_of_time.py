"""Functions of Refs in stages: traced, lowered and compiled first, then called; against jax, and plain calls."""

from __future__ import annotations

from collections.abc import Callable
from functools import partial
from typing import Any

import jax
import jax.numpy as jnp
import numpy as np
import pytest

import tinyjax as tj
from tinyjax import numpy as tnp
from tinyjax.errors import InputError, RefError

jax.config.update("jax_enable_x64", True)

#: The libraries without types, for what these don't allow.
lib: Any = tj
theirs: Any = jax
Stage = Callable[[Any, Callable[..., Any], tuple[Any, ...]], Callable[..., Any]]


def type_of(lib: Any, x: Any) -> Any:
    if isinstance(x, tj.Ref | jax.Ref):
        return lib.ShapeDtypeStruct(x.shape, x.dtype, is_ref=True)
    return lib.ShapeDtypeStruct(np.shape(x), np.asarray(x).dtype)


STAGES: dict[str, Stage] = {
    "lower": lambda lib, f, args: lib.jit(f).lower(*args).compile(),
    "trace": lambda lib, f, args: lib.jit(f).trace(*args).lower().compile(),
    "types": lambda lib, f, args: lib.jit(f).lower(*[type_of(lib, x) for x in args]).compile(),
}
#: What jax hasn't: records are called.
OWN: dict[str, Stage] = {
    "record": lambda lib, f, args: lib.jit(f).trace(*args),
    "record of types": lambda lib, f, args: lib.jit(f).trace(*[type_of(lib, x) for x in args]),
    "not compiled": lambda lib, f, args: lib.trace(f, *args),
    "rolled": lambda lib, f, args: lib.jit(f, reroll=True).lower(*args).compile(),
    "dce": lambda lib, f, args: lib.transforms.dce(lib.jit(f).trace(*args)),
}


# Each makes a function, its arguments, and what is read in the end.


def written(lib: Any, np_: Any) -> tuple[Any, ...]:
    x = lib.new_ref(np_.arange(3.0))

    def f(x: Any, y: Any) -> Any:
        x[...] += y
        x[0] += 1.0
        return x[...] * 2.0

    return f, (x, np.float64(3.0)), [x]


def closed_over(lib: Any, np_: Any) -> tuple[Any, ...]:
    x, k = lib.new_ref(np_.arange(3.0)), lib.new_ref(np_.asarray(2))

    def f(y: Any) -> Any:
        x[...] = x[...] * y
        k[...] += 1
        return {"sum": x[...].sum(), "count": k[...]}

    return f, (np.float64(0.5),), [x, k]


def both(lib: Any, np_: Any) -> tuple[Any, ...]:
    x, k = lib.new_ref(np_.arange(3.0)), lib.new_ref(np_.asarray(2.0))

    def f(a: Any, x: Any, b: Any) -> None:
        def body(carry: Any, row: Any) -> Any:
            x[...] += row * carry
            k[...] += 1.0
            return carry + 1.0, None

        lib.lax.scan(body, a, b)

    return f, (np.float64(1.0), x, np.ones((4, 3))), [x, k]


def only_read(lib: Any, np_: Any) -> tuple[Any, ...]:
    x, k = lib.new_ref(np_.arange(3.0)), lib.new_ref(np_.asarray(2.0))
    return (lambda x, y: x[1] * y + k[...]), (x, np.float64(3.0)), [x, k]


def constant(lib: Any, np_: Any) -> tuple[Any, ...]:
    """It closes over an array, too, which is an input of the compiled program."""
    x, table = lib.new_ref(np_.zeros(2)), np_.asarray(np.arange(6.0).reshape(3, 2))

    def f(x: Any, i: Any) -> Any:
        x[...] += table[i]
        return i + 1

    return f, (x, np.int64(2)), [x]


def backward(lib: Any, np_: Any) -> tuple[Any, ...]:
    """Rules write to one Ref that is an argument, and to one that isn't."""
    x, seen = lib.new_ref(np_.asarray(1.0)), lib.new_ref(np_.asarray(5.0))

    watched = lib.custom_vjp(lambda x, y: y)

    def bwd(x: Any, ct: Any) -> Any:
        x[...] += ct
        seen[...] = 2.0 * ct
        return None, ct

    watched.defvjp(lambda x, y: (y, x), bwd)
    return lib.grad(lambda y, x: np_.sin(watched(x, 3.0 * y))), (np.float64(0.3), x), [x, seen]


PROGRAMS = [written, closed_over, both, only_read, constant, backward]


def run(lib: Any, np_: Any, program: Callable[..., tuple[Any, ...]], stage: Stage | None) -> list[Any]:
    f, args, refs = program(lib, np_)
    call = lib.jit(f) if stage is None else stage(lib, f, args)
    if stage is not None:
        found = [ref[...] for ref in refs]
        assert [np.asarray(x).tolist() for x in found] == [np.asarray(r[...]).tolist() for r in program(lib, np_)[2]]
    results = [call(*args), call(*args)]
    return [lib.tree.leaves(results), [ref[...] for ref in refs]]


def same(found: object, expected: object) -> None:
    ours, others = tj.tree.leaves(found), jax.tree.leaves(expected)
    assert len(ours) == len(others)
    for one, other in zip(ours, others, strict=True):
        np.testing.assert_allclose(np.asarray(one), np.asarray(other), rtol=1e-12)


@pytest.mark.parametrize("stage", [*STAGES, *OWN])
@pytest.mark.parametrize("program", PROGRAMS)
def test_stages_do_what_calls_do(program: Callable[..., tuple[Any, ...]], stage: str) -> None:
    ours = run(lib, tnp, program, (STAGES | OWN)[stage])
    same(ours, run(lib, tnp, program, None))
    # jax 0.11 lets what is compiled for the type of a Ref not write to one.
    same(ours, run(theirs, jnp, program, None if stage == "types" else STAGES.get(stage)))


@pytest.mark.parametrize("program", PROGRAMS)
def test_what_stages_say(program: Callable[..., tuple[Any, ...]]) -> None:
    """Of their arguments and results, without those that Refs bring about."""
    f, args, _ = program(lib, tnp)
    traced = lib.jit(f).trace(*args)
    lowered = traced.lower()
    compiled = lowered.compile()
    expected = lib.eval_shape(f, *args)
    assert traced.has_refs
    for stage in (traced, lowered, compiled):
        assert lib.tree.structure(stage.out_info) == lib.tree.structure(expected)
        assert [(x.shape, x.dtype) for x in lib.tree.leaves(stage.out_info)] == [
            (x.shape, x.dtype) for x in lib.tree.leaves(expected)
        ]
        assert len(lib.tree.leaves(stage.args_info)) == len(lib.tree.leaves(compiled.input_shardings)) == len(args)
    assert lib.tree.structure(compiled.output_shardings) == lib.tree.structure(expected)
    assert lib.jit(f).eval_shape(*args) == expected
    assert lib.eval_shape(f, *[type_of(lib, x) for x in args]) == expected
    whole = lib.make_jaxpr(f)(*[type_of(lib, x) for x in args])
    assert len(whole.out_avals) == len(traced.jaxpr.out_avals)
    lib.ir.typecheck(traced.closed_jaxpr)
    assert "stablehlo" in lowered.as_text()


def test_records_in_transformations() -> None:
    """They read and write as the function does: compiled again, in loops, mapped, and with derivatives."""

    def f(x: Any, y: Any) -> Any:
        y = tnp.sin(y) * x[...]
        x[...] += 1.0
        return y

    def ways(call: Callable[..., Any]) -> list[Any]:
        x, xs = lib.new_ref(2.0), lib.new_ref(np.arange(3.0))
        found = [lib.jit(lambda y: call(x, y) + call(x, y))(0.3), x[...]]
        found += [lib.lax.scan(lambda c, y: (c, call(x, y)), None, np.arange(3.0))[1], x[...]]
        found += [lib.vmap(call)(xs, np.arange(3.0)), xs[...]]
        found += [lib.grad(lambda y: call(x, y))(0.3), x[...]]
        return found

    x = lib.new_ref(0.0)
    same(ways(lib.jit(f).trace(x, 1.0)), ways(f))
    same(ways(lib.trace(f, x, 1.0)), ways(f))
    assert float(x[...]) == 0.0


def test_arguments_by_name_and_static_ones() -> None:
    def f(y: Any, scale: str, x: Any) -> Any:
        x[...] += {"one": 1.0, "two": 2.0}[scale] * y
        return x[...]

    x = lib.new_ref(0.0)
    jitted = lib.jit(f, static_argnames="scale")
    jitted.lower(1.0, "two", x).compile()(1.0, x)
    jitted.lower(1.0, scale="one", x=x).compile()(2.0, x=x)
    jitted.trace(1.0, "two", x)(1.0, "two", x)
    lib.trace(f, static_argnums=1)(1.0, "two", x)(1.0, "two", x)
    assert float(x[...]) == 8.0
    g = lib.jit(lambda y, x: x[...] * y).trace(3.0, x)
    assert float(g(x=x, y=2.0)) == 16.0


def test_shardings() -> None:
    mesh = tj.make_mesh((2,), ("x",), axis_types=(tj.sharding.AxisType.Auto,))
    lies = tj.NamedSharding(mesh, tj.P("x"))
    x = lib.new_ref(tj.device_put(np.arange(8.0), lies))
    kept = lib.new_ref(tj.device_put(np.arange(8.0), lies))

    def f(x: Any) -> Any:
        x[...] += 1.0
        x[0] += 1.0
        kept[...] *= 2.0
        return x[...] + kept[...]

    said = tj.ShapeDtypeStruct((8,), "float64", sharding=lies, is_ref=True)
    for compiled in (lib.jit(f).lower(x).compile(), lib.jit(f).lower(said).compile()):
        assert compiled.input_shardings[0][0].spec == tj.P("x")
        found = compiled(x)
        same(found, np.asarray(x[...]) + np.asarray(kept[...]))
    expected = np.arange(8.0) + 2.0
    expected[0] += 2.0
    same(x[...], expected)
    same(kept[...], 4.0 * np.arange(8.0))


def test_types_of_refs() -> None:
    x = lib.new_ref(np.zeros((2, 3), "float32"))
    found, expected = tj.typeof(x), jax.typeof(jax.new_ref(jnp.zeros((2, 3), "float32")))
    assert (found.shape, found.dtype) == (expected.shape, expected.dtype)
    assert isinstance(found, tj.ShapeDtypeStruct)
    assert str(found) == "Ref{f32[2,3]}"
    said = tj.ShapeDtypeStruct((2, 3), "float32", is_ref=True)
    assert repr(said) == repr(jax.ShapeDtypeStruct((2, 3), "float32", is_ref=True))
    assert found == said == tj.ShapeDtypeStruct.like(x)
    assert said != tj.ShapeDtypeStruct((2, 3), "float32")
    assert said != tj.ShapedArray((2, 3), "float32")
    assert said.update(is_ref=False) == tj.ShapedArray((2, 3), "float32")
    assert lib.jit(lambda r: r[0]).lower(jax.ShapeDtypeStruct((2, 3), "float32", is_ref=True)).out_info.shape == (3,)
    lies = tj.NamedSharding(tj.make_mesh((2,), ("x",)), tj.P("x"))
    assert str(said.update(sharding=lies)) == "Ref{f32[2@x,3]}"


def test_barriers() -> None:
    x = lib.new_ref(np.float32(1.0))
    y, again = lib.lax.optimization_barrier((2.0, x))
    assert again is x
    assert float(y) == 2.0

    def f(x: Any, y: Any) -> Any:
        y, _ = lib.lax.optimization_barrier((y, x))
        x[...] += y
        return x[...]

    assert float(lib.jit(f)(x, np.float32(2.0))) == float(x[...]) == 3.0
    (eqn,) = [e for e in lib.jit(f).trace(x, np.float32(2.0)).eqns if e.primitive.name == "optimization_barrier"]
    assert len(eqn.invars) == len(eqn.outvars) == 2


def test_explain() -> None:
    x = lib.new_ref(1.0)
    f = lib.jit(lambda x, y: x[...] * y)
    f(x, 2.0)
    assert f.explain(x, 3.0).reason == "hit"
    assert f.explain(x, np.ones(2)).reason == "changed"


def refused(call: Callable[[], object], *words: str, error: type[Exception] = RefError) -> None:
    with pytest.raises(error) as caught:
        call()
    for word in words:
        assert word in str(caught.value), str(caught.value)


def test_errors() -> None:
    x, k = lib.new_ref(np.zeros(2)), lib.new_ref(0.0)

    def f(x: Any, y: Any) -> Any:
        x[...] += y + k[...]
        return y

    calls: tuple[Any, ...] = (lib.jit(f).lower(x, 1.0).compile(), lib.jit(f).trace(x, 1.0), lib.trace(f, x, 1.0))
    for call in calls:
        refused(partial(call, np.zeros(2), 1.0), "must be a Ref", "tinyjax.new_ref(array)")
        refused(partial(call, x, k), "must be an array", "ref[...]")
        refused(partial(call, lib.new_ref(np.zeros(3)), 1.0), "f64[3]", error=InputError)
    refused(lambda: lib.jit(lambda x, y: y).lower(x, x), "are one Ref")
    refused(lambda: lib.jit(f).trace(x, 1.0)(lib.new_ref(np.zeros(2), kind="no_grad_no_remat"), 1.0), "another kind")
    refused(lambda: lib.jit(f).lower(x, 1.0).compile()(k, 1.0), "f64[]", error=InputError)
    closing = lib.jit(lambda r: r[...] + k[...]).lower(lib.new_ref(0.0)).compile()
    refused(lambda: closing(k), "closes over it, too")
    refused(lambda: lib.export.export(lib.jit(f))(x, 1.0), "export: f takes Refs")
    refused(lib.jit(lambda: lib.jit(f).lower(x, 1.0).compile()(x, 1.0)), "can't be transformed", error=InputError)
    assert float(k[...]) == 0.0
