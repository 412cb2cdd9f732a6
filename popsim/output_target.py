"""What a network without a body should put out, and which choice its outputs make."""

import equinox as eqx
import jax.numpy as jnp
import numpy as np
from jaxtyping import Array, Float, Int


class OutputTarget(eqx.Module):
    """The targets of a cognitive task: what the outputs should be, and when that counts.

    - `values`: what the outputs should be; for a choice among several, 1 for the right one and 0 for the
        others, and 0 for all while there is nothing to choose; for a choice between two with one output,
        1 or 0.
    - `counts`: how much each time step counts, from 0 (not at all).
    - `is_choice`: whether the outputs stand for choices; False where they should follow a course, such as a
        ramp. What is not a choice has no accuracy.

    Leading axes (member, trial) may stand before `time`.
    """

    values: Float[Array, "*axes time outputs"]
    counts: Float[Array, "*axes time"]
    is_choice: bool = eqx.field(static=True, kw_only=True, default=True)


def chosen(outputs: Float[Array | np.ndarray, "... time outputs"], target: OutputTarget) -> Int[Array, "..."]:
    """Which choice the outputs make where the target asks for one; -1 in trials that ask for none.

    Of several outputs, the one that is largest on average over the time steps that count and at which one
    is to be chosen. One output is the log odds of choice 1, as in `popsim.losses.CrossEntropy`: choice 1
    if it is above zero on average, else choice 0.

    **Arguments:**

    - `outputs`: those of a network; they may have more leading axes (member) than the target.
    - `target`: that of the same trials.

    **Raises:** `ValueError` if the target is not a choice.
    """
    return _choice(outputs, target, threshold=0.0)


def right_choice(target: OutputTarget) -> Int[Array, "..."]:
    """Which choice would be right; -1 in trials that ask for none, such as catch trials.

    **Raises:** `ValueError` if the target is not a choice.
    """
    return _choice(target.values, target, threshold=0.5)


def choice_accuracy(
    outputs: Float[Array | np.ndarray, "... trial time outputs"], target: OutputTarget
) -> Float[Array, "..."]:
    """The share of right choices among the trials that ask for one; NaN if none does.

    Arguments as for `chosen`. **Returns** one share for each member, if members have outputs.

    **Raises:** `ValueError` if the target is not a choice.
    """
    right = right_choice(target)
    is_asked = right >= 0
    is_right = is_asked & (chosen(outputs, target) == right)
    n_right, n_asked = (jnp.sum(each, axis=-1).astype(float) for each in (is_right, is_asked))
    return jnp.where(n_asked > 0, n_right / jnp.maximum(n_asked, 1.0), jnp.nan)


def _choice(
    outputs: Float[Array | np.ndarray, "... time outputs"], target: OutputTarget, *, threshold: float
) -> Int[Array, "..."]:
    if not target.is_choice:
        raise ValueError(
            "`target` must ask for choices in all trials, got one with `is_choice=False`. From a mixture, "
            "select the trials that do: OutputTarget(values[selected], counts[selected])."
        )
    counts = target.counts
    if target.values.shape[-1] > 1:
        counts = jnp.where(jnp.any(target.values != 0, axis=-1), counts, 0.0)
    total = jnp.sum(counts, axis=-1)
    mean = jnp.sum(counts[..., None] * outputs, axis=-2) / jnp.where(total > 0, total, 1.0)[..., None]
    if target.values.shape[-1] > 1:
        choice = jnp.argmax(mean, axis=-1)
    else:
        choice = (mean[..., 0] > threshold).astype(int)
    return jnp.where(total > 0, choice, -1)
