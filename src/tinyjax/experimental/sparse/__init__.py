"""Arrays of which the elements that aren't zero are stored: the names of `jax.experimental.sparse`."""

from tinyjax.experimental.sparse.base import CuSparseEfficiencyWarning as CuSparseEfficiencyWarning
from tinyjax.experimental.sparse.base import JAXSparse as JAXSparse
from tinyjax.experimental.sparse.base import SparseEfficiencyError as SparseEfficiencyError
from tinyjax.experimental.sparse.base import SparseEfficiencyWarning as SparseEfficiencyWarning
from tinyjax.experimental.sparse.bcoo import BCOO as BCOO
from tinyjax.experimental.sparse.bcoo import bcoo_fromdense as bcoo_fromdense
from tinyjax.experimental.sparse.context import SPARSE_RULES as SPARSE_RULES
from tinyjax.experimental.sparse.context import SparseContext as SparseContext
from tinyjax.experimental.sparse.conversion import bcoo_extract as bcoo_extract
from tinyjax.experimental.sparse.conversion import bcoo_sort_indices as bcoo_sort_indices
from tinyjax.experimental.sparse.conversion import bcoo_sum_duplicates as bcoo_sum_duplicates
from tinyjax.experimental.sparse.conversion import bcoo_todense as bcoo_todense
from tinyjax.experimental.sparse.derivatives import grad as grad
from tinyjax.experimental.sparse.derivatives import jacfwd as jacfwd
from tinyjax.experimental.sparse.derivatives import jacobian as jacobian
from tinyjax.experimental.sparse.derivatives import jacrev as jacrev
from tinyjax.experimental.sparse.derivatives import value_and_grad as value_and_grad
from tinyjax.experimental.sparse.elementwise import bcoo_multiply_dense as bcoo_multiply_dense
from tinyjax.experimental.sparse.elementwise import bcoo_multiply_sparse as bcoo_multiply_sparse
from tinyjax.experimental.sparse.elementwise import bcoo_reduce_sum as bcoo_reduce_sum
from tinyjax.experimental.sparse.layouts import bcoo_rev as bcoo_rev
from tinyjax.experimental.sparse.layouts import bcoo_squeeze as bcoo_squeeze
from tinyjax.experimental.sparse.layouts import bcoo_transpose as bcoo_transpose
from tinyjax.experimental.sparse.layouts import bcoo_update_layout as bcoo_update_layout
from tinyjax.experimental.sparse.making import empty as empty
from tinyjax.experimental.sparse.making import eye as eye
from tinyjax.experimental.sparse.making import random_bcoo as random_bcoo
from tinyjax.experimental.sparse.making import todense as todense
from tinyjax.experimental.sparse.products import bcoo_dot_general as bcoo_dot_general
from tinyjax.experimental.sparse.products import bcoo_dot_general_sampled as bcoo_dot_general_sampled
from tinyjax.experimental.sparse.reshaping import bcoo_broadcast_in_dim as bcoo_broadcast_in_dim
from tinyjax.experimental.sparse.reshaping import bcoo_concatenate as bcoo_concatenate
from tinyjax.experimental.sparse.reshaping import bcoo_reshape as bcoo_reshape
from tinyjax.experimental.sparse.rules import sparse_rule as sparse_rule
from tinyjax.experimental.sparse.slices import bcoo_dynamic_slice as bcoo_dynamic_slice
from tinyjax.experimental.sparse.slices import bcoo_gather as bcoo_gather
from tinyjax.experimental.sparse.slices import bcoo_slice as bcoo_slice
from tinyjax.experimental.sparse.transform import sparsify as sparsify
from tinyjax.exports import publish

publish(__name__)
