"""Transformations of programs: pure functions from jaxprs to jaxprs, or to frozen records of jaxprs."""

from tinyjax.exports import publish_later

publish_later(__name__)
