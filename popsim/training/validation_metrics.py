"""Figures of merit that are recorded at each logging point."""

from collections.abc import Callable, Mapping

import numpy as np
from jax.typing import ArrayLike
from jaxtyping import PyTree, Shaped

from popsim.trial import Trial

ValidationMetrics = Callable[[PyTree, Trial], Mapping[str, ArrayLike]]


def checked_metrics(
    metrics: Mapping[str, ArrayLike], n_members: int | None
) -> dict[str, Shaped[np.ndarray, "..."]]:
    """Metrics as arrays.

    **Arguments:**

    - `metrics`: what `validation_metrics` returned.
    - `n_members`: how many members each has to lead with; None for a single model.

    **Raises:** `ValueError` if they are no numbers by name, or not one for each member.
    """
    if not isinstance(metrics, Mapping):
        raise ValueError(f"`validation_metrics` must return numbers by name, got {type(metrics).__name__}.")
    arrays = {name: np.asarray(values) for name, values in metrics.items()}
    for name, values in arrays.items():
        if not isinstance(name, str) or values.dtype.kind not in "biuf":
            raise ValueError(
                f"`validation_metrics` must return numbers by name, got {values.dtype} for {name!r}."
            )
        if not name or "/" in name or name.startswith("."):  # they become names of arrays on disk
            raise ValueError(f"`validation_metrics` must return plain names without '/', got {name!r}.")
        if n_members is not None and values.shape[:1] != (n_members,):
            raise ValueError(
                f"`validation_metrics` must return an array that leads with the {n_members} members, "
                f"got shape {values.shape} for {name!r}."
            )
    return arrays
