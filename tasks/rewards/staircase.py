"""Decisions whose difficulty follows the choices: a staircase, and its best player."""

from typing import Any

import equinox as eqx
import jax
import jax.numpy as jnp
import numpy as np
from jaxtyping import Array, Float, Int, Key

from popsim._checks import as_float_array, check_positive, check_positive_int, is_traced
from popsim._plain_values import plain_number
from popsim.environment import AbstractEnvironment, Discrete, Observation, Outcome
from popsim.loss import Loss
from popsim.per_member import has_per_member
from popsim.randomness import key_stream
from popsim.tasks._known_tasks import check_known_task
from popsim.tasks.rewards.choice_parts import AbstractChoices, last_choice, pick, reward_loss
from popsim.tasks.rewards.players import AbstractPlayer, Received, choice_of

__all__ = ["Staircase", "StaircaseDecision", "StaircaseObserver", "reward_in_staircase"]


class Staircase(AbstractEnvironment):
    """Noisy evidence before each choice, weaker after correct choices and stronger after an error.

    Action 0 is left, action 1 right; a correct choice pays 1. After `n_correct` correct choices in a row the
    next coherence is one level weaker, after an error one level stronger, but never below the weakest level
    or above the strongest.

    It shows "evidence" (1) of the choice to come, "last action" (2, one-hot) and "last reward". It records
    "direction" (0 or 1, the correct one), "coherence", without its sign, and "level". In a session the
    staircase, and what is shown, continue from one trial to the next.

    **Arguments:**

    - `coherences`: the levels of the evidence, from the weakest to the strongest.
    - `noise_std`: the standard deviation of the evidence.
    - `first_level`: the level of the first choice, counted from the weakest one, 0.
    - `n_correct`: the number of correct choices in a row after which the evidence is weaker.
    """

    coherences: Float[Array, "*axes level"]
    noise_std: Float[Array, "*axes"]
    first_level: Int[Array, "*axes"]
    n_correct: int = eqx.field(static=True)

    @property
    def actions(self) -> Discrete:
        return Discrete(2)

    def init(self, *, key: Key[Array, ""]) -> tuple[dict[str, Any], Observation]:
        return self._next_choice(self.first_level, jnp.array(0), last_choice(2), key=key)

    def resume(self, state: dict[str, Any], *, key: Key[Array, ""]) -> tuple[dict[str, Any], Observation]:
        return state, state["shown"]

    def step(
        self, state: dict[str, Any], action: Int[Array, ""], *, key: Key[Array, ""]
    ) -> tuple[dict[str, Any], Outcome]:
        is_right = action == state["direction"]
        in_a_row = jnp.where(is_right, state["in a row"] + 1, 0)
        is_weaker = in_a_row == self.n_correct
        level = state["level"] + jnp.where(is_weaker, -1, jnp.where(is_right, 0, 1))
        level = jnp.clip(level, 0, self.coherences.shape[-1] - 1)
        reward = is_right.astype(self.noise_std.dtype)
        seen = last_choice(2, action, reward)
        after, shown = self._next_choice(level, jnp.where(is_weaker, 0, in_a_row), seen, key=key)
        record = {name: state[name] for name in ("direction", "coherence", "level")}
        return after, Outcome(shown, reward, jnp.array(False), record)

    def _next_choice(
        self, level: Int[Array, ""], in_a_row: Int[Array, ""], seen: Observation, *, key: Key[Array, ""]
    ) -> tuple[dict[str, Any], Observation]:
        """Draw the direction and the evidence of the next choice, and return the state and what is shown."""
        coherence = pick(self.coherences, level)
        direction = jax.random.bernoulli(key_stream(key, "direction")).astype(int)
        noise = jax.random.normal(key_stream(key, "noise"), (), coherence.dtype)
        evidence = jnp.where(direction == 1, coherence, -coherence) + self.noise_std * noise
        shown = {"evidence": evidence[None], **seen}
        state = {
            "level": level,
            "in a row": in_a_row,
            "direction": direction,
            "coherence": coherence,
            "shown": shown,
        }
        return state, shown


