"""What all tests share: jax, the oracle, with 64-bit types on."""

from __future__ import annotations

import jax

jax.config.update("jax_enable_x64", True)
