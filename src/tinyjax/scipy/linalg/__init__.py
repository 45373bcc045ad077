"""SciPy's linear algebra, on matrices along the last two axes."""

from tinyjax.exports import publish
from tinyjax.scipy.linalg.decompositions import cho_factor as cho_factor
from tinyjax.scipy.linalg.decompositions import cholesky as cholesky
from tinyjax.scipy.linalg.decompositions import lu as lu
from tinyjax.scipy.linalg.decompositions import lu_factor as lu_factor
from tinyjax.scipy.linalg.decompositions import polar as polar
from tinyjax.scipy.linalg.decompositions import schur as schur
from tinyjax.scipy.linalg.decompositions import svd as svd
from tinyjax.scipy.linalg.equations import cho_solve as cho_solve
from tinyjax.scipy.linalg.equations import det as det
from tinyjax.scipy.linalg.equations import expm as expm
from tinyjax.scipy.linalg.equations import inv as inv
from tinyjax.scipy.linalg.equations import lu_solve as lu_solve
from tinyjax.scipy.linalg.equations import solve as solve
from tinyjax.scipy.linalg.equations import solve_triangular as solve_triangular
from tinyjax.scipy.linalg.matrices import block_diag as block_diag
from tinyjax.scipy.linalg.matrices import hilbert as hilbert
from tinyjax.scipy.linalg.matrices import toeplitz as toeplitz

publish(__name__)
