"""Directions: reproduced one after the other, and put into categories."""

import jax
import jax.numpy as jnp
import numpy as np
from jaxtyping import Array, Bool, Float, Int, Key

from popsim._shared.checks import check_positive, n_steps_in
from popsim.loss import Loss
from popsim.losses import CrossEntropy, OutputError
from popsim.randomness import key_stream
from popsim.tasks import _fields as fields
from popsim.tasks import trial_parts as parts
from popsim.tasks._fields import Drawn, Scalar
from popsim.tasks.choices.decisions import AbstractStimulusTask
from popsim.trial import OutputTarget, Trial
from popsim.trial_plan import Epoch, TrialPlan
from popsim.windows import Timeline

__all__ = [
    "AngleReproduction",
    "DirectionCategory",
    "direction_category_log_odds",
    "decode_angle",
    "mean_cosine_of_error",
]

SECOND_GO_CUE = "second go cue"


class AngleReproduction(parts.AbstractPlannedTask):
    """Two angles to remember: after the go cue reproduce the first, after another one the second.

    The task of Ding, Cueva, Tsodyks & Qian 2017, PNAS 114:E9115, with the stimuli and times of NeuroGym's
    `AngleReproduction` (not compared with the paper). There the network turns a hand step by step; here it
    gives cosine and sine of the angle.

    - Inputs: "fixation" (1), 1 until the go cue; "stimulus" (`n_channels`), cos(θ - angle) for evenly spaced
        θ plus white noise in the epochs of the stimuli; "report" (2), 1 in the epoch of each report.
    - Targets: two outputs, zero until the go cue, then cosine and sine of the first angle, and of the second
        from the second go cue on.
    - Epochs "fixation", "first", "first delay", "second", "second delay", "first report", "second report";
        events "first on", "first off", "second on", "second off", "go cue", "second go cue".
    - Conditions: "first angle" and "second angle" (rad, in (-pi, pi]), "catch".

    An ideal observer decodes an angle by `popsim.tasks.decode_angle`; the mean cosine of its error is
    `popsim.tasks.mean_cosine_of_error`. A catch trial has no report. The validation trials are all pairs of
    eight angles.
    """

    loss: Loss = fields.default_loss(default_factory=lambda: 1.0 * OutputError())
    n_channels: int = fields.count("channels of the stimulus, at least three", default=16, least=3)
    noise: Scalar = fields.white_noise("each channel", default=0.1)
    fixation: Drawn = fields.epoch(default=0.5)
    stimulus: Drawn = fields.drawn("the duration of either stimulus, in seconds", default=0.5)
    delay: Drawn = fields.drawn("the duration of the delay after either stimulus, in seconds", default=0.5)
    report: Drawn = fields.drawn("the duration of the first report, in seconds", default=0.5)
    response: parts.GoResponse = fields.part(fields.RESPONSE, default_factory=parts.GoResponse)
    duration: float = fields.trial_duration(default=3.5)
    dt: float = fields.time_step(default=0.05)

    def __check_init__(self):
        n_steps_in("grace", self.response.grace, self.dt)
        parts.check_time_left(
            self.plan, self.response.grace + self.dt, "the grace of the second report and a step"
        )

    @property
    def plan(self) -> TrialPlan:
        epochs = (
            Epoch("fixation", self.fixation),
            Epoch("first", self.stimulus, event="first on"),
            Epoch("first delay", self.delay, event="first off"),
            Epoch("second", self.stimulus, event="second on"),
            Epoch("second delay", self.delay, event="second off"),
            Epoch("first report", self.report, event=parts.GO_CUE),
            Epoch("second report", event=SECOND_GO_CUE),
        )
        return parts.plan_of(self, epochs, parts.GO_CUE, self.response.catch_probability)

    def draw_conditions(self, *, key: Key[Array, ""]) -> tuple[Array, ...]:
        return (jax.random.uniform(key_stream(key, "angles"), (2,), maxval=2 * jnp.pi),)

    def nominal(self) -> tuple[Array, ...]:
        return (parts.even_directions(None)[jnp.stack(parts.all_combinations(8, 8), axis=-1)],)

    def trial_of(self, timeline: Timeline, draws: tuple[Array, ...], *, key: Key[Array, ""]) -> Trial:
        (angles,) = draws
        is_first, is_second = timeline.in_epoch("first"), timeline.in_epoch("second")
        angle = jnp.where(is_first, angles[0], angles[1])
        activity = jnp.cos(_preferred(self.n_channels) - angle[:, None])
        shown, noise_key = is_first | is_second, key_stream(key, "noise")
        reports = jnp.stack([timeline.in_epoch(f"{which} report") for which in ("first", "second")], axis=-1)
        return Trial(
            init=(),
            inputs={
                "fixation": self.response.fixation(timeline),
                "stimulus": parts.with_noise(activity, self.noise, shown, dt=self.dt, key=noise_key),
                "report": reports.astype(float),
            },
            targets=self._target(timeline, reports, angles),
            timeline=timeline,
            conditions={
                "first angle": parts.wrap_angle(angles[0]),
                "second angle": parts.wrap_angle(angles[1]),
                "catch": self.response.is_catch(timeline),
            },
        )

    def _target(
        self, timeline: Timeline, reports: Bool[Array, "time 2"], angles: Float[Array, "2"]
    ) -> OutputTarget:
        """Return the target, whose errors have no weight in the grace after either go cue."""
        values = reports.astype(float) @ jnp.stack([jnp.cos(angles), jnp.sin(angles)], axis=-1)
        grace = self.response.grace
        settled = [
            is_reported & timeline.since(cue, grace)
            for is_reported, cue in zip(reports.T, (parts.GO_CUE, SECOND_GO_CUE), strict=True)
        ]
        counts = jnp.where(jnp.any(jnp.stack(settled), axis=0), 1.0, 0.0)
        counts = jnp.where(timeline.since(parts.GO_CUE), counts, self.response.silence_counts)
        return OutputTarget(values, counts, is_choice=False)


