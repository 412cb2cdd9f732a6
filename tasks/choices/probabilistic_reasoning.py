"""Probabilistic reasoning: shapes that speak for one choice or the other, each with its weight."""

import equinox as eqx
import jax
import jax.numpy as jnp
import numpy as np
from jaxtyping import Array, Float, Key

from popsim._checks import as_float_array, check_finite, check_positive_int, is_traced, short_repr
from popsim._plain_values import plain_number
from popsim.distributions import AbstractDistribution, Uniform, as_distribution
from popsim.per_member import is_per_member
from popsim.randomness import key_stream, seed_key
from popsim.tasks.choices.decisions import AbstractGoTask
from popsim.trial import Trial
from popsim.trial_plan import Epoch
from popsim.windows import Timeline

__all__ = ["ProbabilisticReasoning", "reasoning_accuracy", "shape_log_odds"]

WEIGHTS = (-10.0, -0.9, -0.7, -0.5, -0.3, 0.3, 0.5, 0.7, 0.9, 10.0)
"""Those of Yang & Shadlen, with 10 in place of infinity for the two shapes that decide alone."""


class ProbabilisticReasoning(AbstractGoTask):
    """Four shapes in sequence: after the go cue, take the choice that they make more probable.

    The task of Yang & Shadlen 2007, Nature 447:1075, with the weights and times of NeuroGym's
    `ProbabilisticReasoning` (not compared with the paper). Each shape has a weight, and the second choice is
    rewarded with probability 1 / (1 + 10^-W), where W is the sum of the weights.

    - Inputs: "fixation" (1), 1 until the go cue; "stimulus" (`n_shapes` times the number of weights), for
        each place a one-hot code of its shape, plus white noise in the epochs of the shapes. A shape stays
        until the delay. The places are taken in random order.
    - Targets: two outputs, zero until the go cue, then 1 for the rewarded one, which is drawn: the same
        shapes have different targets in different trials.
    - Epochs "fixation", "shape 1", "shape 2", ..., "delay", "decision"; events "shape 1 on", "shape 2 on",
        ..., "shapes off", "go cue".
    - Conditions: "log odds" (W), "shapes" and "places" (`n_shapes`, in the order of time), "choice" (0 or 1,
        the rewarded one), "catch".

    An ideal observer sums the weights (`popsim.tasks.shape_log_odds`) and is right as often as
    `popsim.tasks.reasoning_accuracy` says. In the validation trials each shape comes once at each time, among
    others that are drawn from a fixed seed.

    **Arguments:**

    - `weights`: the weight of each shape, to base 10.
    - `n_shapes`: the number of shapes in a trial, and of places.
    - `noise`: sigma of each channel, in s^0.5; the standard deviation in a time step is sigma / dt^0.5.
    - `shape`: the time from one shape to the next, in seconds.
    - `fixation`, `delay`: durations of these epochs, in seconds; the decision takes the rest.
    - `response`: the weights before and after the go cue, and the fraction of catch trials.
    - `duration`, `dt`: the duration of a trial and the time step of the model, in seconds.
    - `loss`: the loss to train with.
    """

    weights: Float[Array, " kind"] = eqx.field(kw_only=True, converter=as_float_array, default=WEIGHTS)
    n_shapes: int = eqx.field(static=True, converter=plain_number, kw_only=True, default=4)
    noise: Float[Array, ""] = eqx.field(kw_only=True, converter=as_float_array, default=0.01)
    fixation: AbstractDistribution = eqx.field(kw_only=True, converter=as_distribution, default=0.5)
    shape: AbstractDistribution = eqx.field(kw_only=True, converter=as_distribution, default=0.5)
    delay: AbstractDistribution = eqx.field(
        kw_only=True, converter=as_distribution, default_factory=lambda: Uniform(0.45, 0.55)
    )
    duration: float = eqx.field(static=True, converter=plain_number, kw_only=True, default=3.55)

    def __check_init__(self):
        check_positive_int("n_shapes", self.n_shapes)
        _check_weights(self.weights)

    @property
    def _shape_epochs(self) -> tuple[str, ...]:
        return tuple(f"shape {index + 1}" for index in range(self.n_shapes))

    def epochs(self) -> tuple[Epoch, ...]:
        shapes = [Epoch(name, self.shape, event=f"{name} on") for name in self._shape_epochs]
        return (*shapes, Epoch("delay", self.delay, event="shapes off"))

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
        shown = jnp.any(during, axis=0)
        has_come = jnp.cumsum(during, axis=1) > 0
        # The axes are (shape, place, kind): shape i is at places[i], and of kind kinds[i].
        at_places = jax.nn.one_hot(places, self.n_shapes)[:, :, None]
        code = at_places * jax.nn.one_hot(kinds, self.weights.shape[0])[:, None, :]
        stimulus = jnp.tensordot(has_come.astype(float).T, code.reshape(self.n_shapes, -1), axes=1)
        log_odds = jnp.sum(self.weights[kinds])
        second = jax.random.bernoulli(key_stream(key, "reward"), jax.nn.sigmoid(jnp.log(10.0) * log_odds))
        conditions = {"log odds": log_odds, "shapes": kinds, "places": places}
        return self.go_trial(timeline, stimulus, shown, second.astype(int), conditions, key=key)


def _check_weights(weights: Float[Array, " kind"]) -> None:
    check_finite("weights", weights)
    if is_per_member(weights) or is_traced(weights):
        return
    if weights.ndim != 1 or weights.size < 2:
        raise ValueError(f"`weights` must be those of at least two shapes, got {short_repr(weights)}.")


def shape_log_odds(
    stimulus: Float[Array, "*axes time channels"], weights: Float[Array, " kind"]
) -> Float[Array, "*axes"]:
    """Return the sum of the weights of the shapes that were shown, the log odds of the second choice.

    The shape at a place is the one with the most activity there. While noise does not change which one that
    is, it is what an ideal observer of a `ProbabilisticReasoning` sums: it takes the second choice if the sum
    is positive.

    **Arguments:**

    - `stimulus`: the input of this name.
    - `weights`: the weight of each shape, to base 10.
    """
    activity = jnp.sum(stimulus, axis=-2)
    by_place = activity.reshape(*activity.shape[:-1], -1, weights.shape[0])
    return jnp.sum(weights[jnp.argmax(by_place, axis=-1)], axis=-1)


def reasoning_accuracy(weights: Float[Array, " kind"], n_shapes: int) -> float:
    """Return how often an ideal observer of a `ProbabilisticReasoning` takes the rewarded choice.

    It sees which shapes were shown. With the sum W of the weights it is right with probability
    1 / (1 + 10^-|W|) (Yang & Shadlen 2007, Nature 447:1075, as NeuroGym computes the probability of reward).
    This is the mean over all sequences of shapes.

    **Arguments:**

    - `weights`: the weight of each shape, to base 10.
    - `n_shapes`: the number of shapes in a trial.
    """
    check_positive_int("n_shapes", n_shapes)
    _check_weights(weights)
    sums, shares = np.zeros(1), np.ones(1)
    for _ in range(n_shapes):
        longer = np.round(sums[:, None] + np.asarray(weights, float), 9)
        sums, index = np.unique(longer.ravel(), return_inverse=True)
        shares = np.bincount(index, weights=np.repeat(shares, len(weights))) / len(weights)
    return float(np.sum(shares / (1 + 10.0 ** -np.abs(sums))))
