"""Averages over the time steps that count for the output of a network."""

import jax.numpy as jnp
from jaxtyping import Array, Float

from popsim.losses.time_profile import AbstractTimeProfile, step_weights
from popsim.output_target import OutputTarget
from popsim.trial import Trial


def output_target(trial: Trial, output: Float[Array, "time outputs"]) -> OutputTarget:
    """The targets of a trial for what a network puts out.

    **Raises:** `ValueError` unless the targets are an `OutputTarget` of as many outputs.
    """
    targets = trial.targets
    if not isinstance(targets, OutputTarget):
        raise ValueError(f"`targets` of a trial must be an OutputTarget, got {type(targets).__name__}.")
    if targets.values.shape != output.shape:
        raise ValueError(
            f"`targets.values` of a trial must have the shape of the network's output, {output.shape}, "
            f"got {targets.values.shape}."
        )
    if targets.counts.shape != output.shape[:1]:
        raise ValueError(
            f"`targets.counts` of a trial must be one for each time step, {output.shape[:1]}, "
            f"got {targets.counts.shape}."
        )
    return targets


def counted_mean(
    values: Float[Array, " time"], trial: Trial, profile: AbstractTimeProfile
) -> Float[Array, ""]:
    """Σ w_t x_t / Σ w_t, w the counts of an `OutputTarget` times a profile; zero where no step counts."""
    weights = trial.targets.counts * step_weights(profile, trial.timeline)
    total = jnp.sum(weights)
    return jnp.sum(weights * values) / jnp.where(total == 0, 1.0, total)
