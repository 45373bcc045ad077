"""Rotations of the space of three dimensions, as quaternions, and what goes evenly from one to the next."""

from tinyjax.exports import publish
from tinyjax.scipy.spatial.transform.rotations import Rotation as Rotation
from tinyjax.scipy.spatial.transform.slerp import Slerp as Slerp

publish(__name__)
