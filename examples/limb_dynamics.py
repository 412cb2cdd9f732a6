"""Answers to loads reflect the dynamics of the limb (after Kurtzer, Pruszynski & Scott 2008).

An arm holds a posture, and feels its joints 50 ms late. A step of torque on both joints can turn the elbow
alone at first. Whoever knows the limb answers with the shoulder, too, though it has not moved. Networks are
trained with steps in all directions. Their cost J, the ratios between the joints of their early answers, and
the size of these are compared with the best controller of `references/limb_dynamics.py`, which shares no code
with popsim. Other networks have an arm with a heavier forearm. They have to pass beside the optimum of their
own limb, and must miss that of the other one.

The nearest wrong model is inertia alone: the torques that would stop what has begun to turn. Its ratio of
shoulder to elbow is 27 % off, but that of elbow to shoulder is 8 % off, and would pass. A controller joint
by joint answers with the joint that moves alone. Prints the numbers, draws the figure, and exits with 1 when
a gate fails or a control passes.
"""

import dataclasses
import sys
import time

import equinox as eqx
import jax
import jax.numpy as jnp
import numpy as np
from jaxtyping import Array, Float, Key

import popsim
from command_line import parse_options
from figures.limb_dynamics import Answers, draw_figure
from gates import Row, exit_code, negative_controls, optimum_gate, print_table, tolerance_row, upper_bound_row
from network_training import train_networks, trials_under_torques
from popsim import plants
from popsim.analysis.optimal_control import linear_system
from popsim.interventions import JointTorque
from popsim.states import LoopState
from popsim.tasks import PosturalHold, WithInterventions, random_torques
from popsim.training import adam, cosine_decay
from popsim.windows import FromEvent
from references import limb_dynamics as reference
from references.limb_dynamics import Answer

HOLD = reference.Hold()
POSTURE = np.deg2rad([45.0, 90.0])
LOAD = 1.0  # N m
FOREARMS = {"arm26": 0.057, "heavier forearm": 3 * 0.057}  # kg m²
INERTIAS = {
    name: reference.inertia_matrix(reference.Limb(inertia=(0.051, forearm)), POSTURE[1])
    for name, forearm in FOREARMS.items()
}
N_UNITS, BATCH_SIZE, LEARNING_RATE, CLIP_NORM = 48, 16, 3e-3, 1.0
FULL, QUICK = (3, 1500), (1, 1000)  # networks of each limb, batches
DIRECTIONS = np.arange(8) * np.pi / 4
ALONE = {"shoulder / elbow": (0, 1), "elbow / shoulder": (1, 0)}  # the joint that stays, that which turns
GATES = {
    "J / J*": optimum_gate(1.05),
    "shoulder / elbow": (0.85, 1.15),
    "elbow / shoulder": (0.85, 1.15),
    "early size": (0.85, 1.1),
}


def build_arm(forearm: float | Array) -> plants.TwoLinkArm:
    """The skeleton of arm26, with a moment of inertia of the forearm (kg m²)."""
    arm = plants.TwoLinkArm.arm26_skeleton()
    return dataclasses.replace(arm, inertia=arm.inertia.at[1].set(forearm))


def posture_of(arm: plants.TwoLinkArm) -> Array:
    """Where the hand is (m) in the posture."""
    return arm.hand_position(jnp.asarray(POSTURE))


def joint_error(states: LoopState, trial: popsim.Trial, model: popsim.AbstractModel) -> Float[Array, ""]:
    """The squared angles from the posture, summed over the trial, in rad²."""
    return jnp.sum((states.plant.angle - POSTURE) ** 2)


def build_task() -> PosturalHold:
    """Holding the posture. The loss is 1e4 times J, whose gradients are smaller than the clip norm."""
    arm = build_arm(FOREARMS["arm26"])
    cost = popsim.FunctionTerm("joint error", joint_error) + HOLD.effort_weight * popsim.losses.Effort()
    return PosturalHold(
        arm.workspace,
        place=posture_of(arm),
        loss=1e4 * cost,
        hold=HOLD.onset * HOLD.dt,
        duration=HOLD.n_steps * HOLD.dt,
        dt=HOLD.dt,
    )


