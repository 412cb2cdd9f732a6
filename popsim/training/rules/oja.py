"""Oja's rule."""

import jax.numpy as jnp
from jaxtyping import Array, Float

from popsim.training.rules.local_rule import AbstractLocalRule, mean_product


class Oja(AbstractLocalRule):
    """dW_ij = rate (<post_i pre_j> - <post_i²> W_ij), < > the mean over trials and time.

    Hebb's rule with a decay that belongs to the receiving unit: the weights of a linear unit become the
    unit vector along the first principal component of its input. Oja 1982, J Math Biol 15:267-273.
    """

    def change(
        self,
        pre: Float[Array, "trial time pre"],
        post: Float[Array, "trial time post"],
        weights: Float[Array, "post pre"],
    ) -> Float[Array, "post pre"]:
        decay = jnp.mean(post**2, axis=(0, 1))
        return mean_product(post, pre) - decay[:, None] * weights
