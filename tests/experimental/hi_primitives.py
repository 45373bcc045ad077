"""Primitives by classes of methods, written once for JAX's modules and for ours."""

from __future__ import annotations

from collections.abc import Callable
from types import SimpleNamespace
from typing import Any


def classes(j: Any) -> Any:  # a namespace of classes and functions
    """Those of a library: `j` has its `jax`, `np`, `hijax` and `HiPrim`. All but Bare and Tree compute sin(x) * y * by,
    with derivatives that are thrice as large, so that it shows which rule is used."""
    jax, np, hijax = j.jax, j.np, j.hijax
    full = hijax.instantiate_zeros

    def init(self: Any, x: Any, y: Any, by: float) -> None:
        self.in_avals, self.out_aval, self.params = (x, y), x, {"by": by}
        j.HiPrim.__init__(self)

    def expand(self: Any, x: Any, y: Any) -> Any:
        return np.sin(x) * y * self.by

    def vjp_fwd(self: Any, nzs: Any, x: Any, y: Any) -> Any:
        return self(x, y), (np.cos(x), {"s": np.sin(x)}, y)

    def vjp_bwd_retval(self: Any, res: Any, ct: Any) -> Any:
        c, s, y = res
        return 3.0 * c * y * ct * self.by, 3.0 * s["s"] * ct * self.by

    def vjp_bwd(self: Any, res: Any, ct: Any, x: Any, y: Any) -> None:
        found = vjp_bwd_retval(self, res, ct)
        y.accum(found[1])
        x.accum(0.25 * found[0])
        x.accum(0.75 * found[0])

    def jvp(self: Any, primals: Any, tangents: Any) -> Any:
        x, y = primals
        tx, ty = map(full, tangents)
        return self(x, y), 3.0 * (np.cos(x) * y * tx + np.sin(x) * ty) * self.by

    def lin(self: Any, nzs: Any, x: Any, y: Any) -> Any:
        return self(x, y), (3.0 * np.cos(x) * y * self.by, 3.0 * np.sin(x) * self.by)

    def linearized(self: Any, res: Any, tx: Any, ty: Any) -> Any:
        return res[0] * full(tx) + res[1] * full(ty)

    def batch_dim_rule(self: Any, axis: Any, dims: Any) -> Any:
        return dims[1] if dims[0] is None else dims[0]

    def sparing_fwd(self: Any, nzs: Any, x: Any, y: Any) -> Any:
        return self(x, y), (x if nzs[0] or nzs[1] else None, y if nzs[0] else None)

    def sparing_bwd(self: Any, res: Any, ct: Any) -> Any:
        x, y = res
        return None if y is None else np.cos(x) * y * ct, np.sin(x) * ct

    def branching_expand(self: Any, x: Any, y: Any) -> Any:
        return np.sin(x) if x > 0 else np.cos(x)

    def branching_bwd(self: Any, res: Any, ct: Any) -> Any:
        return ((2.0 if res > 0 else 3.0) * ct, None)

    def made(name: str, **methods: Callable[..., Any]) -> Any:
        return type(name, (j.HiPrim,), {"__init__": init, "expand": expand, **methods})

    def function(cls: Any) -> Any:
        return lambda x, y: cls(jax.typeof(x), jax.typeof(y), 2.0)(x, y)

    reverse: dict[str, Callable[..., Any]] = {
        "vjp_fwd": vjp_fwd,
        "vjp_bwd_retval": vjp_bwd_retval,
        "batch_dim_rule": batch_dim_rule,
    }
    branching = made("Branching", expand=branching_expand, vjp_fwd=lambda self, nzs, x, y: (self(x, y), x),
                     vjp_bwd_retval=branching_bwd)  # fmt: skip

    seen: list[list[bool]] = []

    def tree_init(self: Any, types: Any) -> None:
        self.in_avals, self.params = (types,), {}
        self.out_aval = {"a": types["x"], "b": (types["x"], types["y"])}
        j.HiPrim.__init__(self)

    def tree_expand(self: Any, p: Any) -> Any:
        return {"a": p["x"] ** 2, "b": (np.sin(p["x"]), np.cos(p["y"]))}

    def tree_bwd(self: Any, p: Any, ct: Any) -> Any:
        seen.append([isinstance(x, hijax.Zero) for x in (ct["a"], *ct["b"])])
        a, b = full(ct["a"]), full(ct["b"][0])
        return ({"x": 2.0 * p["x"] * a + np.cos(p["x"]) * b, "y": np.zeros_like(p["y"])},)

    tree = made("Tree", __init__=tree_init, expand=tree_expand, vjp_fwd=lambda self, nzs, p: (self(p), p),
                vjp_bwd_retval=tree_bwd)  # fmt: skip

    def of_tree(p: Any) -> Any:
        return tree({name: jax.typeof(x) for name, x in p.items()})(p)

    def partly(p: Any) -> Any:
        out = of_tree(p)
        return out["a"] + out["b"][0]

    def thrice(x: Any, y: Any) -> Any:
        z = np.sin(x) * y * 2.0
        return jax.lax.stop_gradient(-2.0 * z) + 3.0 * z

    return SimpleNamespace(
        seen=seen, function=function, of_tree=of_tree, partly=partly, plain=thrice, made=made,
        branching=lambda x: function(branching)(x, x),
        Bare=type("Bare", (j.HiPrim,), {"__init__": init, "expand": lambda self, x, y: x * y}),
        Reverse=made("Reverse", **reverse), Both=made("Both", **reverse, jvp=jvp),
        Accumulating=made("Accumulating", vjp_fwd=vjp_fwd, vjp_bwd=vjp_bwd, batch_dim_rule=batch_dim_rule),
        InSteps=made("InSteps", lin=lin, linearized=linearized),
        Sparing=made("Sparing", vjp_fwd=sparing_fwd, vjp_bwd_retval=sparing_bwd),
        jvp=jvp, lin=lin, linearized=linearized, batch_dim_rule=batch_dim_rule,
    )  # fmt: skip
