"""Models divided among devices in the usual ways: by data, by tensors and by sequences (or space, or experts), once by
XLA from how their arguments lie, and once by hand, within `shard_map`."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any, Final, TypeAlias

from attrs import frozen

import tinyjax as tj
import tinyjax.numpy as tnp
from tinyjax import P, ShapedArray, lax
from tinyjax.sharding import AbstractMesh, PartitionSpec

#: Of arrays.
Function: TypeAlias = Callable[..., Any]
MESH: Final = AbstractMesh((4, 2), ("d", "m"))


def f32(*shape: int) -> ShapedArray:
    return ShapedArray(shape, "float32")


@frozen
class Case:
    """A loss of its arguments, of which the first are weights, and how they lie. `manual`: as `shard_map` has them."""

    function: Callable[..., Any]
    args: tuple[ShapedArray, ...]
    specs: tuple[PartitionSpec, ...]
    weights: int
    manual: bool

    @property
    def loss(self) -> Callable[..., Any]:
        if not self.manual:
            return self.function
        mapped: Function = tj.shard_map(self.function, mesh=MESH, in_specs=self.specs, out_specs=P())
        return mapped

    @property
    def gradient(self) -> Callable[..., Any]:
        derived: Function = tj.grad(self.loss, argnums=tuple(range(self.weights)))
        return derived


CASES: Final[dict[str, Case]] = {}


def case(
    name: str, args: list[ShapedArray], specs: list[PartitionSpec], weights: int, *, manual: bool = False
) -> Callable[[Function], Function]:
    def add(function: Function) -> Function:
        CASES[name] = Case(function, tuple(args), tuple(specs), weights, manual)
        return function

    return add


def everywhere(x: Any, *names: str) -> Any:
    """The mean over devices, a loss."""
    return lax.pmean(x, names)


# A multilayer perceptron: (batch, features), and two weights.

_MLP: Final = [f32(16, 32), f32(32, 8), f32(24, 16)]
_SEQUENCES: Final = [f32(16, 32), f32(32, 16), f32(4, 24, 16)]


@case("mlp data", _MLP, [P(), P(), P("d")], 2)
@case("mlp tensor", _MLP, [P(None, "m"), P("m"), P()], 2)
@case("mlp both", _MLP, [P(None, "m"), P("m"), P("d")], 2)
@case("mlp fully sharded", _MLP, [P("d"), P("d"), P(("d", "m"))], 2)
@case("mlp sequence", _SEQUENCES, [P("m"), P(None, "m"), P(None, "d")], 2)
def mlp(w: Any, v: Any, x: Any) -> Any:
    h = tnp.tanh(x @ w)
    return tnp.mean((h @ v) ** 2)


@case("mlp data by hand", _MLP, [P(), P(), P("d")], 2, manual=True)
def mlp_data(w: Any, v: Any, x: Any) -> Any:
    return everywhere(mlp(w, v, x), "d")


@case("mlp tensor by hand", _MLP, [P(None, "m"), P("m"), P()], 2, manual=True)
def mlp_tensor(w: Any, v: Any, x: Any) -> Any:
    h = tnp.tanh(x @ w)
    return tnp.mean(lax.psum(h @ v, "m") ** 2)


@case("mlp sequence by hand", _SEQUENCES, [P(None, "m"), P("m"), P("d", "m")], 2, manual=True)
def mlp_sequence(w: Any, v: Any, x: Any) -> Any:
    whole = lax.all_gather(x, "m", axis=1, tiled=True)
    y = lax.psum_scatter(tnp.tanh(whole @ w) @ v, "m", scatter_dimension=1, tiled=True)
    return everywhere(tnp.mean(y**2), "d", "m")


@case("mlp layers by hand", [f32(3, 8, 8), f32(16, 8)], [P(None, "m"), P("d", "m")], 1, manual=True)
def mlp_layers(ws: Any, x: Any) -> Any:
    """Each layer's weights are gathered when they are needed."""

    def layer(x: Any, w: Any) -> Any:
        whole = lax.all_gather(w, "m", axis=0, tiled=True)
        return tnp.tanh(lax.psum_scatter(x @ whole[: x.shape[-1]], "m", scatter_dimension=1, tiled=True)), None

    y, _ = lax.scan(layer, x, ws)
    return everywhere(tnp.mean(y**2), "d", "m")


# Attention: weights (features, heads, size), inputs (batch, sequence, features).

_ATTENTION: Final = [f32(16, 4, 8), f32(16, 4, 8), f32(16, 4, 8), f32(4, 8, 16), f32(8, 16, 16)]


def heads(x: Any, w: Any) -> Any:
    return tnp.einsum("bsf,fhk->bhsk", x, w)


