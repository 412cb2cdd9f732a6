"""What is known of a training at a logging point."""

import dataclasses

import numpy as np
from jaxtyping import Float

from popsim.loss import LossValues


@dataclasses.dataclass(frozen=True)
class LogEntry:
    """One logging point.

    - `batch`: the number of the batch after which it is.
    - `loss`: the mean weighted terms of that batch, by member.
    - `validation_loss`: the mean weighted terms of the validation trials, by member.
    - `learning_rate`: of that batch's update, by member.
    - `seconds`: since training began, compilation included.
    """

    batch: int
    loss: LossValues
    validation_loss: LossValues
    learning_rate: Float[np.ndarray, "*member"]
    seconds: float
