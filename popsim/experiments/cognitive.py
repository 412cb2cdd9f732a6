"""Experiments on cognitive tasks, and the criteria for solving them."""

import dataclasses
from collections.abc import Mapping
from typing import Any, ClassVar, Literal

import equinox as eqx
import jax
import jax.numpy as jnp
import numpy as np
from jaxtyping import Array, Float, Int, Key

from popsim._checks import check_non_negative, check_positive, check_positive_int
from popsim._compiled import jit
from popsim.evaluation import evaluate_ensemble
from popsim.experiments.experiment import AbstractExperiment
from popsim.experiments.result_table import Column, ResultTable, Row
from popsim.experiments.run_figure import RunFigure
from popsim.models.network_model import NetworkModel
from popsim.network_input import network_input
from popsim.networks import build_network
from popsim.networks.registry import check_network_name, options_of_network
from popsim.randomness import as_key, seed_key
from popsim.schedules import LAST_BATCH
from popsim.store import as_json_numbers
from popsim.task import AbstractTask
from popsim.tasks import COGNITIVE_TASKS
from popsim.training import TaskTrainer, adam, cosine_decay
from popsim.trial import Trial, choice_accuracy

__all__ = ["Cognitive"]


@dataclasses.dataclass(frozen=True)
class Criterion:
    """A criterion for solving a task.

    - `score`: "accuracy", the fraction of correct choices, or "output error", the mean squared error of the
        outputs where they count.
    - `limit`: the minimum accuracy or the maximum error.
    """

    score: Literal["accuracy", "output error"]
    limit: float

    def is_met(self, value: float) -> bool:
        """Whether a score meets the criterion; NaN does not."""
        return value >= self.limit if self.score == "accuracy" else value <= self.limit


LEARNED: Mapping[str, tuple[str, Criterion]] = {
    "flip-flop": ("gru", Criterion("output error", 0.05)),
    "context-integration": ("gru", Criterion("accuracy", 0.76)),
    "perceptual-decision": ("gru", Criterion("accuracy", 0.8)),
    "delayed-comparison": ("tanh", Criterion("accuracy", 0.9)),
    "delayed-match-to-sample": ("tanh", Criterion("accuracy", 0.95)),
    "delayed-non-match-to-sample": ("tanh", Criterion("accuracy", 0.95)),
    "delayed-response": ("tanh", Criterion("accuracy", 0.9)),
    "ready-set-go": ("gru", Criterion("output error", 0.003)),
    "sine-generation": ("gru", Criterion("output error", 0.02)),
    "multi-task": ("tanh", Criterion("accuracy", 0.75)),
}
"""The network that learns each task sooner, as delays are hard for untrained gates, and the criterion, far
above chance and below the limit set by noise."""
CRITERIA = {task: criterion for task, (_, criterion) in LEARNED.items()}


def scores(
    ensemble: Any,
    task: AbstractTask,
    trials: Trial,
    criterion: Criterion,
    *,
    member_ids: Int[np.ndarray, " member"] | None = None,
    key: Key[Array, ""],
) -> Float[np.ndarray, " member"]:
    """Return the score of each member in given trials.

    **Arguments:**

    - `ensemble`: an ensemble of `NetworkModel`s.
    - `task`: the task; its loss has the term "output error" if that is the score.
    - `trials`: stacked trials of the task.
    - `criterion`: the criterion that names the score.
    - `member_ids`, `key`: for the noise of the networks, see `evaluate_ensemble`.
    """
    evaluation = evaluate_ensemble(ensemble, task, trials=trials, member_ids=member_ids, key=key)
    if criterion.score == "accuracy":
        return np.asarray(choice_accuracy(evaluation.states.network.output, trials.targets))
    return np.asarray(jnp.mean(evaluation.losses.terms["output error"], axis=1))


N_TRIALS = 1000


def fresh_trials(task: AbstractTask, n_trials: int, *, key: Key[Array, ""]) -> Trial:
    """Draw trials as in the last batch of a training."""
    return _drawn_trials(task, jax.random.split(as_key(key), n_trials))


@jit
def _drawn_trials(task: AbstractTask, keys: Key[Array, " trial"]) -> Trial:
    return jax.vmap(lambda key: task.trial(batch=LAST_BATCH, key=key))(keys)


