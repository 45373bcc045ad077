"""Types of the part of jaxlib's module of HLO that tinyjax uses."""

from typing import final

@final
class HloSharding:
    @staticmethod
    def replicate() -> HloSharding: ...
    @staticmethod
    def from_proto(proto: object, /) -> HloSharding: ...
