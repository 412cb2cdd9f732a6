"""Muscles are used most in other directions than those in which they pull (after Kurtzer et al. 2006).

An arm with six muscles, two of which cross both joints, holds a posture against torques in 24 directions.
Networks are trained to keep the hand in place with little activation. The direction of torque in which they
use each muscle most is compared with that of the least activation that balances the load: the quadratic
programme of `references/muscle_directions.py`, which shares no code with popsim. The muscles that cross both
joints are three times as strong as in MotorNet. With MotorNet's own strengths the programme is 8 degrees from
anatomy in the mean, too little to tell.

The nearest wrong model is anatomy: each muscle used most in the direction of its own torque, 21 degrees off
in the mean. It must miss, and so must the programme of a stretched arm. Other networks have an arm whose
muscles that cross both joints have next to no strength. The other four have to follow the programme of that
arm, which is anatomy, and must miss that of the full arm. Prints the numbers, draws the figure, and exits
with 1 when a gate fails or a control passes.
"""

import dataclasses
import sys
import time

import jax
import jax.numpy as jnp
import numpy as np
from jaxtyping import Array, Key

import popsim
from command_line import parse_options
from figures.muscle_directions import draw_figure
from gates import Row, at_least_row, exit_code, negative_controls, optimum_gate, print_table, upper_bound_row
from network_training import train_networks, trials_under_torques
from popsim import plants
from popsim.analysis.neural_activity import cosine_tuning
from popsim.ensemble import Members
from popsim.interventions import JointTorque
from popsim.losses import MuscleActivation, PositionError, PowerProfile
from popsim.tasks import PosturalHold, WithInterventions, random_torques
from popsim.training import adam, cosine_decay
from popsim.windows import FromEvent
from references import muscle_directions as reference

DIRECTIONS = np.arange(24) * np.pi / 12
LOAD = 2.0  # N m
TORQUES = LOAD * np.stack([np.cos(DIRECTIONS), np.sin(DIRECTIONS)], axis=1)  # asked for, against the load
POSTURE, STRETCHED = tuple(np.deg2rad([45.0, 90.0])), tuple(np.deg2rad([10.0, 15.0]))
PLACE = plants.TwoLinkArm.arm26_skeleton().hand_position(jnp.asarray(POSTURE))  # m
STRENGTHS = {"full arm": 3.0, "four muscles": 1e-3}  # of the muscles that cross both joints
DT, DURATION, ONSET, DELAY = 0.01, 0.8, 0.1, 0.02  # s
LATE_STEPS = 10  # the last ones, in which activations are measured
N_UNITS, TAU, BATCH_SIZE, LEARNING_RATE, CLIP_NORM = 64, 0.05, 16, 3e-3, 1.0
FULL, QUICK = (3, 1000), (1, 800)  # networks of each arm, batches
MEAN_ERROR, LARGEST_ERROR, CORRELATION = 8.0, 16.0, 0.9  # degrees, degrees, 1
END_ERROR, ACTIVATION = 1.0, 1.8  # mm; relative to the programme


def build_arm(biarticular: float | Array) -> plants.MusculoskeletalPlant:
    """arm26, with a strength of the muscles that cross both joints relative to MotorNet's."""
    arm = plants.arm26()
    force = arm.muscle.max_isometric_force.at[reference.N_MONOARTICULAR :].multiply(biarticular)
    return dataclasses.replace(arm, muscle=dataclasses.replace(arm.muscle, max_isometric_force=force))


def build_task() -> PosturalHold:
    """Holding the hand in place, late above all, with little activation."""
    return PosturalHold(
        plants.arm26().workspace,
        place=PLACE,
        loss=1e3 * PositionError(profile=PowerProfile(4.0)) + 0.2 * MuscleActivation(),
        hold=ONSET,
        duration=DURATION,
        dt=DT,
    )


def build_ensemble(members: Members, key: Key[Array, ""]) -> popsim.SensorimotorLoop:
    """Untrained networks, which sense the stretch of the muscles."""
    task, arm = build_task(), plants.arm26()
    channels = {"stretch": popsim.SensoryChannel(popsim.senses.muscle_stretch, delay=DELAY)}
    fibre, n = arm.muscles(arm.rest_state(PLACE)).fibre_length, arm.n_commands
    felt = popsim.Scaling(np.r_[fibre, np.zeros(n)], np.r_[np.full(n, 0.05), np.full(n, 0.5)])
    scaling = {"target": popsim.Scaling(PLACE, 0.1), "stretch": felt}
    n_inputs = popsim.n_network_inputs(task.validation_trials(), arm, channels)

    def build(key, biarticular):
        network = popsim.networks.LeakyRNN(
            n_inputs, N_UNITS, n, tau=TAU, dt=DT, output_fn=jax.nn.sigmoid, output_bias=-4.0, key=key
        )
        body, loads = build_arm(biarticular), (JointTorque(),)
        return popsim.SensorimotorLoop(network, body, channels, scaling=scaling, interventions=loads, dt=DT)

    return popsim.build_members(build, members, key=key)


def train(ensemble: popsim.SensorimotorLoop, n_batches: int, key: Key[Array, ""]) -> popsim.SensorimotorLoop:
    """The ensemble, trained against loads in all directions."""
    loads = random_torques(LOAD, window=FromEvent("pulse on"))
    optimizer = adam(cosine_decay(LEARNING_RATE, n_batches), clip_norm=CLIP_NORM)
    task = WithInterventions(build_task(), [loads])
    return train_networks(task, ensemble, optimizer, n_batches, BATCH_SIZE, key=key)


