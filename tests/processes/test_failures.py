"""What goes wrong between processes is an error of ours in all of them, which says what it is: no hang, no abort."""

from __future__ import annotations

import random
import signal
import time
from pathlib import Path

import pytest

from tests.processes.running import Processes, run

pytestmark = pytest.mark.sweep

#: How processes differ, and what is said of it.
DIFFERENCES = {
    "a constant": (
        "tj.jit(lambda x: (x * (2.0 if ME else 3.0)).sum(), out_shardings=everywhere)(x)",
        ["DisagreementError", "in process 0:", "b:f64[8] = mul a 3.0", "in process 1:", "b:f64[8] = mul a 2.0"],
    ),
    "a sharding": (
        "tj.jit(lambda x: x * 2.0, out_shardings=everywhere if ME else rows)(x)",
        ["DisagreementError", "the sharding of result 0:", "process 0: P('x',)", "process 1: P()"],
    ),
    "a mesh": (
        "tj.jit(lambda x: x * 2.0, out_shardings=NamedSharding(named('y' if ME else 'x'), P()))(np.ones(8))",
        ["DisagreementError", "mesh:", "process 0: Mesh('x': 2", "process 1: Mesh('y': 2"],
    ),
    "an argument": (
        "tj.jit(lambda x, rate: x * rate, out_shardings=rows)(x, 0.5 * ME)",
        ["DisagreementError", "argument rate of '<lambda>' has other elements in process 0 than in process 1"],
    ),
    "an argument of a later launch": (
        "h = tj.jit(lambda x, rate: x * rate); [h(x, np.full(1, 0.5 if i < 2 else ME)) for i in range(3)]",
        ["DisagreementError", "launch 3", "argument rate of '<lambda>' has other elements in process 0"],
    ),
    "a number of a later launch": (
        "h = tj.jit(lambda x, rate: x * rate, out_shardings=rows); [h(x, 0.5 + i * ME) for i in range(3)]",
        ["DisagreementError", "launch 2", "argument rate of '<lambda>' has other elements in process 0"],
    ),
    "what is closed over": (
        "c = np.arange(8.0) + ME; tj.jit(lambda x: (x * c).sum(), out_shardings=everywhere)(x)",
        ["DisagreementError", "has other elements in process 0 than in process 1"],
    ),
    "what another program of the same text closes over": (
        (
            "c = [np.arange(8.0) + i for i in range(2)]; of = lambda c: tj.jit(lambda x: (x * c).sum(), "
            "out_shardings=everywhere); [of(c[i * ME])(x) for i in range(2)]"
        ),
        ["DisagreementError", "launch 2", "(input 0) has other elements in process 0 than in process 1"],
    ),
    "what is put on devices": (
        "tj.device_put(np.arange(8.0) + ME, rows)",
        ["DisagreementError", "it has other elements in process 0 than in process 1"],
    ),
    "what is asserted to be equal": (
        "from tinyjax.experimental import multihost_utils as m; m.assert_equal({'a': np.arange(3), 'b': ME}, 'rates')",
        ["UnequalError: rates: x['b'] is i64[] with", "in process 0, and i64[] with", "in process 1."],
    ),
    "the name of a meeting": (
        "from tinyjax.experimental import multihost_utils as m; m.sync_global_devices(f'step {ME}')",
        ["UnequalError", "the name is 'step 0' in process 0, and 'step 1' in process 1."],
    ),
    "who tells the others": (
        "from tinyjax.experimental import multihost_utils as m; m.broadcast_one_to_all(x.shape, is_source=True)",
        ["UnequalError", "one process is the source, not [0, 1]"],
    ),
    "the order": (
        "f(x); g(x); ((f, g) if ME else (g, f))[0](x)",
        ["DisagreementError", "launch 3 of processes 0 and 1", "reduce_max"],
    ),
    "how many": (
        "[f(x) for _ in range(2 + ME)]",
        ["DistributedError", "process 0 has ended after 2 launches, but process 1 has come to launch 3"],
    ),
    "one that raises": (
        "f(x); 1 / (1 - ME); f(x)",
        ["process 1 ended with ZeroDivisionError: division by zero"],
    ),
    "one that never comes": (
        "f(x); time.sleep(6.0 * ME); f(x)",
        ["DistributedError", "process 1 did not come within 3 s to where process 0 was, launch 2"],
    ),
}
BEFORE = """
    rows, everywhere = begin(launch_timeout_seconds=3 if "sleep" in TEXT else 120)
    x = spread(np.arange(8.0), rows)
    named = lambda axis: tj.sharding.Mesh(rows.mesh.devices, (axis,))
    f = tj.jit(lambda x: (x * 2.0).sum(), out_shardings=everywhere)
    g = tj.jit(lambda x: x.max(), out_shardings=everywhere)
"""


