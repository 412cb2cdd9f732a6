"""Decisions about the number of pulses on two sides: flashes in bins, and clicks at random times."""

from collections.abc import Mapping
from typing import Literal

import equinox as eqx
import jax
import jax.numpy as jnp
import numpy as np
from jax.scipy.special import gammaln, xlogy
from jaxtyping import Array, Bool, Float, Key

from popsim._shared import checks
from popsim.randomness import key_stream
from popsim.tasks import _fields as fields
from popsim.tasks import trial_parts as parts
from popsim.tasks._fields import FINITE, Drawn, Number, Scalar
from popsim.tasks.choices.decisions import AbstractGoTask
from popsim.trial import Trial
from popsim.trial_plan import Epoch
from popsim.windows import Timeline

__all__ = ["PoissonClicks", "PulseDecision", "click_accuracy", "pulse_accuracy", "pulse_difference"]

CorrectSide = Literal["more pulses", "higher rate"]


class AbstractPulses(AbstractGoTask):
    """Pulses to the left and to the right: after the go cue, report on which side there were more."""

    correct_side: CorrectSide = fields.setting(
        '"more pulses", by a coin flip if there are as many on both sides; or "higher rate", the side with '
        "the higher probability or rate of pulses",
        default="more pulses",
    )
    noise: Scalar = fields.white_noise("each channel", default=0.0)

    def pulse_trial(
        self,
        timeline: Timeline,
        pulses: Float[Array, "time 2"],
        is_right: Bool[Array, ""],
        conditions: dict[str, Array],
        *,
        key: Key[Array, ""],
    ) -> Trial:
        """Return the trial with these pulses, of which the right side has the higher rate, or not."""
        pulses = jnp.where(timeline.in_epoch("stimulus")[:, None], pulses, 0.0)
        left, right = jnp.sum(pulses, axis=0)
        more = parts.sign_or_coin(right - left, key=key_stream(key, "coin"))
        choice = more if self.correct_side == "more pulses" else is_right.astype(int)
        conditions = conditions | {"left pulses": left, "right pulses": right}
        return self.go_trial(timeline, pulses, choice, conditions, key=key)


class PulseDecision(AbstractPulses):
    """Bins of time with or without a pulse on each side: after the go cue, report where there were more.

    The flashes of Scott et al. 2015, eLife 4:e11308, as NeuroGym's `PulseDecisionMaking`: a pulse, if there
    is one, begins a bin of 0.25 s. The 0.5 s before the first bin and after the last one are those of the
    same task in the legend of figure 2 of PMC9453285, where the side with more flashes is rewarded (not
    compared with the text of either paper). NeuroGym has no delay after the last bin.

    - Inputs: "fixation" (1), 1 until the go cue; "stimulus" (2: left, right), 1 in the first time step of a
        bin with a pulse, plus white noise.
    - Targets: two outputs, zero until the go cue, then 1 for the correct one: left, right.
    - Epochs "fixation", "stimulus", "delay", "decision"; events "stimulus on", "stimulus off", "go cue".
    - Conditions: "left pulses" and "right pulses" (their number), "right is higher" (whether the right side
        has the higher probability), "choice" (0 left, 1 right), "catch".

    Without noise an ideal observer counts, see `pulse_difference`, and `pulse_accuracy` is its accuracy.
    There are eight validation trials for each side, with pulses from a fixed seed.
    """

    n_bins: int = fields.count("bins", default=6)
    probabilities: Float[Number, "2"] = fields.fraction(
        "the probabilities of a pulse in a bin, on the side with fewer and on that with more of them",
        default=(0.3, 0.7),
    )
    bin_duration: float = fields.fixed("the duration of one bin, in seconds", default=0.25)
    fixation: Drawn = fields.epoch(default=0.5)
    delay: Drawn = fields.epoch(default=0.5)
    duration: float = fields.trial_duration(default=3.0)

    def __check_init__(self):
        checks.n_steps_in("bin_duration", self.bin_duration, self.dt)
        if not parts.is_known(self.probabilities):
            return
        if self.probabilities.shape != (2,) or not self.probabilities[0] <= self.probabilities[1]:
            raise ValueError(
                f"`probabilities` must be two, the lower one first, got {self.probabilities.tolist()}."
            )

    def epochs(self) -> tuple[Epoch, ...]:
        return parts.stimulus_and_delay(self.n_bins * self.bin_duration, self.delay)

    def draw_conditions(self, *, key: Key[Array, ""]) -> tuple[Array, ...]:
        return (jax.random.bernoulli(key_stream(key, "side")),)

    def nominal(self) -> tuple[Array, ...]:
        return (jnp.repeat(jnp.array([False, True]), 8),)

    def trial_of(self, timeline: Timeline, draws: tuple[Array, ...], *, key: Key[Array, ""]) -> Trial:
        (is_right,) = draws
        of_sides = jnp.where(is_right, self.probabilities, self.probabilities[::-1])
        is_pulse = jax.random.bernoulli(key_stream(key, "pulses"), of_sides, (self.n_bins, 2))
        n_steps = checks.n_steps_in("bin_duration", self.bin_duration, self.dt)
        since_start = jnp.arange(timeline.n_steps) - timeline.epochs["stimulus"][0]
        begins = since_start == n_steps * jnp.arange(self.n_bins)[:, None]
        pulses = begins.T.astype(float) @ is_pulse.astype(float)
        return self.pulse_trial(timeline, pulses, is_right, {"right is higher": is_right}, key=key)


