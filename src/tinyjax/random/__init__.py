"""Random numbers: keys, and samplers that take one. The same key gives the same numbers, and the numbers of JAX."""

from tinyjax.exports import collect
from tinyjax.random import arrangements, continuous, counts, gammas, gumbels, keys, matrices, uniform

collect(__name__, keys, uniform, arrangements, continuous, gumbels, gammas, counts, matrices)
