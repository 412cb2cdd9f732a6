"""Choices after a go cue, and perceptual decisions."""

import abc
from collections.abc import Mapping
from types import MappingProxyType
from typing import Any, Literal

import equinox as eqx
import jax
import jax.numpy as jnp
from jaxtyping import Array, Bool, Float, Int, Key

from popsim._argument_shapes import check_kinds
from popsim._checks import as_float_array, check_fraction, check_non_negative
from popsim._plain_values import plain_number
from popsim.distributions import AbstractDistribution, Choice, as_distribution
from popsim.loss import Loss
from popsim.losses import CrossEntropy, OutputError
from popsim.randomness import key_stream
from popsim.task import AbstractTask
from popsim.tasks.trial_parts import (
    GoResponse,
    all_combinations,
    check_drawn,
    check_time_left,
    nominal_values,
    sign_or_coin,
    stimulus_and_delay,
    trials_of_conditions,
    with_noise,
)
from popsim.trial import OutputTarget, Trial
from popsim.trial_plan import Epoch, TrialPlan
from popsim.windows import Timeline

__all__ = ["PerceptualDecision", "ContextIntegration"]


class AbstractGoTask(AbstractTask):
    """A noisy stimulus, then a choice: after the go cue, one output of several is correct.

    Inputs are "fixation", 1 until the go cue, "stimulus" and those of `go_trial`. A subclass supplies the
    fields, `epochs`, `draw_conditions`, `nominal` and `trial_of`.
    """

    loss: Loss = eqx.field(kw_only=True, default_factory=lambda: 1.0 * OutputError())
    fixation: AbstractDistribution = eqx.field(kw_only=True, converter=as_distribution, default=0.1)
    response: GoResponse = eqx.field(kw_only=True, default_factory=GoResponse)
    dt: float = eqx.field(static=True, converter=plain_number, kw_only=True, default=0.05)
    noise: eqx.AbstractVar[Float[Array, ""]]
    duration: eqx.AbstractVar[float]

    def __check_init__(self):
        check_kinds(self)
        check_non_negative("noise", self.noise)
        self.response.check(self.plan)

    @abc.abstractmethod
    def epochs(self) -> tuple[Epoch, ...]:
        """Return the epochs between "fixation" and "decision"."""

    @abc.abstractmethod
    def draw_conditions(self, *, key: Key[Array, ""]) -> tuple[Array, ...]:
        """Draw the conditions of a training trial."""

    @abc.abstractmethod
    def nominal(self) -> tuple[Array, ...]:
        """Return the conditions of the validation trials, arrays with axis (trial,)."""

    @abc.abstractmethod
    def trial_of(self, timeline: Timeline, draws: tuple[Array, ...], *, key: Key[Array, ""]) -> Trial:
        """Return the trial of a timeline and of conditions, by `go_trial`."""

    @property
    def plan(self) -> TrialPlan:
        """The plan of a trial."""
        fixation = Epoch("fixation", self.fixation)
        return self.response.plan(fixation, *self.epochs(), duration=self.duration, dt=self.dt)

    def trial(self, *, batch: int | Int[Array, ""], key: Key[Array, ""]) -> Trial:
        timeline = self.plan.draw(key=key_stream(key, "timeline"))
        return self.trial_of(timeline, self.draw_conditions(key=key), key=key)

    def validation_trials(self) -> Trial:
        return trials_of_conditions(self.trial_of, self.nominal(), shared=(self.plan.nominal(),))

    def go_trial(
        self,
        timeline: Timeline,
        stimulus: Float[Array, "time channels"],
        shown: Bool[Array, " time"],
        choice: Int[Array, ""],
        conditions: dict[str, Array],
        *,
        n_choices: int = 2,
        inputs: Mapping[str, Array] = MappingProxyType({}),
        noise: Float[Array, " channels"] | None = None,
        key: Key[Array, ""],
    ) -> Trial:
        """Return a trial whose correct choice is the output `choice` of `n_choices`.

        **Arguments:**

        - `stimulus`: the stimulus without noise.
        - `shown`: the time steps in which it is shown.
        - `conditions`, `inputs`: those besides "choice" and "catch", "fixation" and "stimulus".
        - `noise`: sigma of each channel; that of the task by default.
        - `key`: the key of the trial.
        """
        sigma = self.noise if noise is None else noise
        noisy = with_noise(stimulus, sigma, shown, dt=self.dt, key=key_stream(key, "noise"))
        return Trial(
            init=(),
            inputs={"fixation": self.response.fixation(timeline), **inputs, "stimulus": noisy},
            targets=self.response.target(timeline, jax.nn.one_hot(choice, n_choices)),
            timeline=timeline,
            conditions=conditions | {"choice": choice, "catch": self.response.is_catch(timeline)},
        )


