"""Linear algebra on matrices along the last two axes, under NumPy's names and those of the array API."""

from tinyjax.exports import collect
from tinyjax.numpy.linalg import decompositions, equations, norms, products, results

collect(__name__, decompositions, equations, norms, products, results)