def build_ensemble(n_seeds: int, key: Key[Array, ""]) -> popsim.SensorimotorLoop:
    """Untrained networks, `n_seeds` of each limb."""
    sense = popsim.SensoryChannel(popsim.senses.joints, delay=HOLD.delay * HOLD.dt)
    felt = popsim.Scaling(np.r_[POSTURE, 0, 0], [0.002, 0.002, 0.02, 0.02])  # rad, rad/s
    task, channels = build_task(), {"joints": sense}
    scaling = {"target": popsim.Scaling(task.place, 0.1), "joints": felt}
    n_inputs = popsim.n_network_inputs(task.validation_trials(), build_arm(FOREARMS["arm26"]), channels)

    def build(key, forearm):
        arm = build_arm(forearm)
        network = popsim.networks.GRUNetwork(n_inputs, N_UNITS, arm.n_commands, key=key)
        loads = (JointTorque(),)
        return popsim.SensorimotorLoop(
            network, arm, channels, scaling=scaling, interventions=loads, dt=HOLD.dt
        )

    members = popsim.member_grid(n_seeds, forearm=[*FOREARMS.values()])
    return popsim.build_members(build, members, key=key)


def train(ensemble: popsim.SensorimotorLoop, n_batches: int, key: Key[Array, ""]) -> popsim.SensorimotorLoop:
    """The trained ensemble."""
    loads = random_torques(LOAD, window=FromEvent("pulse on"))
    optimizer = adam(cosine_decay(LEARNING_RATE, n_batches), clip_norm=CLIP_NORM)
    task = WithInterventions(build_task(), [loads])
    return train_networks(task, ensemble, optimizer, n_batches, BATCH_SIZE, key=key)


def tested_loads(limb: str) -> np.ndarray:
    """The loads (N m) that turn the elbow or the shoulder alone, and those in even directions."""
    alone = [reference.load_of_one_joint(INERTIAS[limb], turns, LOAD) for _, turns in ALONE.values()]
    even = LOAD * np.stack([np.cos(DIRECTIONS), np.sin(DIRECTIONS)], axis=1)
    return np.concatenate([alone, even])


def evaluate(ensemble: popsim.SensorimotorLoop, limb: str) -> list[Answer]:
    """What each network does in a limb, its own or the other one, under the loads of the test."""
    inertia = jnp.tile(build_arm(FOREARMS[limb]).inertia, (popsim.n_members(ensemble), 1))
    ensemble = eqx.tree_at(lambda model: model.plant.inertia, ensemble, inertia)
    task = build_task()
    trials = trials_under_torques(task, tested_loads(limb))
    states = popsim.evaluate_ensemble(ensemble, task, trials=trials, key=jax.random.key(0)).states
    commands, angles = np.asarray(states.command, float), np.asarray(states.plant.angle) - POSTURE
    return [reference.as_answer(HOLD, *member) for member in zip(commands, angles, strict=True)]


def play(limb: str, optimum: Answer) -> Answer:
    """The commands of the optimum on popsim's arm, which is not linear; the torques of loads are added."""
    arm, loads = build_arm(FOREARMS[limb]), tested_loads(limb)
    torques = optimum.commands + (np.arange(HOLD.n_steps) >= HOLD.onset)[:, None] * loads[:, None]
    start = arm.rest_state(posture_of(arm))

    def move(torques: Array) -> Array:
        return plants.simulate_plant(arm, torques, initial_state=start, dt=HOLD.dt).state.angle

    angles = np.asarray(jax.vmap(move)(jnp.asarray(torques))) - POSTURE
    return reference.as_answer(HOLD, optimum.commands, angles)


def check_dynamics(limb: str) -> None:
    """Assert that popsim's arm, at rest in the posture, has the A and B of the reference."""
    arm = build_arm(FOREARMS[limb])
    system = linear_system(arm, arm.rest_state(posture_of(arm)), np.zeros(2), dt=HOLD.dt)
    A, B = reference.dynamics(INERTIAS[limb], HOLD.dt)
    np.testing.assert_allclose(system.A, A, rtol=0, atol=1e-6)
    np.testing.assert_allclose(system.B, B, rtol=1e-5)


def measures(answer: Answer) -> dict[str, float]:
    """The cost J in even directions (rad²), the ratios of early commands, and their size (N m)."""
    early = reference.early(HOLD, answer.commands)
    ratios = {
        name: early[i, stays] / early[i, turns] for i, (name, (stays, turns)) in enumerate(ALONE.items())
    }
    size = np.linalg.norm(early[len(ALONE) :], axis=-1).mean()
    return {"J / J*": answer.costs[len(ALONE) :].mean(), **ratios, "early size": size}


