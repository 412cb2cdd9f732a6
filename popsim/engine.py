"""The engine that runs the trials of a batch, and how to do without it."""

from popsim._compiled import engine_used, plain_jax

__all__ = ["engine_used", "plain_jax"]
