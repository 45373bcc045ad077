"""Errors about arguments say how the function that the user called was called, where they don't name them."""

from __future__ import annotations

import pickle
import traceback
from collections.abc import Callable
from typing import Any

import ml_dtypes
import numpy as np
import pytest

import tinyjax as tj
import tinyjax.numpy as tnp
from tinyjax import checkpoints, ir, lax, sharding
from tinyjax.called import shown
from tinyjax.errors import (
    AllocationError,
    InputError,
    ParseError,
    ShapeError,
    TinyjaxError,
    TreeError,
    TypingError,
    UnforeseenError,
)
from tinyjax.extend.core import jaxpr_as_fun
from tinyjax.scipy import linalg, special

anything: Any = None
wrong_function: Any = isinstance  # its second argument is a type


@pytest.mark.parametrize(
    ("call", "said"),
    [
        (lambda: tnp.sin(anything), "sin(x=None)"),
        (lambda: tnp.add("x", 1), "add(x1='x', x2=1)"),  # type: ignore[arg-type]
        (lambda: tnp.concatenate([np.ones(2), anything], axis=0), "concatenate(arrays=[f64[2], None], axis=0)"),
        (lambda: lax.linalg.cholesky(tnp.ones((2, 3))), "cholesky(x=f64[2,3])"),
        (lambda: lax.linalg.eigh(np.ones((2, 3), np.float32), lower=False), "eigh(x=f32[2,3], lower=False)"),
        (lambda: special.gammaln(anything), "gammaln(x=None)"),
        (lambda: tnp.broadcast_arrays(np.ones(2), np.ones(3)), "broadcast_arrays(*args=(f64[2], f64[3]))"),
    ],
)
def test_how_it_was_called(call: Callable[[], object], said: str) -> None:
    with pytest.raises(TinyjaxError) as caught:
        call()
    assert caught.value.called == said
    assert str(caught.value).endswith(f"\nCalled as {said}.")
    again = pickle.loads(pickle.dumps(caught.value))
    assert str(again) == str(caught.value)


def test_what_is_traced_shows_its_type() -> None:
    with pytest.raises(ShapeError, match=r"Called as cholesky\(x=f64\[2,3\]\)"):
        tj.jit(lax.linalg.cholesky)(np.ones((2, 3)))
    with pytest.raises(ShapeError, match=r"Called as cholesky\(x=f64\[3\]\)"):
        tj.vmap(lax.linalg.cholesky)(np.ones((2, 3)))


def test_it_is_what_the_user_called() -> None:
    with pytest.raises(TinyjaxError, match=r"Called as cho_factor\(a=f64\[2,3\]\)"):
        linalg.cho_factor(np.ones((2, 3)))


def test_what_names_its_argument_is_as_it_was() -> None:
    with pytest.raises(ShapeError) as caught:
        tnp.sum(np.ones(2), axis=3)
    assert "sum: axis 3" in str(caught.value)
    assert caught.value.called is None


def test_errors_of_what_is_called_within_are_theirs() -> None:
    """Neither the transformation nor the function that hands a function on is how it was called."""
    with pytest.raises(TypingError) as caught:
        tj.vmap(lambda x: x + np.ones(3))(np.ones((2, 4)))
    assert caught.value.called is None
    with pytest.raises(InputError) as inner:
        lax.map(lambda x: tnp.sin(anything) + x, np.ones(2))
    assert inner.value.called == "sin(x=None)"


def test_errors_of_other_kinds_are_as_they_were() -> None:
    with pytest.raises(ParseError) as caught:
        tj.ir.parse("{ lambda")
    assert caught.value.called is None


def test_arguments_in_a_few_words() -> None:
    long = list(range(9))
    assert shown(long) == "[0, 1, 2, 3, 4, 5, ...]"
    assert shown([[[1]]]) == "[[[...]]]"
    assert shown({"a": np.ones(2, np.int8), "b": {}}) == "{'a': i8[2], 'b': {}}"
    assert shown((np.bool_(True), np.float32(1), np.dtype("f4"), (1,))) == "(bool[], f32[], float32, (1,))"
    assert shown((np.sin, int, object())) == "(sin, int, object)"
    assert shown(np.zeros(2, tj.dtypes.bfloat16)) == "bfloat16[2]"
    with pytest.raises(InputError) as caught:
        tnp.sin("x" * 1000)  # type: ignore[arg-type]
    assert len(caught.value.called or "") < 100


