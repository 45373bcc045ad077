"""What the examples and tests use of Optax, which doesn't tell type checkers its types."""

from collections.abc import Callable
from typing import Any, NamedTuple

import jax

class GradientTransformation(NamedTuple):
    init: Callable[[Any], Any]
    update: Callable[..., tuple[Any, Any]]

def adamw(learning_rate: float | Callable[[jax.Array], jax.Array]) -> GradientTransformation: ...
def apply_updates(params: Any, updates: Any) -> Any: ...
def cosine_decay_schedule(init_value: float, decay_steps: int) -> Callable[[jax.Array], jax.Array]: ...
def softmax_cross_entropy_with_integer_labels(logits: jax.Array, labels: jax.Array) -> jax.Array: ...
