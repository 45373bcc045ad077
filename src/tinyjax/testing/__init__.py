"""What tests of programs, primitives and transformations need: the laws that every program obeys.

>>> import tinyjax as tj
>>> from tinyjax.testing import check_laws
>>> report = check_laws(tj.make_jaxpr(lambda x: tj.numpy.sin(x) * x)(2.0))
>>> "transpose" in report.checked
True
"""

from tinyjax.errors import LawError
from tinyjax.testing.laws import LAWS, LawReport, check_laws
from tinyjax.tracebacks import filter_package

__all__ = ["LAWS", "LawError", "LawReport", "check_laws"]


def __dir__() -> list[str]:
    """The public names."""
    return sorted(__all__)


filter_package(__name__, __all__)
