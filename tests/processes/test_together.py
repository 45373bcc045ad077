"""Processes that work together: what they compute, and how they begin and end."""

from __future__ import annotations

from pathlib import Path

import pytest

from tests.processes.running import run

pytestmark = pytest.mark.sweep

WORK = """
    rows, everywhere = begin()
    assert tj.distributed.is_initialized()
    assert (tj.process_index(), tj.process_count()) == (ME, COUNT)
    assert len(tj.local_devices()) == 2 and tj.device_count() == 2 * COUNT
    whole = np.arange(16.0 * COUNT).reshape(4 * COUNT, 4)
    x = spread(whole, rows)
    assert not x.is_fully_addressable

    # By XLA's choice, and by hand.
    total = tj.jit(lambda x: (x * 2.0).sum(0), out_shardings=everywhere)
    np.testing.assert_array_equal(total(x), 2.0 * whole.sum(0))
    mapped = tj.shard_map(lambda x: tj.lax.psum(x.sum(0), "x"), mesh=rows.mesh, in_specs=P("x"), out_specs=P())
    np.testing.assert_allclose(tj.jit(mapped)(x), whole.sum(0))
    g = tj.grad(lambda x: (tj.numpy.sin(x) ** 2).sum())(x)
    np.testing.assert_allclose(tj.process_allgather(g, tiled=True), np.sin(2.0 * whole), atol=1e-12)

    np.testing.assert_array_equal(tj.process_allgather(tj.device_put(whole, rows), tiled=True), whole)

    # Eagerly, and with what is on the host.
    y = x + np.ones(4)
    np.testing.assert_array_equal(tj.process_allgather(y, tiled=True), whole + 1.0)
    local = np.full((2, 3), float(ME))
    np.testing.assert_array_equal(
        tj.process_allgather(tj.make_array_from_process_local_data(rows, local), tiled=True),
        np.repeat(np.arange(float(COUNT)), 2)[:, None] * np.ones(3),
    )
    assert tj.process_allgather(np.float64(ME)).tolist() == list(range(COUNT))

    # Each gives and gets the elements of its own devices.
    mine = np.arange(2.0 * ME, 2.0 * ME + 2.0)
    y = tj.pmap(lambda x, n: x * n + tj.lax.psum(x, "i"), "i", in_axes=(0, None))(mine, 3.0)
    np.testing.assert_array_equal(y, 3.0 * mine + sum(range(2 * COUNT)))

    # Printed or converted, it says that not all of it is here.
    assert repr(x) == f"Array(shape=({4 * COUNT}, 4), dtype=float64, with elements on devices of other processes)"
    assert str(x) == repr(x) and "other processes" in x._repr_html_()
    try:
        np.asarray(x)
    except tj.errors.AddressError as error:
        assert "tinyjax.process_allgather(x)" in str(error)
    else:
        raise AssertionError
    say("done")
"""


@pytest.mark.parametrize("count", [2, 4])
def test_processes_compute_together(count: int, tmp_path: Path) -> None:
    for ended in run(WORK, count, tmp_path, devices=2).values():
        assert (ended.code, ended.out.splitlines()[-1:]) == (0, ["done"]), ended.err


def test_processes_shut_down_when_all_are_ready(tmp_path: Path) -> None:
    script = """
        rows, everywhere = begin()
        if ME == 0:
            time.sleep(1.0)
            say("slept")
        tj.distributed.shutdown()
        assert not tj.distributed.is_initialized()
        say("down")
        assert float(tj.jit(lambda x: x + 1.0)(np.ones(3))[0]) == 2.0  # alone
        try:
            tj.jit(lambda: tj.numpy.ones(4), out_shardings=rows)()
        except tj.errors.DistributedError as error:
            say(error)
    """
    for ended in run(script, 2, tmp_path).values():
        assert ended.code == 0, ended.err
        assert "has been shut down" in ended.out.splitlines()[-1]


def test_initialize_comes_first_and_once(tmp_path: Path) -> None:
    script = """
        def refused(action):
            try:
                action()
            except tj.TinyjaxError as error:
                say(type(error).__name__, error.args[0])

        refused(lambda: tj.distributed.initialize("127.0.0.1:1", 2, 2, cluster_detection_method="deactivate"))
        refused(lambda: tj.distributed.initialize("127.0.0.1", 2, 0))
        refused(lambda: tj.distributed.initialize("127.0.0.1:1", 2, cluster_detection_method="deactivate"))
        tj.distributed.initialize(sys.argv[3], 1, 0)
        assert tj.process_count() == 1
        refused(lambda: tj.distributed.initialize(sys.argv[3], 1, 0))
    """
    (ended,) = run(script, 1, tmp_path).values()
    assert ended.code == 0, ended.err
    kinds = [line.split()[0] for line in ended.out.splitlines()]
    assert kinds == ["InputError", "ChoiceError", "InputError", "DistributedError"], ended.out
    script = """
        tj.jit(lambda x: x + 1.0)(np.ones(3))
        begin()
    """
    (ended,) = run(script, 1, tmp_path).values()
    assert ended.code == 1
    assert "must be called before anything is compiled" in ended.error
