"""What compiled programs consist of."""

import re


def instructions(text: str) -> int:
    """How many instructions there are in HLO."""
    return len(re.findall(r"^\s+(?:ROOT )?%?[\w.\-]+ = ", text, re.MULTILINE))
