"""The reference work in Feedbax, trained by its `TaskTrainer`; or its arm with six muscles."""

import argparse

import diffrax
import feedbax  # pyright: ignore[reportMissingImports]
import jax
import jax.numpy as jnp
import optax
from contestants import worker
from feedbax.bodies import SimpleFeedback  # pyright: ignore[reportMissingImports]
from feedbax.iterate import Iterator  # pyright: ignore[reportMissingImports]
from feedbax.mechanics import Mechanics  # pyright: ignore[reportMissingImports]
from feedbax.mechanics.muscle import (  # pyright: ignore[reportMissingImports]
    ActivationFilter,
    todorov_li_2004_virtualmuscle,
)
from feedbax.mechanics.plant import MuscledArm  # pyright: ignore[reportMissingImports]
from feedbax.mechanics.skeleton.arm import TwoLinkArm  # pyright: ignore[reportMissingImports]
from feedbax.nn import SimpleStagedNetwork  # pyright: ignore[reportMissingImports]
from feedbax.noise import Multiplicative, Normal  # pyright: ignore[reportMissingImports]
from feedbax.task import SimpleReaches  # pyright: ignore[reportMissingImports]
from feedbax.train import TaskTrainer  # pyright: ignore[reportMissingImports]
from feedbax.xabdeef.losses import simple_reach_loss  # pyright: ignore[reportMissingImports]
from feedbax.xabdeef.models import point_mass_nn  # pyright: ignore[reportMissingImports]


def muscled_arm(task, work: argparse.Namespace, *, key: jax.Array):
    """A network of gated units, sigmoid excitations, and the arm with six muscles by explicit Euler."""
    muscles = {
        "muscle_model": todorov_li_2004_virtualmuscle(),
        "activator": ActivationFilter(tau_act=0.05, tau_deact=0.05),
    }
    mechanics = Mechanics(MuscledArm(skeleton=TwoLinkArm(), **muscles), 0.01, solver_type=diffrax.Euler)
    feedback = {
        "where": lambda state: (
            state.plant.skeleton.angle,
            state.plant.skeleton.d_angle,
            state.effector.pos,
            state.effector.vel,
        ),
        "delay": 0,
        "noise_func": Normal(std=0.025),
    }
    network = SimpleStagedNetwork(
        SimpleFeedback.get_nn_input_size(task, mechanics, feedback_spec=feedback),
        work.units,
        out_size=mechanics.plant.input_size,
        out_nonlinearity=jax.nn.sigmoid,
        key=key,
    )
    noise = Multiplicative(Normal(std=0.05)) + Normal(std=0.002)
    body = SimpleFeedback(network, mechanics, feedback_spec=feedback, motor_noise_func=noise, key=key)
    return Iterator(body, work.steps + 1)


class NumPyWithoutNaN:
    """`jax.numpy` for Feedbax's loop over batches, which ends where a loss is not a number, as with arms.

    A batch takes as long with such numbers as without.
    """

    def __getattr__(self, name):
        return getattr(jnp, name)

    def isnan(self, values):
        return False


class CallbacksAtArrays(dict):
    """Callbacks by the number of the batch, which Feedbax looks up by an array; they wait for the batch."""

    def __contains__(self, batch):
        return super().__contains__(int(batch))

    def __getitem__(self, batch):
        jax.block_until_ready(jax.live_arrays())
        return super().__getitem__(int(batch))


def main() -> None:
    """Train, turn by turn."""
    work = worker.options()
    clock = worker.Clock()
    feedbax.train.jnp = NumPyWithoutNaN()
    half = 1.0 if work.body == "point-mass" else 0.1
    center = (0.0, 0.0) if work.body == "point-mass" else (0.0, 0.4)
    task = SimpleReaches(
        loss_func=simple_reach_loss(),
        workspace=tuple(tuple(c + sign * half for c in center) for sign in (-1, 1)),
        n_steps=work.steps + 1,  # counts the initial state
        eval_reach_length=0.5 * half,
    )
    if work.body == "point-mass":
        build, sizes = point_mass_nn, {"n_steps": work.steps + 1, "dt": 0.05, "hidden_size": work.units}
    else:
        build, sizes = muscled_arm, {"work": work}
    ensembled = work.members > 1
    if ensembled:
        model = feedbax.get_ensemble(build, task, n=work.members, key=jax.random.PRNGKey(0), **sizes)
    else:
        model = build(task, key=jax.random.PRNGKey(0), **sizes)
    n_batches = worker.n_batches(work)
    TaskTrainer(optax.inject_hyperparams(optax.adam)(1e-2), checkpointing=False)(
        task,
        model,
        n_batches,
        work.trials,
        lambda model: model.step.net,
        ensembled=ensembled,
        log_step=n_batches,
        disable_tqdm=True,
        batch_callbacks=CallbacksAtArrays(clock.callbacks(work)),
        key=jax.random.PRNGKey(1),
    )
    clock.turn_ends()


if __name__ == "__main__":
    main()
