"""Linear algebra as LAPACK has it: decompositions, and equations with matrices of a known form."""

from tinyjax.exports import collect
from tinyjax.lax.linalg import factorizations, polar, spectral, triangular

collect(__name__, factorizations, polar, spectral, triangular)
