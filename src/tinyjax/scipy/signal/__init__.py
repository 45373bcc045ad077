"""Signals convolved and correlated, and their spectra, as `scipy.signal` has it."""

from tinyjax.exports import publish
from tinyjax.scipy.signal.convolving import convolve as convolve
from tinyjax.scipy.signal.convolving import convolve2d as convolve2d
from tinyjax.scipy.signal.convolving import correlate as correlate
from tinyjax.scipy.signal.convolving import correlate2d as correlate2d
from tinyjax.scipy.signal.convolving import fftconvolve as fftconvolve
from tinyjax.scipy.signal.spectra import csd as csd
from tinyjax.scipy.signal.spectra import istft as istft
from tinyjax.scipy.signal.spectra import stft as stft
from tinyjax.scipy.signal.spectra import welch as welch
from tinyjax.scipy.signal.trends import detrend as detrend

publish(__name__)
