"""One table: have I met this callee with operands of these types, and these other arguments?

A primitive, and a function marked as `prepared`, are callees. If one was met, the table has a runner, which needs no
promotion, typing or search for a context. If not, the long way is taken, which is always right, says what is wrong with
bad arguments, and prepares the next call.

Callees and types are told apart by identity: they are shared objects, which an entry keeps alive.
"""

from __future__ import annotations

from typing import Final, TypeAlias, final

from attrs import frozen

from tinyjax.caching import PlainCache, register
from tinyjax.prepared.runners import HostRunner, Launch

#: The identity of a callee, and of the type of each array; the class and the value of any other argument.
Key: TypeAlias = tuple[object, ...]


@final
@frozen(eq=False)
class Entry:
    """A callee for operands of certain types: how it is run where they are all on the host, and where one isn't. A
    runner that isn't there may still be made, unless it is said that there is none."""

    #: What the key identifies.
    kept: tuple[object, ...]
    host: HostRunner | None = None
    device: Launch | None = None
    #: Whether the result is an array, not a tuple of them.
    single: bool = True
    no_host: bool = False
    no_device: bool = False


TABLE: Final[PlainCache[Key, Entry]] = PlainCache(16384, "prepared")
register(TABLE)
