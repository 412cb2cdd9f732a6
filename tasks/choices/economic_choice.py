"""Choices between goods, by their value."""

from collections.abc import Mapping

import equinox as eqx
import jax
import jax.numpy as jnp
import numpy as np
from jax.scipy.special import logsumexp
from jaxtyping import Array, Bool, Float, Int, Key

from popsim._checks import as_float_array, check_non_negative, check_positive, is_traced, short_repr
from popsim._plain_values import plain_number
from popsim.distributions import AbstractDistribution, Uniform, as_distribution
from popsim.per_member import has_per_member
from popsim.randomness import key_stream
from popsim.tasks._known_tasks import check_known_task
from popsim.tasks.choices.decisions import AbstractGoTask
from popsim.tasks.trial_parts import all_combinations
from popsim.trial import Trial
from popsim.trial_plan import Epoch
from popsim.windows import Timeline

__all__ = ["EconomicChoice", "economic_choice_log_odds", "favourite_accuracy"]

OFFERS = (
    *((1.0, 0.0), (3.0, 1.0), (2.0, 1.0), (1.0, 1.0), (1.0, 2.0), (1.0, 3.0), (1.0, 4.0), (1.0, 6.0)),
    (0.0, 2.0),
)


class EconomicChoice(AbstractGoTask):
    """Two juices in different quantities: after the go cue, choose the offer of higher value.

    The task of Padoa-Schioppa & Assad 2006, Nature, doi:10.1038/nature04676 (not compared with the paper).
    Offers, the value of juice A and times are those of NeuroGym's `EconomicDecisionMaking`, the offers those
    of frsong/pyrl, too, which trains networks until they take the better one in 95 % of the trials.

    - Inputs: "fixation" (1), 1 until the go cue; "stimulus" (6), shown in the epoch "offer" with white noise:
        whether the first offer is A, and B, whether the second one is A, and B, and the quantities of the
        first and the second, divided by the largest of all.
    - Targets: two outputs, zero until the go cue, then 1 for the offer of higher value.
    - Epochs "fixation", "offer", "decision"; events "offer on", "go cue".
    - Conditions: "quantity A" and "quantity B", "A first" (whether A is the first offer), "choice" (0 first,
        1 second), "chooses A" (whether A has the higher value), "catch".

    Which juice comes first is random. An ideal observer is `economic_choice_log_odds`; who always takes the
    same juice is right as often as `favourite_accuracy` says. There are two validation trials for each offer.

    **Arguments:**

    - `offers`: quantities of A and B, an array of shape (offer, 2), of different value.
    - `relative_value`: of A, in quantities of B.
    - `noise`: sigma of each channel, in s^0.5; the standard deviation in a time step is sigma / dt^0.5.
    - `fixation`, `offer`: durations of these epochs, in seconds; the decision takes the rest.
    - `response`: the weights before and after the go cue, and the fraction of catch trials.
    - `duration`, `dt`: the duration of a trial and the time step of the model, in seconds.
    - `loss`: the loss to train with.
    """

    offers: Float[Array, "offer 2"] = eqx.field(kw_only=True, converter=as_float_array, default=OFFERS)
    relative_value: Float[Array, ""] = eqx.field(kw_only=True, converter=as_float_array, default=2.2)
    noise: Float[Array, ""] = eqx.field(kw_only=True, converter=as_float_array, default=0.01)
    fixation: AbstractDistribution = eqx.field(kw_only=True, converter=as_distribution, default=1.5)
    offer: AbstractDistribution = eqx.field(
        kw_only=True, converter=as_distribution, default_factory=lambda: Uniform(1.0, 2.0)
    )
    duration: float = eqx.field(static=True, converter=plain_number, kw_only=True, default=4.25)

    def __check_init__(self):
        check_non_negative("offers", self.offers)
        check_positive("relative_value", self.relative_value)
        if any(has_per_member(each) or is_traced(each) for each in (self.offers, self.relative_value)):
            return
        offers = np.asarray(self.offers)
        if offers.ndim != 2 or offers.shape[1] != 2 or not len(offers):
            raise ValueError(f"`offers` must be pairs of quantities, got {short_repr(offers)}.")
        even = np.isclose(offers[:, 0] * float(self.relative_value), offers[:, 1])
        if even.any():
            raise ValueError(
                f"`offers` must differ in value, got {offers[even][0].tolist()} of A and B with "
                f"`relative_value` {float(self.relative_value):g}."
            )

    def epochs(self) -> tuple[Epoch, ...]:
        return (Epoch("offer", self.offer, event="offer on"),)

    def draw_conditions(self, *, key: Key[Array, ""]) -> tuple[Array, ...]:
        offer = jax.random.randint(key_stream(key, "offer"), (), 0, self.offers.shape[0])
        return offer, jax.random.randint(key_stream(key, "order"), (), 0, 2)

    def nominal(self) -> tuple[Array, ...]:
        return all_combinations(self.offers.shape[0], 2)

    def is_a_better(self) -> Bool[Array, " offer"]:
        """Return for each offer whether A has the higher value."""
        return self.offers[:, 0] * self.relative_value > self.offers[:, 1]

    def shown_as(self, offer: Int[Array, ""], order: Int[Array, ""]) -> Float[Array, "6"]:
        """Return the stimulus of an offer, with A first (0) or second (1), without noise."""
        quantities = self.offers[offer] / jnp.max(self.offers)
        juices = jnp.where(order == 0, jnp.array([1.0, 0.0, 0.0, 1.0]), jnp.array([0.0, 1.0, 1.0, 0.0]))
        return jnp.concatenate([juices, jnp.where(order == 0, quantities, quantities[::-1])])

    def trial_of(self, timeline: Timeline, draws: tuple[Array, ...], *, key: Key[Array, ""]) -> Trial:
        offer, order = draws
        a_is_better = self.is_a_better()[offer]
        quantity_a, quantity_b = self.offers[offer]
        return self.go_trial(
            timeline,
            jnp.broadcast_to(self.shown_as(offer, order), (timeline.n_steps, 6)),
            timeline.in_epoch("offer"),
            jnp.where(a_is_better, order, 1 - order),
            {
                "quantity A": quantity_a,
                "quantity B": quantity_b,
                "A first": order == 0,
                "chooses A": a_is_better,
            },
            key=key,
        )


