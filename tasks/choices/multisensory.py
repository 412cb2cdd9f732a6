"""Decisions about a rate that is seen, heard, or both."""

from collections.abc import Mapping

import equinox as eqx
import jax
import jax.numpy as jnp
from jax.scipy.special import logsumexp
from jax.scipy.stats import norm
from jaxtyping import Array, Float, Int, Key

from popsim._checks import as_float_array, check_positive, is_traced, short_repr
from popsim._plain_values import plain_number
from popsim.distributions import AbstractDistribution, Choice, as_distribution
from popsim.per_member import has_per_member
from popsim.randomness import key_stream
from popsim.tasks._known_tasks import check_known_task, values_of_choice
from popsim.tasks.choices.decisions import AbstractGoTask
from popsim.tasks.trial_parts import (
    all_combinations,
    check_drawn,
    nominal_values,
    sign_or_coin,
    stimulus_and_delay,
)
from popsim.trial import Trial
from popsim.trial_plan import Epoch
from popsim.windows import Timeline

__all__ = ["MultisensoryIntegration", "multisensory_accuracy", "multisensory_log_odds"]

IS_SHOWN = ((1, 0), (0, 1), (1, 1))
"""Whether there is visual and auditory evidence: in visual, auditory and multisensory trials."""


def _event_rates() -> Choice:
    return Choice([9.0, 10.0, 11.0, 12.0, 13.0, 14.0, 15.0, 16.0])


class MultisensoryIntegration(AbstractGoTask):
    """A rate that is seen, heard, or both: after the go cue, report whether it is low or high.

    The task of Raposo, Kaufman & Churchland 2014, Nat Neurosci, doi:10.1038/nn.3865 (not compared with the
    paper). Rates, boundary, times and the ratio of evidence to noise are those of frsong/pyrl, which trains
    networks until they are right in 80 % of the trials. NeuroGym's `MultiSensoryIntegration` divides one
    coherence between two streams that always agree, so that their plain sum is best.

    - Inputs: "fixation" (1), 1 until the go cue; "stimulus" (2: visual, auditory), shown in the epoch
        "stimulus": rate / boundary - 1 plus white noise, or 0 without noise where the stream is absent.
    - Targets: two outputs, zero until the go cue, then 1 for the correct one: the first for a rate below the
        boundary, the second for one above.
    - Epochs "fixation", "stimulus", "delay", "decision"; events "stimulus on", "stimulus off", "go cue".
    - Conditions: "rate" (Hz), "modality" (0 visual, 1 auditory, 2 both), "choice" (0 low, 1 high), "catch".

    `multisensory_accuracy` is that of an ideal observer, who weights each stream by its reliability, see
    `multisensory_log_odds`. The three modalities are equally probable. The validation trials are all
    combinations of modality and rate.

    **Arguments:**

    - `rate`: the distribution of the rate, in Hz. At the boundary the correct choice is random.
    - `boundary`: between low and high rates, in Hz.
    - `noise`: sigma of the visual and of the auditory stream, in s^0.5; the standard deviation in a time step
        is sigma / dt^0.5.
    - `fixation`, `stimulus`, `delay`: durations of these epochs, in seconds; the decision takes the rest.
    - `response`: the weights before and after the go cue, and the fraction of catch trials.
    - `duration`, `dt`: the duration of a trial and the time step of the model, in seconds.
    - `loss`: the loss to train with.
    """

    rate: AbstractDistribution = eqx.field(
        kw_only=True, converter=as_distribution, default_factory=_event_rates
    )
    boundary: Float[Array, ""] = eqx.field(kw_only=True, converter=as_float_array, default=12.5)
    noise: Float[Array, "2"] = eqx.field(kw_only=True, converter=as_float_array, default=(0.17, 0.17))
    fixation: AbstractDistribution = eqx.field(kw_only=True, converter=as_distribution, default=0.75)
    stimulus: AbstractDistribution = eqx.field(kw_only=True, converter=as_distribution, default=1.0)
    delay: AbstractDistribution = eqx.field(kw_only=True, converter=as_distribution, default=0.0)
    duration: float = eqx.field(static=True, converter=plain_number, kw_only=True, default=2.25)

    def __check_init__(self):
        check_drawn("rate", self.rate, check_positive)
        check_positive("boundary", self.boundary)
        if not has_per_member(self.noise) and not is_traced(self.noise) and self.noise.shape != (2,):
            raise ValueError(
                f"`noise` must be that of the visual and that of the auditory stream, two numbers, "
                f"got {short_repr(self.noise)}."
            )

    def epochs(self) -> tuple[Epoch, ...]:
        return stimulus_and_delay(self.stimulus, self.delay)

    def draw_conditions(self, *, key: Key[Array, ""]) -> tuple[Array, ...]:
        modality = jax.random.randint(key_stream(key, "modality"), (), 0, len(IS_SHOWN))
        return modality, self.rate.sample(key=key_stream(key, "rate"))

    def nominal(self) -> tuple[Array, ...]:
        rates = nominal_values(self.rate)
        modality, rate = all_combinations(len(IS_SHOWN), len(rates))
        return modality, rates[rate]

    def trial_of(self, timeline: Timeline, draws: tuple[Array, ...], *, key: Key[Array, ""]) -> Trial:
        modality, rate = draws
        evidence = rate / self.boundary - 1
        shown = jnp.asarray(IS_SHOWN, float)[modality]
        return self.go_trial(
            timeline,
            jnp.broadcast_to(shown * evidence, (timeline.n_steps, 2)),
            timeline.in_epoch("stimulus"),
            sign_or_coin(evidence, key=key_stream(key, "coin")),
            {"rate": rate, "modality": modality},
            noise=shown * self.noise,
            key=key,
        )


