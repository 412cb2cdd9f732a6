"""Losses on the output of a network."""

import abc
from typing import Any

import equinox as eqx
import jax
import jax.numpy as jnp
import numpy as np
from jaxtyping import Array, Bool, Float, Shaped

from popsim._shared.checks import check_finite, check_non_negative, is_traced, kind_of, short_repr
from popsim.distributions import bounded_logits
from popsim.losses.profiles import AbstractWeightedMean, Scalar, TimeCourse
from popsim.model import AbstractModel
from popsim.networks.composed import check_gives_logits
from popsim.trial import OutputTarget, Trial, has_counts_by_output

__all__ = ["OutputError", "CrossEntropy", "ChoiceError"]


def check_output_target(targets: Any) -> OutputTarget:
    """Return the targets of a trial; raise `ValueError` if they are not those of outputs, with counts."""
    if not isinstance(targets, OutputTarget):
        raise ValueError(f"`targets` of a trial must be an OutputTarget, got {kind_of(targets)}.")
    shape = targets.values.shape
    if targets.counts.shape not in (shape[:1], shape):
        raise ValueError(
            f"`targets.counts` of a trial must be one for each time step, {shape[:1]}, or for each "
            f"output at each of them, {shape}, got {targets.counts.shape}."
        )
    return targets


def counts_of_choices(target: OutputTarget) -> TimeCourse:
    """Return the weight of each time step for a choice: that of the right output, if each has one."""
    if not has_counts_by_output(target):
        return target.counts
    if target.values.shape[-1] == 1:
        return target.counts[..., 0]
    return jnp.sum(target.values * target.counts, axis=-1)


def counts_of_steps(target: OutputTarget) -> TimeCourse:
    """Return the weight of each time step: the mean of those of its outputs."""
    return jnp.mean(target.counts, axis=-1) if has_counts_by_output(target) else target.counts


class AbstractOutputTerm(AbstractWeightedMean):
    """Base class of the means Σ_t c_t x_t / Σ_t c_t of costs x of the output.

    c are the counts of the `OutputTarget`, times the profile. Where each output of a choice has its own
    weight, c_t is that of the right one, like the class weights of PyTorch's `CrossEntropyLoss`.
    """

    @abc.abstractmethod
    def cost(self, output: Float[Array, "time outputs"], target: OutputTarget) -> TimeCourse:
        """Return x, given the output of the network and the target."""

    def counts(self, target: OutputTarget) -> TimeCourse:
        """Return c without the profile."""
        return counts_of_choices(target)

    def reference(self, trial: Trial) -> OutputTarget:
        return check_output_target(trial.targets)

    def weigh(self, reference: OutputTarget, step_weights: TimeCourse) -> TimeCourse:
        return self.counts(reference) * step_weights

    def sum_of_costs(
        self, states: Any, reference: OutputTarget, weights: TimeCourse, dt: float, model: AbstractModel
    ) -> Scalar:
        output = states.network.output
        if reference.values.shape != output.shape:
            raise ValueError(
                f"`targets.values` of a trial must have the shape of the network's output, {output.shape}, "
                f"got {reference.values.shape}."
            )
        return jnp.sum(weights * self.cost(output, reference))

    def check(self, trials: Trial, model: AbstractModel | None) -> None:
        known_target(trials.targets)


class OutputError(AbstractOutputTerm):
    """Σ_t c_t mean_i (y_ti - y*_ti)² / Σ_t c_t: the mean squared error where the output counts.

    y is the output of the network, y* the values of the `OutputTarget` and c its counts. With counts c_ti for
    each output, it is Σ_ti c_ti (y_ti - y*_ti)² / Σ_ti c_ti. The loss is zero if no time step counts.
    """

    name: str = eqx.field(static=True, default="output error", kw_only=True)

    def cost(self, output, target):
        squared = (output - target.values) ** 2
        if not has_counts_by_output(target):
            return jnp.mean(squared, axis=-1)
        total = jnp.sum(target.counts, axis=-1)
        return jnp.sum(target.counts * squared, axis=-1) / jnp.where(total == 0, 1.0, total)

    def counts(self, target):
        return counts_of_steps(target)


class AbstractChoiceTerm(AbstractOutputTerm):
    """Base class of the terms that read outputs as logits, and targets as choices."""

    def check(self, trials: Trial, model: AbstractModel | None) -> None:
        if (target := known_target(trials.targets)) is not None:
            check_choices("targets", *target)
        if (network := getattr(model, "network", None)) is not None:
            check_gives_logits(network, f"the term {self.name!r}")


