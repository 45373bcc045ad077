"""Types of what tinyjax uses of jaxlib's MLIR helpers, for jaxlib 0.10 and 0.11."""

from jaxlib.mlir import ir

def serialize_portable_artifact(
    mlir_module: str | bytes | ir.Module, target: str, use_mixed_serialization: bool = ...
) -> bytes: ...
