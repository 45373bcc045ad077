"""Every function of `transforms` and `tools` takes a program in every form, and returns the same form."""

from __future__ import annotations

import inspect
from collections.abc import Callable, Sequence
from functools import partial
from pathlib import Path
from typing import Any

import numpy as np
import pytest
from typing_extensions import override

import tinyjax as tj
import tinyjax.numpy as tnp
from tinyjax import ShapedArray, ir, tools, transforms
from tinyjax.errors import InputError, VerificationError
from tinyjax.ir import ClosedJaxpr, ConcreteValue, Jaxpr
from tinyjax.primitives.checks import NanResult
from tinyjax.primitives.elementwise import Neg
from tinyjax.sharding import AbstractMesh
from tinyjax.tools.dataflow import Lattice, Rules, backward_rules, forward_rules

TABLE = np.array([0.5, 0.25, 0.125])
X = np.array([1.0, 2.0, 3.0])


def model(p: Any, x: Any) -> Any:
    y = tnp.sin(p["w"] * TABLE) * x
    _ = tnp.cos(y)
    return {"y": tnp.sum(y * y) + 0.0 * tnp.sum(tnp.negative(-x))}


def linear_model(p: Any, x: Any) -> Any:
    return tnp.sum(tnp.sin(p["w"]) * TABLE * x)


def traced(f: Callable[..., Any] = model) -> tj.Traced[..., Any]:
    return tj.trace(f)({"w": X}, 2 * X)


class Used(Lattice[bool]):
    """Whether a value has to do with what is marked."""

    @override
    def bottom(self, aval: ShapedArray) -> bool:
        return False

    @override
    def join(self, first: bool, second: bool) -> bool:
        return first or second


USED = Used()
FORWARD: Rules[bool] = forward_rules("Use", name="FORWARD")
BACKWARD: Rules[bool] = backward_rules("Use", name="BACKWARD")
AXIS = ir.BatchAxis(2)
(V,) = transforms.variables("x")
RULES = [transforms.Rewrite("signs", transforms.pattern(Neg, transforms.pattern(Neg, V)), lambda ctx, m: m[V])]

#: What keeps the inputs: the result is of the same form.
PASSES: dict[str, Callable[[Any], Any]] = {
    "cse": transforms.cse,
    "dce": transforms.dce,
    "fold_constants": transforms.fold_constants,
    "hoist_constants": transforms.hoist_constants,
    "inline": transforms.inline,
    "optimize": transforms.optimize,
    "reroll": transforms.reroll,
    "rewrite": lambda program: transforms.rewrite(program, RULES),
    "simplify": transforms.simplify,
    "unroll": transforms.unroll,
    "Pipeline": transforms.Pipeline([transforms.cse, transforms.dce]),
    "Pass": transforms.Pass("dce", transforms.dce),
}
#: What makes records of programs, by whether the program is closed: it takes fewer inputs then.
RECORDS: dict[str, Callable[[Any, int], Any]] = {
    "batch": lambda program, n: transforms.batch(program, AXIS, [None] * n + [0, None]),
    "checkify": lambda program, n: transforms.checkify(program, [NanResult]),
    "jvp": lambda program, n: transforms.jvp(program, [False] * n + [True, False]),
    "linearize": lambda program, n: transforms.linearize(program, [False] * n + [True, False]),
    "partial_eval": lambda program, n: transforms.partial_eval(program, [False] * n + [False, True]),
    "prune": lambda program, n: transforms.prune(program, [True], [True] * n + [True, True]),
    "transpose": lambda program, n: transforms.transpose(program, [False] * n + [False, True]),
}
#: What looks at a program.
QUESTIONS: dict[str, Callable[[Any], Any]] = {
    "count_primitives": transforms.count_primitives,
    "repeats": lambda program: str(transforms.repeats(program)),
    "once_or_small": lambda program: [transforms.once_or_small(program)(eqn) for eqn in program.eqns],
    "backward": lambda program: tools.backward(program, USED, BACKWARD, [True]).facts,
    "constancy": tools.constancy,
    "dependence": tools.dependence,
    "diff": lambda program: str(tools.diff(program, program)),
    "forward": lambda program: tools.forward(program, USED, FORWARD).outs,
    "live_memory": tools.live_memory,
    "key_reuse": tools.key_reuse,
    "liveness": tools.liveness,
    "memory_plot": lambda program: tools.memory_plot(tools.live_memory(program)),
    "partition": lambda program: str(tools.partition(program, AbstractMesh((2,), ("x",)), compile=False)),
    "program_cost": tools.program_cost,
    "residual_memory": tools.residual_memory,
    "to_dot": tools.to_dot,
    "to_html": tools.to_html,
    "to_svg": tools.to_svg,
}
#: What takes no program.
OTHERS = {"AnyLiteral", "check_key_reuse", "cost_of", "pattern", "save_html", "sharding_picture", "variables"}


