"""What runs where and when, and what is in memory: recordings for TensorBoard, by the names of `jax.profiler`."""

from tinyjax.interop.profiling import (
    StepTraceAnnotation,
    TraceAnnotation,
    annotate_function,
    device_memory_profile,
    save_device_memory_profile,
    start_server,
    start_trace,
    stop_server,
    stop_trace,
    trace,
)

__all__ = [
    "StepTraceAnnotation",
    "TraceAnnotation",
    "annotate_function",
    "device_memory_profile",
    "save_device_memory_profile",
    "start_server",
    "start_trace",
    "stop_server",
    "stop_trace",
    "trace",
]


def __dir__() -> list[str]:
    """The public names."""
    return sorted(__all__)
