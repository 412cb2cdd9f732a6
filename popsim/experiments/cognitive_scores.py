"""How well networks do the cognitive tasks, and how well is well enough."""

import dataclasses
from collections.abc import Mapping
from typing import Any, Literal

import jax.numpy as jnp
import numpy as np
from jaxtyping import Array, Float, Key

from popsim.evaluate import evaluate_ensemble
from popsim.output_target import choice_accuracy
from popsim.task import AbstractTask
from popsim.trial import Trial


@dataclasses.dataclass(frozen=True)
class Criterion:
    """When a network does a task.

    - `score`: "accuracy", the share of right choices, or "output error", the mean squared error of the
        outputs where they count.
    - `limit`: what the accuracy must reach, or the error not exceed.
    """

    score: Literal["accuracy", "output error"]
    limit: float

    def is_met(self, value: float) -> bool:
        """Whether a score is good enough; NaN is not."""
        return value >= self.limit if self.score == "accuracy" else value <= self.limit


CELLS: Mapping[str, Literal["gru", "tanh"]] = {
    "flip-flop": "gru",
    "context-integration": "gru",
    "perceptual-decision": "gru",
    "delayed-comparison": "tanh",
    "delayed-match-to-sample": "tanh",
    "delayed-non-match-to-sample": "tanh",
    "delayed-response": "tanh",
    "ready-set-go": "gru",
    "sine-generation": "gru",
    "multi-task": "tanh",
}
"""For each cognitive task by name the cell that learns it sooner: delays are hard for untrained gates."""

CRITERIA: Mapping[str, Criterion] = {
    "flip-flop": Criterion("output error", 0.05),
    "context-integration": Criterion("accuracy", 0.76),
    "perceptual-decision": Criterion("accuracy", 0.8),
    "delayed-comparison": Criterion("accuracy", 0.9),
    "delayed-match-to-sample": Criterion("accuracy", 0.95),
    "delayed-non-match-to-sample": Criterion("accuracy", 0.95),
    "delayed-response": Criterion("accuracy", 0.9),
    "ready-set-go": Criterion("output error", 0.003),
    "sine-generation": Criterion("output error", 0.02),
    "multi-task": Criterion("accuracy", 0.75),
}
"""For each cognitive task by name; far above chance, and below what noise allows."""


def scores(
    ensemble: Any, task: AbstractTask, trials: Trial, criterion: Criterion, *, key: Key[Array, ""]
) -> Float[np.ndarray, " member"]:
    """The score of each member in given trials.

    **Arguments:**

    - `ensemble`: of `NetworkModel`s.
    - `task`: the task; its loss has the term "output error" if that is the score.
    - `trials`: stacked trials of it.
    - `criterion`: which score.
    - `key`: for the noise of the networks.
    """
    evaluation = evaluate_ensemble(ensemble, task, trials=trials, key=key)
    if criterion.score == "accuracy":
        return np.asarray(choice_accuracy(evaluation.states.network.output, trials.targets))
    return np.asarray(jnp.mean(evaluation.losses.terms["output error"], axis=1))
