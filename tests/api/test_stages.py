"""What `jit` and the stages of compilation say and take, as in `jax.stages`."""

from __future__ import annotations

import contextlib
from typing import Any

import jax
import numpy as np
import pytest

import tinyjax as tj
from tinyjax import Array, ShapeDtypeStruct, stages
from tinyjax.errors import ChoiceError, InputError, UnsupportedError, XlaError
from tinyjax.hlo.locations import with_lines
from tinyjax.ir.source import SourceInfo
from tinyjax.primitives.exponential import log


def f(p: dict[str, Array], x: Array, *, scale: Array) -> dict[str, Array]:
    return {"y": p["w"] * x * scale}


ARGS = ({"w": np.ones(3, "float32")}, np.float32(2))


@pytest.mark.parametrize("stage", ["trace", "lower", "compile"])
def test_what_stages_say_is_what_those_of_jax_say(stage: str) -> None:
    def at(jitted: Any) -> Any:
        if stage == "trace":
            return jitted.trace(*ARGS, scale=np.float32(1))
        lowered = jitted.lower(*ARGS, scale=np.float32(1))
        return lowered if stage == "lower" else lowered.compile()

    ours, theirs = at(tj.jit(f, donate_argnums=0)), at(jax.jit(f, donate_argnums=0))
    assert ours.in_tree == theirs.in_tree
    assert ours.out_tree == theirs.out_tree
    assert ours.donate_argnums == theirs.donate_argnums == (0,)
    for name in ("args_info", "out_info", *(["in_avals"] if stage != "trace" else [])):
        found, expected = getattr(ours, name), getattr(theirs, name)
        assert tj.tree.structure(found) == jax.tree.structure(expected)
        for x, y in zip(tj.tree.leaves(found), jax.tree.leaves(expected), strict=True):
            assert (x.shape, x.dtype) == (y.shape, y.dtype)
            assert getattr(x, "donated", None) == getattr(y, "donated", None)


def test_names_of_stages() -> None:
    jitted = tj.jit(lambda x: x + 1.0)
    traced = jitted.trace(1.0)
    lowered = traced.lower()
    assert isinstance(jitted, stages.Wrapped)
    assert isinstance(traced, stages.Traced)
    assert isinstance(lowered, stages.Lowered)
    assert isinstance(lowered.compile(), stages.Compiled)
    assert isinstance(tj.tree.leaves(lowered.args_info)[0], stages.ArgInfo)


def test_results_say_how_they_lie() -> None:
    mesh = tj.make_mesh((2,), ("x",))
    lies = tj.NamedSharding(mesh, tj.P("x"))
    jitted = tj.jit(lambda x: 2.0 * x, out_shardings=lies)
    lowered = jitted.lower(ShapeDtypeStruct((4,), "float32"))
    assert lowered.out_info == ShapeDtypeStruct((4,), "float32", sharding=lies)
    assert lowered.compile().out_info.sharding.spec == tj.P("x")


def test_leaves_without_tangents_are_part_of_the_trees() -> None:
    zeros = np.zeros(2, tj.float0)
    lowered = tj.jit(lambda x, y: (x, y)).lower(zeros, np.ones(2))
    compiled = lowered.compile()
    for stage in (lowered, compiled):
        (first, second), _ = stage.args_info
        assert (first.dtype, second.dtype) == (tj.float0, np.float64)
        assert [leaf.dtype for leaf in stage.out_info] == [tj.float0, np.float64]
    assert compiled.input_shardings[0][0] is None
    assert compiled.output_shardings[1] is not None


def test_costs_before_xla_optimises() -> None:
    found = tj.jit(lambda x: x @ x).lower(np.ones((8, 8), "float32")).cost_analysis()
    expected: Any = jax.jit(lambda x: x @ x).lower(np.ones((8, 8), "float32")).cost_analysis()
    assert found["flops"] == expected["flops"] == 1024


@pytest.mark.parametrize("dtype", ["int8", "uint8", "int32", "uint64", "float16", "bfloat16", "float32", "complex64"])
@pytest.mark.parametrize("number", [3, 2.5, 1j, True, -1, 2**40])
def test_numbers_take_the_dtype_that_was_compiled_for(dtype: str, number: Any) -> None:
    """If they are of that kind, and fit; others are refused, as by jax."""
    struct = ShapeDtypeStruct((), dtype)
    kind = {"i": int, "u": int, "f": float, "V": float, "c": complex}[struct.dtype.kind]
    fits = type(number) is kind
    if isinstance(number, int) and kind is int:
        fits = fits and np.iinfo(dtype).min <= number <= np.iinfo(dtype).max
    jitted = tj.jit(lambda x: x)
    for run in (jitted.lower(struct).compile(), jitted.trace(struct), tj.trace(lambda x: x)(struct)):
        if fits:
            found = run(number)
            assert (found.dtype, found.aval.weak_type) == (struct.dtype, False)
            assert found == number
        else:
            with pytest.raises(InputError, match=r"compiled for|traced for"):
                run(number)
    with pytest.raises(InputError, match=r"compiled for .*i64"):
        jitted.lower(ShapeDtypeStruct((), "int32")).compile()(np.int64(3))


