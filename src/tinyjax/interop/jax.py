"""Programs of JAX in, programs of JAX out.

`from_jax` makes a program of a function of JAX, or of a program that JAX has traced; `to_jax` makes a function of JAX
of a program. `export` and `export_stablehlo` make bytes that `jax.export` and other tools load. For JAX 0.10 and 0.11.

>>> import jax
>>> import tinyjax as tj
>>> program = from_jax(lambda x: jax.nn.relu(x) * x, tj.ShapedArray((2,), "float32"))
>>> jax.grad(lambda x: to_jax(program)(x).sum())(jax.numpy.array([3.0, -1.0], "float32"))
Array([6., 0.], dtype=float32)
"""

from tinyjax.backend.export import artifact_text
from tinyjax.interop.exporting import export, export_stablehlo
from tinyjax.interop.from_jax import from_jax
from tinyjax.interop.jax_context import TO_JAX, JaxContext
from tinyjax.interop.of_jax import of_jax
from tinyjax.interop.to_jax import to_jax
from tinyjax.tracebacks import filter_package

__all__ = ["TO_JAX", "JaxContext", "artifact_text", "export", "export_stablehlo", "from_jax", "of_jax", "to_jax"]


def __dir__() -> list[str]:
    """The public names."""
    return sorted(__all__)


filter_package(__name__, __all__, home="tinyjax.interop")
