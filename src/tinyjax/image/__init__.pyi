"""Derived: `pytest tests/test_exports.py --update-golden` writes it."""

from tinyjax.image.methods import KERNELS as KERNELS
from tinyjax.image.methods import RADIUS as RADIUS
from tinyjax.image.methods import ResizeMethod as ResizeMethod
from tinyjax.image.resampling import resize as resize
from tinyjax.image.resampling import scale_and_translate as scale_and_translate
