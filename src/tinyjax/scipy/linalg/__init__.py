"""SciPy's linear algebra, on matrices along the last two axes."""

from tinyjax.exports import publish
from tinyjax.scipy.linalg.decompositions import cho_factor as cho_factor
from tinyjax.scipy.linalg.decompositions import cholesky as cholesky
from tinyjax.scipy.linalg.decompositions import lu as lu
from tinyjax.scipy.linalg.decompositions import lu_factor as lu_factor
from tinyjax.scipy.linalg.decompositions import qr as qr
from tinyjax.scipy.linalg.decompositions import qr_multiply as qr_multiply
from tinyjax.scipy.linalg.decompositions import svd as svd
from tinyjax.scipy.linalg.equations import cho_solve as cho_solve
from tinyjax.scipy.linalg.equations import det as det
from tinyjax.scipy.linalg.equations import inv as inv
from tinyjax.scipy.linalg.equations import lu_solve as lu_solve
from tinyjax.scipy.linalg.equations import solve as solve
from tinyjax.scipy.linalg.equations import solve_triangular as solve_triangular
from tinyjax.scipy.linalg.functions import expm as expm
from tinyjax.scipy.linalg.functions import expm_frechet as expm_frechet
from tinyjax.scipy.linalg.functions import funm as funm
from tinyjax.scipy.linalg.functions import solve_sylvester as solve_sylvester
from tinyjax.scipy.linalg.functions import sqrtm as sqrtm
from tinyjax.scipy.linalg.matrices import block_diag as block_diag
from tinyjax.scipy.linalg.matrices import toeplitz as toeplitz
from tinyjax.scipy.linalg.named import dft as dft
from tinyjax.scipy.linalg.named import hadamard as hadamard
from tinyjax.scipy.linalg.named import helmert as helmert
from tinyjax.scipy.linalg.named import hilbert as hilbert
from tinyjax.scipy.linalg.named import invhilbert as invhilbert
from tinyjax.scipy.linalg.named import invpascal as invpascal
from tinyjax.scipy.linalg.named import pascal as pascal
from tinyjax.scipy.linalg.patterns import circulant as circulant
from tinyjax.scipy.linalg.patterns import companion as companion
from tinyjax.scipy.linalg.patterns import convolution_matrix as convolution_matrix
from tinyjax.scipy.linalg.patterns import fiedler as fiedler
from tinyjax.scipy.linalg.patterns import fiedler_companion as fiedler_companion
from tinyjax.scipy.linalg.patterns import hankel as hankel
from tinyjax.scipy.linalg.patterns import leslie as leslie
from tinyjax.scipy.linalg.polar import polar as polar
from tinyjax.scipy.linalg.spectral import eigh as eigh
from tinyjax.scipy.linalg.spectral import eigh_tridiagonal as eigh_tridiagonal
from tinyjax.scipy.linalg.spectral import hessenberg as hessenberg
from tinyjax.scipy.linalg.spectral import rsf2csf as rsf2csf
from tinyjax.scipy.linalg.spectral import schur as schur

publish(__name__)
