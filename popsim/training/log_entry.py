"""What is known of a training at a logging point."""

import dataclasses
from typing import Any

import numpy as np
from jaxtyping import Bool, Float, Shaped

from popsim.evaluate import Evaluation
from popsim.loss import LossValues
from popsim.trial import Trial


@dataclasses.dataclass(frozen=True)
class LogEntry:
    """One logging point.

    - `batch`: the number of the batch after which it is.
    - `model`: the model, or ensemble, after that batch.
    - `loss`: the mean weighted terms of that batch, by member.
    - `validation_trials`: the validation trials; with a leading member axis if the members' tasks differ.
    - `validation`: states and losses of the validation trials, with axes (member, trial, ...).
    - `validation_loss`: the mean weighted terms of the validation trials, by member.
    - `metrics`: what `validation_metrics` made of them, by name; numbers of an ensemble lead with the member.
    - `frozen`: which members are frozen.
    - `learning_rate`: of that batch's update, by member.
    - `seconds`: for how long has been trained, compilation included.
    """

    batch: int
    model: Any
    loss: LossValues
    validation_trials: Trial
    validation: Evaluation
    validation_loss: LossValues
    metrics: dict[str, Shaped[np.ndarray, "..."]]
    frozen: Bool[np.ndarray, "*member"]
    learning_rate: Float[np.ndarray, "*member"]
    seconds: float
