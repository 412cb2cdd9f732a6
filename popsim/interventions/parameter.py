"""What the parameters of an intervention must be."""

import jax.numpy as jnp
from jaxtyping import Array


def check_parameter(name: str, parameter: Array, *shapes: tuple[int, ...]) -> None:
    """Raise `ValueError` unless what a trial gives the intervention `name` is numbers of one of `shapes`."""
    if parameter.shape not in shapes:
        expected = " or ".join(str(shape) for shape in shapes)
        raise ValueError(f"the parameter of {name!r} must have shape {expected}, got {parameter.shape}.")
    if not jnp.issubdtype(parameter.dtype, jnp.floating):
        raise ValueError(f"the parameter of {name!r} must be floating-point, got {parameter.dtype}.")
