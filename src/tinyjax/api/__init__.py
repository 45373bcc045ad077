"""The transformations, on Python functions of trees of arrays."""

from typing import TYPE_CHECKING

from tinyjax.exports import modules_later

if TYPE_CHECKING:
    from tinyjax.api import traced as traced

modules_later(__name__)
