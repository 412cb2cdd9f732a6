"""Choices by value, and by shapes that speak for one choice or the other, each with its weight."""

from collections.abc import Mapping

import jax
import jax.numpy as jnp
import numpy as np
from jax.scipy.special import logsumexp
from jaxtyping import Array, Bool, Float, Int, Key

from popsim._shared.checks import check_positive, short_repr
from popsim.randomness import key_stream, seed_key
from popsim.tasks import _fields as fields
from popsim.tasks._fields import FINITE, Drawn, Number, Scalar
from popsim.tasks.choices.decisions import AbstractGoTask
from popsim.tasks.trial_parts import AbstractIndependentDraws, Drawable, is_known
from popsim.trial import Trial
from popsim.trial_plan import Epoch
from popsim.windows import Timeline

__all__ = [
    "EconomicChoice",
    "economic_choice_log_odds",
    "favourite_accuracy",
    "ProbabilisticReasoning",
    "reasoning_accuracy",
    "shape_log_odds",
]


OFFERS = (
    *((1.0, 0.0), (3.0, 1.0), (2.0, 1.0), (1.0, 1.0), (1.0, 2.0), (1.0, 3.0), (1.0, 4.0), (1.0, 6.0)),
    (0.0, 2.0),
)


class EconomicChoice(AbstractIndependentDraws, AbstractGoTask):
    """Two juices in different quantities: after the go cue, choose the offer of higher value.

    The task of Padoa-Schioppa & Assad 2006, Nature, doi:10.1038/nature04676 (not compared with the paper).
    Offers, the value of juice A and times are those of NeuroGym's `EconomicDecisionMaking`, the offers those
    of frsong/pyrl, too, which trains networks until they take the better one in 95 % of the trials.

    - Inputs: "fixation" (1), 1 until the go cue; "stimulus" (6), shown in the epoch "offer" with white noise:
        whether the first offer is A, and B, whether the second one is A, and B, and the quantities of the
        first and the second, divided by the largest of all.
    - Targets: two outputs, zero until the go cue, then 1 for the offer of higher value.
    - Epochs "fixation", "offer", "decision"; events "offer on", "go cue".
    - Conditions: "quantity A" and "quantity B", "A first" (whether A is the first offer), "choice" (0 first,
        1 second), "chooses A" (whether A has the higher value), "catch".

    Which juice comes first is random. An ideal observer is `economic_choice_log_odds`; who always takes the
    same juice is right as often as `favourite_accuracy` says. There are two validation trials for each offer.
    """

    offers: Float[Number, "offer 2"] = fields.non_negative(
        "quantities of A and B, of different value, an array of shape (offer, 2)", default=OFFERS
    )
    relative_value: Scalar = fields.positive("the value of A, in quantities of B", default=2.2)
    noise: Scalar = fields.white_noise("each channel", default=0.01)
    fixation: Drawn = fields.epoch(default=1.5)
    offer: Drawn = fields.epoch(default=(1.0, 2.0))
    duration: float = fields.trial_duration(default=4.25)

    def __check_init__(self):
        if not is_known(self.offers, self.relative_value):
            return
        offers = np.asarray(self.offers)
        if offers.ndim != 2 or offers.shape[1] != 2 or not len(offers):
            raise ValueError(f"`offers` must be pairs of quantities, got {short_repr(offers)}.")
        even = np.isclose(offers[:, 0] * float(self.relative_value), offers[:, 1])
        if even.any():
            raise ValueError(
                f"`offers` must differ in value, got {offers[even][0].tolist()} of A and B with "
                f"`relative_value` {float(self.relative_value):g}."
            )

    def epochs(self) -> tuple[Epoch, ...]:
        return (Epoch("offer", self.offer, event="offer on"),)

    def draws(self) -> dict[str, Drawable]:
        return {"offer": self.offers.shape[0], "order": 2}

    def is_a_better(self) -> Bool[Array, " offer"]:
        """Return for each offer whether A has the higher value."""
        return self.offers[:, 0] * self.relative_value > self.offers[:, 1]

    def shown_as(self, offer: Int[Array, ""], order: Int[Array, ""]) -> Float[Array, "6"]:
        """Return the stimulus of an offer, with A first (0) or second (1), without noise."""
        quantities = self.offers[offer] / jnp.max(self.offers)
        juices = jnp.where(order == 0, jnp.array([1.0, 0.0, 0.0, 1.0]), jnp.array([0.0, 1.0, 1.0, 0.0]))
        return jnp.concatenate([juices, jnp.where(order == 0, quantities, quantities[::-1])])

    def trial_of(self, timeline: Timeline, draws: tuple[Array, ...], *, key: Key[Array, ""]) -> Trial:
        offer, order = draws
        a_is_better = self.is_a_better()[offer]
        quantity_a, quantity_b = self.offers[offer]
        return self.go_trial(
            timeline,
            self.shown_as(offer, order),
            jnp.where(a_is_better, order, 1 - order),
            {
                "quantity A": quantity_a,
                "quantity B": quantity_b,
                "A first": order == 0,
                "chooses A": a_is_better,
            },
            shown=timeline.in_epoch("offer"),
            key=key,
        )


