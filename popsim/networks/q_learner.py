"""A Q-learner, fitted to choices as any network is."""

import equinox as eqx
import jax
import jax.numpy as jnp
from jaxtyping import Array, Float, Key, ScalarLike

from popsim._shared.checks import as_float_array, check_positive, check_positive_int, short_repr, violates
from popsim.networks.base import AbstractNetwork, Inputs, Output, Units

__all__ = ["QLearner"]


class QLearner(AbstractNetwork):
    """A learner of the values Q of `n_choices` choices, with four parameters.

    Its inputs are the "last action" a (one-hot) and the "last reward" r, as of a `BernoulliBandit` or of
    `StoredChoices`, its outputs the logits of the next choice:

    - Q_i += rate (r - Q_i) for the choice that was made (Watkins & Dayan 1992, Mach Learn 8:279),
    - Q_i -= forgetting Q_i for others (as in Ito & Doya 2009, J Neurosci 29:9861),
    - logits = beta Q + stickiness a.

    A trial starts with Q = 0. `hidden` holds Q, then a. The logits of rate and forgetting, the logarithm of
    beta, and the stickiness itself are trained, so that no step leaves the allowed range. `rate`, `beta`,
    `stickiness` and `forgetting` are the numbers, of an ensemble one for each member.

    **Arguments:**

    - `rate`: at the start of the training, between 0 and 1.
    - `beta`: the inverse temperature, above 0.
    - `stickiness`: how much a choice is repeated, or avoided if it is negative, whatever it paid.
    - `forgetting`: as for `rate`; None for no forgetting, which is not trained then.
    """

    rate_logit: Float[Array, "*members"]
    log_beta: Float[Array, "*members"]
    stickiness: Float[Array, "*members"]
    forgetting_logit: Float[Array, "*members"] | None
    n_inputs: int = eqx.field(static=True)
    n_outputs: int = eqx.field(static=True)

    def __init__(
        self,
        rate: ScalarLike,
        beta: ScalarLike,
        stickiness: ScalarLike = 0.0,
        forgetting: ScalarLike | None = None,
        *,
        n_choices: int = 2,
    ):
        check_positive_int("n_choices", n_choices)
        check_positive("beta", beta)
        self.rate_logit = _logit("rate", rate)
        self.log_beta = jnp.log(as_float_array(beta))
        self.stickiness = as_float_array(stickiness)
        self.forgetting_logit = None if forgetting is None else _logit("forgetting", forgetting)
        self.n_inputs, self.n_outputs = n_choices + 1, n_choices

    @property
    def rate(self) -> Float[Array, "*members"]:
        """The learning rate."""
        return jax.nn.sigmoid(self.rate_logit)

    @property
    def beta(self) -> Float[Array, "*members"]:
        """The inverse temperature."""
        return jnp.exp(self.log_beta)

    @property
    def forgetting(self) -> Float[Array, "*members"]:
        """The rate of forgetting, zero without."""
        if self.forgetting_logit is None:
            return jnp.zeros_like(self.rate_logit)
        return jax.nn.sigmoid(self.forgetting_logit)

    def init(self, *, key: Key[Array, ""]) -> Units:
        return jnp.zeros(2 * self.n_outputs, self.log_beta.dtype)

    def step(self, inputs: Inputs, hidden: Units, *, key: Key[Array, ""]) -> Units:
        values, action, reward = hidden[: self.n_outputs], inputs[:-1], inputs[-1]
        learned = self.rate * action * (reward - values) - self.forgetting * (1 - action) * values
        return jnp.concatenate([values + learned, action])

    def read_out(self, hidden: Units) -> Output:
        return self.beta * hidden[: self.n_outputs] + self.stickiness * hidden[self.n_outputs :]


def _logit(name: str, value: ScalarLike) -> Float[Array, ""]:
    if violates(lambda number: (number > 0) & (number < 1), value):
        raise ValueError(f"`{name}` must be between 0 and 1, without these, got {short_repr(value)}.")
    return jax.scipy.special.logit(as_float_array(value))
