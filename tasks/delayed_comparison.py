"""Compare two frequencies across a delay."""

import equinox as eqx
import jax
import jax.numpy as jnp
import numpy as np
from jaxtyping import Array, Float, Int, Key

from popsim.checks import as_float_array, check_non_negative, check_positive, is_traced
from popsim.distributions import AbstractDistribution, Uniform, as_distribution
from popsim.loss import Loss
from popsim.losses import OutputError
from popsim.per_member import is_per_member
from popsim.randomness import key_stream
from popsim.task import AbstractTask
from popsim.tasks.conditions import all_combinations, trials_of_conditions
from popsim.tasks.go_response import GoResponse
from popsim.tasks.stimuli import with_noise
from popsim.timeline import Timeline
from popsim.trial import Trial
from popsim.trial_plan import Epoch, TrialPlan

PAIRS = ((18.0, 10.0), (22.0, 14.0), (26.0, 18.0), (30.0, 22.0), (34.0, 26.0))


class DelayedComparison(AbstractTask):
    """Vibrations f1 and f2 one after the other: after the go cue, tell which was faster.

    Romo, Brody, Hernández & Lemus 1999, Nature 399:470; pairs as in NeuroGym (both cited from memory).

    - Inputs: "fixation" (1), 1 until the go cue; "stimulus" (1), during f1 and f2 the frequency over the
        highest of all pairs, plus white noise.
    - Targets: two outputs, silent until the go cue, then 1 for the right one: the first if f1 > f2, the
        second if f1 < f2.
    - Epochs "fixation", "f1", "delay", "f2", "decision"; events "f1 on", "f1 off", "f2 on", "go cue".
    - Conditions: "f1" and "f2" (Hz), "choice" (0 or 1), "catch".

    Each pair comes in both orders, as likely. The validation trials are one for each pair and order.

    **Arguments:**

    - `pairs`: two different frequencies each, in Hz. One that is the lower, or the higher, in all pairs
        that hold it gives the answer away.
    - `noise`: sigma of the stimulus, in s^0.5; a step has sigma / dt^0.5.
    - `fixation`, `f1`, `delay`, `f2`: how long these epochs last, in seconds; the rest is for the decision.
    - `response`: what counts before and after the go cue, and the share of catch trials.
    - `duration`: of a trial, in seconds.
    - `dt`: the time step in seconds, that of the model.
    - `loss`: what counts as doing well.

    **Raises:** `ValueError` if `pairs` are not two different positive frequencies each, `noise` is
    negative, `duration` is not a multiple of `dt`, or leaves no time to respond.
    """

    loss: Loss = eqx.field(kw_only=True, default_factory=lambda: 1.0 * OutputError())
    pairs: Float[Array, "pair 2"] = eqx.field(kw_only=True, converter=as_float_array, default=PAIRS)
    noise: Float[Array, ""] = eqx.field(kw_only=True, converter=as_float_array, default=0.005)
    fixation: AbstractDistribution = eqx.field(kw_only=True, converter=as_distribution, default=0.1)
    f1: AbstractDistribution = eqx.field(kw_only=True, converter=as_distribution, default=0.2)
    delay: AbstractDistribution = eqx.field(
        kw_only=True, converter=as_distribution, default_factory=lambda: Uniform(0.2, 0.6)
    )
    f2: AbstractDistribution = eqx.field(kw_only=True, converter=as_distribution, default=0.2)
    response: GoResponse = eqx.field(kw_only=True, default_factory=GoResponse)
    duration: float = eqx.field(static=True, kw_only=True, default=1.4)
    dt: float = eqx.field(static=True, kw_only=True, default=0.05)

    def __check_init__(self):
        check_non_negative("noise", self.noise)
        self._check_pairs()
        self.response.check(self.plan)

    def _check_pairs(self) -> None:
        check_positive("pairs", self.pairs)
        if is_per_member(self.pairs) or is_traced(self.pairs):
            return
        pairs = np.asarray(self.pairs)
        if pairs.ndim != 2 or pairs.shape[1] != 2 or not len(pairs) or np.any(pairs[:, 0] == pairs[:, 1]):
            raise ValueError(f"`pairs` must be pairs of two different frequencies, got {pairs.tolist()}.")

    @property
    def plan(self) -> TrialPlan:
        """The plan of a trial."""
        return self.response.plan(
            Epoch("fixation", self.fixation),
            Epoch("f1", self.f1, event="f1 on"),
            Epoch("delay", self.delay, event="f1 off"),
            Epoch("f2", self.f2, event="f2 on"),
            duration=self.duration,
            dt=self.dt,
        )

    def trial(self, *, batch: int | Int[Array, ""], key: Key[Array, ""]) -> Trial:
        pair = jax.random.randint(key_stream(key, "pair"), (), 0, self.pairs.shape[0])
        order = jax.random.randint(key_stream(key, "order"), (), 0, 2)
        return self._trial(self.plan.draw(key=key_stream(key, "timeline")), pair, order, key=key)

    def validation_trials(self) -> Trial:
        conditions = all_combinations(self.pairs.shape[0], 2)
        return trials_of_conditions(self._trial, *conditions, shared=(self.plan.typical(),))

    def _trial(
        self, timeline: Timeline, pair: Int[Array, ""], order: Int[Array, ""], *, key: Key[Array, ""]
    ) -> Trial:
        f1, f2 = self.pairs[pair, order], self.pairs[pair, 1 - order]
        is_first, is_second = timeline.in_epoch("f1"), timeline.in_epoch("f2")
        stimulus = with_noise(
            (jnp.where(is_first, f1, f2) / jnp.max(self.pairs))[:, None],
            self.noise,
            is_first | is_second,
            dt=self.dt,
            key=key_stream(key, "noise"),
        )
        choice = (f1 < f2).astype(int)
        return Trial(
            init=(),
            inputs={"fixation": self.response.fixation(timeline), "stimulus": stimulus},
            targets=self.response.target(timeline, jax.nn.one_hot(choice, 2)),
            timeline=timeline,
            conditions={"f1": f1, "f2": f2, "choice": choice, "catch": self.response.is_catch(timeline)},
        )