def test_options_of_xla_are_those_of_the_outermost_function() -> None:
    inner = tj.jit(tj.numpy.sin, compiler_options={"xla_cpu_enable_fast_math": True})
    looped: Any = lambda x: tj.lax.scan(lambda c, _: (inner(c), None), x, None, length=2)[0]  # noqa: E731
    # Elsewhere they stand in nobody's way, and what is remembered of that changes nothing.
    for f in (inner, tj.grad(inner), tj.checkpoint(inner), tj.make_jaxpr(inner)):
        f(1.0)
    for outer in (tj.jit(lambda x: inner(x) + 1.0), tj.jit(tj.grad(inner)), tj.jit(looped)):
        for _ in range(2):
            with pytest.raises(UnsupportedError, match=r"called within jit of .* Give the options to that: jit\("):
                outer(1.0)


def test_options_of_xla() -> None:
    jitted = tj.jit(lambda x: tj.numpy.sin(x) * 2.0, compiler_options={"xla_cpu_enable_fast_math": True})
    assert abs(float(jitted(1.0)) - 2 * np.sin(1.0)) < 1e-12
    assert jitted(np.ones(2)).shape == (2,)
    assert float(jitted.lower(1.0).compile({"xla_llvm_disable_expensive_passes": True})(0.0)) == 0.0
    for options in ({"xla_foo": 1}, {"xla_cpu_enable_fast_math": "perhaps"}):
        with pytest.raises(XlaError):
            tj.jit(lambda x: x + 1.0, compiler_options=options)(1.0)
        with pytest.raises(XlaError):
            tj.jit(lambda x: x + 1.0).lower(1.0).compile(options)
    refused: Any = [1]
    with pytest.raises(InputError, match="compiler_options is a dict, such as"):
        tj.jit(lambda x: x, compiler_options=refused)
    with pytest.raises(InputError, match="an option of XLA has a name and is a string, a number or a bool"):
        tj.jit(lambda x: x).lower(1.0).compile({"xla_foo": refused})


def test_where_it_runs() -> None:
    x = np.arange(3.0)
    for jitted in (
        tj.jit(lambda x: x + 1.0, device="cpu:3"),
        tj.jit(lambda x: x + 1.0, device=tj.devices()[3], keep_unused=True),
        tj.jit(lambda x: x + 1.0, device=jax.devices()[3]),
    ):
        for argument in (x, x, tj.device_put(x, "cpu:1"), tj.device_put(x, "cpu:3")):
            y = jitted(argument)
            assert str(y.device) == "cpu:3"
            assert y.tolist() == [1.0, 2.0, 3.0]
        assert str(jitted.lower(x).compile()(x).device) == "cpu:3"
        assert tj.grad(lambda x, g=jitted: g(x).sum())(x).tolist() == [1.0] * 3
    assert str(tj.jit(lambda x: x + 1.0, backend="cpu")(x).device) == "cpu:0"
    with pytest.raises(InputError, match="only one of device= and backend= is said"):
        tj.jit(lambda x: x, device="cpu:0", backend="cpu")
    with pytest.raises(ChoiceError, match="there is no device"):
        tj.jit(lambda x: x, device="cpu:99")
    with pytest.raises(InputError, match="so there is no device= beside them"):
        tj.jit(lambda x: x, device="cpu:0", out_shardings=tj.P())


def test_effects_are_done_when_a_call_returns() -> None:
    seen: list[float] = []
    g = tj.jit(lambda x: tj.debug.callback(lambda v: seen.append(float(v)), x))
    g(2.0)
    tj.effects_barrier()
    assert seen == [2.0]


def test_the_compilers_own_objects() -> None:
    jitted: Any = tj.jit(f)
    lowered = jitted.lower(*ARGS, scale=np.float32(1))
    theirs = jax.jit(f).lower(*ARGS, scale=np.float32(1))
    compilers: Any = (lowered, theirs)
    for dialect in (None, "stablehlo", "hlo"):
        ours, expected = (stage.compiler_ir(dialect) for stage in compilers)
        assert type(ours) is type(expected)
    assert str(lowered.compiler_ir()).count("stablehlo.multiply") == lowered.as_text().count("stablehlo.multiply") == 2
    computation: Any = lowered.compiler_ir("hlo")
    assert computation.as_hlo_text() == lowered.as_text("hlo")
    unknown: Any = "mhlo"
    with pytest.raises(InputError, match="compiler_ir: the dialect is 'stablehlo' or 'hlo', got 'mhlo'"):
        lowered.compiler_ir(unknown)


