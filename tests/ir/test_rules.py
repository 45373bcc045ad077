"""Tables of rules."""

from __future__ import annotations

import gc
import importlib
import operator
import pkgutil

import pytest

import tinyjax
from tests.primitives.test_user_primitives import Softplus
from tinyjax import transforms
from tinyjax.contexts.devices import single_equation
from tinyjax.control.call import Call
from tinyjax.control.custom_derivatives import CustomJvp
from tinyjax.errors import MissingRuleError
from tinyjax.ir.aval import ShapedArray
from tinyjax.ir.primitive import Primitive
from tinyjax.ir.program import ClosedJaxpr, Eqn, Jaxpr, Var
from tinyjax.ir.rules import RuleTable
from tinyjax.primitives.elementwise import Add, Elementwise, Mul, add, mul
from tinyjax.primitives.exponential import Exp, Log1p
from tinyjax.primitives.structure import ReduceSum, Reduction
from tinyjax.primitives.trigonometric import Sin, sin

F32 = ShapedArray((), "float32")


def table(parent: RuleTable[[str], str] | None = None) -> RuleTable[[str], str]:
    return RuleTable("Pricing", name="shop.PRICES", parent=parent)


def test_rules_are_found_by_class() -> None:
    prices = table()
    prices[Sin] = lambda primitive, currency: f"{primitive.name} costs 3 {currency}"
    assert prices.apply(sin, "euros") == "sin costs 3 euros"
    assert Sin in prices
    assert Add not in prices


def test_a_decorator_leaves_the_function_as_it_is() -> None:
    prices = table()

    @prices.register(ReduceSum)
    def price(primitive: ReduceSum, currency: str) -> str:
        return f"{len(primitive.axes)} {currency}"

    assert price(ReduceSum((0, 1)), "euros") == prices.apply(ReduceSum((0, 1)), "euros") == "2 euros"


def test_the_nearest_class_wins() -> None:
    prices = table()
    prices[Primitive] = lambda primitive, currency: "any"
    prices[Elementwise] = lambda primitive, currency: "elementwise"
    prices[Mul] = lambda primitive, currency: "mul"
    assert [prices.apply(p, "") for p in (mul, add, ReduceSum((0,)))] == ["mul", "elementwise", "any"]


def test_what_a_table_lacks_its_parent_has() -> None:
    parent = table()
    parent[Mul] = lambda primitive, currency: "mul of parent"
    parent[Add] = lambda primitive, currency: "add of parent"
    child = table(parent)
    child[Mul] = lambda primitive, currency: "mul of child"
    assert [child.apply(p, "") for p in (mul, add)] == ["mul of child", "add of parent"]
    assert parent.apply(mul, "") == "mul of parent"
    child[Elementwise] = lambda primitive, currency: "elementwise of child"
    assert child.apply(add, "") == "add of parent", "a rule for the class itself is nearer than one for its base"
    parent[Sin] = lambda primitive, currency: "sin of parent"
    assert child.apply(sin, "") == "sin of parent", "rules may be added later"


def test_the_error_says_what_to_do() -> None:
    prices = table()
    with pytest.raises(MissingRuleError) as caught:
        prices.apply(sin, "euros")
    assert str(caught.value) == (
        "Pricing rule for 'sin' not implemented. To add it, decorate a function with `@shop.PRICES.register(Sin)`."
    )


def test_missing_looks_into_programs_within() -> None:
    prices = table()
    prices[Call] = lambda primitive, currency: ""
    prices[Reduction] = lambda primitive, currency: ""
    sine = single_equation(sin, (F32,))
    x, y, z, w = (Var(i, F32) for i in range(4))
    eqns = (Eqn(Call("f", sine), (x,), (y,)), Eqn(Call("g", sine), (y,), (z,)), Eqn(mul, (z, z), (w,)))
    middle = Jaxpr((x,), eqns, (w,))
    outer = Jaxpr((x,), (Eqn(Call("h", middle), (x,), (y,)), Eqn(mul, (x, y), (z,))), (z,))
    assert prices.missing(outer) == prices.missing(ClosedJaxpr(outer)) == {Sin: 1, Mul: 2}
    prices[Sin] = lambda primitive, currency: ""
    prices[Mul] = lambda primitive, currency: ""
    assert prices.missing(outer) == {}


def test_missing_is_what_running_lacks() -> None:
    """Not what a derivative needs; and of a primitive that others define, those."""
    prices = table()
    cosine = transforms.jvp(single_equation(sin, (F32,))).jaxpr
    custom = single_equation(CustomJvp("f", single_equation(sin, (F32,)), cosine), (F32,))
    assert prices.missing(custom) == {CustomJvp: 1, Sin: 1}
    decomposed = single_equation(Softplus(1.0), (F32,))
    assert prices.missing(decomposed) == {Exp: 1, Log1p: 1, Mul: 1}
    prices[Softplus] = lambda primitive, currency: ""
    assert prices.missing(decomposed) == {}


def test_why_a_rule_is_missing() -> None:
    parent = table()
    child: RuleTable[[str], str] = RuleTable("Pricing", name="child", parent=parent)
    parent.lacks(Elementwise, "elements are free")
    with pytest.raises(MissingRuleError, match=r"'sin' not implemented: elements are free\. To add it"):
        child.apply(sin, "euros")
    assert child.reason(Call) is None
    assert child.missing(single_equation(sin, (F32,))) == {Sin: 1}
    parent[Elementwise] = lambda primitive, currency: ""
    assert (child.entry(Sin), child.entry(Call)) == ("shop.PRICES[Elementwise]", None)


def test_what_it_shows() -> None:
    assert repr(table()) == "<table of pricing rules: shop.PRICES>"


def test_every_table_of_the_library_is_named_as_one_reaches_it() -> None:
    """What a message suggests is code that runs."""
    for module in pkgutil.walk_packages(tinyjax.__path__, "tinyjax."):
        if not module.name.endswith("__main__"):
            importlib.import_module(module.name)
    gc.unfreeze()  # or what there was before the tests, or before one of them, isn't looked at
    tables = [x for x in gc.get_objects() if isinstance(x, RuleTable) and x.name.startswith("tinyjax.")]
    assert len(tables) > 15
    for table in tables:
        assert operator.attrgetter(table.name.removeprefix("tinyjax."))(tinyjax) is table


def test_a_rule_is_read_as_it_is_written() -> None:
    table: RuleTable[[], str] = RuleTable("Naming", name="table")
    table[Add] = lambda primitive: primitive.name
    assert table[Add](add) == "add"
    assert table.entry(Add) == "table[Add]"
    with pytest.raises(MissingRuleError, match=r"decorate a function with `@table.register\(Mul\)`"):
        table[Mul]
    table.register(Mul)(lambda primitive: "times")
    assert table[Mul](mul) == "times"
