"""Experiments on the cognitive tasks of the library, and the criteria for solving them."""

import dataclasses
from collections.abc import Mapping
from typing import ClassVar, Literal

from popsim.experiments.network_experiment import AbstractNetworkExperiment, Criterion
from popsim.experiments.settings import setting
from popsim.task import AbstractTask
from popsim.tasks import COGNITIVE_TASKS

__all__ = ["Cognitive"]

LEARNED: Mapping[str, tuple[str, Criterion]] = {
    "flip-flop": ("gru", Criterion("output error", 0.05)),
    "context-integration": ("gru", Criterion("accuracy", 0.76)),
    "perceptual-decision": ("gru", Criterion("accuracy", 0.8)),
    "delayed-comparison": ("tanh", Criterion("accuracy", 0.9)),
    "delayed-match-to-sample": ("tanh", Criterion("accuracy", 0.95)),
    "delayed-non-match-to-sample": ("tanh", Criterion("accuracy", 0.95)),
    "delayed-response": ("tanh", Criterion("accuracy", 0.9)),
    "delayed-match-to-category": ("tanh", Criterion("accuracy", 0.95)),
    "delayed-paired-association": ("tanh", Criterion("accuracy", 0.95)),
    "dual-delayed-match-to-sample": ("tanh", Criterion("output error", 0.05)),
    "delayed-go-no-go": ("tanh", Criterion("accuracy", 0.95)),
    "signal-detection": ("gru", Criterion("accuracy", 0.95)),
    "multisensory-integration": ("gru", Criterion("accuracy", 0.77)),
    "pulse-decision": ("tanh", Criterion("accuracy", 0.92)),
    "poisson-clicks": ("gru", Criterion("accuracy", 0.95)),
    "economic-choice": ("gru", Criterion("accuracy", 0.95)),
    "ready-set-go": ("gru", Criterion("output error", 0.003)),
    "sine-generation": ("gru", Criterion("output error", 0.02)),
    "interval-discrimination": ("gru", Criterion("accuracy", 0.95)),
    "cue-set-go": ("gru", Criterion("output error", 0.005)),
    "one-two-three-go": ("gru", Criterion("output error", 0.002)),
    "probabilistic-reasoning": ("tanh", Criterion("accuracy", 0.88)),
    "angle-reproduction": ("tanh", Criterion("output error", 0.05)),
    "direction-category": ("tanh", Criterion("accuracy", 0.8)),
    "block-decisions": ("gru", Criterion("accuracy", 0.8)),
    "path-integration": ("gru", Criterion("output error", 0.02)),
    "multi-task": ("tanh", Criterion("accuracy", 0.75)),
}
"""The network that learns each task sooner, as delays are hard for untrained gates, and the criterion, far
above chance and below the limit set by noise. Suites of many tasks, which take an hour or more, have none."""
CRITERIA = {task: criterion for task, (_, criterion) in LEARNED.items()}


@dataclasses.dataclass(frozen=True)
class Cognitive(AbstractNetworkExperiment):
    """Networks trained on a cognitive task with its default settings, and tested on fresh trials."""

    name: ClassVar[str] = "cognitive"

    task: Literal[tuple(COGNITIVE_TASKS)] = setting("flip-flop", "the task")  # pyright: ignore[reportInvalidTypeForm]
    learning_rate: float = setting(1e-2, "initial learning rate of Adam, with cosine decay to zero")

    def __post_init__(self):
        super().__post_init__()
        self.check_network()

    @property
    def default_network(self) -> str:
        return LEARNED[self.task][0] if self.task in LEARNED else "gru"

    @property
    def task_name(self) -> str:
        return self.task

    @property
    def criterion(self) -> Criterion | None:
        return CRITERIA.get(self.task)

    def build_task(self) -> AbstractTask:
        return COGNITIVE_TASKS[self.task]()