class CrossEntropy(AbstractChoiceTerm):
    """Σ_t c_t H_t / Σ_t c_t, in nats, where H is the cross entropy between right choice and output.

    y is the output of the network (logits), y* the values of the `OutputTarget` and c its counts. With one
    output (a binary choice), p = 1 / (1 + exp(-y)) and H = -y* log p - (1 - y*) log(1 - p); with several,
    p = softmax(y) and H = -Σ_i y*_i log p_i. The loss is zero if no time step counts. At chance it is log 2,
    or the log of the number of outputs. An output of minus infinity forbids its choice: H is 1e30 where this
    is the right one.
    """

    name: str = eqx.field(static=True, default="cross entropy", kw_only=True)

    def cost(self, output, target):
        output = bounded_logits(output)
        if output.shape[-1] == 1:
            return (jax.nn.softplus(output) - target.values * output)[:, 0]
        return -jnp.sum(target.values * jax.nn.log_softmax(output), axis=-1)


class ChoiceError(AbstractChoiceTerm):
    """Σ_t c_t (1 - p_t) / Σ_t c_t, where p is the probability of the right choice.

    y, y* and c are those of `CrossEntropy`. With one output (a binary choice), q = 1 / (1 + exp(-y)) and
    p = y* q + (1 - y*) (1 - q); with several, p = Σ_i y*_i softmax(y)_i. The loss is the error rate of an
    agent that samples its choices, between 0 and 1. It is differentiable, but its gradient is small where the
    network is confident and wrong, so train with `CrossEntropy` first, or with both.
    """

    name: str = eqx.field(static=True, default="choice error", kw_only=True)

    def cost(self, output, target):
        values = target.values
        if output.shape[-1] == 1:
            chosen = jax.nn.sigmoid(output)
            return 1 - (values * chosen + (1 - values) * (1 - chosen))[:, 0]
        return 1 - jnp.sum(values * jax.nn.softmax(output), axis=-1)


Values = Float[np.ndarray, "trial time output"]


def known_target(targets: Any) -> tuple[Values, Shaped[np.ndarray, "trial time ..."]] | None:
    """Return values and counts of stacked trials, after a check of their numbers; None where traced."""
    # Also None for another kind or shape, which a term refuses with the shape of the output.
    if not isinstance(targets, OutputTarget) or is_traced(targets):
        return None
    check_finite("targets.values", targets.values)
    check_non_negative("targets.counts", targets.counts)
    values, counts = np.asarray(targets.values), np.asarray(targets.counts)
    return (values, counts) if counts.shape in (values.shape[:-1], values.shape) else None


def is_counted(values: Values, counts: Shaped[np.ndarray, "trial time ..."]) -> Bool[np.ndarray, "..."]:
    """Return which of the values have a weight."""
    return np.broadcast_to((counts if counts.ndim == values.ndim else counts[..., None]) > 0, values.shape)


def check_choices(name: str, values: Values, counts: Shaped[np.ndarray, "trial time ..."]) -> None:
    """Raise `ValueError` if targets are no choices: numbers of classes, -1 and 1, or several at a time."""
    counted = np.where(is_counted(values, counts), values, 0.0)
    wrong = counted[(counted < 0) | (counted > 1)]
    several = counted[np.sum(counted, axis=-1) > 1.001]  # or probabilities, of rounded numbers
    if wrong.size or several.size:
        raise ValueError(
            f"`{name}` of choices must be 1 for the right one and 0 for others, such as "
            f"numpy.eye(n_choices)[labels], got {short_repr(wrong[0] if wrong.size else several[0])}."
        )


def check_one_hot(name: str, values: Values, counts: Shaped[np.ndarray, "trial time ..."]) -> None:
    """Raise `ValueError` unless exactly one action is given where targets count."""
    is_asked = np.any(is_counted(values, counts), axis=-1)
    if counts.ndim == values.ndim:  # where the weight is that of the action given, and zero without one
        is_asked &= np.any(values != 0, axis=-1)
    given = values[is_asked]
    wrong = given[(np.sum(given == 1, axis=-1) != 1) | (np.sum(given != 0, axis=-1) != 1)]
    if wrong.size:
        raise ValueError(
            f"`{name}` of actions must be 1 for the one taken and 0 for others where they count, such as "
            f"numpy.eye(n_actions)[taken], got {short_repr(wrong[0])}."
        )
