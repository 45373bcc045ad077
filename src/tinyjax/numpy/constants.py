"""Constants."""

import math
from typing import Final

pi: Final = math.pi
e: Final = math.e
euler_gamma: Final = 0.5772156649015329
inf: Final = math.inf
nan: Final = math.nan
newaxis: Final = None