def motion_coherences() -> Choice:
    """Return the coherences of Roitman & Shadlen 2002, J Neurosci 22:9475, without zero."""
    percent = jnp.array([3.2, 6.4, 12.8, 25.6, 51.2])
    return Choice(jnp.concatenate([-percent[::-1], percent]) / 100)


def check_coherence(name: str, value: Any) -> None:
    """Raise `ValueError` for finite bounds outside [-1, 1], such as percentages."""
    check_fraction(name, jnp.where(jnp.isfinite(value), abs(value), 0.0))


class PerceptualDecision(AbstractGoTask):
    """Random dots: after the go cue, report which of two directions most of them moved in.

    The coherences are those of Roitman & Shadlen 2002, J Neurosci 22:9475, without zero (checked in their
    published data set). The inputs are those of NeuroGym's `PerceptualDecisionMaking`.

    - Inputs: "fixation" (1), 1 until the go cue; "stimulus" (`n_streams`), shown in the epoch "stimulus"
        with white noise. Two streams hold (1 - coherence) / 2 and (1 + coherence) / 2, one for each
        direction; one stream holds the coherence.
    - Targets: two outputs, zero until the go cue, then 1 for the correct one: the first for a negative
        coherence, the second for a positive one.
    - Epochs "fixation", "stimulus", "delay", "decision"; events "stimulus on", "stimulus off", "go cue".
    - Conditions: "coherence", "choice" (0 or 1), "catch".

    After a stimulus of s seconds the accuracy of an ideal observer is Phi(|coherence| (s / k)^0.5 / sigma),
    with k = `n_streams`, if each coherence is as frequent in both directions. There is one validation trial
    for each coherence.

    **Arguments:**

    - `n_streams`: the number of stimulus channels, 1 or 2.
    - `coherence`: the distribution of the coherence, from -1 to 1. At zero the correct choice is random.
    - `noise`: sigma of each stream, in s^0.5; the standard deviation in a time step is sigma / dt^0.5.
    - `fixation`, `stimulus`, `delay`: durations of these epochs, in seconds; the decision takes the rest.
    - `response`: the weights before and after the go cue, and the fraction of catch trials.
    - `duration`, `dt`: the duration of a trial and the time step of the model, in seconds.
    - `loss`: the loss to train with.
    """

    n_streams: Literal[1, 2] = eqx.field(static=True, kw_only=True, default=2)
    coherence: AbstractDistribution = eqx.field(
        kw_only=True, converter=as_distribution, default_factory=motion_coherences
    )
    noise: Float[Array, ""] = eqx.field(kw_only=True, converter=as_float_array, default=0.05)
    stimulus: AbstractDistribution = eqx.field(kw_only=True, converter=as_distribution, default=0.5)
    delay: AbstractDistribution = eqx.field(kw_only=True, converter=as_distribution, default=0.0)
    duration: float = eqx.field(static=True, converter=plain_number, kw_only=True, default=0.9)

    def __check_init__(self):
        check_drawn("coherence", self.coherence, check_coherence)
        if self.n_streams not in (1, 2):
            raise ValueError(f"`n_streams` must be 1 or 2, got {self.n_streams}.")

    def epochs(self) -> tuple[Epoch, ...]:
        return stimulus_and_delay(self.stimulus, self.delay)

    def draw_conditions(self, *, key: Key[Array, ""]) -> tuple[Array, ...]:
        return (self.coherence.sample(key=key_stream(key, "coherence")),)

    def nominal(self) -> tuple[Array, ...]:
        return (nominal_values(self.coherence),)

    def trial_of(self, timeline: Timeline, draws: tuple[Array, ...], *, key: Key[Array, ""]) -> Trial:
        (coherence,) = draws
        choice = sign_or_coin(coherence, key=key_stream(key, "coin"))
        streams = coherence[None] if self.n_streams == 1 else (1 + coherence * jnp.array([-1.0, 1.0])) / 2
        stimulus = jnp.broadcast_to(streams, (timeline.n_steps, self.n_streams))
        conditions = {"coherence": coherence}
        return self.go_trial(timeline, stimulus, timeline.in_epoch("stimulus"), choice, conditions, key=key)


def _context_coherences() -> Choice:
    return Choice([-0.5, -0.25, -0.12, -0.06, 0.06, 0.12, 0.25, 0.5])


