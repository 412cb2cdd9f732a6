"""Evidence that comes in pieces: flashes in bins, clicks at random times, and shapes with weights."""

from typing import Literal

import equinox as eqx
import jax
import jax.numpy as jnp
from jax.scipy.special import gammaln, xlogy
from jaxtyping import Array, Bool, Float, Key

from popsim._shared.checks import n_steps_in, short_repr
from popsim.randomness import key_stream, seed_key
from popsim.tasks import _fields as fields
from popsim.tasks import trial_parts as parts
from popsim.tasks._fields import FINITE, Drawn, Number, Scalar
from popsim.tasks.choices.delayed_choices import AbstractGoTask, Question, choice_of_sign
from popsim.trial import Trial
from popsim.trial_plan import Epoch, TrialPlan
from popsim.windows import Timeline

__all__ = ["PoissonClicks", "ProbabilisticReasoning", "PulseDecision"]

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
        is_more = self.correct_side == "more pulses"
        choice = choice_of_sign(right - left) if is_more else is_right.astype(int)
        labels = conditions | {"left pulses": left, "right pulses": right}
        return self.go_trial(timeline, Question({"stimulus": pulses}, choice, labels), key=key)


class PulseDecision(AbstractPulses):
    """Bins of time with or without a pulse on each side: after the go cue, report where there were more.

    The flashes of Scott et al. 2015, eLife 4:e11308, as NeuroGym's `PulseDecisionMaking`: a pulse, if there
    is one, begins a bin of 0.25 s. The 0.5 s before the first bin and after the last one are those in the
    legend of figure 2 of PMC9453285 (not compared with the text of either paper).

    - Inputs: "fixation" (1), 1 until the go cue; "stimulus" (2: left, right), 1 in the first time step of a
        bin with a pulse, plus white noise.
    - Targets: two outputs, zero until the go cue, then 1 for the correct one: left, right.
    - Conditions: "left pulses" and "right pulses" (their number), "right is higher" (whether the right side
        has the higher probability), "choice" (0 left, 1 right), "catch".

    Without noise an ideal observer counts, and only misses half of the ties. There are eight validation
    trials for each side.
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
        n_steps_in("bin_duration", self.bin_duration, self.dt)
        if self.probabilities.shape != (2,) or not self.probabilities[0] <= self.probabilities[1]:
            raise ValueError(
                f"`probabilities` must be two, the lower one first, got {self.probabilities.tolist()}."
            )

    @property
    def stimulus(self) -> float:
        """The duration of the epoch "stimulus", in seconds."""
        return self.n_bins * self.bin_duration

    def draws(self) -> dict[str, parts.Drawable]:
        return {"side": jnp.array(0.5)}

    def nominal(self) -> tuple[Array, ...]:
        return (jnp.repeat(jnp.array([False, True]), 8),)

    def trial_of(self, timeline: Timeline, draws: tuple[Array, ...], *, key: Key[Array, ""]) -> Trial:
        (is_right,) = draws
        of_sides = jnp.where(is_right, self.probabilities, self.probabilities[::-1])
        is_pulse = jax.random.bernoulli(key_stream(key, "pulses"), of_sides, (self.n_bins, 2))
        n_steps = n_steps_in("bin_duration", self.bin_duration, self.dt)
        since_start = jnp.arange(timeline.n_steps) - timeline.epochs["stimulus"][0]
        begins = since_start == n_steps * jnp.arange(self.n_bins)[:, None]
        pulses = begins.T.astype(float) @ is_pulse.astype(float)
        return self.pulse_trial(timeline, pulses, is_right, {"right is higher": is_right}, key=key)


LOG_RATIOS = [-3.5, -2.5, -1.5, -0.5, 0.5, 1.5, 2.5, 3.5]  # of Brody-Lab/PulseInputDDM.jl
MOST_CLICKS, N_COUNTS = 5.0, 24
"""The largest mean number of clicks in a time step, and the numbers of clicks in it that are drawn; more have
a probability of 1e-9."""


class AbstractClicks(parts.AbstractPlannedTask):
    """A task with clicks at random times on two sides, at a ratio of their rates that is drawn."""

    log_ratio: Drawn = fields.drawn(
        "γ = log(right rate / left rate); at zero no side has the higher rate",
        default=LOG_RATIOS,
        check=FINITE,
    )
    total_rate: Scalar = fields.positive("the rate of clicks of both sides, in Hz", default=40.0)
    dt: eqx.AbstractVar[float]

    def __check_init__(self):
        if self.total_rate * self.dt > MOST_CLICKS:
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
    - Conditions: "log ratio", "left pulses" and "right pulses" (their number), "choice" (0 left, 1 right),
        "catch".

    Without noise an ideal observer counts, if each ratio is as frequent to both sides or the side with more
    clicks is correct.
    """

    stimulus: Drawn = fields.epoch(default=(0.2, 1.0))
    delay: Drawn = fields.epoch(default=0.0)
    duration: float = fields.trial_duration(default=1.5)
    dt: float = fields.time_step(default=0.02)

    def trial_of(self, timeline: Timeline, draws: tuple[Array, ...], *, key: Key[Array, ""]) -> Trial:
        (log_ratio,) = draws
        clicks = self.clicks(log_ratio, timeline.n_steps, key=key)
        is_right = parts.sign_or_coin(log_ratio, key=key_stream(key, "side coin")).astype(bool)
        return self.pulse_trial(timeline, clicks, is_right, {"log ratio": log_ratio}, key=key)


