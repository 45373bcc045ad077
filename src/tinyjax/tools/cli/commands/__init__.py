"""The commands, one file each."""

from collections.abc import Mapping
from typing import Final

from tinyjax.tools.cli.command import Command
from tinyjax.tools.cli.commands import check, cost, diff, keys, partition, port, run, show, view

COMMANDS: Final[Mapping[str, Command]] = {
    "show": show.COMMAND,
    "run": run.COMMAND,
    "check": check.COMMAND,
    "diff": diff.COMMAND,
    "cost": cost.COMMAND,
    "keys": keys.COMMAND,
    "partition": partition.COMMAND,
    "port": port.COMMAND,
    "view": view.COMMAND,
}