def test_what_jaxlib_runs() -> None:
    mesh = tj.make_mesh((2,), ("x",))
    jitted: Any = tj.jit(f)
    for compiled in (
        jitted.lower(*ARGS, scale=np.float32(1)).compile(),
        tj.jit(lambda x: 2 * x, in_shardings=tj.NamedSharding(mesh, tj.P("x"))).lower(np.ones(4)).compile(),
    ):
        executable: Any = compiled.runtime_executable()
        assert executable.get_hlo_text() == compiled.as_text()


def test_lines_of_operations() -> None:
    def g(x: Array) -> Array:
        with tj.named_scope("layer"):
            y = tj.numpy.sin(x)
        return y.sum()

    line = g.__code__.co_firstlineno + 2
    lowered = tj.jit(g).lower(tj.numpy.ones(3))
    assert "test_stages.py" not in lowered.as_text()
    text = lowered.as_text(debug_info=True)
    assert f'loc("layer/sin"("{__file__}":{line}:0))' in text
    assert f'loc("reduce_sum"("{__file__}":{line + 1}:0))' in text
    for shown in (lowered.as_text(debug_info=True, generic=True), lowered.as_text("hlo", debug_info=True)):
        assert "test_stages.py" in shown
        assert str(line) in shown
    assert "test_stages.py" not in lowered.as_text("hlo")
    derived = tj.jit(tj.grad(g)).lower(tj.numpy.ones(3)).as_text(debug_info=True)
    assert "layer/cos" in derived


def test_file_names_are_quoted() -> None:
    assert with_lines('loc("eqn:0")', [(log, SourceInfo('a"\\\u00e9.py', 3, "f"))]) == (
        'loc("log"("a\\22\\5C\\C3\\A9.py":3:0))'
    )
    assert with_lines('loc("eqn:0")', [(log, None)]) == 'loc("log")'


def test_stages_within_transformations() -> None:
    """Lowered for a value that is being traced: its type is known."""

    def outer(x: Array) -> Array:
        lowered = tj.jit(lambda y: 2.0 * y).lower(x)
        assert "tensor<3xf64>" in lowered.as_text()
        return x

    tj.jit(outer)(tj.numpy.ones(3))
    tj.grad(lambda x: outer(x).sum())(tj.numpy.ones(3))


def _told(m: Any, how: str) -> list[Any]:  # Any: values of two libraries
    """What each stage says of the types of arguments and results: trees of shapes, dtypes, and how they lie."""
    mesh = m.make_mesh((4, 2), ("x", "y"), (m.sharding.AxisType["Auto" if how == "auto" else "Explicit"],) * 2)
    x: Any = np.arange(16.0, dtype="float32").reshape(8, 2)
    x = m.device_put(x, m.NamedSharding(mesh, m.P("x", "y"))) if how != "host" else x

    def f(tree: Any, scale: Any = None, *, shift: Any) -> Any:
        return {"y": tree["x"] * 2, "z": (tree["x"] + shift, scale)}

    said = {"in_shardings": m.P("x"), "out_shardings": m.P("x")} if how == "said" else {}
    with m.set_mesh(mesh) if how == "said" else contextlib.nullcontext():
        if how == "said":
            stage = m.jit(lambda x: x * 2, **said).trace(np.arange(8.0, dtype="float32"))
        else:
            stage = m.jit(f).trace({"x": x}, shift=np.float32(1.0))
        lowered = stage.lower()
        avals = [lowered.in_avals, lowered.compile().in_avals]
        avals += [] if how == "said" else [stage.in_avals, stage.out_avals]  # there JAX's don't say it yet

    def shown(aval: Any) -> Any:
        lies = aval.sharding
        names = (lies.mesh.axis_names, [str(t).rpartition(".")[2] for t in lies.mesh.axis_types])
        return aval.shape, np.dtype(aval.dtype).name, bool(aval.weak_type), names, tuple(lies.spec)

    return [m.tree.map(shown, each) for each in avals]


@pytest.mark.parametrize("how", ["host", "auto", "explicit", "said"])
def test_types_are_trees_as_in_jax(how: str) -> None:
    assert _told(tj, how) == _told(jax, how)
