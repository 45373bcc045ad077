"""The primitives as functions, under JAX's names. Strict: no promotion, no broadcasting but that of scalars."""

from tinyjax.exports import publish
from tinyjax.lax.annotations import *
from tinyjax.lax.associative import *
from tinyjax.lax.binary import *
from tinyjax.lax.collectives import *
from tinyjax.lax.conditionals import *
from tinyjax.lax.indexing import *
from tinyjax.lax.loops import *
from tinyjax.lax.parameters import *
from tinyjax.lax.reductions import *
from tinyjax.lax.scanning import *
from tinyjax.lax.shaping import *
from tinyjax.lax.unary import *

publish(__name__, but=("binding", "bodies", "signatures"))
