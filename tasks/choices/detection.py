"""Detection of a signal in noise, and go or no-go after a delay."""

from collections.abc import Mapping

import jax
import jax.numpy as jnp
import numpy as np
from jax.scipy.special import logit, logsumexp
from jax.scipy.stats import norm
from jaxtyping import Array, Float, Key

from popsim._shared import checks
from popsim.tasks import _fields as fields
from popsim.tasks._fields import Drawn, Scalar
from popsim.tasks.choices.decisions import AbstractGoTask, AbstractStimulusTask
from popsim.tasks.trial_parts import NO, YES, AbstractIndependentDraws, Drawable, stimulus_and_delay
from popsim.trial import Trial
from popsim.trial_plan import Epoch
from popsim.windows import Timeline

__all__ = [
    "DelayedGoNoGo",
    "SignalDetection",
    "detection_accuracy",
    "discrimination_accuracy",
    "go_log_odds",
    "signal_log_odds",
]


def discrimination_accuracy(
    d_prime: Float[Array, "*axes"] | float, probability: Float[Array, ""] | float = 0.5
) -> Float[Array, "*axes"]:
    """Return the accuracy of an ideal observer of two signals in Gaussian noise.

    d' is the distance between the means of the evidence in standard deviations. With p the probability of
    the first signal and L = log(p / (1 - p)), the observer whose criterion is the best one is right with
    probability p Phi(d' / 2 + L / d') + (1 - p) Phi(d' / 2 - L / d'), which is Phi(d' / 2) for p = 1/2
    (the theory of Green & Swets 1966, Signal Detection Theory and Psychophysics; derived here).

    **Arguments:**

    - `d_prime`: d', positive.
    - `probability`: p, between 0 and 1.
    """
    d_prime, p = jnp.asarray(d_prime, float), jnp.asarray(probability, float)
    shift = logit(p) / d_prime
    return p * norm.cdf(d_prime / 2 + shift) + (1 - p) * norm.cdf(d_prime / 2 - shift)


class DelayedGoNoGo(AbstractIndependentDraws, AbstractStimulusTask):
    """A go or a no-go stimulus, a delay, then the go cue, after which to respond or not.

    The stimuli and times of NeuroGym's `GoNogo`, which cites Zhang et al. 2019, eLife 8:e43191 (not compared
    with the paper). `GoNoGo` is the task that pays for a response when it is made.

    - Inputs: "fixation" (1), 1 until the go cue; "stimulus" (2: no-go, go), one-hot plus white noise in the
        epoch "stimulus".
    - Targets: two outputs, zero until the go cue, then 1 for the correct one: the first to respond ("go"),
        the second to withhold the response.
    - Epochs "fixation", "stimulus", "delay", "decision"; events "stimulus on", "stimulus off", "go cue".
    - Conditions: "go", "choice" (0 go, 1 no-go), "catch".

    After a stimulus of s seconds the accuracy of an ideal observer, see `go_log_odds`, is
    `discrimination_accuracy((2 s)**0.5 / sigma, go_probability)`. There are two validation trials: no-go and
    go.
    """

    go_probability: Scalar = fields.fraction("the fraction of trials with the go stimulus", default=0.5)
    noise: Scalar = fields.white_noise("each channel", default=0.1)
    fixation: Drawn = fields.epoch(default=0.0)
    stimulus: Drawn = fields.epoch(default=0.5)
    delay: Drawn = fields.epoch(default=0.5)
    duration: float = fields.trial_duration(default=1.5)

    def draws(self) -> dict[str, Drawable]:
        return {"go": self.go_probability}

    def trial_of(self, timeline: Timeline, draws: tuple[Array, ...], *, key: Key[Array, ""]) -> Trial:
        (is_go,) = draws
        stimulus = jax.nn.one_hot(is_go.astype(int), 2)
        return self.go_trial(timeline, stimulus, jnp.where(is_go, YES, NO), {"go": is_go}, key=key)


def go_log_odds(task: DelayedGoNoGo, inputs: Mapping[str, Array]) -> Float[Array, ""]:
    """Return the log odds that the inputs of one trial of `DelayedGoNoGo` ask for a response.

    The evidence is the difference of the two channels, summed over time; an ideal observer responds where the
    log odds are positive.

    **Arguments:**

    - `task`: the task, with noise.
    - `inputs`: the inputs of the trial.
    """
    checks.check_positive("task.noise", task.noise)
    no_go, go = task.dt * jnp.sum(inputs["stimulus"], axis=0)
    return (go - no_go) / task.noise**2 + logit(task.go_probability)