@dataclasses.dataclass(frozen=True)
class Cognitive(AbstractExperiment):
    """Networks trained on a cognitive task with its default settings, and tested on fresh trials."""

    name: ClassVar[str] = "cognitive"
    member_settings = {"learning_rate": "trainer", "tau": "model", "hidden_noise": "model"}
    former_names = {"cell": "network"}

    task: Literal[tuple(COGNITIVE_TASKS)] = "flip-flop"  # pyright: ignore[reportInvalidTypeForm]
    """the task"""
    network: str | None = None
    """the kind of network, one that `popsim list` shows; by default gru or tanh, whichever learns the task
    faster"""
    n_units: int = 64
    """units per network"""
    tau: float | None = None
    """time constant of the units, s, of networks that have one; by default 0.1 for tanh"""
    hidden_noise: float = 0.0
    """noise on the units of the network"""
    learning_rate: float = 1e-2
    """initial learning rate of Adam, with cosine decay to zero"""

    def __post_init__(self):
        super().__post_init__()
        if self.task not in COGNITIVE_TASKS:
            raise ValueError(f"`task` must be one of {', '.join(COGNITIVE_TASKS)}, got {self.task!r}.")
        check_network_name(self.chosen_network)
        if self.tau is not None:
            check_positive("tau", self.tau)
            if "tau" not in options_of_network(self.chosen_network):
                raise ValueError(
                    f"`tau` must be given with a network that has a time constant, such as 'tanh', got "
                    f"{self.tau} s with {self.chosen_network!r}."
                )
        check_positive_int("n_units", self.n_units)
        check_positive("learning_rate", self.learning_rate)
        check_non_negative("hidden_noise", self.hidden_noise)

    def effective_value(self, name: str) -> Any:
        if name == "network":
            return self.chosen_network
        if name == "tau" and self.tau is None:
            return options_of_network(self.chosen_network).get("tau")
        return getattr(self, name)

    def units(self) -> dict[str, tuple[str, ...]]:
        return {"tau": ("s",)}

    @property
    def chosen_network(self) -> str:
        """The network, or the default for the task if it is None."""
        return LEARNED[self.task][0] if self.network is None else self.network

    def build_task(self) -> AbstractTask:
        return COGNITIVE_TASKS[self.task]()

    def build_model(self, *, key: Key[Array, ""]) -> NetworkModel:
        trial = eqx.filter_eval_shape(lambda: self.build_task().trial(batch=0, key=seed_key(0)))
        first = jax.tree.map(lambda leaf: jax.ShapeDtypeStruct(leaf.shape[1:], leaf.dtype), trial.inputs)
        n_inputs = jax.eval_shape(lambda inputs: network_input(inputs, {}, {}), first).shape[0]
        sizes = (n_inputs, self.n_units, trial.targets.values.shape[-1])
        options = {} if self.effective_value("tau") is None else {"tau": self.effective_value("tau")}
        dt = trial.timeline.dt
        network = build_network(
            self.chosen_network, *sizes, dt=dt, noise_std=self.hidden_noise, key=key, **options
        )
        return NetworkModel(network, dt=dt)

    def build_trainer(self, **options: Any) -> TaskTrainer:
        schedule = cosine_decay(self.per_member("learning_rate"), self.n_batches)
        return TaskTrainer(adam(schedule, clip_norm=1.0), **options)

    def where_train(self, model: Any) -> Any:
        return model.network

    def summarize(self, ensemble: Any) -> dict[str, Any]:
        """Score each member of the ensemble and of the untrained ensemble, as a control.

        Scores are of the validation trials, one per condition, and of `N_TRIALS` fresh trials drawn as in
        training, which decide whether the criterion is met.
        """
        task, criterion, key = self.build_task(), CRITERIA[self.task], self.key("evaluation")
        trial_sets = {"validation": task.validation_trials(), "fresh": fresh_trials(task, N_TRIALS, key=key)}

        def rows(members: Any) -> list[dict[str, Any]]:
            named_scores = {
                name: scores(members, task, trials, criterion, member_ids=self.members.ids, key=key)
                for name, trials in trial_sets.items()
            }
            return [
                {
                    "member": index,
                    **{name: as_json_numbers(values[index]) for name, values in named_scores.items()},
                    "does_the_task": bool(criterion.is_met(fresh)),
                }
                for index, fresh in enumerate(named_scores["fresh"].tolist())
            ]

        return {
            "task": self.task,
            "score": criterion.score,
            "limit": criterion.limit,
            "n_fresh_trials": N_TRIALS,
            "ensembles": {"trained": rows(ensemble), "control: untrained": rows(self.build_ensemble())},
        }

    def table(self, summary: dict[str, Any]) -> ResultTable:
        score, limit = summary["score"], summary["limit"]
        relation = "at least" if score == "accuracy" else "at most"
        set_names = ("validation", "fresh")
        return ResultTable(
            [*(Column(name, digits=4) for name in set_names), Column("does the task")],
            [
                Row(name, [*(row[set_name] for set_name in set_names), row["does_the_task"]], row["member"])
                for name, rows in summary["ensembles"].items()
                for row in rows
            ],
            f"{summary['task']}: {score} in {summary['n_fresh_trials']} fresh trials, {relation} {limit:g}",
        )

    def draw_figures(self, run: Any) -> dict[str, RunFigure]:
        """Draw learning curves, and inputs, outputs and targets of member 0 in a few validation trials."""
        from popsim.experiments.cognitive_figures import draw_cognitive_figures  # which loads matplotlib

        return draw_cognitive_figures(run)
