"""jax, the oracle, in a hurry."""

from typing import Any


def hurry() -> None:
    """Makes jax compile for the CPU without most of LLVM's work: of thousands of small programs only values are wanted.

    What is ours is compiled as users have it, so that jax's own setting won't do: it is ours, too. XLA's work on the
    instructions is the same, and so are their numbers.
    """
    from jax._src import compiler

    compiled = compiler.backend_compile_and_load

    def hurried(backend: Any, module: Any, devices: Any, options: Any, host_callbacks: Any) -> Any:
        if backend.platform == "cpu":
            debug = options.executable_build_options.debug_options
            debug.xla_backend_optimization_level = 0
            debug.xla_llvm_disable_expensive_passes = True
        return compiled(backend, module, devices, options, host_callbacks)

    compiler.backend_compile_and_load = hurried
