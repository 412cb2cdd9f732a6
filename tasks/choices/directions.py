"""Reports of directions and durations: reproduced, put into categories, and compared."""

import jax
import jax.numpy as jnp
import numpy as np
from jaxtyping import Array, Bool, Float, Key

from popsim._shared.checks import n_steps_in, short_repr
from popsim.distributions import AbstractDistribution, Constant
from popsim.loss import Loss
from popsim.losses import CrossEntropy, OutputError
from popsim.randomness import key_stream
from popsim.tasks import _fields as fields
from popsim.tasks import trial_parts as parts
from popsim.tasks._fields import Drawn, Number, Scalar
from popsim.tasks.choices.delayed_choices import AbstractDelayedChoice, AbstractStimuli, Question
from popsim.trial import OutputTarget, Trial
from popsim.trial_plan import Epoch, TrialPlan
from popsim.windows import Timeline

__all__ = ["AngleReproduction", "DirectionCategory", "IntervalDiscrimination"]

SECOND_GO_CUE = "second go cue"


class AngleReproduction(AbstractStimuli):
    """Two angles to remember: after the go cue reproduce the first, after another one the second.

    The task of Ding, Cueva, Tsodyks & Qian 2017, PNAS 114:E9115, with the stimuli and times of NeuroGym's
    `AngleReproduction` (not compared with the paper).

    - Inputs: "fixation" (1), 1 until the go cue; "stimulus" (`n_channels`), cos(θ - angle) for evenly spaced
        θ plus white noise in the epochs of the stimuli; "report" (2), 1 in the epoch of each report.
    - Targets: two outputs, zero until the go cue, then cosine and sine of the first angle, and of the second
        from the second go cue on.
    - Conditions: "first angle" and "second angle" (rad, in (-pi, pi]), "catch".

    The population vector, Σ x_θ (cos θ, sin θ), is the most probable direction of an angle, as the squares of
    evenly spaced cosines add up to the same for all angles. A catch trial has no report. The validation
    trials are all pairs of eight angles.
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
        preferred = jnp.linspace(0.0, 2 * jnp.pi, self.n_channels, endpoint=False)
        reports = jnp.stack([timeline.in_epoch(f"{which} report") for which in ("first", "second")], axis=-1)
        angle = jnp.where(timeline.in_epoch("first"), angles[0], angles[1])
        stimulus = jnp.cos(preferred - angle[:, None])
        question = Question(
            {"first": stimulus, "second": stimulus},
            None,
            {f"{which} angle": parts.wrap_angle(angles[i]) for i, which in enumerate(("first", "second"))},
            inputs={"report": reports.astype(float)},
        )
        fixation = {"fixation": self.response.fixation(timeline)}
        inputs = fixation | self.inputs_of(timeline, question, key=key)
        labels = question.conditions | {"catch": self.response.is_catch(timeline)}
        return Trial((), inputs, self._target(timeline, reports, angles), timeline, conditions=labels)

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


class DirectionCategory(AbstractDelayedChoice):
    """A direction to classify: after the go cue, report on which side of a boundary it was.

    The directions, 30 degrees apart, and a boundary that divides them into two categories are those of
    Freedman & Assad 2006, Nature 443:85 (compared with the abstract and a summary of the methods), the times
    those of NeuroGym's `DelayMatchCategory`.

    - Inputs: "fixation" (1), 1 until the go cue; "stimulus" (`n_directions`), the activity of units on a ring
        plus white noise in the epoch "stimulus".
    - Targets: two outputs, zero until the go cue, then 1 for the category.
    - Conditions: "direction" (its index), "distance" (the number of directions from it to the boundary, 0 for
        those next to it), "choice" (the category, 0 or 1), "catch".

    Errors come next to the boundary.
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
        fields.check_index("boundary", self.boundary, self.n_directions)

    def draws(self) -> dict[str, parts.Drawable]:
        return {"direction": self.n_directions}

    def rule(self, timeline: Timeline, draws: tuple[Array, ...]) -> Question:
        (direction,), n = draws, self.n_directions
        since_boundary = (direction - self.boundary) % n
        within = since_boundary % (n // 2)
        labels = {"direction": direction, "distance": jnp.minimum(within, n // 2 - 1 - within)}
        return Question({"stimulus": parts.ring_activity(direction, n)}, since_boundary // (n // 2), labels)


class IntervalDiscrimination(AbstractDelayedChoice):
    """Two stimuli in sequence, one red and one blue: after the go cue, report which lasted longer.

    The task of Genovesio, Tsujimoto & Wise 2009, Neuron 63:254 (compared with the abstract only), with the
    stimuli of NeuroGym's `IntervalDiscrimination` in shorter delays: there `delay=Uniform(0.8, 1.5)` and
    `wait=0.5`, and the first and the second stimulus have the two channels.

    - Inputs: "fixation" (1), 1 until the go cue; "stimulus" (2: red, blue), 1 while the stimulus is shown,
        plus white noise in both channels in the epochs of the stimuli.
    - Targets: two outputs, zero until the go cue, then 1 for the one that lasted longer: red, blue.
    - Conditions: "first" and "second", their durations (s), "order" (0 red first, 1 blue first), "choice"
        (0 red, 1 blue), "catch".

    One who counts the time steps of both is right in all trials. Who measures only one of them is right in
    the mean of max(i, n - 1 - i) / (n - 1) over the n durations, of which i are shorter: 5/6 of four.
    """

    durations: Float[Number, " duration"] = fields.positive(
        "two or more different durations of stimuli, in seconds", default=(0.3, 0.4, 0.5, 0.6)
    )
    noise: Scalar = fields.white_noise("the stimulus", default=0.01)
    fixation: Drawn = fields.drawn("the time before the stimuli, in seconds", default=0.3)
    delay: Drawn = fields.drawn("the time between the stimuli, in seconds", default=(0.2, 0.6))
    wait: Drawn = fields.drawn("the time after the stimuli, in seconds", default=0.1)
    duration: float = fields.trial_duration(default=2.5)

    def __check_init__(self):
        steps = {n_steps_in("durations", float(each), self.dt) for each in np.ravel(self.durations)}
        if self.durations.ndim != 1 or not 2 <= self.durations.size == len(steps):
            raise ValueError(
                f"`durations` must be two or more, all different, got {short_repr(self.durations)}."
            )

    @property
    def plan(self) -> TrialPlan:
        longest = Constant(jnp.max(self.durations))
        return self._plan(longest, longest)

    def _plan(self, first: AbstractDistribution, second: AbstractDistribution) -> TrialPlan:
        return self.plan_with(
            Epoch("first", first, event="first on"),
            Epoch("delay", self.delay, event="first off"),
            Epoch("second", second, event="second on"),
            Epoch("wait", self.wait, event="second off"),
        )

    def plan_for(self, draws: tuple[Array, ...]) -> TrialPlan:
        return self._plan(*map(Constant, self._both(draws)))

    def _both(self, draws: tuple[Array, ...]) -> tuple[Float[Array, ""], Float[Array, ""]]:
        """Return the durations of the first and of the second stimulus, which differ."""
        index, further, _ = draws
        return self.durations[index], self.durations[(index + further + 1) % self.durations.shape[0]]

    def draws(self) -> dict[str, parts.Drawable]:
        n = self.durations.shape[0]
        return {"first": n, "second": n - 1, "order": 2}

    def rule(self, timeline: Timeline, draws: tuple[Array, ...]) -> Question:
        (first, second), order = self._both(draws), draws[2]
        shown = {"first": jax.nn.one_hot(order, 2), "second": jax.nn.one_hot(1 - order, 2)}
        choice = jnp.where(first > second, order, 1 - order)
        return Question(shown, choice, {"first": first, "second": second, "order": order})
