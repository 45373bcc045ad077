"""Images of any number of dimensions: resized, scaled and moved."""

from tinyjax.exports import collect
from tinyjax.image import methods, resampling

collect(__name__, methods, resampling)
