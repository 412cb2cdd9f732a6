"""Experiments on tasks without a body: the network, and how well it does the task."""

import dataclasses
import math
from collections.abc import Callable, Mapping
from typing import Any, ClassVar, Literal

import equinox as eqx
import jax
import jax.numpy as jnp
import numpy as np
from jaxtyping import Array, Float, Int, Key

from popsim._compiled import jit
from popsim._shared.checks import check_positive, kind_of
from popsim.environment import Box, Discrete
from popsim.evaluation import evaluate_ensemble
from popsim.experiments.results import Column, ResultTable, RunFigure, member_rows
from popsim.experiments.settings import setting
from popsim.experiments.task_experiments import AbstractTaskExperiment
from popsim.models.network_model import NetworkModel
from popsim.networks import build_network
from popsim.networks.registry import options_of_network
from popsim.per_member import PerMember
from popsim.policies import AbstractPolicy, Categorical, Gaussian
from popsim.randomness import as_key, seed_key
from popsim.schedules import LAST_BATCH
from popsim.senses import n_network_inputs
from popsim.session import separate_trials
from popsim.store import as_json_numbers
from popsim.task import AbstractTask
from popsim.tasks import COGNITIVE_TASKS
from popsim.trial import OutputTarget, Trial, choice_accuracy

__all__ = ["AbstractNetworkExperiment", "Cognitive"]

Score = Literal["accuracy", "output error", "loss", "reward"]
"""Fraction of correct choices, mean squared error where outputs count, total loss, or reward of a trial."""
HIGH_IS_GOOD = ("accuracy", "reward")


@dataclasses.dataclass(frozen=True)
class Preset:
    """How a task is learned: the network that learns it sooner, as delays are hard for untrained gates.

    - `score`, `limit`: what solving it is: the minimum accuracy or reward, or the maximum error or loss, far
        above chance and below the limit set by noise; None for no criterion.
    - `tau`: the time constant of units, in s, where it is hardly learned with the default of networks.
    """

    network: str = "gru"
    score: Score | None = None
    limit: float | None = None
    tau: float | None = None

    def is_met(self, value: float) -> bool:
        """Whether a score meets the criterion; one that is not finite does not."""
        assert self.limit is not None
        is_good = value >= self.limit if self.score in HIGH_IS_GOOD else value <= self.limit
        return math.isfinite(value) and is_good


LEARNED: Mapping[str, Preset] = {
    "flip-flop": Preset("gru", "output error", 0.05),
    "context-integration": Preset("gru", "accuracy", 0.76),
    "perceptual-decision": Preset("gru", "accuracy", 0.8),
    "delayed-comparison": Preset("tanh", "accuracy", 0.9),
    "delayed-match-to-sample": Preset("tanh", "accuracy", 0.95),
    "delayed-non-match-to-sample": Preset("tanh", "accuracy", 0.95),
    "delayed-response": Preset("tanh", "accuracy", 0.9),
    "delayed-match-to-category": Preset("tanh", "accuracy", 0.95, tau=0.5),
    "delayed-paired-association": Preset("tanh", "accuracy", 0.95, tau=0.5),
    "dual-delayed-match-to-sample": Preset("tanh", "output error", 0.05, tau=0.5),
    "delayed-go-no-go": Preset("tanh", "accuracy", 0.95),
    "signal-detection": Preset("gru", "accuracy", 0.95),
    "multisensory-integration": Preset("gru", "accuracy", 0.77),
    "pulse-decision": Preset("tanh", "accuracy", 0.92, tau=0.5),
    "poisson-clicks": Preset("gru", "accuracy", 0.95),
    "economic-choice": Preset("gru", "accuracy", 0.95),
    "ready-set-go": Preset("gru", "output error", 0.003),
    "sine-generation": Preset("gru", "output error", 0.02),
    "interval-discrimination": Preset("gru", "accuracy", 0.95),
    "cue-set-go": Preset("gru", "output error", 0.005),
    "one-two-three-go": Preset("gru", "output error", 0.002),
    "probabilistic-reasoning": Preset("tanh", "accuracy", 0.88),
    "angle-reproduction": Preset("tanh", "output error", 0.05),
    "direction-category": Preset("tanh", "accuracy", 0.8),
    "block-decisions": Preset("gru", "accuracy", 0.8),
    "path-integration": Preset("gru", "output error", 0.02),
    "multi-task": Preset("tanh", "accuracy", 0.75),
}
"""By task; suites of many tasks, which take an hour or more, and tasks with rewards have no criterion."""


