"""The engine that runs the trials of a batch, and how to do without it."""

from popsim._compiled import current_engine, plain_jax

__all__ = ["current_engine", "plain_jax"]