def test_every_function_is_here() -> None:
    """A function that is added belongs in one of these lists."""
    public = {
        name
        for package in (transforms, tools)
        for name in package.__all__
        if inspect.isfunction(getattr(package, name))
    }
    assert public <= {*PASSES, *RECORDS, *QUESTIONS, *OTHERS}


def run(program: Jaxpr | ClosedJaxpr, *args: Any) -> list[Any]:
    return tj.eval_jaxpr(program, (), *args)


@pytest.mark.parametrize("name", PASSES)
def test_passes_keep_the_form(name: str) -> None:
    record = traced()
    closed = record.jaxpr
    assert closed.consts
    apply = PASSES[name]
    as_jaxpr, as_closed, as_record = apply(closed.jaxpr), apply(closed), apply(record)
    assert type(as_jaxpr) is Jaxpr
    assert type(as_closed) is ClosedJaxpr
    assert type(as_record) is tj.Traced
    assert as_record.jaxpr == as_closed
    for program in (as_jaxpr, as_closed):
        ir.typecheck(program)
    assert as_jaxpr.input_names == closed.jaxpr.input_names
    assert as_closed.input_names == as_record.input_names == ("p['w']", "x")
    expected = model({"w": X}, 3 * X)
    np.testing.assert_allclose(run(as_closed, X, 3 * X)[0], expected["y"])
    np.testing.assert_allclose(run(as_jaxpr, *closed.consts, X, 3 * X)[0], expected["y"])
    np.testing.assert_allclose(as_record({"w": X}, 3 * X)["y"], expected["y"])


def parts(record: Any) -> dict[str, Any]:
    names = ("jaxpr", "known", "staged", "primal", "linear")
    return {name: getattr(record, name) for name in names if hasattr(record, name)}


@pytest.mark.parametrize("name", RECORDS)
def test_records_keep_the_form(name: str) -> None:
    whole = traced(linear_model)
    closed = whole.jaxpr
    apply = RECORDS[name]
    open_record = apply(closed.jaxpr, len(closed.consts))
    records = [apply(closed, 0), apply(whole, 0)]
    assert records[0] == records[1]
    for part, program in parts(open_record).items():
        assert type(program) is Jaxpr
        found = parts(records[0])[part]
        assert type(found) is ClosedJaxpr
        ir.typecheck(found)
        assert found.out_avals == program.out_avals
        # What isn't a constant is fed by the caller, and every argument of the function keeps its name.
        assert len(found.jaxpr.invars) == len(program.invars)
        names = {"p['w']", "x", "tangent of p['w']", "cotangent of output 0", ""}
        assert set(found.input_names) <= names
        assert any(found.input_names)


def values(count: int, avals: Sequence[ShapedArray]) -> list[Any]:
    random = np.random.default_rng(count)
    return [random.standard_normal(aval.shape) for aval in avals]


@pytest.mark.parametrize("name", RECORDS)
def test_records_of_closed_programs_compute_the_same(name: str) -> None:
    """The constants are those of the program, wherever they are needed."""
    closed = traced(linear_model).jaxpr
    opened, record = RECORDS[name](closed.jaxpr, len(closed.consts)), RECORDS[name](closed, 0)
    known, other = parts(opened), parts(record)
    if name not in ("partial_eval", "linearize"):
        inputs = values(1, other["jaxpr"].in_avals)
        consts = list(closed.consts) if name != "prune" else list(other["jaxpr"].consts)
        expected = run(known["jaxpr"], *consts, *inputs)
        np.testing.assert_allclose(run(other["jaxpr"], *inputs), expected)
        return
    first, second = ("known", "staged") if name == "partial_eval" else ("primal", "linear")

    def evaluate(record: Any, inputs: list[Any], tangents: list[Any]) -> list[Any]:
        outs = run(getattr(record, first), *inputs)
        count = len(outs) - sum(residual.input is None for residual in record.residuals)
        computed = iter(outs[count:])
        residuals = [next(computed) if r.input is None else inputs[r.input] for r in record.residuals]
        return [*outs[:count], *run(getattr(record, second), *residuals, *tangents)]

    own = values(2, other[first].in_avals)
    later = values(3, known[second].in_avals[len(opened.residuals) :])
    found = evaluate(record, own, later)
    for a, b in zip(found, evaluate(opened, [*closed.consts, *own], later), strict=True):
        np.testing.assert_allclose(a, b)