def scores(
    ensemble: Any,
    task: AbstractTask,
    trials: Trial,
    score: Score,
    *,
    member_ids: Int[np.ndarray, " member"] | None = None,
    key: Key[Array, ""],
) -> Float[np.ndarray, " member"]:
    """Return the score of each member, see `Preset`, in stacked trials of a task."""
    evaluation = evaluate_ensemble(ensemble, task, trials=trials, member_ids=member_ids, key=key)
    if score == "accuracy":
        outputs = evaluation.states.network.output
        if trials.session is not None:  # (member, session, time, output): of the single trials
            trials = separate_trials(trials)
            outputs = outputs.reshape(len(outputs), -1, trials.timeline.n_steps, outputs.shape[-1])
        return np.asarray(choice_accuracy(outputs, trials.targets))
    if score == "reward":
        return np.asarray(jnp.mean(jnp.sum(evaluation.states.interaction.reward, axis=-1), axis=1))
    if score == "loss":
        return np.asarray(jnp.mean(evaluation.losses.total, axis=1))
    weight: Any = task.loss.at_batch(LAST_BATCH).weights["output error"]
    weights = weight.values if isinstance(weight, PerMember) else weight
    return np.asarray(jnp.mean(evaluation.losses.terms["output error"], axis=1) / weights)


N_TRIALS = 1000