def rows_of(label: str, member: str, answer: Answer, optimum: Answer, names=tuple(GATES)) -> list[Row]:
    """The rows of one controller, of some of its measures, beside the optimum."""
    found, best = measures(answer), measures(optimum)
    return [Row(f"{label}, {name}", member, found[name], best[name], gate=GATES[name]) for name in names]


def optimum_rows(limb: str, optimum: Answer) -> list[Row]:
    """What the optimum does on popsim's arm, and how far joints turn before they can be answered."""
    played = play(limb, optimum)
    costs, best = measures(played)["J / J*"], measures(optimum)["J / J*"]
    stays, turns = np.abs(played.angles[0, HOLD.onset + HOLD.delay])
    return [
        tolerance_row(f"{limb}, optimum on the arm, J", "", costs, best, 0.01),
        upper_bound_row(f"{limb}, unanswered, shoulder / elbow", "", stays / turns, 0.05),
    ]


def answer_by_joint(limb: str) -> Answer:
    """What a controller does that takes the joints for independent of each other."""
    inertia = INERTIAS[limb]
    return reference.answer(HOLD, inertia, tested_loads(limb), believed=np.diag(np.diag(inertia)))


def model_rows(limb: str, optimum: Answer, by_joint: Answer) -> list[Row]:
    """The wrong models: a controller joint by joint, and inertia alone."""
    inertia, best = INERTIAS[limb], measures(optimum)
    controls = rows_of(f"{limb}, joint by joint", "", by_joint, optimum, tuple(ALONE))
    alone = [
        Row(f"{limb}, inertia alone, {name}", "", inertia[joints] / inertia[joints[1], joints[1]], best[name])
        for name, joints in ALONE.items()
    ]
    nearest = dataclasses.replace(alone[0], gate=GATES["shoulder / elbow"])
    return [*negative_controls([*controls, nearest]), alone[1]]


def network_rows(
    limb: str, optimum: Answer, trained: list[Answer], untrained: list[Answer], own: range
) -> list[Row]:
    """The rows of all networks in a limb: those that learned it, and the others, which must miss."""
    rows, controls = [], []
    for number, (after, before) in enumerate(zip(trained, untrained, strict=True)):
        if number in own:
            rows += rows_of(limb, str(number), after, optimum)
            names = ("J / J*", "early size")
            controls += rows_of(f"{limb}, untrained", str(number), before, optimum, names)
        else:
            names = ("J / J*", "elbow / shoulder")
            controls += rows_of(f"{limb}, learned the other", str(number), after, optimum, names)
    return rows + negative_controls(controls)


def main() -> int:
    """Train networks of both limbs, test them in both, print the table, draw the figure."""
    short = f"{QUICK[0]} network of each limb, {QUICK[1]} batches"
    options = parse_options(__file__, __doc__ or "", short_form=short)
    n_seeds, n_batches = QUICK if options.quick else FULL
    key, began = jax.random.key(options.seed), time.perf_counter()
    untrained = build_ensemble(n_seeds, popsim.key_stream(key, "networks"))
    trained = train(untrained, n_batches, popsim.key_stream(key, "training"))
    seconds = time.perf_counter() - began
    print(f"{n_seeds} networks of each limb, {n_batches} batches: {seconds:.0f} s", flush=True)
    rows, answers = [], {}
    for number, limb in enumerate(FOREARMS):
        check_dynamics(limb)
        optimum = reference.answer(HOLD, INERTIAS[limb], tested_loads(limb))
        by_joint, after = answer_by_joint(limb), evaluate(trained, limb)
        own = range(number * n_seeds, (number + 1) * n_seeds)
        rows += network_rows(limb, optimum, after, evaluate(untrained, limb), own)
        rows += [*optimum_rows(limb, optimum), *model_rows(limb, optimum, by_joint)]
        answers[limb] = Answers(optimum, by_joint, [after[member] for member in own])
    print_table(rows, "found", "optimum")
    print(*draw_figure(options.out, rows, answers["arm26"], HOLD), sep="\n")
    return exit_code(rows)


if __name__ == "__main__":
    sys.exit(main())