@pytest.mark.parametrize("name", QUESTIONS)
def test_questions_take_every_form(name: str) -> None:
    record = traced()
    ask = QUESTIONS[name]
    assert type(ask(record.jaxpr)) is type(ask(record)) is type(ask(record.jaxpr.jaxpr))
    assert str(ask(record)) == str(ask(record.jaxpr))


def _apply(record: Callable[[Any, int], Any], program: Any) -> Any:
    return record(program, 0)


def test_what_is_no_program() -> None:
    asked: list[tuple[str, Callable[[Any], Any]]] = [*PASSES.items(), *QUESTIONS.items()]
    for name, record in RECORDS.items():
        asked.append((name, partial(_apply, record)))
    for name, f in asked:
        if name in ("Pass", "Pipeline", "once_or_small", "residual_memory"):
            continue
        with pytest.raises(InputError, match="takes a program: a Jaxpr, a ClosedJaxpr or what"):
            f(model)


def html(program: Any) -> str:
    text: str = program._repr_html_()
    return text


def test_names_are_shown(tmp_path: Path) -> None:
    record = traced()
    programs: list[Any] = [record, record.jaxpr, record.jaxpr.jaxpr]
    for i, program in enumerate(programs):
        tools.save_html(tmp_path / f"{i}.html", program)
        assert (tmp_path / f"{i}.html").read_text() == tools.to_html(program)
    for show in (tools.to_html, tools.to_dot, tools.to_svg, html):
        assert all("p['w']" in show(program).replace("&#x27;", "'") for program in programs)
    table = "\nargument       bytes\np['w'] f64[3]     24\nx f64[3]          24\n"
    assert all(table in tools.program_cost(program).table() for program in programs)
    assert "argument x" in str(tools.residual_memory(record))
    assert "a value that the function closes over" in str(tools.residual_memory(record))
    assert tools.dependence(record).output_names == (("p['w']", "x"),)


def test_names_are_those_of_the_program() -> None:
    """Not those of an equal program from the same lines, of which results are remembered."""

    def total(p: Any) -> Any:
        return sum(p.values()) * TABLE

    for first, second in ("ab", "cd"):
        closed = tj.make_jaxpr(total)({first: 1.0, second: 2.0})
        own = (f"p['{first}']", f"p['{second}']")
        assert closed.input_names == own
        tangents = tuple(f"tangent of {name}" for name in own)
        assert transforms.jvp(closed).jaxpr.input_names == (*own, *tangents)
        assert transforms.batch(closed, AXIS, [0, 0]).jaxpr.input_names == own
        linearized = transforms.linearize(closed)
        assert (linearized.primal.input_names, linearized.linear.input_names) == (own, tangents)
        parts = transforms.partial_eval(closed, [False, True])
        assert (parts.known.input_names, parts.staged.input_names[-1]) == (own[:1], own[1])
        assert transforms.prune(closed, [True]).jaxpr.input_names == own
        cotangent = ("cotangent of output 0",)
        assert transforms.transpose(closed, [True, True]).jaxpr.input_names == cotangent


def test_names_in_messages() -> None:
    record = traced()
    with pytest.raises(InputError, match=r"jvp: nonzero has 1 entries, but the program has 2 inputs \(p\['w'\], x\)"):
        transforms.jvp(record, [True])
    with pytest.raises(InputError, match=r"the program takes \(f64\[3\], p\['w'\]: f64\[3\], x: f64\[3\]\), got"):
        tj.eval_jaxpr(record.jaxpr, (), X)
    with pytest.raises(InputError, match=r"model was compiled for \(p\['w'\]: f64\[3\], x: f64\[3\]\), got"):
        record.lower().compile()({"w": X}, X.astype(np.float32))
    jaxpr = record.jaxpr.jaxpr
    wrong = ir.Var(1, ShapedArray((), "f32"))
    broken = Jaxpr(jaxpr.invars, jaxpr.eqns, (wrong,), names=jaxpr.names)
    with pytest.raises(VerificationError, match=r"reads b \(argument p\['w'\]\) as f32\[\], but"):
        ir.typecheck(broken)


def test_values_are_constants() -> None:
    closed = ClosedJaxpr(traced().jaxpr.jaxpr, (ConcreteValue.of(TABLE),))
    assert closed == traced().jaxpr
