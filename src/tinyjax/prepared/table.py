"""One idea: have I met this callee with operands of these types, and these other arguments?

A primitive, a function marked as `prepared`, and a jitted function are callees. If one was met, the table has an entry
with a runner, which needs no promotion, typing or search for a context. If not, the long way is taken, which is always
right, says what is wrong with bad arguments, and prepares the next call.

Callees and types are told apart by identity: they are shared objects, which an entry keeps alive. A jitted function has
a table of its own, which goes with it.
"""

from __future__ import annotations

from typing import Final, TypeAlias, final

from attrs import frozen
from typing_extensions import override

from tinyjax.caching import PlainCache, register
from tinyjax.prepared.runners import Equation, HostRunner
from tinyjax.prepared.stacked import AnyLaunch
from tinyjax.prepared.straight import Assemble, Straight

#: The identity of a callee, and of the type of each array; the class and the value of any other argument; the tree.
Key: TypeAlias = tuple[object, ...]


@final
@frozen(eq=False)
class Entry:
    """A callee for operands of certain types: how it is run where they are all on the host, where one isn't, where that
    is a CPU and there is little to do, and within transformations. A runner that isn't there may still be made, unless
    it is said that there is none."""

    #: What the key identifies.
    kept: tuple[object, ...]
    host: HostRunner | None = None
    device: AnyLaunch | None = None
    near: HostRunner | None = None
    #: The launch in one step, for jitted functions.
    straight: Straight | None = None
    staged: Equation | None = None
    #: What puts the results together; None if the result is an array alone.
    assemble: Assemble | None = None
    no_host: bool = False
    no_device: bool = False


class Table(PlainCache[Key, Entry]):
    """Entries, which a caller looks up in `entries`."""

    __slots__ = ("__weakref__",)

    def met(self, key: Key, kept: tuple[object, ...]) -> Entry:
        """The entry, or one that has no runner yet."""
        return self.entries.get(key) or Entry(kept)

    @override
    def put(self, key: Key, value: Entry) -> Entry:
        if key not in self.entries:
            return super().put(key, value)
        self.entries[key] = value
        return value


#: For primitives and marked functions, which never go.
TABLE: Final = Table(16384, "prepared")
register(TABLE)
