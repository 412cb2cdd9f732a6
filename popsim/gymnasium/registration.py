"""The tasks of `popsim.tasks.TASKS` as registered environments of Gymnasium."""

import inspect
from typing import Any

import gymnasium

from popsim._shared.text_checks import suggestion
from popsim.experiments import EXPERIMENTS
from popsim.experiments.motor_experiment import AbstractMotorExperiment
from popsim.gymnasium.env import TaskEnv
from popsim.gymnasium.vector_env import TaskVectorEnv
from popsim.loss import Loss
from popsim.models.sensorimotor_loop import SensorimotorLoop
from popsim.randomness import seed_key
from popsim.schedules import LAST_BATCH
from popsim.task import AbstractTask
from popsim.tasks.library import TASKS, task_definition

__all__ = ["environment_id", "make_env", "make_vector_env", "register_environments"]

TOO_LONG = (
    " All copies are one environment, in which trials end by themselves; those of "
    'vectorization_mode="sync" are truncated by Gymnasium.'
)


def environment_id(name: str) -> str:
    """Return the id of a task of `popsim.tasks.TASKS`: "popsim/CenterOut-v0" for "center-out"."""
    return f"popsim/{''.join(word.capitalize() for word in name.split('-'))}-v0"


def register_environments() -> None:
    """Register every task of `popsim.tasks.TASKS` in Gymnasium.

    Importing `popsim.gymnasium` does so. Call it for tasks that `popsim.tasks.register_task` adds later.
    """
    for name in TASKS:
        if (env_id := environment_id(name)) not in gymnasium.registry:
            gymnasium.register(
                env_id,
                entry_point="popsim.gymnasium.registration:make_env",
                vector_entry_point="popsim.gymnasium.registration:make_vector_env",
                kwargs={"task": name},
            )


def make_env(
    *,
    task: str,
    loss: Loss | None = None,
    limits: tuple[float, float] | None = None,
    batch: int = LAST_BATCH,
    **settings: Any,
) -> TaskEnv:
    """Build the environment of a registered task.

    **Arguments:**

    - `task`: its name in `popsim.tasks.TASKS`.
    - `loss`, `limits`, `batch`: as for `TaskEnv`.
    - `settings`: those of its experiment where it has a body, such as `plant="arm26"`, else arguments of the
        task.
    """
    return TaskEnv(*_task_and_model(task, settings), loss=loss, limits=limits, batch=batch)


def make_vector_env(
    *,
    task: str,
    num_envs: int = 1,
    loss: Loss | None = None,
    limits: tuple[float, float] | None = None,
    batch: int = LAST_BATCH,
    **settings: Any,
) -> TaskVectorEnv:
    """Build copies of the environment of a registered task.

    **Arguments:**

    - `num_envs`: the number of copies.
    - others: as for `make_env`.
    """
    task_and_model = _task_and_model(task, settings)
    return TaskVectorEnv(*task_and_model, num_envs=num_envs, loss=loss, limits=limits, batch=batch)


def _task_and_model(name: str, settings: dict[str, Any]) -> tuple[AbstractTask, SensorimotorLoop | None]:
    """Return a task and, where it has a body, the model of its experiment."""
    kind = EXPERIMENTS[name]
    has_body = issubclass(kind, AbstractMotorExperiment)
    known = inspect.signature(kind if has_body else task_definition(name)).parameters
    takes_any = any(parameter.kind is parameter.VAR_KEYWORD for parameter in known.values())
    for setting in settings:
        if setting not in known and not takes_any:
            advice = TOO_LONG if setting == "max_episode_steps" else suggestion(setting, known)
            raise ValueError(
                f"`{setting}` must be a setting of {environment_id(name)}, {', '.join(known)}, got "
                f"{settings[setting]!r}.{advice}"
            )
    if not has_body:
        return TASKS[name](**settings), None
    experiment: Any = kind(**settings)
    return experiment.build_task(), experiment.build_model(key=seed_key(0))
