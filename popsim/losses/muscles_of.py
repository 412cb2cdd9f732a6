"""The muscles that a term is about."""

from typing import Any

import jax
from jaxtyping import Array, Float

from popsim.model import AbstractModel
from popsim.plants import Muscled


def muscles_of(term: str, model: AbstractModel) -> Muscled:
    """The body of a model, if it has muscles.

    **Arguments:**

    - `term`: the name of the term that asks, for the error message.
    - `model`: the model.

    **Raises:** `ValueError` if it has no body, or one without muscles.
    """
    body = getattr(model, "plant", None)
    if isinstance(body, Muscled):
        return body
    given = f"a {type(model).__name__} without a body" if body is None else f"a {type(body).__name__}"
    raise ValueError(
        f"`model` must have a body with muscles, a `Muscled` plant, for the term {term!r}, got {given}."
    )


def relative_forces(term: str, states: Any, model: AbstractModel) -> Float[Array, "time muscles"]:
    """The force of each muscle at each step, in maximal isometric forces; arguments and raises as above."""
    body = muscles_of(term, model)
    return jax.vmap(body.muscles)(states.plant).force / body.muscle.max_isometric_force
