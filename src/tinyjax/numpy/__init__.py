"""NumPy's functions on arrays, under the array API standard's names and NumPy's own, with JAX's signatures."""

from tinyjax.exports import collect
from tinyjax.numpy import (
    arithmetic,
    constants,
    creation,
    dtypes,
    einsum,
    elementwise,
    fft,
    finding,
    indexing,
    info,
    joining,
    logic,
    manipulation,
    matrices,
    ordering,
    products,
    reductions,
    sets,
    types,
)

collect(
    __name__,
    *(
        arithmetic,
        constants,
        creation,
        dtypes,
        einsum,
        elementwise,
        finding,
        indexing,
        info,
        joining,
        logic,
        manipulation,
    ),
    *(matrices, ordering, products, reductions, sets, types),
    packages=(fft,),
)
