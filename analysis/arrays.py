"""The arrays that analyses take and return.

Analyses of what was saved take arrays of numpy or JAX, compute in float64 on the host, and return arrays of
numpy, so that their numbers are those of scipy and scikit-learn; where thousands of models are run or
differentiated, they do it in one compiled program, in float64 within.
"""

import jax
import numpy as np
from jaxtyping import Float, PRNGKeyArray

from popsim.randomness import as_key

AnyArray = np.ndarray | jax.Array
"""An array of numpy or of JAX."""


def finite_float64(name: str, values: AnyArray) -> Float[np.ndarray, "..."]:
    """The values in float64.

    **Arguments:**

    - `name`: of the argument, for the error.
    - `values`: numbers.

    **Raises:** `ValueError` if there is none, or one is not finite.
    """
    converted = np.asarray(values, dtype=np.float64)
    if converted.size == 0:
        raise ValueError(f"`{name}` must hold at least one number, got shape {converted.shape}.")
    if n_bad := int(np.count_nonzero(~np.isfinite(converted))):
        raise ValueError(f"`{name}` must be finite, got {n_bad} of {converted.size} numbers that are not.")
    return converted


def numpy_generator(key: PRNGKeyArray) -> np.random.Generator:
    """The generator of numpy that belongs to a random key, for bootstraps and permutations."""
    return np.random.default_rng(np.asarray(jax.random.key_data(as_key(key))).tolist())
