"""Functions minimised, as `scipy.optimize` has it."""

from tinyjax.exports import publish
from tinyjax.scipy.optimize.minimizing import OptimizeResults as OptimizeResults
from tinyjax.scipy.optimize.minimizing import minimize as minimize

publish(__name__)