def evaluate(ensemble: popsim.SensorimotorLoop) -> tuple[np.ndarray, np.ndarray]:
    """Late activations [member, direction, muscle] under the loads, and how far the hand is in the end (mm).

    The second is the mean over the directions, [member].
    """
    task = build_task()
    trials = trials_under_torques(task, -TORQUES)
    states = popsim.evaluate_ensemble(ensemble, task, trials=trials, key=jax.random.key(0)).states
    activations = np.asarray(states.plant.activation, float)[:, :, -LATE_STEPS:].mean(axis=2)
    ends = np.asarray(states.hand.position[:, :, -1] - PLACE, float)
    return activations, 1000 * np.linalg.norm(ends, axis=-1).mean(axis=1)


def check_arm(arm: reference.Arm) -> None:
    """Assert that popsim's arm, at rest in the posture, has the torque per activation of the reference."""
    body = build_arm(arm.biarticular)
    rest = body.rest_state(PLACE)

    def torque(activation: Array) -> Array:
        readings = body.muscles(dataclasses.replace(rest, activation=activation))
        return -readings.moment_arms.T @ readings.force

    passive, alone = torque(jnp.zeros(body.n_commands)), jax.vmap(torque)(jnp.eye(body.n_commands))
    np.testing.assert_allclose((alone - passive).T, arm.torque_per_activation, rtol=1e-5, atol=1e-5)
    np.testing.assert_allclose(passive, arm.passive_torque, rtol=1e-5, atol=1e-5)


def preferred(activations: np.ndarray) -> np.ndarray:
    """The direction of torque [muscle] (rad) in which each muscle is used most."""
    return cosine_tuning(activations, DIRECTIONS).preferred


def direction_rows(label: str, member: str, found: np.ndarray, expected: np.ndarray) -> list[Row]:
    """How far the preferred directions (rad) of a network are from others, in the mean and at most."""
    errors = reference.angles_between(found, expected)
    return [
        upper_bound_row(f"{label}, mean error (deg)", member, errors.mean(), MEAN_ERROR),
        upper_bound_row(f"{label}, largest error (deg)", member, errors.max(), LARGEST_ERROR),
    ]


def own_rows(label: str, member: str, activations: np.ndarray, least: np.ndarray, end: float) -> list[Row]:
    """A network beside the programme of its own arm, by the activations [direction, muscle] of both."""
    correlation = np.corrcoef(activations.ravel(), least.ravel())[0, 1]
    squares = [float(np.sum(each**2, axis=1).mean()) for each in (activations, least)]
    expected = reference.preferred_directions(least, DIRECTIONS)
    return [
        *direction_rows(label, member, preferred(activations), expected),
        at_least_row(f"{label}, correlation", member, correlation, CORRELATION),
        Row(f"{label}, sum of squares", member, *squares, gate=optimum_gate(ACTIVATION)),
        upper_bound_row(f"{label}, end error (mm)", member, end, END_ERROR),
    ]


def network_rows(name: str, activations: np.ndarray, ends: np.ndarray, arm: reference.Arm) -> list[Row]:
    """The rows of all networks with an arm, and their controls.

    Where the muscles that cross both joints have next to no strength, the other four are compared.
    """
    n_muscles = len(reference.MUSCLES) if name == "full arm" else reference.N_MONOARTICULAR
    activations, least = activations[..., :n_muscles], reference.least_activation(arm, TORQUES)[:, :n_muscles]
    rows, controls = [], []
    for number, (activation, end) in enumerate(zip(activations, ends, strict=True)):
        rows += own_rows(name, str(number), activation, least, float(end))
        for other, expected in wrong_directions(name).items():
            found = preferred(activation)
            controls.append(direction_rows(f"{name}, {other}", str(number), found, expected[:n_muscles])[0])
    return rows + negative_controls(controls)


def wrong_directions(name: str) -> dict[str, np.ndarray]:
    """Preferred directions [muscle] (rad) that networks with an arm must not have."""
    full, stretched = (reference.Arm(posture, STRENGTHS["full arm"]) for posture in (POSTURE, STRETCHED))
    of_full, of_stretched = (
        reference.preferred_directions(reference.least_activation(arm, TORQUES), DIRECTIONS)
        for arm in (full, stretched)
    )
    if name == "full arm":
        return {"anatomy": reference.anatomical_directions(full), "stretched arm": of_stretched}
    return {"programme of the full arm": of_full}


def main() -> int:
    """Train networks with both arms, test them, print the table, draw the figure."""
    options = parse_options(__file__, __doc__ or "", short_form="one network with each arm")
    n_seeds, n_batches = QUICK if options.quick else FULL
    members = popsim.member_grid(n_seeds, biarticular=[*STRENGTHS.values()])
    key, began = jax.random.key(options.seed), time.perf_counter()
    ensemble = build_ensemble(members, popsim.key_stream(key, "networks"))
    activations, ends = evaluate(train(ensemble, n_batches, popsim.key_stream(key, "training")))
    print(f"trained and tested in {time.perf_counter() - began:.0f} s", flush=True)
    activations, ends = members.group((activations, ends), axis=0)
    rows = []
    for number, (name, strength) in enumerate(STRENGTHS.items()):
        arm = reference.Arm(POSTURE, strength)
        check_arm(arm)
        rows += network_rows(name, activations[number], ends[number], arm)
    print_table(rows, "found", "reference")
    full = reference.Arm(POSTURE, STRENGTHS["full arm"])
    print(*draw_figure(options.out, rows, activations[0], full, DIRECTIONS, TORQUES), sep="\n")
    return exit_code(rows)


if __name__ == "__main__":
    sys.exit(main())