def economic_choice_log_odds(task: EconomicChoice, inputs: Mapping[str, Array]) -> Float[Array, ""]:
    """Return the log odds that the second offer of one trial of `EconomicChoice` has the higher value.

    The observer knows which offers there are. With u the stimulus of one of them, x the sum of what is shown
    times dt, and s the seconds for which it is shown, its likelihood is in proportion to
    exp((u x - |u|² s / 2) / σ²). An ideal observer takes the second offer where the log odds are positive.

    **Arguments:**

    - `task`: the task, with noise.
    - `inputs`: the inputs of the trial.
    """
    check_known_task(task, EconomicChoice, noise="noise")
    stimulus = inputs["stimulus"]
    total = task.dt * jnp.sum(stimulus, axis=0)
    is_shown = jnp.any(stimulus != 0, axis=1).astype(stimulus.dtype)  # noise is never zero
    seconds = task.dt * jnp.sum(is_shown)
    offer, order = task.nominal()
    shown = jax.vmap(task.shown_as)(offer, order)
    likelihoods = (shown @ total - jnp.sum(shown**2, axis=1) * seconds / 2) / task.noise**2
    is_second = jnp.where(task.is_a_better()[offer], order == 1, order == 0).astype(float)
    return logsumexp(likelihoods, b=is_second) - logsumexp(likelihoods, b=1 - is_second)


def favourite_accuracy(task: EconomicChoice) -> Float[Array, ""]:
    """Return how often the better offer is that of the juice that is better more often.

    It is the chance level of who knows the juices and disregards their quantities.
    """
    check_known_task(task, EconomicChoice)
    fraction = jnp.mean(task.is_a_better().astype(float))
    return jnp.maximum(fraction, 1 - fraction)
