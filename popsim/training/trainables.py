"""Which arrays of a model are trained."""

from collections.abc import Callable
from typing import Any

import equinox as eqx
from jaxtyping import PyTree

from popsim.parameters import picked_parameters


def select_trainables(
    model: PyTree, where_train: Callable[[Any], Any] | None = None
) -> tuple[PyTree, PyTree]:
    """Part a model into the arrays that are trained and all else.

    **Arguments:**

    - `model`: a model, or an ensemble.
    - `where_train`: picks from the model what is trained, such as `lambda model: model.network` or
        `lambda m: (m.network.cell.weight_hh, m.network.readout)`. Of each part its parameters are trained
        (`popsim.is_parameter`), an array that is picked by itself in any case: `lambda m: m.network` leaves
        time constants and noise alone, `lambda m: (m.network, m.network.tau)` trains the time constant,
        too. None picks all parameters of the model.

    **Returns:** the arrays that are trained, and the rest: both of the structure of `model`, with None where
    the other one has the leaf; `equinox.combine` puts them together.

    **Raises:** `ValueError` if `where_train` picks something that is no part of the model, or no parameter
    nor other floating-point array.
    """
    return eqx.partition(model, picked_parameters(model, where_train, argument="`where_train`"))
