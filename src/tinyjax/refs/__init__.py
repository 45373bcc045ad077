"""Refs: cells that hold an array, and functions that take them. Programs know nothing of them."""

from typing import TYPE_CHECKING

from tinyjax.exports import modules_later

if TYPE_CHECKING:
    from tinyjax.refs import backward as backward
    from tinyjax.refs import ref as ref
    from tinyjax.refs import staged as staged

modules_later(__name__)
