"""Ahead of time as at a call, programs run where their arguments are, and refuse what lies elsewhere: as in jax."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import jax
import numpy as np
import pytest

import tinyjax as tj
from tinyjax.errors import ShardingError

X = np.arange(16, dtype="float32")


def on(number: int) -> Callable[[Any], Any]:
    return lambda lib: lib.device_put(X, lib.devices()[number])


def _mesh(lib: Any) -> Any:
    return lib.NamedSharding(lib.make_mesh((8,), ("x",), (lib.sharding.AxisType.Auto,)), lib.P("x"))


def _mesh_of_one(lib: Any) -> Any:
    return lib.NamedSharding(lib.sharding.Mesh([lib.devices()[3]], ("x",)), lib.P())


def _type_on(lib: Any, number: int) -> Any:
    where = lib.sharding.SingleDeviceSharding(lib.devices()[number])
    return lib.ShapeDtypeStruct(X.shape, X.dtype, sharding=where)


GIVEN: dict[str, Callable[[Any], Any]] = {
    "on the host": lambda lib: X,
    "made": lambda lib: lib.numpy.arange(16, dtype="float32"),
    "computed": lambda lib: lib.jit(lambda x: x * 1)(X),
    "put anywhere": lambda lib: lib.device_put(X),
    "first": on(0),
    "third": on(3),
    "fifth": on(5),
    "computed on the third": lambda lib: lib.jit(lambda x: x * 1)(lib.device_put(X, lib.devices()[3])),
    "divided": lambda lib: lib.device_put(X, _mesh(lib)),
    "mesh of one": lambda lib: lib.device_put(X, _mesh_of_one(lib)),
}
LOWERED_FOR: dict[str, Callable[[Any], Any]] = {
    **GIVEN,
    "type": lambda lib: lib.ShapeDtypeStruct(X.shape, X.dtype),
    "type on the third": lambda lib: _type_on(lib, 3),
}


def _where(run: Callable[[], Any]) -> set[int] | str:
    try:
        found = run()
    except ValueError:
        return "refused"
    np.testing.assert_array_equal(found, X + 1)
    return {device.id for device in found.sharding.device_set}


@pytest.mark.parametrize("given", GIVEN)
@pytest.mark.parametrize("lowered_for", LOWERED_FOR)
def test_compiled_programs_run_where_arguments_are(lowered_for: str, given: str) -> None:
    def run(lib: Any) -> set[int] | str:
        compiled = lib.jit(lambda x: x + 1).lower(LOWERED_FOR[lowered_for](lib)).compile()
        return _where(lambda: compiled(GIVEN[given](lib)))

    assert run(tj) == run(jax)


#: How a program is made whose second argument is on the host, and lies nowhere.
MADE: dict[str, Callable[[Any], Any]] = {
    "in_shardings": lambda lib: lib.jit(lambda x, y: x + y, in_shardings=_type_on(lib, 3).sharding).lower(X, X),
    "device": lambda lib: lib.jit(lambda x, y: x + y, device=lib.devices()[3]).lower(X, X),
    "one of two": lambda lib: lib.jit(lambda x, y: x + y).lower(on(3)(lib), X),
    "the other": lambda lib: lib.jit(lambda x, y: x + y).lower(X, on(3)(lib)),
    "by name": lambda lib: lib.jit(lambda x, y: x["a"] + y).lower({"a": on(3)(lib)}, X),
    "donated": lambda lib: lib.jit(lambda x, y: x + y, donate_argnums=0).lower(on(3)(lib), X),
}


@pytest.mark.filterwarnings("ignore:backend and device argument on jit")
@pytest.mark.parametrize("given", GIVEN)
@pytest.mark.parametrize("made", MADE)
def test_one_argument_decides_for_all(made: str, given: str) -> None:
    def run(lib: Any) -> set[int] | str:
        compiled, x = MADE[made](lib).compile(), GIVEN[given](lib)
        return _where(lambda: compiled({"a": x} if made == "by name" else x, np.ones_like(X)))

    assert run(tj) == run(jax)


ELSEWHERE: dict[str, Callable[[Any, int], Any]] = {
    "two devices": lambda lib, i: lib.jit(lambda x, y: x + y).lower(on(i)(lib), on(5)(lib)),
    "in_shardings": lambda lib, i: lib.jit(lambda x: x + 1, in_shardings=_mesh(lib)).lower(on(i)(lib)),
    "out_shardings": lambda lib, i: lib.jit(lambda x: x + 1, out_shardings=_mesh(lib)).lower(on(i)(lib)),
    "a constraint": lambda lib, i: lib.jit(lambda x: lib.lax.with_sharding_constraint(x, _mesh(lib))).lower(on(i)(lib)),
    "another on a mesh": lambda lib, i: lib.jit(lambda x, y: x + y).lower(on(i)(lib), GIVEN["divided"](lib)),
    "a mesh of one": lambda lib, i: lib.jit(lambda x, y: x + y).lower(on(i)(lib), GIVEN["mesh of one"](lib)),
    "device_assignment": lambda lib, i: (
        lib.jit(lambda x: x + 1).lower(on(i)(lib)).compile(device_assignment=(lib.devices()[5],))
    ),
}


@pytest.mark.parametrize("number", [0, 2])
@pytest.mark.parametrize("made", ELSEWHERE)
def test_arguments_that_lie_apart_are_refused(made: str, number: int) -> None:
    with pytest.raises(ShardingError):
        _compiled(ELSEWHERE[made](tj, number))
    with pytest.raises(ValueError, match=r"device|sharding"):
        _compiled(ELSEWHERE[made](jax, number))


def _compiled(made: Any) -> Any:
    return made.compile() if hasattr(made, "compile") else made


@pytest.mark.parametrize("number", [0, 2])
def test_a_mesh_in_force_is_elsewhere(number: int) -> None:
    for lib, error in ((tj, ShardingError), (jax, ValueError)):
        library: Any = lib
        x = on(number)(library)
        with library.set_mesh(_mesh(library).mesh), pytest.raises(error):
            library.jit(lambda x: x + 1).lower(x).compile()


def test_errors_say_where_arguments_are() -> None:
    f = tj.jit(lambda x, y: x + y)
    with pytest.raises(ShardingError, match=r"argument y of '<lambda>' is on cpu:5, but argument x of .* on cpu:3\."):
        f.lower(on(3)(tj), on(5)(tj))
    with pytest.raises(ShardingError, match=r"argument 1 of '<lambda>' is on cpu:5, but .* compiled for cpu:3\. Move"):
        f.lower(on(3)(tj), X).compile()(X, on(5)(tj))
    with pytest.raises(ShardingError, match=r"is cpu:5, but '<lambda>' was lowered for what lies on cpu:3"):
        f.lower(on(3)(tj), X).compile(device_assignment=["cpu:5"])
    assert f.lower(on(3)(tj), X).compile(device_assignment=["cpu:3"])(X, X).device == tj.devices()[3]


def test_what_is_closed_over_is_moved() -> None:
    far, near = tj.device_put(np.ones(70000, "float32"), tj.devices()[5]), tj.device_put(X, tj.devices()[5])
    compiled = tj.jit(lambda x: x + near + far[:16]).lower(on(3)(tj)).compile()
    found = compiled(X)
    np.testing.assert_array_equal(found, 2 * X + 1)
    assert found.device == tj.devices()[3]
    assert compiled.input_shardings == ((_type_on(tj, 3).sharding,), {})
    with pytest.raises(ShardingError, match="argument 0"):
        compiled(on(5)(tj))


@pytest.mark.sweep
@pytest.mark.parametrize("reroll", [False, True])
def test_meshes_of_one_and_loops_run_there_too(reroll: bool) -> None:
    mesh = tj.make_mesh((1,), ("i",))
    summed = tj.shard_map(lambda x: tj.lax.psum(x, "i"), mesh=mesh.abstract_mesh, in_specs=tj.P("i"), out_specs=tj.P())

    @tj.jit(reroll=reroll)
    def f(x: Any, w: list[Any]) -> Any:
        for each in w:
            for _ in range(12):
                x = tj.numpy.sin(x @ each)
        return x if reroll else summed(x)

    w = [np.eye(16, dtype="float32") * k for k in range(2, 14)]
    compiled = f.lower(on(3)(tj), w).compile()
    found = compiled(on(3)(tj), w)
    assert found.sharding.device_set == {tj.devices()[3]}
    np.testing.assert_allclose(found, f(X, w), rtol=1e-5)
    with pytest.raises(ShardingError):
        compiled(on(5)(tj), w)


def test_tracing_alone_asks_for_no_place() -> None:
    f = tj.jit(lambda x, y: x + y)
    assert f.eval_shape(on(3)(tj), on(5)(tj)).shape == X.shape
    assert len(f.trace(on(3)(tj), on(5)(tj)).eqns) == 1
