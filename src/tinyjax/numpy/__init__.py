"""NumPy's functions on arrays, under the array API standard's names and NumPy's own, with JAX's signatures."""

from tinyjax.exports import publish
from tinyjax.numpy.arithmetic import *
from tinyjax.numpy.constants import *
from tinyjax.numpy.creation import *
from tinyjax.numpy.dtypes import *
from tinyjax.numpy.einsum import *
from tinyjax.numpy.elementwise import *
from tinyjax.numpy.finding import *
from tinyjax.numpy.indexing import *
from tinyjax.numpy.joining import *
from tinyjax.numpy.logic import *
from tinyjax.numpy.manipulation import *
from tinyjax.numpy.matrices import *
from tinyjax.numpy.products import *
from tinyjax.numpy.reductions import *
from tinyjax.numpy.types import *

publish(__name__, but=("arguments", "limits", "signatures"))