WEIGHTS = (-10.0, -0.9, -0.7, -0.5, -0.3, 0.3, 0.5, 0.7, 0.9, 10.0)
"""Those of Yang & Shadlen, with 10 in place of infinity for the two shapes that decide alone."""


class ProbabilisticReasoning(AbstractGoTask):
    """Four shapes in sequence: after the go cue, take the choice that they make more probable.

    The task of Yang & Shadlen 2007, Nature 447:1075, with the weights and times of NeuroGym's
    `ProbabilisticReasoning` (not compared with the paper). Each shape has a weight, and the second choice is
    rewarded with probability 1 / (1 + 10^-W), where W is the sum of the weights.

    - Inputs: "fixation" (1), 1 until the go cue; "stimulus" (`n_shapes` times the number of weights), for
        each place a one-hot code of its shape, plus white noise in the epochs of the shapes. A shape stays
        until the delay.
    - Targets: two outputs, zero until the go cue, then 1 for the rewarded one, which is drawn: the same
        shapes have different targets in different trials.
    - Conditions: "log odds" (W), "shapes" and "places" (`n_shapes`, in the order of time), "choice" (0 or 1,
        the rewarded one), "catch".

    An ideal observer sums the weights, and is right with probability 1 / (1 + 10^-|W|). In the validation
    trials each shape comes once at each time, among others that are drawn from a fixed seed.
    """

    weights: Float[Number, " kind"] = fields.number("the weight of each shape, to base 10", default=WEIGHTS)
    n_shapes: int = fields.count("shapes in a trial, and of places", default=4)
    noise: Scalar = fields.white_noise("each channel", default=0.01)
    fixation: Drawn = fields.epoch(default=0.5)
    shape: Drawn = fields.drawn("the time from one shape to the next, in seconds", default=0.5)
    delay: Drawn = fields.epoch(default=(0.45, 0.55))
    duration: float = fields.trial_duration(default=3.55)

    def __check_init__(self):
        if self.weights.ndim != 1 or self.weights.size < 2:
            raise ValueError(
                f"`weights` must be those of two shapes or more, got {short_repr(self.weights)}."
            )

    @property
    def _shape_epochs(self) -> tuple[str, ...]:
        return tuple(f"shape {index + 1}" for index in range(self.n_shapes))

    @property
    def plan(self) -> TrialPlan:
        shapes = [Epoch(name, self.shape, event=f"{name} on") for name in self._shape_epochs]
        return self.plan_with(*shapes, Epoch("delay", self.delay, event="shapes off"))

    def draw_conditions(self, *, key: Key[Array, ""]) -> tuple[Array, ...]:
        kinds = jax.random.randint(key_stream(key, "shapes"), (self.n_shapes,), 0, self.weights.shape[0])
        return kinds, jax.random.permutation(key_stream(key, "places"), self.n_shapes)

    def nominal(self) -> tuple[Array, ...]:
        n_kinds = self.weights.shape[0]
        keys = jax.random.split(seed_key(0), self.n_shapes * n_kinds)
        kinds, places = jax.vmap(lambda key: self.draw_conditions(key=key))(keys)
        trial = jnp.arange(self.n_shapes * n_kinds)
        return kinds.at[trial, trial // n_kinds].set(trial % n_kinds), places

    def trial_of(self, timeline: Timeline, draws: tuple[Array, ...], *, key: Key[Array, ""]) -> Trial:
        kinds, places = draws
        during = jnp.stack([timeline.in_epoch(name) for name in self._shape_epochs])
        has_come = jnp.cumsum(during, axis=1) > 0
        # The axes are (shape, place, kind): shape i is at places[i], and of kind kinds[i].
        at_places = jax.nn.one_hot(places, self.n_shapes)[:, :, None]
        code = at_places * jax.nn.one_hot(kinds, self.weights.shape[0])[:, None, :]
        stimulus = jnp.tensordot(has_come.astype(float).T, code.reshape(self.n_shapes, -1), axes=1)
        log_odds = jnp.sum(self.weights[kinds])
        second = jax.random.bernoulli(key_stream(key, "reward"), jax.nn.sigmoid(jnp.log(10.0) * log_odds))
        labels = {"log odds": log_odds, "shapes": kinds, "places": places}
        shown = dict.fromkeys(self._shape_epochs, stimulus)
        return self.go_trial(timeline, Question(shown, second.astype(int), labels), key=key)