@pytest.mark.parametrize("what", DIFFERENCES)
def test_processes_that_differ(what: str, tmp_path: Path) -> None:
    text, words = DIFFERENCES[what]
    found = run(f"{BEFORE.replace('TEXT', repr(text))}    {text}\n", 2, tmp_path)
    for index, ended in found.items():
        assert ended.code == 1, (index, ended)
        if "ZeroDivisionError" not in ended.error or "process 1" in ended.error:
            for word in words:
                assert word in ended.err, ended.err


WORKING = """
    rows, everywhere = begin(heartbeat_timeout_seconds=HEARTBEAT)
    x = spread(np.arange(8.0 * COUNT), rows)
    f = tj.jit(lambda x: (x * 2.0).sum(), out_shardings=everywhere)
    f(x)
    say("works")
    try:
        while True:
            f(x)
    except tj.errors.DistributedError as error:
        say(error)
        assert float(tj.jit(lambda y: y + 1.0)(np.ones(3))[0]) == 2.0  # alone, it goes on
        try:
            f(x)
        except tj.errors.DistributedError as again:
            assert "start all of them again" in str(again)
            sys.exit(3)
"""


@pytest.mark.parametrize(("count", "victim"), [(2, 0), (2, 1), (4, 2)])
def test_a_process_is_killed(count: int, victim: int, tmp_path: Path) -> None:
    with Processes(WORKING.replace("HEARTBEAT", "100"), count, tmp_path) as processes:
        processes.until(victim, "works")
        time.sleep(random.Random(victim).random())
        processes.signal(victim, signal.SIGKILL)
        killed = time.monotonic()
        others = processes.ended([index for index in range(count) if index != victim])
        assert time.monotonic() - killed < 90, "it is missed because its connections end, not because it is silent"
    for ended in others.values():
        assert ended.code in {1, 3}, ended.err
        assert f"process {victim} is gone: its connection ended" in ended.out


def test_a_process_hangs(tmp_path: Path) -> None:
    with Processes(WORKING.replace("HEARTBEAT", "4"), 2, tmp_path) as processes:
        processes.until(1, "works")
        processes.signal(1, signal.SIGSTOP)
        (other,) = processes.ended([0]).values()
        # 1 where what it had launched can't be stopped, as it waits for the other process.
        assert other.code in {1, 3}, other.err
        assert "nothing was heard of process 1 for 4 s" in other.out
        processes.signal(1, signal.SIGCONT)
        (late,) = processes.ended([1]).values()
        assert late.code in {1, 3}, late.err


def test_a_process_is_killed_between_launches(tmp_path: Path) -> None:
    script = """
        rows, everywhere = begin()
        say("works")
        if ME == 0:
            time.sleep(3600)
        while not os.path.exists(sys.argv[0] + ".go"):
            time.sleep(0.01)
    """
    with Processes(script, 2, tmp_path) as processes:
        processes.until(0, "works")
        processes.signal(0, signal.SIGKILL)
        (tmp_path / "script.py.go").touch()
        (other,) = processes.ended([1]).values()
    assert other.code == 1, other.err
    assert "DistributedError: shutdown: process 0 is gone" in other.error, other.err


@pytest.mark.parametrize("missing", [0, 1])
def test_a_process_never_comes(missing: int, tmp_path: Path) -> None:
    script = f"""
        if ME == {missing}:
            sys.exit(0)
        begin(initialization_timeout=7)
    """
    found = run(script, 2, tmp_path)
    other = found[1 - missing]
    assert other.code == 1
    assert "DistributedError: not all of the 2 processes came to the coordinator at 127.0.0.1" in other.err, other.err
    assert "within 7 s" in other.err


def test_a_forked_process_keeps_no_connection_open(tmp_path: Path) -> None:
    script = """
        import warnings
        warnings.simplefilter("ignore")
        rows, everywhere = begin()
        x = spread(np.arange(8.0), rows)
        f = tj.jit(lambda x: (x * 2.0).sum(), out_shardings=everywhere)
        f(x)
        if ME == 1:
            if os.fork() == 0:
                time.sleep(20.0)
                os._exit(0)
            os.kill(os.getpid(), 9)
        time.sleep(0.5)
        f(x)
    """
    started = time.monotonic()
    ended = run(script, 2, tmp_path)[0]
    assert ended.code == 1, ended.err
    assert "process 1 is gone" in ended.error, ended.err
    assert time.monotonic() - started < 90