def _preferred(n_channels: int) -> Float[Array, " units"]:
    return jnp.linspace(0.0, 2 * jnp.pi, n_channels, endpoint=False)


def decode_angle(activity: Float[Array, "*axes time units"]) -> Float[Array, "*axes"]:
    """Return the most probable angle of an `AngleReproduction` from the activity it evoked, in (-pi, pi].

    The population vector (Salinas & Abbott 1994, J Comput Neurosci 1:89, compared with the abstract only). As
    the squares of evenly spaced cosines add up to the same for all angles, the log likelihood of an angle is
    the sum of the activity times the cosines, up to a constant, and it is largest in this direction.

    **Arguments:**

    - `activity`: the input "stimulus" in the epoch of one stimulus; zero outside of it, if it is longer.
    """
    preferred = _preferred(activity.shape[-1])
    total = jnp.sum(activity, axis=-2)
    return parts.wrap_angle(jnp.arctan2(total @ jnp.sin(preferred), total @ jnp.cos(preferred)))


def mean_cosine_of_error(noise: float, seconds: float, n_channels: int) -> float:
    """Return the mean cosine of the error of `decode_angle`.

    The population vector is the unit vector of the angle plus normal noise of variance v = 2 sigma² / (n s)
    in both directions. The mean cosine of the direction of such a vector is (pi / (8 v))^0.5 exp(-x) (I0(x) +
    I1(x)), with x = 1 / (4 v) and Bessel functions I (the mean of a projected normal distribution; checked
    against numerical integration).

    **Arguments:**

    - `noise`: sigma of each channel, in s^0.5.
    - `seconds`: s, the duration of the stimulus.
    - `n_channels`: n, the number of channels.
    """
    with jax.enable_x64(True):
        variance = 2 * float(noise) ** 2 / (n_channels * float(seconds))
        x = jnp.asarray(1 / (4 * variance))
        bessel = jax.scipy.special.i0e(x) + jax.scipy.special.i1e(x)  # times exp(-x)
        return float(np.sqrt(np.pi / (8 * variance)) * bessel)


