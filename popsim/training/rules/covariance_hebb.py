"""The covariance rule."""

import jax.numpy as jnp
from jaxtyping import Array, Float

from popsim.training.rules.local_rule import AbstractLocalRule, mean_product


class CovarianceHebb(AbstractLocalRule):
    """dW = rate <(post - <post>) (pre - <pre>)^T>, < > the mean over trials and time of the batch.

    The covariance with a divisor of n_trials n_steps. Sejnowski 1977, J Math Biol 4:303-321 (cited from
    memory).
    """

    def change(
        self,
        pre: Float[Array, "trial time pre"],
        post: Float[Array, "trial time post"],
        weights: Float[Array, "post pre"],
    ) -> Float[Array, "post pre"]:
        return mean_product(
            post - jnp.mean(post, axis=(0, 1)),
            pre - jnp.mean(pre, axis=(0, 1)),
        )
