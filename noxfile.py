"""What is checked before a change goes in: `nox` runs lint, type and test, `nox -s bench` the benchmarks.

The sessions use the environment that nox itself is installed in (`pip install -e '.[dev]'`): one copy of jax, and no
waiting for installations.
"""

import logging
import os
import shutil
import subprocess
import sys
import tarfile
import tempfile
import venv
from pathlib import Path

import nox

nox.options.default_venv_backend = "none"
nox.options.sessions = ["lint", "type", "test"]


# Test processes that share an accelerator must not each reserve most of its memory.
# The generator of the site announces its successors in each run.
ENVIRONMENT = {"XLA_PYTHON_CLIENT_PREALLOCATE": "false", "NO_MKDOCS_2_WARNING": "1"}


def run_module(session: nox.Session, module: str, *arguments: str) -> None:
    session.run(sys.executable, "-m", module, *arguments, external=True, env=ENVIRONMENT)


@nox.session
def lint(session: nox.Session) -> None:
    """Style and likely mistakes: ruff."""
    run_module(session, "ruff", "check")
    run_module(session, "ruff", "format", "--check")


@nox.session(name="type")
def types(session: nox.Session) -> None:
    """Types: mypy, strict, on all cores."""
    run_module(session, "mypy", "--num-workers=auto")


@nox.session
def test(session: nox.Session) -> None:
    """Tests and doctests; arguments after `--` go to pytest."""
    # From here on nox reports only what went wrong: a good run ends with pytest's summary.
    logging.getLogger("nox").setLevel(logging.WARNING)
    arguments = session.posargs or ["--numprocesses=auto", "--maxprocesses=4"]
    run_module(session, "pytest", *arguments)


@nox.session
def sweep(session: nox.Session) -> None:
    """The tests that take long, marked `sweep`, of many cases one in four; arguments after `--` go to pytest."""
    logging.getLogger("nox").setLevel(logging.WARNING)
    arguments = session.posargs or ["--numprocesses=auto", "--maxprocesses=4"]
    run_module(session, "pytest", "-m", "sweep and not rest", *arguments)


@nox.session
def whole(session: nox.Session) -> None:
    """What takes long, every case; arguments after `--` go to pytest."""
    logging.getLogger("nox").setLevel(logging.WARNING)
    arguments = session.posargs or ["--numprocesses=auto", "--maxprocesses=4"]
    run_module(session, "pytest", "-m", "sweep", *arguments)


@nox.session
def newest(session: nox.Session) -> None:
    """The tests with the newest Python found here (3.12 or later) and jax; arguments after `--` go to pytest.

    The environment is made anew in build/newest, which takes a few minutes.
    """
    python = newest_python()
    if python is None:
        session.error("no Python from 3.12 on is found: neither on the path nor among pyenv's versions")
    environment = Path("build/newest").absolute()
    session.run(python, "-m", "venv", "--clear", str(environment), external=True)
    own = str(environment / ("Scripts" if os.name == "nt" else "bin") / "python")
    session.run(own, "-m", "pip", "install", "--quiet", "--editable", ".[dev]", external=True)
    versions = "import platform, jax, numpy, scipy; print('Python', platform.python_version(), 'jax', jax.__version__,"
    session.run(own, "-c", f"{versions} 'NumPy', numpy.__version__, 'SciPy', scipy.__version__)", external=True)
    logging.getLogger("nox").setLevel(logging.WARNING)
    arguments = session.posargs or ["--numprocesses=auto", "--maxprocesses=4"]
    session.run(own, "-m", "pytest", *arguments, external=True, env=ENVIRONMENT)


def newest_python() -> str | None:
    """The released Python of the highest version, from 3.12 on: of those on the path, and of pyenv's."""
    root = Path(os.environ.get("PYENV_ROOT", Path.home() / ".pyenv"))
    found = [*map(str, root.glob("versions/3.*/bin/python")), sys.executable]
    found += filter(None, (shutil.which(f"python3.{minor}") for minor in range(12, 30)))
    versions: dict[tuple[int, ...], str] = {}
    question = "import sys; print(*sys.version_info[:3]) if sys.version_info.releaselevel == 'final' else print(0)"
    for python in found:
        answer = subprocess.run([python, "-c", question], capture_output=True, text=True, check=False)
        if answer.returncode == 0:  # of pyenv there are commands that only say which versions there are
            versions[tuple(map(int, answer.stdout.split()))] = python
    newest = max(versions, default=())
    return versions[newest] if newest >= (3, 12) else None


