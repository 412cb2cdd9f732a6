"""Environment steps a second: one environment, copies stepped together, and members within one program.

All do the same task, on one core, taking turns. `TaskEnv` is stepped in a loop, as any environment of
Gymnasium; `SyncVectorEnv` is Gymnasium's own loop over copies; `TaskVectorEnv` steps them in one compiled
call; `evaluate_ensemble` runs networks that act in as many trials, for each of several members. Those of
Gymnasium get random actions, drawn before. Ratios are to the loop over one environment, turn by turn.
"""

import argparse
import os
import statistics
import time
from collections.abc import Callable
from typing import Any

os.sched_setaffinity(0, {min(os.sched_getaffinity(0))})  # before JAX starts its threads

import equinox as eqx  # noqa: E402
import jax  # noqa: E402
import jax.numpy as jnp  # noqa: E402
import numpy as np  # noqa: E402
from gymnasium.vector import SyncVectorEnv  # noqa: E402

import popsim  # noqa: E402
from popsim.environment import AbstractEnvironment, Discrete, Outcome  # noqa: E402
from popsim.experiments import EXPERIMENTS  # noqa: E402
from popsim.gymnasium import TaskEnv, TaskVectorEnv  # noqa: E402
from popsim.policies import Categorical  # noqa: E402

Run = Callable[[], int]
"""Runs for a while and returns how many environment steps it took."""


class Bandit(AbstractEnvironment):
    """Two arms; what was chosen and won is shown."""

    probabilities: jax.Array

    @property
    def actions(self) -> Discrete:
        return Discrete(2)

    def init(self, *, key):
        return (), {"chosen": jnp.zeros(2), "won": jnp.zeros(1)}

    def step(self, state, action, *, key):
        chosen = jax.nn.one_hot(action, 2)
        won = jax.random.bernoulli(key, jnp.sum(chosen * self.probabilities)).astype(float)
        return state, Outcome({"chosen": chosen, "won": won[None]}, won, jnp.array(False))


def no_loss(states, trial, model):
    """The loss of a task that is not trained."""
    return jnp.zeros(())


class BanditTask(popsim.AbstractTask):
    """Bandits of 100 choices."""

    loss: popsim.Loss = eqx.field(default_factory=lambda: popsim.FunctionTerm("none", no_loss) * 1.0)

    def trial(self, *, batch, key):
        timeline = popsim.Timeline(1.0, 100, epochs={"choices": jnp.array([0, 100])})
        return popsim.Trial((), (), (), timeline, environment=Bandit(jax.random.uniform(key, (2,))))

    def validation_trials(self):
        return jax.vmap(lambda key: self.trial(batch=0, key=key))(jax.random.split(jax.random.key(0), 64))


def bandit():
    """The bandit; a function that builds a network for it, and the model for an agent."""
    task = BanditTask()

    def build(key):
        network = popsim.networks.GRUNetwork(3, 48, 3, key=key)
        return popsim.NetworkModel(network, policy=Categorical(2, critic=True), dt=1.0)

    return task, build, None


def center_out():
    """Reaches of a two-link arm, as the registered environment has them."""
    build_experiment: Any = EXPERIMENTS["center-out"]
    experiment = build_experiment(n_units=48)
    task = experiment.build_task()

    def build(key):
        return experiment.build_model(key=key)

    return task, build, build(jax.random.key(0))


TASKS = {"bandit": bandit, "center-out": center_out}


def gymnasium_loop(env: TaskEnv, n_steps: int) -> Run:
    """A loop over one environment."""
    env.action_space.seed(0)
    actions = [env.action_space.sample() for _ in range(n_steps)]
    env.reset(seed=0)

    def run() -> int:
        for action in actions:
            if env.step(action)[2]:
                env.reset()
        return n_steps

    return run


def vector_loop(envs: TaskVectorEnv | SyncVectorEnv, n_steps: int) -> Run:
    """A loop over steps of all copies."""
    envs.action_space.seed(0)
    actions = [envs.action_space.sample() for _ in range(n_steps)]
    envs.reset(seed=0)

    def run() -> int:
        for action in actions:
            envs.step(action)
        return n_steps * envs.num_envs

    return run


def members(task: popsim.AbstractTask, build: Callable, n_copies: int, n_members: int) -> Run:
    """Networks that act in the trials of as many environments, member by member."""
    ensemble = popsim.make_ensemble(build, n_members, key=jax.random.key(0))
    keys = jax.random.split(jax.random.key(1), n_copies)
    trials = jax.vmap(lambda key: task.trial(batch=0, key=key))(keys)
    n_steps = trials.timeline.n_steps * n_copies * n_members

    def run() -> int:
        evaluation = popsim.evaluate_ensemble(ensemble, task, trials=trials, key=jax.random.key(2))
        jax.block_until_ready(evaluation.losses.total)
        return n_steps

    return run


def steps_a_second(run: Run, seconds: float) -> float:
    """Run again and again for some time."""
    n_steps, began = 0, time.perf_counter()
    while (spent := time.perf_counter() - began) < seconds:
        n_steps += run()
    return n_steps / spent


def measure(name: str, arguments: argparse.Namespace) -> None:
    """Take turns, and print the median of each and of its ratios to the loop over one environment."""
    task, build, model = TASKS[name]()
    n_copies = arguments.copies
    copies = SyncVectorEnv([lambda: TaskEnv(task, model) for _ in range(arguments.gymnasium_copies)])
    together = TaskVectorEnv(task, model, num_envs=n_copies)
    runs = {
        "TaskEnv, a loop": gymnasium_loop(TaskEnv(task, model), 100),
        f"SyncVectorEnv of {arguments.gymnasium_copies}": vector_loop(copies, 100),
        "TaskVectorEnv of 1": vector_loop(TaskVectorEnv(task, model, num_envs=1), 100),
        f"TaskVectorEnv of {n_copies}": vector_loop(together, 100),
        f"evaluate_ensemble, {n_copies} x {arguments.members} members": members(
            task, build, n_copies, arguments.members
        ),
    }
    for run in runs.values():
        run()
    turns = [
        [steps_a_second(run, arguments.seconds) for run in runs.values()] for _ in range(arguments.turns)
    ]
    speeds = np.array(turns)
    ratios = speeds / speeds[:, :1]
    print(f"\n{name}: environment steps a second, and times a loop over one environment")
    for index, label in enumerate(runs):
        speed, ratio = statistics.median(speeds[:, index]), statistics.median(ratios[:, index])
        print(f"{label:40} {speed:12,.0f} {ratio:10,.1f}", flush=True)


def main() -> None:
    """Measure each task."""
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--tasks", nargs="+", choices=TASKS, default=list(TASKS))
    parser.add_argument("--copies", type=int, default=64)
    parser.add_argument("--gymnasium-copies", type=int, default=4, help="those of Gymnasium's own loop")
    parser.add_argument("--members", type=int, default=16)
    parser.add_argument("--turns", type=int, default=5)
    parser.add_argument("--seconds", type=float, default=2.0, help="of each in each turn")
    arguments = parser.parse_args()
    for name in arguments.tasks:
        measure(name, arguments)


if __name__ == "__main__":
    main()
