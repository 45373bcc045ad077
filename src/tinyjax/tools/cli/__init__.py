"""The command line: `tinyjax`, and `python -m tinyjax`.

`main(arguments)` runs a command in this process and returns its exit code: 0 if all is well, 1 if a program has a
problem or two differ, 2 if what was asked for can't be done.
"""

from tinyjax.tools.cli.main import main

__all__ = ["main"]