def softmax(s: Any) -> Any:
    e = tnp.exp(s - lax.stop_gradient(tnp.max(s, axis=-1, keepdims=True)))
    return e / tnp.sum(e, axis=-1, keepdims=True)


def attended(q: Any, k: Any, v: Any) -> Any:
    return tnp.einsum("bhst,bhtk->bhsk", softmax(tnp.einsum("bhsk,bhtk->bhst", q, k)), v)


@case("attention data", _ATTENTION, [P(), P(), P(), P(), P("d")], 4)
@case("attention tensor", _ATTENTION, [P(None, "m"), P(None, "m"), P(None, "m"), P("m"), P()], 4)
@case("attention both", _ATTENTION, [P(None, "m"), P(None, "m"), P(None, "m"), P("m"), P("d")], 4)
@case("attention sequence", _ATTENTION, [P(), P(), P(), P(), P(None, "d")], 4)
def attention(q: Any, k: Any, v: Any, o: Any, x: Any) -> Any:
    y = attended(heads(x, q), heads(x, k), heads(x, v))
    return tnp.mean((tnp.einsum("bhsk,hkf->bsf", y, o) - x) ** 2)


@case("attention data by hand", _ATTENTION, [P(), P(), P(), P(), P("d")], 4, manual=True)
def attention_data(q: Any, k: Any, v: Any, o: Any, x: Any) -> Any:
    return everywhere(attention(q, k, v, o, x), "d")


@case(
    "attention tensor by hand",
    _ATTENTION,
    [P(None, "m"), P(None, "m"), P(None, "m"), P("m"), P("d")],
    4,
    manual=True,
)
def attention_tensor(q: Any, k: Any, v: Any, o: Any, x: Any) -> Any:
    y = attended(heads(x, q), heads(x, k), heads(x, v))
    return everywhere(tnp.mean((lax.psum(tnp.einsum("bhsk,hkf->bsf", y, o), "m") - x) ** 2), "d")


@case("attention sequence by hand", _ATTENTION, [P(), P(), P(), P(), P("m", "d")], 4, manual=True)
def attention_sequence(q: Any, k: Any, v: Any, o: Any, x: Any) -> Any:
    """Keys and values go round a ring."""
    mine = heads(x, q)
    ring = [(i, (i + 1) % 4) for i in range(4)]

    def step(carry: Any, _: None) -> Any:
        k, v, above, below = carry
        e = tnp.exp(tnp.einsum("bhsk,bhtk->bhst", mine, k) * 0.1)
        above, below = above + tnp.einsum("bhst,bhtk->bhsk", e, v), below + tnp.sum(e, axis=-1, keepdims=True)
        return (lax.ppermute(k, "d", ring), lax.ppermute(v, "d", ring), above, below), None

    start = (heads(x, k), heads(x, v), mine * 0.0, mine[..., :1] * 0.0)
    (_, _, above, below), _ = lax.scan(step, start, None, length=4)
    y = tnp.einsum("bhsk,hkf->bsf", above / below, o)
    return everywhere(tnp.mean((y - x) ** 2), "d", "m")


# Convolution: images (batch, channels, height, width).

_CONVOLUTION: Final = [f32(8, 4, 3, 3), f32(8, 4, 16, 8)]


def conv(x: Any, w: Any, padding: Any) -> Any:
    return lax.conv_general_dilated(x, w, window_strides=(1, 1), padding=padding)


@case("convolution data", _CONVOLUTION, [P(), P("d")], 1)
@case("convolution tensor", _CONVOLUTION, [P("m"), P()], 1)
@case("convolution both", _CONVOLUTION, [P("m"), P("d")], 1)
@case("convolution space", _CONVOLUTION, [P(), P(None, None, "d")], 1)
def convolution(w: Any, x: Any) -> Any:
    return tnp.mean(tnp.tanh(conv(x, w, "SAME")) ** 2)


@case("convolution data by hand", _CONVOLUTION, [P(), P("d")], 1, manual=True)
def convolution_data(w: Any, x: Any) -> Any:
    return everywhere(convolution(w, x), "d")


@case("convolution tensor by hand", _CONVOLUTION, [P(None, "m"), P("d", "m")], 1, manual=True)
def convolution_tensor(w: Any, x: Any) -> Any:
    return everywhere(tnp.mean(tnp.tanh(lax.psum(conv(x, w, "SAME"), "m")) ** 2), "d")


