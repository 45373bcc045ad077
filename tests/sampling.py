"""Which cases of tests with many of them run when: in each run, in the sweep, or only in the whole of the sweep."""

from collections.abc import Sequence
from typing import Final
from zlib import crc32

import pytest

#: Of the cases of these files one in so many belongs to every run, at least one of each test; the others belong to the
#: session for what takes long.
SAMPLED: Final = {
    "tests/api/test_autodiff.py": 4,
    "tests/api/test_closed_over_elsewhere.py": 3,
    "tests/api/test_compositions.py": 4,
    "tests/api/test_integers.py": 2,
    "tests/api/test_linear_call.py": 2,
    "tests/api/test_loops_before_derivatives.py": 3,
    "tests/api/test_mesh_of_one.py": 2,
    "tests/api/test_moved_while_transformed.py": 4,
    "tests/api/test_placed_where_said.py": 2,
    "tests/control/test_checkpoint.py": 2,
    "tests/control/test_cond.py": 12,
    "tests/control/test_custom_in_loops.py": 4,
    "tests/control/test_custom_jvp.py": 2,
    "tests/control/test_custom_vjp.py": 2,
    "tests/control/test_forward_pass.py": 2,
    "tests/control/test_local_branches.py": 3,
    "tests/control/test_loops.py": 4,
    "tests/control/test_mapped_cond.py": 2,
    "tests/control/test_pruned_rules.py": 3,
    "tests/control/test_refusing_rules.py": 2,
    "tests/control/test_remade.py": 2,
    "tests/control/test_scan.py": 14,
    "tests/control/test_shard_map.py": 2,
    "tests/control/test_shard_map_tangents.py": 2,
    "tests/experimental/test_bcoo.py": 4,
    "tests/experimental/test_random.py": 2,
    "tests/experimental/test_sparse_rows.py": 5,
    "tests/experimental/test_sparsify.py": 5,
    "tests/hlo/test_library_calls.py": 3,
    "tests/hlo/test_packed_sorts.py": 3,
    "tests/hlo/test_special_values.py": 2,
    "tests/hlo/test_values.py": 3,
    "tests/interop/test_closing_rules.py": 4,
    "tests/interop/test_equal_rules.py": 6,
    "tests/interop/test_exported_calls.py": 5,
    "tests/interop/test_float0.py": 6,
    "tests/interop/test_from_jax.py": 6,
    "tests/interop/test_of_jax.py": 8,
    "tests/interop/test_operators_in_jax.py": 2,
    "tests/interop/test_policies.py": 5,
    "tests/interop/test_sparse.py": 2,
    "tests/interop/test_to_jax.py": 2,
    "tests/interpreters/test_jet.py": 2,
    "tests/ir/test_parser_jax.py": 4,
    "tests/ir/test_parser_jax_refs.py": 2,
    "tests/lax/test_functions.py": 3,
    "tests/lax/test_index_groups.py": 2,
    "tests/lax/test_odd_arguments.py": 3,
    "tests/lax/test_strictness.py": 5,
    "tests/lax/test_windows.py": 8,
    "tests/nn/test_nn.py": 6,
    "tests/nn/test_softmaxes.py": 2,
    "tests/numpy/test_array_api.py": 2,
    "tests/numpy/test_elementwise.py": 6,
    "tests/numpy/test_indexing.py": 9,
    "tests/numpy/test_jax_suites.py": 5,
    "tests/numpy/test_linalg.py": 2,
    "tests/numpy/test_manipulation.py": 3,
    "tests/numpy/test_products.py": 3,
    "tests/numpy/test_reductions.py": 12,
    "tests/numpy/test_sets.py": 4,
    "tests/numpy/test_special_values.py": 2,
    "tests/prepared/test_closed.py": 5,
    "tests/prepared/test_functions.py": 5,
    "tests/prepared/test_jitted.py": 2,
    "tests/prepared/test_loops.py": 5,
    "tests/prepared/test_marked.py": 5,
    "tests/prepared/test_one_device.py": 3,
    "tests/primitives/test_cumulative.py": 3,
    "tests/primitives/test_elementwise_values.py": 12,
    "tests/primitives/test_gather.py": 2,
    "tests/primitives/test_incomplete.py": 5,
    "tests/primitives/test_laws.py": 5,
    "tests/primitives/test_linear_algebra.py": 3,
    "tests/primitives/test_shaping.py": 2,
    "tests/primitives/test_slicing.py": 2,
    "tests/primitives/test_sorting.py": 5,
    "tests/propagation/test_mixed_axes.py": 5,
    "tests/propagation/test_terms.py": 2,
    "tests/random/test_approximate.py": 3,
    "tests/refs/test_ahead_of_time.py": 2,
    "tests/refs/test_refs.py": 4,
    "tests/scipy/test_optimize.py": 5,
    "tests/scipy/test_sparse.py": 9,
    "tests/test_example_libraries.py": 2,
    "tests/test_scale.py": 2,
    "tests/tools/test_cli_streams.py": 2,
    "tests/tracing/test_operators.py": 2,
    "tests/transforms/test_guarded_steps.py": 12,
    "tests/transforms/test_narrow_positions.py": 2,
    "tests/transforms/test_numbers_apart.py": 5,
    "tests/transforms/test_penalties.py": 4,
    "tests/transforms/test_stages.py": 5,
    "tests/transforms/test_turning_layers.py": 2,
}
#: Of the cases that the sweep has of a test, CI has one in so many, where there are more than so many.
SWEPT: Final = 4
FEW: Final = 4


@pytest.hookimpl(tryfirst=True)
def pytest_collection_modifyitems(items: Sequence[pytest.Item]) -> None:
    for name, cases in _cases(items).items():
        file = name.partition("::")[0]
        if file in SAMPLED:
            kept = _one_in(SAMPLED[file], file, cases)
            if all(item.get_closest_marker("sweep") for item in kept):
                kept = [item for item in cases if item.get_closest_marker("sweep") is None][:1]
            _mark(pytest.mark.sweep, cases, kept)
        swept = [item for item in cases if item.get_closest_marker("sweep")]
        if len(swept) > FEW:
            _mark(pytest.mark.rest, swept, _one_in(SWEPT, file, swept, 16) or swept[:1])


def _cases(items: Sequence[pytest.Item]) -> dict[str, list[pytest.Item]]:
    found: dict[str, list[pytest.Item]] = {}
    for item in items:
        name, bracket, _ = item.nodeid.partition("[")
        if bracket:
            found.setdefault(name, []).append(item)
    return found


def _one_in(share: int, file: str, cases: Sequence[pytest.Item], bit: int = 0) -> list[pytest.Item]:
    """Those whose names say so, by their digits from a bit on: the same ones in every run."""
    return [x for x in cases if not (crc32(x.nodeid.removeprefix(f"{file}::").encode()) >> bit) % share]


def _mark(mark: pytest.MarkDecorator, cases: Sequence[pytest.Item], without: Sequence[pytest.Item]) -> None:
    for item in cases:
        if item not in without:
            item.add_marker(mark)
