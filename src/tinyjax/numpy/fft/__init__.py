"""Discrete Fourier transforms along any axes, under NumPy's names and with its arguments."""

from tinyjax.exports import collect
from tinyjax.numpy.fft import frequencies, transforms

collect(__name__, frequencies, transforms)
