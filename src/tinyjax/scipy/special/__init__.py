"""Special functions. Integers become floats; operands are broadcast."""

from tinyjax.exports import collect
from tinyjax.scipy.special import (
    bessel,
    entropies,
    errors,
    exponentials,
    faddeeva,
    gammas,
    harmonics,
    hypergeometric,
    integrals,
)

collect(__name__, bessel, entropies, errors, exponentials, faddeeva, gammas, harmonics, hypergeometric, integrals)