class DirectionCategory(parts.AbstractIndependentDraws, AbstractStimulusTask):
    """A direction to classify: after the go cue, report on which side of a boundary it was.

    The directions, 30 degrees apart, and a boundary that divides them into two categories are those of
    Freedman & Assad 2006, Nature 443:85 (compared with the abstract and a summary of the methods), the times
    those of NeuroGym's `DelayMatchCategory`. There a second stimulus is to be matched; here the category is
    reported.

    - Inputs: "fixation" (1), 1 until the go cue; "stimulus" (`n_directions`), the activity of units on a ring
        plus white noise in the epoch "stimulus".
    - Targets: two outputs, zero until the go cue, then 1 for the category.
    - Epochs "fixation", "stimulus", "delay", "decision"; events "stimulus on", "stimulus off", "go cue".
    - Conditions: "direction" (its index), "distance" (the number of directions from it to the boundary, 0 for
        those next to it), "choice" (the category, 0 or 1), "catch".

    An ideal observer sums the probabilities of the directions of each category
    (`popsim.tasks.direction_category_log_odds`). Errors come next to the boundary. There is one validation
    trial for each direction.
    """

    loss: Loss = fields.default_loss(default_factory=lambda: 1.0 * CrossEntropy())
    n_directions: int = fields.setting(fields.EVEN_DIRECTIONS, default=12, check=fields.check_even)
    boundary: int = fields.setting("the index of the first direction of the first category", default=0)
    noise: Scalar = fields.white_noise("each unit", default=0.4)
    fixation: Drawn = fields.epoch(default=0.5)
    stimulus: Drawn = fields.epoch(default=0.65)
    delay: Drawn = fields.epoch(default=1.0)
    duration: float = fields.trial_duration(default=2.65)

    def __check_init__(self):
        if self.boundary not in range(self.n_directions):
            raise ValueError(
                f"`boundary` must be the index of one of the {self.n_directions} directions, "
                f"got {self.boundary!r}."
            )

    def categories(self) -> Int[Array, " direction"]:
        """Return the category of each direction."""
        return ((jnp.arange(self.n_directions) - self.boundary) % self.n_directions) // (
            self.n_directions // 2
        )

    def draws(self) -> dict[str, parts.Drawable]:
        return {"direction": self.n_directions}

    def trial_of(self, timeline: Timeline, draws: tuple[Array, ...], *, key: Key[Array, ""]) -> Trial:
        (direction,) = draws
        n = self.n_directions
        within = (direction - self.boundary) % (n // 2)
        distance = jnp.minimum(within, n // 2 - 1 - within)
        conditions = {"direction": direction, "distance": distance}
        category = self.categories()[direction]
        return self.go_trial(timeline, parts.ring_activity(direction, n), category, conditions, key=key)


def direction_category_log_odds(
    task: DirectionCategory, stimulus: Float[Array, "*axes time units"]
) -> Float[Array, "*axes"]:
    """Return the log odds of the second category of a `DirectionCategory`, given the stimulus.

    With the activity f_d of the direction d and the noise sigma, the log likelihood of d is the sum of x ·
    f_d dt / sigma² over time steps, plus what is the same for all directions, whose activities are rotations
    of each other. The likelihoods of the directions of a category add up. A positive value speaks for the
    second category: an ideal observer chooses by its sign, and is right with probability 1 / (1 + exp(-|log
    odds|)).

    **Arguments:**

    - `task`: the task, whose noise is not zero.
    - `stimulus`: the input of this name.
    """
    check_positive("task.noise", task.noise)
    templates = parts.ring_activity(jnp.arange(task.n_directions), task.n_directions)
    log_likelihood = jnp.sum(stimulus, axis=-2) @ templates.T * task.dt / task.noise**2
    is_second = task.categories() == 1
    second, first = (
        jax.scipy.special.logsumexp(log_likelihood, axis=-1, where=of_category)
        for of_category in (is_second, ~is_second)
    )
    return second - first