LOG_RATIOS = [-3.5, -2.5, -1.5, -0.5, 0.5, 1.5, 2.5, 3.5]  # of Brody-Lab/PulseInputDDM.jl
MOST_CLICKS, N_COUNTS = 5.0, 24
"""The largest mean number of clicks in a time step, and the numbers of clicks in it that are drawn; more have
a probability of 1e-9."""


class AbstractClicks(parts.AbstractIndependentDraws):
    """A task with clicks at random times on two sides, at a ratio of their rates that is drawn."""

    log_ratio: Drawn = fields.drawn(
        "γ = log(right rate / left rate); at zero no side has the higher rate",
        default=LOG_RATIOS,
        check=FINITE,
    )
    total_rate: Scalar = fields.positive("the rate of clicks of both sides, in Hz", default=40.0)
    dt: eqx.AbstractVar[float]

    def __check_init__(self):
        if parts.is_known(self.total_rate) and self.total_rate * self.dt > MOST_CLICKS:
            raise ValueError(
                f"`total_rate` must be at most {MOST_CLICKS / self.dt:.4g} Hz, {MOST_CLICKS:g} clicks in a "
                f"time step, got {float(self.total_rate):g} Hz."
            )

    def draws(self) -> dict[str, parts.Drawable]:
        return {"log ratio": self.log_ratio}

    def clicks(
        self, log_ratio: Float[Array, ""], n_steps: int, *, key: Key[Array, ""]
    ) -> Float[Array, "time side"]:
        """Draw the numbers of clicks of the left and the right side in each time step."""
        rates = self.total_rate * jax.nn.sigmoid(jnp.stack([-log_ratio, log_ratio]))
        means = self.dt * rates
        # By inversion of the Poisson distribution: `jax.random.poisson` has a loop of unknown length.
        counts = jnp.arange(float(N_COUNTS))
        log_p = xlogy(counts, means[:, None]) - means[:, None] - gammaln(counts + 1)
        u = jax.random.uniform(key_stream(key, "clicks"), (n_steps, *means.shape))
        return jnp.sum(u[..., None] > jnp.cumsum(jnp.exp(log_p), axis=1), axis=-1).astype(float)