@case("convolution space by hand", _CONVOLUTION, [P(), P("m", None, "d")], 1, manual=True)
def convolution_space(w: Any, x: Any) -> Any:
    """Neighbours send the rows next to one's own."""
    above = lax.ppermute(x[:, :, -1:], "d", [(i, i + 1) for i in range(3)])
    below = lax.ppermute(x[:, :, :1], "d", [(i + 1, i) for i in range(3)])
    y = conv(tnp.concatenate([above, x, below], axis=2), w, [(0, 0), (1, 1)])
    return everywhere(tnp.mean(tnp.tanh(y) ** 2), "d", "m")


# Experts: tokens (tokens, features), each sent to one of the experts.

_EXPERTS: Final = [f32(8, 16), f32(8, 16, 16), f32(64, 16)]
_EXPERTS_BY_HAND: Final = [f32(16, 4), f32(4, 16, 16), f32(64, 16)]


@case("experts data", _EXPERTS, [P(), P(), P("d")], 2)
@case("experts tensor", _EXPERTS, [P(), P("d"), P()], 2)
@case("experts both", _EXPERTS, [P(), P("m"), P("d")], 2)
@case("experts within", _EXPERTS, [P(), P(None, None, "m"), P("d")], 2)
def experts(gate: Any, w: Any, x: Any) -> Any:
    chosen = softmax(x @ gate.T)
    y = tnp.einsum("te,tf,efg->tg", chosen, x, w)
    return tnp.mean((tnp.tanh(y) - x) ** 2)


def to_experts(gate: Any, w: Any, x: Any, name: str) -> Any:
    """Each expert is on one device, and tokens are sent there in turn, weighted, and sent back."""
    count = gate.shape[1]
    scores = softmax(x @ gate)
    sent = (scores[:, :, None] * x[:, None, :]).reshape(x.shape[0] // count, count, count, -1)
    arrived = lax.all_to_all(sent, name, 2, 0, tiled=False)
    done = tnp.tanh(arrived @ w[0])
    back = lax.all_to_all(done, name, 0, 2, tiled=False)
    return tnp.mean(tnp.sum(back, axis=2) ** 2)


@case("experts data by hand", _EXPERTS_BY_HAND, [P(), P("d"), P("d")], 2, manual=True)
def experts_data(gate: Any, w: Any, x: Any) -> Any:
    return everywhere(to_experts(gate, w, x, "d"), "d")


@case("experts both by hand", _EXPERTS_BY_HAND, [P(), P("d"), P(("m", "d"))], 2, manual=True)
def experts_both(gate: Any, w: Any, x: Any) -> Any:
    return everywhere(to_experts(gate, w, x, "d"), "m", "d")


@case("experts tensor by hand", _EXPERTS, [P(), P("d"), P("m")], 2, manual=True)
def experts_tensor(gate: Any, w: Any, x: Any) -> Any:
    scores = softmax(x @ gate.T).reshape(x.shape[0], 4, 2)[:, lax.axis_index("d")]
    y = lax.psum(tnp.einsum("te,tf,efg->tg", scores, x, w), "d")
    return everywhere(tnp.mean(tnp.tanh(y) ** 2), "m")


# Pipelines: a stage on each device, and what goes from one to the next.

_PIPELINE: Final = [f32(4, 8, 8), f32(6, 4, 8)]


def pipelined(w: Any, xs: Any, stage: Callable[[Any, Any], Any]) -> Any:
    count, first = 4, lax.axis_index("d") == 0

    def step(state: Any, x: Any) -> Any:
        state = stage(w[0], tnp.where(first, x, state))
        return lax.ppermute(state, "d", [(i, i + 1) for i in range(count - 1)]), state

    zero = lax.pcast(tnp.zeros_like(xs[0]), "d", to="varying")
    _, ys = lax.scan(step, zero, tnp.concatenate([xs, tnp.zeros_like(xs[: count - 1])]))
    last = lax.axis_index("d") == count - 1
    return lax.psum(tnp.where(last, tnp.mean(ys[count - 1 :] ** 2), 0.0), "d")


@case("pipeline by hand", _PIPELINE, [P("d"), P()], 1, manual=True)
def pipeline(w: Any, xs: Any) -> Any:
    return pipelined(w, xs, lambda w, x: tnp.tanh(x @ w))


@case("pipeline data by hand", _PIPELINE, [P("d"), P(None, "m")], 1, manual=True)
def pipeline_data(w: Any, xs: Any) -> Any:
    return everywhere(pipelined(w, xs, lambda w, x: tnp.tanh(x @ w)), "m")


@case("pipeline tensor by hand", _PIPELINE, [P("d", "m"), P(None, None, "m")], 1, manual=True)
def pipeline_tensor(w: Any, xs: Any) -> Any:
    def stage(w: Any, x: Any) -> Any:
        return tnp.tanh(lax.psum_scatter(x @ w, "m", scatter_dimension=1, tiled=True))

    return everywhere(pipelined(w, xs, stage), "m")
