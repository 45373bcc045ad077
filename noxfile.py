"""What is checked before a change goes in: `nox` runs lint, type and test, `nox -s bench` the benchmarks.

The sessions use the environment that nox itself is installed in (`pip install -e '.[dev]'`): one copy of jax, and no
waiting for installations.
"""

import logging
import sys

import nox

nox.options.default_venv_backend = "none"
nox.options.sessions = ["lint", "type", "test"]


# Test processes that share an accelerator must not each reserve most of its memory.
ENVIRONMENT = {"XLA_PYTHON_CLIENT_PREALLOCATE": "false"}


def run_module(session: nox.Session, module: str, *arguments: str) -> None:
    session.run(sys.executable, "-m", module, *arguments, external=True, env=ENVIRONMENT)


@nox.session
def lint(session: nox.Session) -> None:
    """Style and likely mistakes: ruff."""
    run_module(session, "ruff", "check")
    run_module(session, "ruff", "format", "--check")


@nox.session(name="type")
def types(session: nox.Session) -> None:
    """Types: mypy, strict."""
    run_module(session, "mypy")


@nox.session
def test(session: nox.Session) -> None:
    """Tests and doctests; arguments after `--` go to pytest."""
    # From here on nox reports only what went wrong: a good run ends with pytest's summary.
    logging.getLogger("nox").setLevel(logging.WARNING)
    arguments = session.posargs or ["--numprocesses=auto", "--maxprocesses=4"]
    run_module(session, "pytest", *arguments)


@nox.session
def sweep(session: nox.Session) -> None:
    """The tests that take long, marked `sweep`; arguments after `--` go to pytest."""
    logging.getLogger("nox").setLevel(logging.WARNING)
    arguments = session.posargs or ["--numprocesses=auto", "--maxprocesses=4"]
    run_module(session, "pytest", "-m", "sweep", *arguments)


@nox.session
def explore(session: nox.Session) -> None:
    """The tests with examples that no run has seen before; arguments after `--` go to pytest."""
    arguments = session.posargs or ["--numprocesses=auto", "--maxprocesses=4"]
    run_module(session, "pytest", "--hypothesis-profile=explore", *arguments)


@nox.session
def bench(session: nox.Session) -> None:
    """The benchmarks, in their quick form unless arguments follow `--`."""
    run_module(session, "benchmarks", *(session.posargs or ["--quick"]))