def multisensory_log_odds(task: MultisensoryIntegration, inputs: Mapping[str, Array]) -> Float[Array, ""]:
    """Return the log odds that the rate of one trial of `MultisensoryIntegration` is high.

    With x the sum of a stream times dt, shown for s seconds, a rate with the evidence e has a likelihood in
    proportion to exp(e Σ x / σ² - e² Σ s / (2 σ²)), summed over streams: each is weighted by its reliability
    1 / σ² (Ernst & Banks 2002, Nature 415:429; derived here). An ideal observer says high where the log odds
    are positive.

    **Arguments:**

    - `task`: the task, with noise in both streams, whose rate is a `Choice`.
    - `inputs`: the inputs of the trial.
    """
    check_known_task(task, MultisensoryIntegration, noise="noise")
    values = values_of_choice(task, "rate") / task.boundary - 1
    stimulus = inputs["stimulus"]
    reliability = 1 / task.noise**2
    total = task.dt * jnp.sum(jnp.sum(stimulus, axis=0) * reliability)
    is_shown = (stimulus != 0).astype(stimulus.dtype)  # noise is never zero
    seconds = task.dt * jnp.sum(jnp.sum(is_shown, axis=0) * reliability)
    likelihoods = values * total - values**2 * seconds / 2
    high = logsumexp(likelihoods, b=(jnp.sign(values) + 1) / 2)
    return high - logsumexp(likelihoods, b=(1 - jnp.sign(values)) / 2)


def multisensory_accuracy(
    task: MultisensoryIntegration,
    rate: Float[Array, "*trial"],
    modality: Int[Array, "*trial"],
    seconds: Float[Array, "*trial"] | float,
) -> Float[Array, "*trial"]:
    """Return the accuracy of the optimal combination of the streams, Phi(|e| (s Σ 1 / σ²)^0.5).

    e = rate / boundary - 1, and the sum is over the streams that are shown, so that the squares of their d'
    add up (Ernst & Banks 2002, Nature 415:429; derived here). It is that of an ideal observer if the rates
    lie symmetrically around the boundary.

    **Arguments:**

    - `task`: the task, with noise in both streams.
    - `rate`, `modality`: as in the conditions of trials.
    - `seconds`: s, how long the stimulus is shown.
    """
    check_known_task(task, MultisensoryIntegration, noise="noise")
    reliability = jnp.asarray(IS_SHOWN, float)[modality] @ (1 / task.noise**2)
    return norm.cdf(jnp.abs(rate / task.boundary - 1) * jnp.sqrt(seconds * reliability))