@nox.session
def explore(session: nox.Session) -> None:
    """The tests with examples that no run has seen before; arguments after `--` go to pytest."""
    arguments = session.posargs or ["--numprocesses=auto", "--maxprocesses=4"]
    run_module(session, "pytest", "--hypothesis-profile=explore", *arguments)


@nox.session
def bench(session: nox.Session) -> None:
    """The benchmarks, in their quick form unless arguments follow `--`."""
    run_module(session, "benchmarks", *(session.posargs or ["--quick"]))


@nox.session
def dist(session: nox.Session) -> None:
    """Builds what is released into build/dist, and tries it; 10 to 15 minutes. Arguments after `--` go to pytest.

    The wheel, which is built from the sdist, is installed in a fresh environment, without what development needs: the
    command line runs there, and the digits. Then the sdist is unpacked, and its tests run in it, with nothing else of
    the checkout; a minute if they are left out (`nox -s dist -- --collect-only -q`).
    """
    target = Path("build/dist").absolute()
    shutil.rmtree(target, ignore_errors=True)
    run_module(session, "build", "--outdir", str(target))
    (wheel,), (sdist,) = target.glob("*.whl"), target.glob("*.tar.gz")
    with tempfile.TemporaryDirectory() as folder:
        fresh = Path(folder, "fresh")
        venv.create(fresh, with_pip=True)
        scripts = fresh / ("Scripts" if os.name == "nt" else "bin")
        shutil.copytree("examples", Path(folder, "examples"))
        with session.chdir(folder):
            # Nothing but the wheel is to be found.
            nowhere = {**ENVIRONMENT, "PYTHONPATH": ""}

            def fresh_run(*command: str) -> str:
                program, *arguments = command
                return str(session.run(str(scripts / program), *arguments, external=True, env=nowhere, silent=True))

            fresh_run("python", "-m", "pip", "install", "--quiet", str(wheel))
            installed = {
                line.split("==")[0].lower() for line in fresh_run("python", "-m", "pip", "freeze").splitlines()
            }
            unwanted = installed & {"pytest", "hypothesis", "mypy", "pyright", "ruff", "nox", "build", "mkdocs", "rich"}
            if unwanted:
                session.error(f"the wheel brings {unwanted} with it")
            version = wheel.name.split("-")[1]
            for command in (["tinyjax"], ["python", "-m", "tinyjax"]):
                if fresh_run(*command, "--version").split() != ["tinyjax", version]:
                    session.error(f"{command} isn't version {version}")
            Path("model.py").write_text("def cube(x):\n    return x**3\n", encoding="utf-8")
            for word in ("show", "run", "cost"):
                cube = ("model.py:cube", "--args", "f32[3]", "--transform", "vmap,jit")
                session.log(fresh_run("tinyjax", word, *cube).strip())
            fresh_run("python", "-m", "pip", "install", "--quiet", f"{wheel}[examples]")
            session.log(fresh_run("python", "examples/digits.py").splitlines()[-1])
        with tarfile.open(sdist) as archive:
            archive.extractall(folder, filter="data")
        unpacked = Path(folder, sdist.name.removesuffix(".tar.gz"))
        with session.chdir(unpacked):
            arguments = session.posargs or ["--numprocesses=auto", "--maxprocesses=4", "-q"]
            environment = {**ENVIRONMENT, "PYTHONPATH": str(unpacked / "src")}
            session.run(sys.executable, "-m", "pytest", *arguments, external=True, env=environment)


@nox.session
def docs(session: nox.Session) -> None:
    """The documentation site, in build/site; warnings are errors. Twenty seconds; first `pip install -e '.[docs]'`."""
    run_module(session, "website")
    run_module(session, "mkdocs", "build", "--strict", "--config-file", "build/docs/mkdocs.yml")
