"""Hebb's rule."""

from jaxtyping import Array, Float

from popsim.training.rules.local_rule import AbstractLocalRule, mean_product


class Hebb(AbstractLocalRule):
    """dW = rate <post pre^T>, < > the mean over trials and time: units that are active together couple.

    Hebb 1949, The Organization of Behavior. Nothing bounds the weights.
    """

    def change(
        self,
        pre: Float[Array, "trial time pre"],
        post: Float[Array, "trial time post"],
        weights: Float[Array, "post pre"],
    ) -> Float[Array, "post pre"]:
        return mean_product(post, pre)
