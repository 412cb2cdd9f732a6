"""Muscle paths whose length is a quadratic polynomial of the joint angles."""

from typing import Any

import jax.numpy as jnp
from jaxtyping import Array, Float

from popsim.muscles.parameters import join
from popsim.muscles.paths.abstract import AbstractMusclePath
from popsim.muscles.paths.tables import as_lengths, as_table, as_table_like, check_configuration


class PolynomialPath(AbstractMusclePath):
    """length = offset + sum over joints of (linear + quadratic p) p, with p = configuration - reference.

    The moment arm is linear in the angle: linear + 2 quadratic p.

    **Arguments:**

    - `offset`: the length at the reference, one for each muscle, in m.
    - `linear`: muscles x coordinates, in m/rad.
    - `quadratic`: muscles x coordinates, in m/rad²; or one for each coordinate.
    - `reference`: the angles at which p is zero, in rad; muscles x coordinates, or one for each coordinate.

    **Raises:** `ValueError` if a number is not finite or shapes disagree.
    """

    offset: Float[Array, "*members muscles"]
    linear: Float[Array, "*members muscles coordinates"]
    quadratic: Float[Array, "*members muscles coordinates"]
    reference: Float[Array, "*members muscles coordinates"]

    def __init__(self, offset: Any, linear: Any, quadratic: Any, reference: Any = 0.0):
        self.offset = as_lengths("offset", offset)
        self.linear = as_table("linear", linear, self.offset.shape[0])
        self.quadratic = as_table_like("quadratic", quadratic, self.linear)
        self.reference = as_table_like("reference", reference, self.linear)

    def length(self, configuration: Float[Array, " coordinates"]) -> Float[Array, " muscles"]:
        check_configuration(configuration, self.linear.shape[1])
        beyond = configuration - self.reference
        return self.offset + jnp.sum((self.linear + self.quadratic * beyond) * beyond, axis=1)

    def with_muscle(self, other: AbstractMusclePath) -> "PolynomialPath":
        return join(self, other)
