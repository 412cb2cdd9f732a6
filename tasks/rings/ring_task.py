"""Suites of tasks on directions: many rules, of which each trial computes one."""

import math
from collections.abc import Mapping
from typing import Any

import equinox as eqx
import jax
import jax.numpy as jnp
import numpy as np
from jaxtyping import Array, Bool, Float, Int, Key

from popsim._shared import checks
from popsim._shared.checks import as_float_array, short_repr
from popsim._shared.plain_values import plain_number
from popsim.loss import Loss
from popsim.losses import OutputError
from popsim.randomness import key_stream, seed_key
from popsim.schedules import AbstractBatchSchedule
from popsim.tasks import _fields as fields
from popsim.tasks import trial_parts as parts
from popsim.tasks.mixtures import as_shares, check_shares
from popsim.tasks.rings import ring_rules
from popsim.trial import OutputTarget, Trial
from popsim.windows import Timeline

__all__ = ["RingTask"]

FIXATES = 0.8  # the target of the fixation output while it should fixate, in both published codes
FIXATION_WEIGHT = 4.0  # of its squared error, in both
N_DIRECTIONS = 8  # of validation trials


class RingTask(parts.AbstractCheckedTask):
    """Several rules on stimuli in two rings, of which each trial follows one that is told by an input.

    `yang2019` and `driscoll2024` are such tasks.

    - Inputs: "fixation" (1); "ring 1" and "ring 2" (units of `code`), the sum of the stimuli, each its
        strength times its code; "rule" (one channel per rule), one-hot. All have white noise until the trial
        ends.
    - Targets: the output for fixation, 0.8 until the response, then `code.silence`; the outputs of the
        response (units of `code`), `code.silence`, and in the response its code besides. In trials without a
        response, fixation is kept to the end.
    - Weights: 0 for `grace` at the start of a trial, 1 until the go cue, 0 for `grace` after it, then
        `response_counts` until the end; those of the output for fixation are four times as large.
    - Conditions: "rule", the index in `names`; "direction 1", "direction 2" and "response", in rad, NaN for
        none; "strength 1, ring 1" and the like, 0 where not shown; "coherence", half the mean difference in
        strength of both stimuli in the relevant rings, or NaN; "match", 1 or 0, or -1.

    There are 32 validation trials for each rule: 8 directions, by which stimulus is the stronger (or whether
    they match), by the ring in which they are shown (or the stronger one in the irrelevant ring).

    **Arguments:**

    - `rules`: the rules by name.
    - `shares`: the relative frequency of rules: a dict, in which those that are not named have 1, or in the
        order of `rules` an array or a schedule over training batches; all equal by default.
    - `one_rule_per_batch`: whether all trials of a batch, and of all members, have the same rule. It then
        follows from the number of the batch.
    - `noise`: sigma of each input, in s^0.5; the standard deviation in a time step is sigma / dt^0.5.
    - `code`: of directions, in the inputs and in the outputs.
    - `tolerance`: the largest error of a correct response, in rad.
    - `grace`, `response_counts`: see above; `grace` is in seconds.
    - `duration`, `dt`: of a trial, in seconds, None for that of the longest; and the time step, to which
        durations are rounded down.
    - `loss`: the loss to train with; by default `OutputError`.
    """

    loss: Loss
    rules: ring_rules.RingRows
    shares: AbstractBatchSchedule
    noise: Float[Array, ""]
    response_counts: Float[Array, ""]
    code: ring_rules.AbstractDirectionCode
    one_rule_per_batch: bool = eqx.field(static=True)
    tolerance: float = eqx.field(static=True)
    grace: float = eqx.field(static=True)
    duration: float = eqx.field(static=True)
    dt: float = eqx.field(static=True)

    def __init__(
        self,
        rules: Mapping[str, ring_rules.RingRule] | ring_rules.RingRows,
        *,
        shares: Any = None,
        one_rule_per_batch: bool = False,
        noise: Any = 0.01 * 0.2**0.5,
        code: ring_rules.AbstractDirectionCode | None = None,
        tolerance: float = math.pi / 5,
        grace: float = 0.1,
        response_counts: Any = 25.0,
        duration: float | None = None,
        dt: float = 0.02,
        loss: Loss | None = None,
    ):
        checks.check_time_step(dt)
        with jax.ensure_compile_time_eval():  # the task may be built within a program
            self.rules = ring_rules.rows_of(rules)
            n_steps = ring_rules.longest_steps(self.rules, dt)
            response = ring_rules.shortest_response(self.rules)
        self.shares = as_shares(shares, self.names, others=1.0)
        self.one_rule_per_batch = one_rule_per_batch
        self.noise = as_float_array(noise)
        self.response_counts = as_float_array(response_counts)
        self.code = ring_rules.RingCode() if code is None else code
        self.tolerance, self.grace, self.dt = plain_number(tolerance), plain_number(grace), plain_number(dt)
        self.duration = round(n_steps * self.dt, 9) if duration is None else plain_number(duration)
        if checks.n_steps_in("duration", self.duration, self.dt) < n_steps:
            raise ValueError(
                f"`duration` must be at least that of the longest trial, {n_steps * self.dt:.4g} s, "
                f"got {self.duration} s."
            )
        if ring_rules.whole_steps(np.float64(response), self.dt) <= checks.n_steps_in(
            "grace", self.grace, self.dt
        ):
            raise ValueError(
                f"`grace` must be shorter than the shortest response, {response:.4g} s, got {self.grace} s."
            )
        self.loss = 1.0 * OutputError() if loss is None else loss

    def __check_init__(self):
        check_shares(self.shares, len(self.names))
        fields.check_angle("tolerance", self.tolerance)
        for name in ("noise", "response_counts"):
            checks.check_non_negative(name, getattr(self, name))
        checks.warn_of_unit("duration", self.duration, "duration")
        checks.n_steps_in("grace", self.grace, self.dt)

    @property
    def names(self) -> tuple[str, ...]:
        """The names of the rules, in the order of their indices."""
        return self.rules.names

    @property
    def n_steps(self) -> int:
        """The number of time steps of a trial."""
        return checks.n_steps_in("duration", self.duration, self.dt)

    def trial(self, *, batch: int | Int[Array, ""], key: Key[Array, ""]) -> Trial:
        source = jax.random.fold_in(seed_key(0), batch) if self.one_rule_per_batch else key
        log_shares = jnp.log(self.shares(batch))
        return self.trial_of(jax.random.categorical(key_stream(source, "rule"), log_shares), key=key)

    def trial_of(self, rule: int | Int[Array, ""], *, key: Key[Array, ""]) -> Trial:
        """Draw a trial of one rule, by its index in `names`."""
        if not checks.is_traced(rule) and not 0 <= int(rule) < len(self.names):
            raise ValueError(f"`rule` must be an index of {list(self.names)}, got {short_repr(rule)}.")
        return self._trial(jnp.asarray(rule), ring_rules.draw_uniforms(key=key), key=key)

    def validation_trials(self) -> Trial:
        n_rules = len(self.names)
        rule, direction, first, second = parts.all_combinations(n_rules, N_DIRECTIONS, 2, 2)
        of_first, of_second = jnp.where(first, 0.75, 0.25), jnp.where(second, 0.75, 0.25)
        turn = (direction.astype(of_first.dtype) + 0.5) / N_DIRECTIONS
        # Where the second direction is drawn as the first, it is the same or the opposite one.
        other = jnp.where(self.rules.is_independent[rule], jnp.mod(turn + 2 * of_first - 0.5, 1.0), 0.5)
        middle = jnp.full((len(rule), 2), 0.5)
        uniforms = ring_rules.RingUniforms(
            durations=jnp.full((len(rule), len(ring_rules.EPOCHS)), 0.5),
            directions=jnp.stack([turn, other], axis=1),
            side=of_first,
            match=of_first,
            rings=jnp.stack([of_second, of_second], axis=1),
            means=middle,
            coherences=middle,
            coherence_signs=self._signs(rule, of_first, of_second),
            differences=middle,
            difference_signs=jnp.stack([of_second, 1 - of_second], axis=1),
        )
        return parts.trials_of_conditions(self._trial, rule, uniforms)

    def _signs(
        self, rule: Int[Array, " trial"], of_first: Float[Array, " trial"], of_second: Float[Array, " trial"]
    ) -> Float[Array, "trial ring"]:
        """Return the uniform numbers of the signs of both rings: of the relevant one, and of the other."""
        signs = jnp.stack([of_first, of_second], axis=1)
        is_second = self.rules.relevant[rule, 0] == 0
        return jnp.where(is_second[:, None], signs[:, ::-1], signs)

    def _trial(
        self, rule: Int[Array, ""], uniforms: ring_rules.RingUniforms, *, key: Key[Array, ""]
    ) -> Trial:
        row = jax.tree.map(lambda leaf: leaf[rule], self.rules)
        return self.make_trial(rule, ring_rules.trial_draw(row, uniforms, self.dt), key=key)

    def make_trial(self, rule: Int[Array, ""], draw: ring_rules.RingDraw, *, key: Key[Array, ""]) -> Trial:
        """Return the trial of a rule and of what was drawn for it; `key` is for the noise."""
        row = jax.tree.map(lambda leaf: leaf[rule], self.rules)
        timeline = self._timeline(draw)
        direction, responds, is_match = ring_rules.response_of(row, draw)
        return Trial(
            init=(),
            inputs=self._inputs(rule, row, draw, timeline, key=key),
            targets=self._target(timeline, direction, responds),
            timeline=timeline,
            conditions=self._conditions(rule, row, draw, direction, responds, is_match),
        )

    def _timeline(self, draw: ring_rules.RingDraw) -> Timeline:
        ends = jnp.cumsum(draw.steps)
        starts = ends - draw.steps
        bounds = jnp.stack([starts, ends], axis=-1)
        return Timeline(
            self.dt,
            self.n_steps,
            epochs={name: bounds[index] for index, name in enumerate(ring_rules.EPOCHS)},
            events={"stimulus on": ends[0], "go cue": starts[-1]},
        )

    def _inputs(
        self,
        rule: Int[Array, ""],
        row: ring_rules.RingRows,
        draw: ring_rules.RingDraw,
        timeline: Timeline,
        *,
        key: Key[Array, ""],
    ) -> dict[str, Float[Array, "time channels"]]:
        in_epoch = jnp.stack([timeline.in_epoch(name) for name in ring_rules.EPOCHS])
        lasts = jnp.any(in_epoch, axis=0)
        is_shown = jnp.any(row.is_shown[:, :, None] & in_epoch, axis=1)  # [stimulus, time]
        coded = self.code.encode(draw.directions)
        shown = jnp.where(is_shown[..., None], coded[:, None, :], 0.0)
        fixation = lasts & ~(row.fixation_ends & timeline.since("go cue"))
        told = jnp.broadcast_to(jax.nn.one_hot(rule, len(self.names)), (self.n_steps, len(self.names)))
        inputs = {
            "fixation": fixation[:, None].astype(coded.dtype),
            "ring 1": shown[0] * draw.strengths[0, 0] + shown[1] * draw.strengths[1, 0],
            "ring 2": shown[0] * draw.strengths[0, 1] + shown[1] * draw.strengths[1, 1],
            "rule": told,
        }
        return {
            name: parts.with_noise(
                signal, self.noise, lasts, dt=self.dt, key=key_stream(key, f"noise {name}")
            )
            for name, signal in inputs.items()
        }

    def _target(
        self, timeline: Timeline, direction: Float[Array, ""], responds: Bool[Array, ""]
    ) -> OutputTarget:
        is_after = timeline.since("go cue")
        is_response = timeline.in_epoch("response")
        fixates = ~is_after | (is_response & ~responds)
        fixation = jnp.where(fixates, FIXATES, self.code.silence)[:, None]
        coded = jnp.where((is_response & responds)[:, None], self.code.encode(direction), 0.0)
        values = jnp.concatenate([fixation, self.code.silence + coded], axis=1)
        begins = jnp.arange(self.n_steps) >= checks.n_steps_in("grace", self.grace, self.dt)
        counts = jnp.where(timeline.since("go cue", self.grace) & is_response, self.response_counts, 0.0)
        counts = jnp.where(~is_after & begins, 1.0, counts)
        weights = jnp.ones(values.shape[1]).at[0].set(FIXATION_WEIGHT)
        return OutputTarget(values, counts[:, None] * weights, is_choice=False)

    def _conditions(
        self,
        rule: Int[Array, ""],
        row: ring_rules.RingRows,
        draw: ring_rules.RingDraw,
        direction: Float[Array, ""],
        responds: Bool[Array, ""],
        is_match: Bool[Array, ""],
    ) -> dict[str, Array]:
        has_second = jnp.any(row.is_shown[1])
        strengths = jnp.where(jnp.stack([jnp.asarray(True), has_second])[:, None], draw.strengths, 0.0)
        totals = strengths @ row.relevant / jnp.sum(row.relevant)
        compares = row.response == ring_rules.RESPONSES.index("stronger")
        matches = row.response >= ring_rules.RESPONSES.index("match")
        return {
            "rule": rule,
            "direction 1": parts.wrap_angle(draw.directions[0]),
            "direction 2": jnp.where(has_second, parts.wrap_angle(draw.directions[1]), jnp.nan),
            **{
                f"strength {stimulus + 1}, ring {ring + 1}": strengths[stimulus, ring]
                for stimulus in range(2)
                for ring in range(2)
            },
            "coherence": jnp.where(compares, (totals[0] - totals[1]) / 2, jnp.nan),
            "match": jnp.where(matches, is_match.astype(int), -1),
            "response": jnp.where(responds, parts.wrap_angle(direction), jnp.nan),
        }

    def is_correct(
        self, outputs: Float[Array | np.ndarray, "... trial time outputs"], trials: Trial
    ) -> Bool[Array, "... trial"]:
        """Return whether each trial ends with the right response.

        At the last time step of the trial the output for fixation must be at most 0.5 and the decoded
        direction within `tolerance` of the right one; or, without a response, the output for fixation above
        0.5. The criterion of both papers (checked in `get_perf` of their code).

        **Arguments:**

        - `outputs`: the outputs of networks; they may have more leading axes (member) than the trials.
        - `trials`: stacked trials of this task.
        """
        outputs = jnp.asarray(outputs)
        expected = (len(trials.conditions["rule"]), trials.timeline.n_steps, 1 + self.code.n_units)
        if outputs.shape[-3:] != expected:
            raise ValueError(f"`outputs` must end with the axes {expected}, got {outputs.shape}.")
        last = jnp.asarray(trials.timeline.epochs["response"])[..., 1] - 1
        final = outputs[..., jnp.arange(len(last)), last, :]
        fixates = final[..., 0] > 0.5
        right = trials.conditions["response"]
        error = jnp.abs(parts.wrap_angle(self.code.decode(final[..., 1:]) - right))
        return jnp.where(jnp.isnan(right), fixates, ~fixates & (error < self.tolerance))

    def performance(
        self, outputs: Float[Array | np.ndarray, "... trial time outputs"], trials: Trial
    ) -> dict[str, Float[Array, "..."]]:
        """Return the fraction of trials that are correct, by rule; NaN for a rule without trials.

        Arguments as for `is_correct`.
        """
        correct, rule = self.is_correct(outputs, trials), trials.conditions["rule"]
        return {
            name: jnp.mean(correct, axis=-1, where=rule == index, dtype=float)
            for index, name in enumerate(self.names)
        }