class PoissonClicks(AbstractPulses, AbstractClicks):
    """Clicks at random times on two sides: after the go cue, report on which side there were more.

    The task of Brunton, Botvinick & Brody 2013, Science 340:95 (compared with the abstract only). Rates,
    ratios and durations of the stimulus are those of Brody-Lab/PulseInputDDM.jl.

    - Inputs: "fixation" (1), 1 until the go cue; "stimulus" (2: left, right), the number of clicks in each
        time step, which are Poisson processes in the epoch "stimulus", plus white noise.
    - Targets: two outputs, zero until the go cue, then 1 for the correct one: left, right.
    - Epochs "fixation", "stimulus", "delay", "decision"; events "stimulus on", "stimulus off", "go cue".
    - Conditions: "log ratio", "left pulses" and "right pulses" (their number), "choice" (0 left, 1 right),
        "catch".

    Without noise an ideal observer counts, see `pulse_difference`, and `click_accuracy` is its accuracy, if
    each ratio is as frequent to both sides or the side with more clicks is correct. There is one validation
    trial for each ratio.
    """

    stimulus: Drawn = fields.epoch(default=(0.2, 1.0))
    delay: Drawn = fields.epoch(default=0.0)
    duration: float = fields.trial_duration(default=1.5)
    dt: float = fields.time_step(default=0.02)

    def epochs(self) -> tuple[Epoch, ...]:
        return parts.stimulus_and_delay(self.stimulus, self.delay)

    def trial_of(self, timeline: Timeline, draws: tuple[Array, ...], *, key: Key[Array, ""]) -> Trial:
        (log_ratio,) = draws
        clicks = self.clicks(log_ratio, timeline.n_steps, key=key)
        is_right = parts.sign_or_coin(log_ratio, key=key_stream(key, "side coin")).astype(bool)
        return self.pulse_trial(timeline, clicks, is_right, {"log ratio": log_ratio}, key=key)


def pulse_difference(inputs: Mapping[str, Array]) -> Float[Array, ""]:
    """Return how many more pulses there were on the right than on the left in one trial.

    An ideal observer reports its sign if the side with more pulses is correct. It does so, too, if the side
    with the higher rate is, and either side has it equally often, by the same ratios.

    **Arguments:**

    - `inputs`: the inputs of a trial of `PulseDecision` or `PoissonClicks`, without noise.
    """
    left, right = jnp.sum(inputs["stimulus"], axis=0)
    return right - left


def pulse_accuracy(
    n_bins: int, probabilities: tuple[float, float] = (0.3, 0.7), correct_side: CorrectSide = "more pulses"
) -> float:
    """Compute the accuracy of an observer who counts the pulses of `PulseDecision`, and guesses at ties.

    The numbers of pulses are binomial. If the side with more pulses is correct, only ties are missed, half of
    them.

    **Arguments:**

    - `n_bins`, `probabilities`, `correct_side`: as in the task.
    """
    from scipy.stats import binom

    few, many = (binom.pmf(np.arange(n_bins + 1), n_bins, p) for p in probabilities)
    difference = np.convolve(many, few[::-1])  # from -n_bins to n_bins
    tie = float(difference[n_bins])
    right = 1 - tie if correct_side == "more pulses" else float(difference[n_bins + 1 :].sum())
    return right + tie / 2


def click_accuracy(
    log_ratio: Float[np.ndarray | Array, "*trial"] | float,
    seconds: Float[np.ndarray | Array, "*trial"] | float,
    total_rate: float = 40.0,
    correct_side: CorrectSide = "more pulses",
) -> Float[np.ndarray, "*trial"]:
    """Compute the accuracy of an observer who counts the clicks of `PoissonClicks`, and guesses at ties.

    The numbers of clicks are Poisson numbers. If the side with more clicks is correct, only ties are missed,
    half of them.

    **Arguments:**

    - `log_ratio`: γ, not zero if the side with the higher rate is correct.
    - `seconds`: the duration of the stimulus.
    - `total_rate`, `correct_side`: as in the task; the rate in Hz.
    """
    from scipy.special import expit
    from scipy.stats import poisson

    size = np.abs(np.asarray(log_ratio, float))[..., None]
    few, many = (total_rate * np.asarray(seconds, float)[..., None] * expit(sign * size) for sign in (-1, 1))
    # Not scipy.stats.skellam, whose tail is 2 for means of 40 and 1e-6.
    count = np.arange(int(np.max(few, initial=0.0) + 12 * np.max(few, initial=1.0) ** 0.5) + 1)
    tie = np.sum(poisson.pmf(count, few) * poisson.pmf(count, many), axis=-1)
    if correct_side == "more pulses":
        return np.asarray(1 - tie / 2)
    return np.asarray(np.sum(poisson.pmf(count, few) * poisson.sf(count, many), axis=-1) + tie / 2)
