"""The reference work in popsim, trained by a `TaskTrainer`."""

import argparse
from typing import Any

import diffrax
import equinox as eqx
import jax
import jax.numpy as jnp
from contestants import worker

import popsim
from popsim import losses, networks, plants, tasks
from popsim.training import TaskTrainer, adam

EXCITATION = {"output_fn": jax.nn.sigmoid, "output_bias": -3.0}


class ReferenceReaches(popsim.AbstractTask):
    """Reaches between two points of the workspace; the network is told the target's position and velocity."""

    workspace: popsim.Workspace
    n_steps: int
    dt: float
    loss: popsim.Loss = eqx.field(
        default_factory=lambda: (
            losses.PositionError()
            + losses.FinalVelocity()
            + 1e-5 * losses.Effort()
            + 1e-5 * losses.HiddenActivity()
        )
    )

    def trial(self, *, batch, key):
        start, target = (self.workspace.sample(key=k) for k in jax.random.split(key))
        trial = tasks.reach_trial(start, target, n_steps=self.n_steps, dt=self.dt)
        inputs = {"target": jnp.concatenate([trial.targets.position, trial.targets.velocity], axis=-1)}
        return eqx.tree_at(lambda t: t.inputs, trial, inputs)

    def validation_trials(self):
        return jax.vmap(lambda key: self.trial(batch=0, key=key))(jax.random.split(jax.random.key(0), 2))


def reference_work(work: argparse.Namespace) -> tuple[ReferenceReaches, Any]:
    """The task of a work, and its model, or ensemble if there are several members."""
    channels = {"seen": popsim.SensoryChannel(popsim.vision, noise=popsim.GaussianNoise(0.025))}
    if work.body == "point-mass":
        workspace = popsim.Workspace(jnp.full(2, -1.0), jnp.full(2, 1.0))
        plant = plants.PointMass(1.0, workspace=workspace, solver=diffrax.Euler())
        dt, noise, output = 0.05, popsim.MotorNoise(0.025, 0.045), {}
    else:
        plant = plants.arm26()
        channels["felt"] = popsim.SensoryChannel(popsim.proprioception, noise=popsim.GaussianNoise(0.025))
        dt, noise, output = 0.01, popsim.MotorNoise(0.05, 0.002), EXCITATION
    task = ReferenceReaches(workspace=plant.workspace, n_steps=work.steps, dt=dt)
    n_inputs = popsim.n_network_inputs(task.validation_trials(), plant, channels)

    def build(key):
        network = networks.GRUNetwork(n_inputs, work.units, plant.n_commands, key=key, **output)
        return popsim.SensorimotorLoop(network, plant, channels, noise, dt=dt)

    if work.members == 1:
        return task, build(jax.random.key(0))
    return task, popsim.make_ensemble(build, work.members, key=jax.random.key(0))


def _peak_of_device() -> float | None:
    """The peak memory of an accelerator in MB; None without one."""
    stats = jax.local_devices()[0].memory_stats()
    return None if stats is None else stats["peak_bytes_in_use"] / 1e6


def main() -> None:
    """Train, turn by turn."""
    work = worker.options()
    if work.devices > 1:
        jax.config.update("jax_num_cpu_devices", work.devices)
    on_device = _peak_of_device() is not None
    clock = worker.Clock((lambda: _peak_of_device() or 0.0) if on_device else None)
    task, model = reference_work(work)
    trainer = TaskTrainer(adam(1e-2), devices=jax.local_devices() if work.devices > 1 else None)
    n_batches = worker.n_batches(work)
    trainer(
        task,
        model,
        n_batches,
        work.trials,
        lambda model: model.network,
        ensembled=work.members > 1,
        log_step=n_batches,
        disable_tqdm=True,
        batch_callbacks=clock.callbacks(work),
        key=jax.random.key(1),
    )
    clock.turn_ends()


if __name__ == "__main__":
    main()
