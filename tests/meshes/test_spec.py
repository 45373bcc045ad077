"""Specifications, compared with JAX's."""

from __future__ import annotations

import pickle
from collections.abc import Sequence

import jax
import pytest
from hypothesis import given
from hypothesis import strategies as st

import tinyjax as tj
from tests.meshes.cases import jax_spec, parts
from tinyjax.errors import InputError, ShardingError
from tinyjax.meshes import P, PartitionSpec
from tinyjax.meshes.spec import PartLike

JaxP = jax.sharding.PartitionSpec
NAMES = ("x", "y", "z")
LOOSE: list[PartLike] = [None, "x", "y", ("x",), ["x"], (), [], ("x", "y"), ["x", "y"], ("y", "x", "z")]


@given(st.lists(st.sampled_from(LOOSE), max_size=4))
def test_parts_are_kept_as_jax_keeps_them(loose: list[PartLike]) -> None:
    ours, theirs = P(*loose), JaxP(*loose)
    assert ours.partitions == theirs.partitions
    assert repr(ours) == repr(theirs)
    assert tuple(ours) == tuple(theirs)
    assert len(ours) == len(theirs)
    assert ours[1:] == theirs[1:]


@given(st.lists(st.sampled_from(LOOSE), max_size=3), st.lists(st.sampled_from(LOOSE), max_size=3))
def test_equality_sums_and_places(one: list[PartLike], two: list[PartLike]) -> None:
    assert (P(*one) == P(*two)) == (JaxP(*one) == JaxP(*two))
    if P(*one) == P(*two):
        assert hash(P(*one)) == hash(P(*two))
    assert jax_spec(P(*one) + P(*two)) == JaxP(*one) + JaxP(*two)
    assert jax_spec(P(*one) + tuple(two)) == JaxP(*one) + tuple(two)
    assert jax_spec(tuple(one) + P(*two)) == tuple(one) + JaxP(*two)
    for part in one:
        assert P(*one).index(part) == JaxP(*one).index(part)
        assert P(*two).count(part) == JaxP(*two).count(part)


@given(parts(NAMES, 3), st.sets(st.sampled_from(NAMES)), st.sets(st.sampled_from(NAMES)))
def test_unreduced_and_reduced(kept: list[PartLike], unreduced: set[str], reduced: set[str]) -> None:
    try:
        theirs = JaxP(*kept, unreduced=unreduced, reduced=reduced)
    except ValueError:
        with pytest.raises(ShardingError, match="mesh axis"):
            P(*kept, unreduced=unreduced, reduced=reduced)
        return
    ours = P(*kept, unreduced=unreduced, reduced=reduced)
    assert (ours.unreduced, ours.reduced) == (theirs.unreduced, theirs.reduced)
    assert ours.update(partitions=()).unreduced == unreduced
    assert pickle.loads(pickle.dumps(ours)) == ours
    if len(unreduced) <= 1 and len(reduced) <= 1:  # JAX prints sets in any order
        # jax 0.11 has other ways to reduce, too, and says which; ours are sums.
        assert repr(ours) == repr(theirs).replace(", unreduced_kind=sum", "")
    if unreduced:
        with pytest.raises(ShardingError, match=r"spec\.partitions"):
            list(ours)


def test_one_that_xla_chooses() -> None:
    spec = P("x", P.UNCONSTRAINED)
    assert repr(spec) == repr(JaxP("x", JaxP.UNCONSTRAINED)) == "P('x', UNCONSTRAINED)"
    assert spec[1] is P.UNCONSTRAINED
    assert pickle.loads(pickle.dumps(spec))[1] is P.UNCONSTRAINED


def test_it_is_a_leaf_of_trees() -> None:
    assert tj.tree.leaves([P("x"), (P(), None)]) == [P("x"), P()]
    assert tj.P is PartitionSpec


@pytest.mark.parametrize(
    ("parts", "message"),
    [([1], "not 1"), ([("x", 2)], "not 2"), (["UNCONSTRAINED"], "P.UNCONSTRAINED"), ([{"x"}], "not {'x'}")],
)
def test_bad_parts(parts: Sequence[str], message: str) -> None:
    with pytest.raises(InputError, match=message):
        P(*parts)


def test_bad_sets() -> None:
    with pytest.raises(InputError, match="unreduced is a set of mesh axes"):
        P(unreduced="x")  # type: ignore[arg-type]