def test_objects_that_raise_hide_no_error() -> None:
    class Rude:
        @property
        def aval(self) -> object:
            raise RuntimeError("no")

    with pytest.raises(InputError) as caught:
        tnp.add(1, Rude())  # type: ignore[arg-type]
    assert caught.value.called is None


def test_errors_of_python_that_arguments_cause_are_ours() -> None:
    """Where nothing has refused them before."""
    with pytest.raises(
        UnforeseenError, match=r"associative_scan failed on these arguments, by TypeError: isinstance"
    ) as caught:
        lax.associative_scan(wrong_function, np.ones(3))
    assert caught.value.called == "associative_scan(fn=isinstance, elems=f64[3])"
    assert type(caught.value.__cause__) is TypeError
    frames = traceback.extract_tb(caught.value.__traceback__)
    assert {frame.filename for frame in frames} == {__file__}
    assert isinstance(caught.value, TypeError | ValueError)
    assert str(pickle.loads(pickle.dumps(caught.value))) == str(caught.value)


def test_they_name_what_the_line_calls_that_is_traced() -> None:
    def scanned(x: Any) -> Any:
        return lax.associative_scan(wrong_function, x)

    with pytest.raises(UnforeseenError, match="associative_scan failed") as caught:
        tj.jit(scanned)(np.ones(3))
    assert traceback.extract_tb(caught.value.__traceback__)[-1].name == "scanned"


def test_calls_that_no_signature_takes_are_pythons() -> None:
    missing: Any = tnp.sin
    unexpected: Any = tnp.sum
    with pytest.raises(TypeError, match=r"missing 1 required positional argument: 'x'") as caught:
        missing()
    assert type(caught.value) is TypeError
    with pytest.raises(TypeError, match="unexpected keyword") as caught:
        unexpected(np.ones(2), axes=1)
    assert type(caught.value) is TypeError


def test_what_users_raise_is_theirs() -> None:
    def wrong(x: Any, y: Any) -> Any:
        raise ValueError("mine")

    with pytest.raises(ValueError, match=r"^mine$") as caught:
        lax.associative_scan(wrong, np.ones(3))
    assert type(caught.value) is ValueError


def test_arguments_that_are_not_as_annotated_are_named() -> None:
    """Once something has failed by them."""
    odd: Any = 3
    program = tj.make_jaxpr(tnp.sin)(1.0)
    calls: list[tuple[Callable[[], object], str]] = [
        (lambda: ir.nested_programs(odd), "nested_programs: jaxpr takes Jaxpr, got 3"),
        (lambda: ir.subjaxprs(odd), "subjaxprs takes a primitive, such as eqn.primitive; got 3"),
        (lambda: ir.variable_names(odd), "variable_names: jaxpr takes Jaxpr, got 3"),
        (lambda: ir.format_closed(odd), "format_closed: closed takes ClosedJaxpr, got 3"),
        (lambda: ir.format_eqn(program.eqns[0], odd), r"format_eqn: names takes Mapping\[int, str\] | None, got 3"),
        (lambda: ir.typecheck(odd), r"typecheck: program takes Jaxpr \| ClosedJaxpr, got 3"),
        (lambda: sharding.make_single_device_sharding(odd), "device takes OneDevice, got 3"),
        (lambda: jaxpr_as_fun(odd), "closed_jaxpr is a ClosedJaxpr"),
        (lambda: tj.named_scope(odd), "named_scope takes a name, got 3"),
        (lambda: tnp.tril_indices(3, 2**70), "tril_indices: an integer among its arguments is too large"),
        (lambda: special.bernoulli(2**40), "bernoulli: an integer among its arguments is too large"),
        (lambda: tj.tree.unflatten(odd, [1]), "unflatten: treedef takes PyTreeDef, got 3"),
        (lambda: tj.tree_util.treedef_tuple([odd]), "treedef_tuple takes structures of trees"),
        (lambda: tj.tree.map(np.int32, (1, 2), (3, 4)), "map calls a function that doesn't take the arguments"),
        (lambda: checkpoints.save(odd, 1.0), "save: path is that of a folder, a string or a Path, got 3"),
        (lambda: checkpoints.load(""), "load: path is that of a folder, a string or a Path, got ''"),
        (lambda: tj.tools.save_html(odd, program), r"path takes str \| os.PathLike\[str\], got 3"),
        (lambda: tnp.trim_zeros(tj.random.key(0)), "trim_zeros: filt is a key of random numbers"),
        (lambda: tnp.spacing(np.ones(2, ml_dtypes.float8_e5m2)), "spacing takes no arrays of dtype float8_e5m2"),
    ]
    for call, said in calls:
        with pytest.raises(InputError, match=said) as caught:
            call()
        assert not isinstance(caught.value, UnforeseenError)
        assert {frame.filename for frame in traceback.extract_tb(caught.value.__traceback__)} == {__file__}


