"""What tests of programs, primitives and transformations need: the laws that every program obeys.

>>> import tinyjax as tj
>>> from tinyjax.testing import check_laws
>>> report = check_laws(tj.make_jaxpr(lambda x: tj.numpy.sin(x) * x)(2.0))
>>> "transpose" in report.checked
True
"""

from tinyjax.errors import LawError as LawError
from tinyjax.exports import publish
from tinyjax.testing.laws import LAWS as LAWS
from tinyjax.testing.laws import LawReport as LawReport
from tinyjax.testing.laws import check_laws as check_laws

publish(__name__)
