"""Tools that work on programs: analyses, costs, pictures, the command line. Not imported by `import tinyjax`."""

from tinyjax.exports import publish_later

publish_later(__name__)