def economic_choice_log_odds(task: EconomicChoice, inputs: Mapping[str, Array]) -> Float[Array, ""]:
    """Return the log odds that the second offer of one trial of `EconomicChoice` has the higher value.

    The observer knows which offers there are. With u the stimulus of one of them, x the sum of what is shown
    times dt, and s the seconds for which it is shown, its likelihood is in proportion to
    exp((u x - |u|² s / 2) / σ²). An ideal observer takes the second offer where the log odds are positive.

    **Arguments:**

    - `task`: the task, with noise.
    - `inputs`: the inputs of the trial.
    """
    check_positive("task.noise", task.noise)
    stimulus = inputs["stimulus"]
    total = task.dt * jnp.sum(stimulus, axis=0)
    is_shown = jnp.any(stimulus != 0, axis=1).astype(stimulus.dtype)  # noise is never zero
    seconds = task.dt * jnp.sum(is_shown)
    offer, order = task.nominal()
    shown = jax.vmap(task.shown_as)(offer, order)
    likelihoods = (shown @ total - jnp.sum(shown**2, axis=1) * seconds / 2) / task.noise**2
    is_second = jnp.where(task.is_a_better()[offer], order == 1, order == 0).astype(float)
    return logsumexp(likelihoods, b=is_second) - logsumexp(likelihoods, b=1 - is_second)


def favourite_accuracy(task: EconomicChoice) -> Float[Array, ""]:
    """Return how often the better offer is that of the juice that is better more often.

    It is the chance level of who knows the juices and disregards their quantities.
    """
    fraction = jnp.mean(task.is_a_better().astype(float))
    return jnp.maximum(fraction, 1 - fraction)


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
    """

    weights: Float[Number, " kind"] = fields.number("the weight of each shape, to base 10", default=WEIGHTS)
    n_shapes: int = fields.count("shapes in a trial, and of places", default=4)
    noise: Scalar = fields.white_noise("each channel", default=0.01)
    fixation: Drawn = fields.epoch(default=0.5)
    shape: Drawn = fields.drawn("the time from one shape to the next, in seconds", default=0.5)
    delay: Drawn = fields.epoch(default=(0.45, 0.55))
    duration: float = fields.trial_duration(default=3.55)

    def __check_init__(self):
        FINITE("weights", self.weights)
        if is_known(self.weights) and (self.weights.ndim != 1 or self.weights.size < 2):
            raise ValueError(
                f"`weights` must be those of two shapes or more, got {short_repr(self.weights)}."
            )

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
        return self.go_trial(timeline, stimulus, second.astype(int), conditions, shown=shown, key=key)


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
    sums, shares = np.zeros(1), np.ones(1)
    for _ in range(n_shapes):
        longer = np.round(sums[:, None] + np.asarray(weights, float), 9)
        sums, index = np.unique(longer.ravel(), return_inverse=True)
        shares = np.bincount(index, weights=np.repeat(shares, len(weights))) / len(weights)
    return float(np.sum(shares / (1 + 10.0 ** -np.abs(sums))))