def test_keys_of_dictionaries_that_cannot_be_sorted() -> None:
    mixed: Any = {1: 1.0, "a": 2.0}
    calls = tj.jit(lambda x: x), tj.grad(lambda x: x[1]), tj.tree.flatten_with_path, lambda t: tj.tree.map(abs, t)
    for call in calls:
        with pytest.raises(TreeError, match=r"'<' not supported .* Use keys of one type, such as strings") as caught:
            call(mixed)
        frames = traceback.extract_tb(caught.value.__traceback__)
        assert {frame.filename for frame in frames} == {__file__}


def test_trees_that_do_not_fit() -> None:
    pair = tj.tree.structure((0, 0))
    for call, said in (
        (lambda: tj.tree.transpose(pair, pair, (1, 2)), "the tree has 2 leaves, not 4"),
        (lambda: tj.tree.leaves((1, 2), is_leaf=lambda x: x), "is_leaf says whether a node is a leaf"),
    ):
        with pytest.raises(TreeError, match=said):
            call()


def test_methods_say_how_they_were_called() -> None:
    x: Any = tnp.ones((2, 3))
    with pytest.raises(InputError, match=r"Called as IndexUpdate\.set\(values='x'\)"):
        x.at[0].set("x")
    with pytest.raises(InputError, match=r"Called as repeat\(a=f64\[2,3\], repeats=2, total_repeat_length=1180591"):
        x.repeat(2, total_repeat_length=2**70)
    with pytest.raises(AllocationError, match="repeat failed on these arguments for want of memory") as caught:
        x.repeat(2**40)
    assert isinstance(caught.value, MemoryError)
    for call, said in (
        (lambda: x.transpose(np.array(1)), "transpose: "),
        (lambda: x.std(ddof=[1]), "ddof, or correction, is a number"),
        (lambda: x.flatten(order=np.ones(2)), "reshape: order is"),
        (lambda: x.item(1, 3), "there is no element at"),
        (lambda: x.tobytes("x"), "tobytes: order is"),
        (lambda: f"{x:.2f}", "can't be formatted as '.2f'"),
        (lambda: x.addressable_data("a"), "index is an integer"),
        (lambda: x[np.int32], "only integers, slices"),
        (lambda: x.at[0].apply(3), "func is a function"),
    ):
        with pytest.raises(TinyjaxError, match=said) as found:
            call()
        assert not isinstance(found.value, UnforeseenError)


def test_functions_that_take_other_arguments() -> None:
    """What is called with a function says which one; what it returns is the user's to call, and Python says it."""
    two: Any = lambda x, y: x  # noqa: E731
    calls: list[tuple[Callable[[], object], str]] = [
        (lambda: lax.map(two, np.ones(3)), "map: f doesn't take the arguments"),
        (lambda: lax.switch(0, [two], np.ones(3)), "switch: branches doesn't take the arguments"),
        (lambda: tj.jvp(two, (1.0,), (1.0,)), "jvp: fun doesn't take the arguments"),
    ]
    for call, said in calls:
        with pytest.raises(InputError, match=said) as caught:
            call()
        assert {frame.filename for frame in traceback.extract_tb(caught.value.__traceback__)} == {__file__}
    mapped = tj.vmap(two)
    for returned in (mapped, tj.grad(two), tj.make_jaxpr(two), tj.jit(two)):
        with pytest.raises(TypeError, match="missing 1 required positional argument: 'y'") as other:
            returned(np.float64(1.0) if returned is not mapped else np.ones(2))
        assert type(other.value) is TypeError