class SignalDetection(AbstractIndependentDraws, AbstractGoTask):
    """A brief signal at an unknown time in noise, in half of the trials: report whether it was there.

    The signal, the noise and the times of NeuroGym's `Detection`, there with a response at any time and an
    epoch "stimulus" that lasts 0.5 to 1.5 s. Here the response follows the go cue. (Trials without a signal
    have twice the variance of noise there, which reveals them.)

    - Inputs: "fixation" (1), 1 until the go cue; "stimulus" (1), white noise in the epoch "stimulus", and in
        trials with a signal `amplitude` for the time `signal`, from one of `n_onsets` onsets on, which follow
        one another without a gap or an overlap.
    - Targets: two outputs, zero until the go cue, then 1 for the correct one: the first, "yes", if there was
        a signal, the second, "no", if not.
    - Epochs "fixation", "stimulus", "delay", "decision"; events "stimulus on", "stimulus off", "go cue".
    - Conditions: "signal", "onset" (the index of the onset; -1 without a signal), "choice" (0 or 1), "catch".

    `detection_accuracy` is that of an ideal observer, see `signal_log_odds`, with
    d' = amplitude signal^0.5 / sigma. There is one validation trial for each onset, and as many without a
    signal.
    """

    amplitude: Scalar = fields.non_negative("the amplitude of the signal", default=0.5)
    signal: float = fields.fixed("the duration of the signal, in seconds", default=0.1)
    n_onsets: int = fields.count('onsets; the epoch "stimulus" lasts `n_onsets` times `signal`', default=10)
    signal_probability: Scalar = fields.fraction("the fraction of trials with a signal", default=0.5)
    noise: Scalar = fields.white_noise("the stimulus", default=0.001**0.5)
    fixation: Drawn = fields.epoch(default=0.5)
    delay: Drawn = fields.epoch(default=0.0)
    duration: float = fields.trial_duration(default=2.0)

    def __check_init__(self):
        _ = self.n_signal_steps

    @property
    def n_signal_steps(self) -> int:
        """The number of time steps of a signal."""
        return checks.n_steps_in("signal", self.signal, self.dt)

    def epochs(self) -> tuple[Epoch, ...]:
        return stimulus_and_delay(self.n_onsets * self.signal, self.delay)

    def draws(self) -> dict[str, Drawable]:
        return {"signal": self.signal_probability, "onset": self.n_onsets}

    def trial_of(self, timeline: Timeline, draws: tuple[Array, ...], *, key: Key[Array, ""]) -> Trial:
        is_there, onset = draws
        since_start = jnp.arange(timeline.n_steps) - timeline.epochs["stimulus"][0]
        has_signal = is_there & (since_start // self.n_signal_steps == onset)
        stimulus = jnp.where(has_signal, self.amplitude, 0.0)[:, None]
        conditions = {"signal": is_there, "onset": jnp.where(is_there, onset, -1)}
        return self.go_trial(timeline, stimulus, jnp.where(is_there, YES, NO), conditions, key=key)


def signal_log_odds(task: SignalDetection, inputs: Mapping[str, Array]) -> Float[Array, ""]:
    """Return the log odds that the inputs of one trial of `SignalDetection` contain a signal.

    With x_m the sum over the m-th possible time of the signal of the stimulus times dt, A the amplitude, and
    s the duration of the signal, the likelihood ratio is the mean over m of exp((A x_m - A² s / 2) / σ²). An
    ideal observer says yes where the log odds are positive.

    **Arguments:**

    - `task`: the task, with noise.
    - `inputs`: the inputs of the trial.
    """
    checks.check_positive("task.noise", task.noise)
    stimulus = inputs["stimulus"][:, 0]
    since_start = jnp.cumsum(stimulus != 0) - 1  # noise is never zero
    is_during = since_start // task.n_signal_steps == jnp.arange(task.n_onsets)[:, None]
    sums = task.dt * jnp.sum(jnp.where(is_during, stimulus, 0.0), axis=1)
    log_ratios = (task.amplitude * sums - task.amplitude**2 * task.signal / 2) / task.noise**2
    return logsumexp(log_ratios) - jnp.log(task.n_onsets) + logit(task.signal_probability)


N_GRID = 2**14
"""The number of values of the likelihood ratio that `detection_accuracy` distinguishes."""


def detection_accuracy(d_prime: float, n_onsets: int = 1, probability: float = 0.5) -> float:
    """Compute the accuracy of an ideal observer of a signal at one of `n_onsets` times.

    The times do not overlap and are equally probable. The likelihood ratio is then a mean of independent
    log-normal terms (see `signal_log_odds`), whose distribution below the criterion is computed by repeated
    convolution on a grid. With one onset it is `discrimination_accuracy`.

    **Arguments:**

    - `d_prime`: amplitude times duration^0.5 / sigma of the signal, positive.
    - `n_onsets`: the number of times, 1 if the time is known.
    - `probability`: the fraction of trials with a signal.
    """
    checks.check_positive("d_prime", d_prime)
    checks.check_positive_int("n_onsets", n_onsets)
    if not 0 < probability < 1:
        raise ValueError(f"`probability` must be between 0 and 1, got {probability}.")
    limit = n_onsets * (1 - probability) / probability
    # The criterion lies between two values of the grid.
    edges = (np.arange(N_GRID + 1) - 0.5).clip(0) * limit / (N_GRID - 0.5)

    def masses(mean: float) -> np.ndarray:
        """Return the distribution of exp(d' z) with z normal, times e^mean, on the grid."""
        with np.errstate(divide="ignore"):
            below = np.asarray(norm.cdf((np.log(edges) - mean) / d_prime), float)
        return np.diff(below)

    noise, signal = masses(-(d_prime**2) / 2), masses(d_prime**2 / 2)
    others = np.zeros(N_GRID)
    others[0] = 1.0
    for _ in range(n_onsets - 1):
        others = _sum_on_grid(others, noise)
    rejects = _sum_on_grid(others, noise).sum()
    misses = _sum_on_grid(others, signal).sum()
    return float((1 - probability) * rejects + probability * (1 - misses))


def _sum_on_grid(one: np.ndarray, other: np.ndarray) -> np.ndarray:
    """Return the distribution of the sum of two independent numbers, up to the end of the grid."""
    spectrum = np.fft.rfft(one, 2 * N_GRID) * np.fft.rfft(other, 2 * N_GRID)
    return np.fft.irfft(spectrum)[:N_GRID]