class ContextIntegration(AbstractTask):
    """Two noisy streams of evidence with a context that selects the relevant one.

    The task of Mante, Sussillo, Shenoy & Newsome 2013, Nature 503:78, with other times and coherences (as
    compared with NeuroGym's version). There is no fixation or go cue; only the final choice counts.

    - Inputs: "evidence" (2: motion, colour), the coherence of each stream plus white noise in the epoch
        "stimulus"; "context" (2), one-hot throughout.
    - Targets: one output, 1 for a positive coherence of the relevant stream and 0 for a negative one (with
        `CrossEntropy` the output is the log odds); with `n_outputs=2` one output per choice, 1 for the
        correct one. Only the epoch "decision" counts.
    - Epochs "stimulus", "delay", "decision"; events "stimulus on", "stimulus off", "decision".
    - Conditions: "context" (0 motion, 1 colour), "motion coherence", "colour coherence", "choice" (1 for
        positive).

    After a stimulus of s seconds the accuracy of an ideal observer, who sums the relevant evidence, is
    Phi(|coherence| n^0.5) with n = s / sigma², if each coherence is as frequent with either sign. The
    validation trials are all combinations of context and coherences.

    **Arguments:**

    - `coherence`: the distribution of the coherence, drawn independently for each stream. At zero the
        correct choice is random.
    - `noise`: sigma of the evidence, in s^0.5; the standard deviation in a time step is sigma / dt^0.5, 1 by
        default.
    - `stimulus`, `delay`: durations of these epochs, in seconds; the decision takes the rest.
    - `n_outputs`: the number of outputs, 1 or 2.
    - `duration`, `dt`: the duration of a trial and the time step of the model, in seconds.
    - `loss`: the loss to train with.
    """

    loss: Loss = eqx.field(kw_only=True, default_factory=lambda: 1.0 * CrossEntropy())
    coherence: AbstractDistribution = eqx.field(
        kw_only=True, converter=as_distribution, default_factory=_context_coherences
    )
    noise: Float[Array, ""] = eqx.field(kw_only=True, converter=as_float_array, default=0.02**0.5)
    stimulus: AbstractDistribution = eqx.field(kw_only=True, converter=as_distribution, default=0.5)
    delay: AbstractDistribution = eqx.field(kw_only=True, converter=as_distribution, default=0.04)
    n_outputs: Literal[1, 2] = eqx.field(static=True, kw_only=True, default=1)
    duration: float = eqx.field(static=True, converter=plain_number, kw_only=True, default=0.56)
    dt: float = eqx.field(static=True, converter=plain_number, kw_only=True, default=0.02)

    def __check_init__(self):
        check_non_negative("noise", self.noise)
        if self.n_outputs not in (1, 2):
            raise ValueError(f"`n_outputs` must be 1 or 2, got {self.n_outputs}.")
        check_time_left(self.plan, self.dt, "a time step of decision")

    @property
    def plan(self) -> TrialPlan:
        """The plan of a trial."""
        return TrialPlan(
            (
                Epoch("stimulus", self.stimulus, event="stimulus on"),
                Epoch("delay", self.delay, event="stimulus off"),
                Epoch("decision", event="decision"),
            ),
            duration=self.duration,
            dt=self.dt,
        )

    def trial(self, *, batch: int | Int[Array, ""], key: Key[Array, ""]) -> Trial:
        streams = jax.vmap(lambda name: jax.random.fold_in(key_stream(key, "coherence"), name))(jnp.arange(2))
        motion, colour = jax.vmap(lambda key: self.coherence.sample(key=key))(streams)
        context = jax.random.randint(key_stream(key, "context"), (), 0, 2)
        timeline = self.plan.draw(key=key_stream(key, "timeline"))
        return self._trial(timeline, context, motion, colour, key=key)

    def validation_trials(self) -> Trial:
        coherences = nominal_values(self.coherence)
        context, motion, colour = all_combinations(2, len(coherences), len(coherences))
        conditions = (context, coherences[motion], coherences[colour])
        return trials_of_conditions(self._trial, *conditions, shared=(self.plan.nominal(),))

    def _trial(
        self,
        timeline: Timeline,
        context: Int[Array, ""],
        motion: Float[Array, ""],
        colour: Float[Array, ""],
        *,
        key: Key[Array, ""],
    ) -> Trial:
        coherences = jnp.stack([motion, colour])
        choice = sign_or_coin(coherences[context], key=key_stream(key, "coin"))
        shape = (timeline.n_steps, 2)
        evidence = with_noise(
            jnp.broadcast_to(coherences, shape),
            self.noise,
            timeline.in_epoch("stimulus"),
            dt=self.dt,
            key=key_stream(key, "noise"),
        )
        values = choice[None].astype(float) if self.n_outputs == 1 else jax.nn.one_hot(choice, 2)
        decides = timeline.in_epoch("decision")
        return Trial(
            init=(),
            inputs={"evidence": evidence, "context": jnp.broadcast_to(jax.nn.one_hot(context, 2), shape)},
            targets=OutputTarget(jnp.where(decides[:, None], values, 0.0), decides.astype(float)),
            timeline=timeline,
            conditions={
                "context": context,
                "motion coherence": motion,
                "colour coherence": colour,
                "choice": choice,
            },
        )
