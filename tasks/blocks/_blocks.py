"""Sessions in blocks: which of two kinds of block each trial is in, drawn ahead."""

import abc

import equinox as eqx
import jax
import jax.numpy as jnp
from jaxtyping import Array, Int, Key

from popsim._argument_shapes import check_kinds
from popsim._checks import (
    check_non_negative_int,
    check_positive,
    check_positive_int,
    is_traced,
    short_repr,
)
from popsim.distributions import AbstractDistribution
from popsim.loss import Loss
from popsim.per_member import has_per_member
from popsim.randomness import key_of_seed, key_stream
from popsim.schedules import LAST_BATCH
from popsim.session import join_trials
from popsim.task import AbstractTask
from popsim.tasks.trial_parts import GO_CUE, GoResponse, check_drawn, check_time_left
from popsim.trial import OutputTarget, Trial
from popsim.trial_plan import Epoch, TrialPlan
from popsim.windows import Timeline

BEFORE = -1
"""The kind of the trials before the first block."""


class AbstractBlocks(AbstractTask):
    """A task each of whose trials is a session in blocks of two kinds, which alternate without notice.

    The kind of the first block is drawn. A subclass supplies the fields, the plan of one trial, whose last
    epoch is "feedback", and `draw_trial`.
    """

    loss: eqx.AbstractVar[Loss]
    n_trials: eqx.AbstractVar[int]
    n_validation: eqx.AbstractVar[int]
    n_unbiased: eqx.AbstractVar[int]
    block_length: eqx.AbstractVar[AbstractDistribution]
    decision: eqx.AbstractVar[AbstractDistribution]
    response: eqx.AbstractVar[GoResponse]
    duration: eqx.AbstractVar[float]
    dt: eqx.AbstractVar[float]

    def __check_init__(self):
        check_kinds(self)
        check_positive_int("n_trials", self.n_trials)
        check_positive_int("n_validation", self.n_validation)
        check_non_negative_int("n_unbiased", self.n_unbiased)
        check_drawn("decision", self.decision, check_positive)
        check_time_left(self.plan, self.dt, "a time step of feedback")
        _check_block_length(self.block_length)
        _check_grace(self.decision, self.response.grace, self.dt)

    @property
    @abc.abstractmethod
    def plan(self) -> TrialPlan:
        """The plan of one trial of a session."""

    @abc.abstractmethod
    def draw_trial(self, kind: Int[Array, ""], position: Int[Array, ""], *, key: Key[Array, ""]) -> Trial:
        """Draw one trial.

        **Arguments:**

        - `kind`: of its block, 0 or 1, or `BEFORE`.
        - `position`: that of the trial in its block, from 0.
        - `key`: the key of the trial.
        """

    def trial(self, *, batch: int | Int[Array, ""], key: Key[Array, ""]) -> Trial:
        kinds, positions = self.draw_blocks(key=key_stream(key, "blocks"))
        keys = jax.random.split(key_stream(key, "trials"), self.n_trials)
        trials = jax.vmap(lambda kind, at, key: self.draw_trial(kind, at, key=key))(kinds, positions, keys)
        return join_trials(trials, carry=("hidden",))

    def validation_trials(self) -> Trial:
        keys = jax.random.split(key_of_seed(0, "validation sessions"), self.n_validation)
        return jax.vmap(lambda key: self.trial(batch=LAST_BATCH, key=key))(keys)

    def draw_blocks(self, *, key: Key[Array, ""]) -> tuple[Int[Array, " trial"], Int[Array, " trial"]]:
        """Return the kind of block of each trial of a session, and the position of the trial in it."""
        keys = jax.random.split(key_stream(key, "lengths"), self.n_trials)
        lengths = jnp.floor(jax.vmap(lambda key: self.block_length.sample(key=key))(keys)).astype(int)
        ends = self.n_unbiased + jnp.cumsum(lengths)
        starts = jnp.concatenate([jnp.array([0, self.n_unbiased]), ends])
        trial = jnp.arange(self.n_trials)
        # Block 0 is what comes before the first one, which has no trials if `n_unbiased` is 0.
        block = jnp.searchsorted(starts, trial, side="right") - 1
        first = jax.random.bernoulli(key_stream(key, "first kind")).astype(int)
        return jnp.where(block == 0, BEFORE, (first + block) % 2), trial - starts[block]

    def plan_with_feedback(self, *epochs: Epoch) -> TrialPlan:
        """Return the plan of one trial: `epochs`, then "decision" from the go cue, then "feedback"."""
        return TrialPlan(
            (*epochs, Epoch("decision", self.decision, event=GO_CUE), Epoch("feedback", event="feedback")),
            duration=self.duration,
            dt=self.dt,
            catch_event=GO_CUE,
            catch_probability=self.response.catch_probability,
        )

    def trial_with_feedback(
        self,
        timeline: Timeline,
        inputs: dict[str, Array],
        choice: Int[Array, ""],
        conditions: dict[str, Array],
    ) -> Trial:
        """Return a trial whose correct choice, of two, is shown in the epoch "feedback".

        That epoch does not count.

        **Arguments:**

        - `inputs`, `conditions`: those besides "fixation" and "feedback", "choice" and "catch".
        """
        correct, is_over = jax.nn.one_hot(choice, 2), timeline.in_epoch("feedback")
        target = self.response.target(timeline, correct)
        return Trial(
            init=(),
            inputs={
                "fixation": self.response.fixation(timeline),
                "feedback": jnp.where(is_over[:, None], correct, 0.0),
                **inputs,
            },
            targets=OutputTarget(
                jnp.where(is_over[:, None], 0.0, target.values), jnp.where(is_over, 0.0, target.counts)
            ),
            timeline=timeline,
            conditions=conditions | {"choice": choice, "catch": self.response.is_catch(timeline)},
        )


def _check_block_length(block_length: AbstractDistribution) -> None:
    check_drawn("block_length", block_length, check_positive)
    if has_per_member(block_length):
        return
    low, _ = block_length.bounds()
    if not is_traced(low) and float(low) < 1:
        raise ValueError(f"`block_length` must be at least one trial, got down to {short_repr(low)}.")


def _check_grace(decision: AbstractDistribution, grace: float, dt: float) -> None:
    if has_per_member(decision):
        return
    low, _ = decision.bounds()
    if not is_traced(low) and float(low) < grace + dt - 1e-6:
        raise ValueError(
            f"`decision` must be longer than the grace after the go cue, {grace} s, by a time step, "
            f"got {short_repr(low)} s."
        )