class StaircaseDecision(AbstractChoices):
    """Left or right, by noisy evidence that becomes weaker after correct choices and stronger after errors.

    The transformed up-down method of Levitt 1971, J Acoust Soc Am 49:467: after `n_correct` correct choices
    in a row the evidence is weaker, after an error stronger, so that it stays about the level at which a
    choice is correct with probability 0.5^(1 / n_correct), .707 for two and .794 for three. With fine, evenly
    spaced levels, and without the first choices, which start from the strongest, the mean coherence thus
    estimates the threshold of a network. The environment is a `Staircase`.

    - Inputs and targets: none. The environment shows "evidence" (1), "last action" (2), one-hot, and "last
        reward". Actions: left, right.
    - Epoch "choices". Conditions: "first coherence".

    `popsim.tasks.StaircaseObserver` reports the sign of the evidence. `popsim.tasks.reward_in_staircase`
    computes its mean reward, .769 of a choice with these numbers, and that of a player that errs on purpose
    where it pays, .782; chance is .5.

    **Arguments:**

    - `n_choices`: the number of choices in a trial.
    - `coherences`: the levels of the evidence, from the weakest to the strongest.
    - `noise_std`: the standard deviation of the evidence of one choice.
    - `n_correct`: the number of correct choices in a row after which the evidence is weaker.
    - `n_validation_trials`: the number of validation trials.
    - `dt`: the time step, of one choice, in seconds.
    - `loss`: the loss to train with.
    """

    loss: Loss = eqx.field(kw_only=True, default_factory=lambda: reward_loss(discount=0.0))
    n_choices: int = eqx.field(static=True, converter=plain_number, kw_only=True, default=50)
    coherences: Float[Array, " level"] = eqx.field(
        kw_only=True, converter=as_float_array, default_factory=lambda: tuple(0.02 * 2**k for k in range(6))
    )
    noise_std: Float[Array, ""] = eqx.field(kw_only=True, converter=as_float_array, default=0.1)
    n_correct: int = eqx.field(static=True, converter=plain_number, kw_only=True, default=2)
    n_validation_trials: int = eqx.field(static=True, converter=plain_number, kw_only=True, default=100)
    dt: float = eqx.field(static=True, converter=plain_number, kw_only=True, default=0.1)

    def __check_init__(self):
        check_positive("noise_std", self.noise_std)
        check_positive_int("n_correct", self.n_correct)
        check_positive("coherences", self.coherences)
        if has_per_member(self.coherences) or is_traced(self.coherences):
            return
        levels = np.asarray(self.coherences)
        if levels.ndim != 1 or levels.size < 2 or np.any(np.diff(levels) <= 0):
            raise ValueError(
                f"`coherences` must be two or more, from the weakest to the strongest, got {levels.tolist()}."
            )

    def draw(self, *, key: Key[Array, ""]) -> tuple[Staircase, dict[str, Array]]:
        strongest = self.coherences.shape[-1] - 1
        environment = Staircase(self.coherences, self.noise_std, jnp.array(strongest), self.n_correct)
        return environment, {"first coherence": self.coherences[strongest]}


class StaircaseObserver(AbstractPlayer):
    """Reports the sign of the evidence of a `StaircaseDecision`."""

    reads = ("evidence", "last action", "last reward")

    def init(self) -> tuple[()]:
        return ()

    def choose(
        self, received: Received, state: tuple[()], *, key: Key[Array, ""]
    ) -> tuple[Int[Array, ""], tuple[()]]:
        return choice_of(received["evidence"][0], key=key), state


def reward_in_staircase(task: StaircaseDecision, *, can_err: bool = False) -> float:
    """Return the mean reward of a choice in a `StaircaseDecision`, of a player that knows its numbers.

    By dynamic programming over the choices from the last one back, over the level and the number of correct
    choices in a row. At a level of coherence c the sign of the evidence is right with probability Φ(c / σ).

    To err on purpose makes the choices that follow easier, which may pay.

    **Arguments:**

    - `task`: the task.
    - `can_err`: whether the player may contradict the evidence, which it does where a correct choice, with
        all that follows it, is worth less than an error. Otherwise it reports it, as `StaircaseObserver`.
    """
    from scipy.stats import norm

    check_known_task(task, StaircaseDecision)
    right = norm.cdf(np.asarray(task.coherences, float) / float(task.noise_std))[:, None]
    levels = np.arange(right.size)
    weaker, stronger = np.maximum(levels - 1, 0), np.minimum(levels + 1, right.size - 1)
    value = np.zeros((right.size, min(task.n_correct, task.n_choices)))
    for _ in range(task.n_choices):
        after_correct = 1 + np.concatenate([value[:, 1:], value[weaker, :1]], axis=1)
        after_error = value[stronger, :1]
        p = np.where(can_err & (after_error > after_correct), 1 - right, right)
        value = p * after_correct + (1 - p) * after_error
    return float(value[-1, 0]) / task.n_choices