def fresh_trials(task: AbstractTask, n_trials: int, *, key: Key[Array, ""]) -> Trial:
    """Draw trials as in the last batch of a training; if they are sessions, about as many trials in all."""
    trial = eqx.filter_eval_shape(lambda: task.trial(batch=LAST_BATCH, key=seed_key(0)))
    if trial.session is not None:
        n_trials = -(-n_trials * trial.session.trials.timeline.n_steps // trial.timeline.n_steps)
    return _drawn_trials(task, jax.random.split(as_key(key), n_trials))


@jit
def _drawn_trials(task: AbstractTask, keys: Key[Array, " trial"]) -> Trial:
    return jax.vmap(lambda key: task.trial(batch=LAST_BATCH, key=key))(keys)


def score_of(task: AbstractTask) -> Score:
    """Return the score: the reward, the accuracy of choices, or the error of outputs; else the loss."""
    trial = eqx.filter_eval_shape(lambda: task.trial(batch=0, key=seed_key(0)))
    if trial.environment is not None:
        return "reward"
    if isinstance(trial.targets, OutputTarget) and trial.targets.is_choice:
        return "accuracy"
    return "output error" if "output error" in task.loss.weights else "loss"


def _policy_for(trials: Trial) -> AbstractPolicy | None:
    """Return a policy with a critic for the environment of trials; None for trials without one."""
    if trials.environment is None:
        return None
    match trials.environment.actions:
        case Discrete(n=n):
            return Categorical(n, critic=True)
        case Box(n=n):
            return Gaussian(n, critic=True)
    raise ValueError(
        "`environment` of the trials must take discrete actions or vectors, as there is no body, "
        f"got {trials.environment.actions}."
    )


@dataclasses.dataclass(frozen=True)
class AbstractNetworkExperiment(AbstractTaskExperiment):
    """Networks without a body in a task whose targets are an `OutputTarget`, or which has an environment."""

    member_settings = {"learning_rate": "trainer", "tau": "model", "hidden_noise": "model"}

    learning_rate: float = setting(1e-2, "initial learning rate of Adam")
    tau: float | None = setting(
        None,
        "time constant of the units of networks that have one; by default 0.1 for tanh, and 0.5 in some "
        "tasks with long delays",
        "s",
    )

    def __post_init__(self):
        super().__post_init__()
        if self.tau is not None:
            check_positive("tau", self.tau)
            if "tau" not in options_of_network(network := self.effective_value("network")):
                raise ValueError(
                    f"`tau` must be given with a network that has a time constant, such as 'tanh', got "
                    f"{self.tau} s with {network!r}."
                )
        _ = self.trial_shapes

    @property
    def task_name(self) -> str:
        """The name of the task."""
        return self.name

    @property
    def preset(self) -> Preset:
        """How the task is learned by default, with a criterion if its arguments have their defaults."""
        if not self.definition.__module__.startswith("popsim."):
            return Preset()
        preset = LEARNED.get(self.task_name, Preset())
        return dataclasses.replace(preset, score=None, limit=None) if self.changed_arguments else preset

    def effective_value(self, name: str) -> Any:
        if name == "network":
            return self.preset.network if self.network is None else self.network
        if name == "tau" and self.tau is None:
            default = options_of_network(self.effective_value("network")).get("tau")
            return None if default is None else self.preset.tau or default
        return super().effective_value(name)

    def build_task(self) -> AbstractTask:
        return self.make_task()

    def build_model(self, *, key: Key[Array, ""]) -> NetworkModel:
        task = self.build_task()
        trials = eqx.filter_eval_shape(lambda: separate_trials(task.validation_trials()))
        policy = _policy_for(trials)
        if policy is None and not isinstance(trials.targets, OutputTarget):
            raise ValueError(
                f"`targets` of the trials of {self.task_name} must be an OutputTarget, as there is no body, "
                f"got {kind_of(trials.targets)}: a motor task has `workspace` as its first argument."
            )
        n_outputs = trials.targets.values.shape[-1] if policy is None else policy.n_outputs
        tau, dt = self.effective_value("tau"), trials.timeline.dt
        sizes = n_network_inputs(trials), self.n_units, n_outputs
        options: Any = {"dt": dt, "noise_std": self.effective_value("hidden_noise"), "key": key}
        options |= {} if tau is None else {"tau": tau}
        network = build_network(self.effective_value("network"), *sizes, **options)
        return NetworkModel(network, policy=policy, dt=dt)

    def summarize(self, ensemble: Any) -> dict[str, Any]:
        """Score trained and untrained members in the validation trials, and in `N_TRIALS` fresh ones.

        The latter are drawn as in training, and decide whether the criterion is met, if there is one.
        """
        task, preset, key = self.build_task(), self.preset, self.key("evaluation")
        score = preset.score or score_of(task)
        trial_sets = {"validation": task.validation_trials(), "fresh": fresh_trials(task, N_TRIALS, key=key)}

        def rows(members: Any) -> list[dict[str, Any]]:
            named = {
                name: scores(members, task, trials, score, member_ids=self.members.ids, key=key).tolist()
                for name, trials in trial_sets.items()
            }
            return [
                {"member": index}
                | {name: as_json_numbers(values[index]) for name, values in named.items()}
                | ({} if preset.score is None else {"does_the_task": preset.is_met(named["fresh"][index])})
                for index in range(self.n_members)
            ]

        return {
            "task": self.task_name,
            "score": score,
            "limit": preset.limit,
            "n_fresh_trials": N_TRIALS,
            "ensembles": {"trained": rows(ensemble), "control: untrained": rows(self.build_ensemble())},
        }

    def table(self, summary: dict[str, Any]) -> ResultTable:
        score, limit = summary["score"], summary["limit"]
        columns = {name: Column(name, digits=4) for name in ("validation", "fresh")}
        caption = f"{summary['task']}: {score} in {summary['n_fresh_trials']} fresh trials"
        if limit is not None:
            columns["does_the_task"] = Column("does the task")
            caption += f", {'at least' if score in HIGH_IS_GOOD else 'at most'} {limit:g}"
        rows = member_rows(summary, lambda row: [row[each] for each in columns])
        return ResultTable([*columns.values()], rows, caption)

    def draw_figures(self, run: Any) -> dict[str, RunFigure]:
        from popsim.experiments.run_figures import draw_cognitive_figures  # which loads matplotlib

        return draw_cognitive_figures(run)


@dataclasses.dataclass(frozen=True)
class Cognitive(AbstractNetworkExperiment):
    """Networks trained on a cognitive task with its default settings, and tested on fresh trials."""

    name: ClassVar[str] = "cognitive"

    task: Literal[tuple(COGNITIVE_TASKS)] = setting("flip-flop", "the task")  # pyright: ignore[reportInvalidTypeForm]

    @property
    def definition(self) -> Callable[..., AbstractTask]:  # pyright: ignore[reportIncompatibleMethodOverride]
        """The task, of which no argument is a setting."""
        return COGNITIVE_TASKS[self.task]

    @property
    def task_name(self) -> str:
        return self.task
