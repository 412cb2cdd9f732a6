"""What is sensed rotates, with and without recurrence, and muscles do not (after Kalidindi et al. 2021).

Networks hold the hand of an arm with six muscles at one place against loads of the joints. Recurrent
networks are compared with networks whose units have no recurrent connections. From 50 to 400 ms after a load
the sensory feedback follows linear dynamics that are mostly a rotation, in both kinds of network, and so do
the units of recurrent networks. So rotations of units are no sign of a generator of patterns within the
network: what is sensed has them, too. Joints and muscles are the nearest wrong model: they hardly rotate.
Untrained networks and shuffled times must miss, too. The fits are compared with
`references/feedback_rotations.py`, which shares no code with popsim. Prints the numbers, draws the figure,
and exits with 1 when a gate fails or a negative control passes.
"""

import sys
import time

import jax
import numpy as np
import optax

import popsim
from command_line import parse_options
from figures.feedback_rotations import draw_figure
from gates import Row, at_least_row, exit_code, negative_controls, print_table, tolerance_row
from network_training import train_networks, trials_under_torques
from popsim import losses, tasks
from popsim.analysis import neural_activity
from popsim.interventions import JointTorque
from popsim.training import adam
from popsim.windows import FromEvent
from references import feedback_rotations as reference

N_UNITS, BATCH_SIZE, RATE = 64, 16, 3e-3
SIZES, QUICK_SIZES = (3, 500), (2, 400)  # networks of each kind, batches
DT, DURATION, LOAD_AT = 0.01, 0.8, 0.2  # s
LOAD, N_LOADS = 1.0, 8  # N m; directions of the torques of shoulder and elbow
WINDOW = slice(25, 60)  # steps: from 50 to 400 ms after the load
N_COMPONENTS, SOFTNESS = 4, 0.05
LEAST_FIT, LEAST_SHARE, LEAST_ROTATION = 0.75, 0.55, 0.45
SIGNALS = ("units", "feedback", "joints", "muscles")
KINDS = {"recurrent": 0.9, "without recurrence": 0.0}  # the gain of recurrent weights


def build_task(arm: popsim.plants.AbstractPlant) -> tasks.PosturalHold:
    """Hold the hand at the centre of the workspace."""
    loss = 10 * losses.PositionError(profile=losses.InWindow())
    loss = loss + 1e-4 * losses.MuscleActivation() + 1e-7 * losses.HiddenActivity()
    times = {"hold": LOAD_AT, "duration": DURATION, "dt": DT}
    return tasks.PosturalHold(arm.workspace, place=arm.workspace.center, loss=loss, **times)


def build_ensemble(
    arm: popsim.plants.MusculoskeletalPlant, task: tasks.PosturalHold, gain: float, n: int, key: jax.Array
) -> popsim.SensorimotorLoop:
    """Untrained networks that see the hand after 70 ms and feel the muscles after 20 ms."""
    channels = {
        "proprioception": popsim.SensoryChannel(popsim.proprioception, 0.02),
        "vision": popsim.SensoryChannel(popsim.vision, 0.07),
    }
    place = np.asarray(arm.workspace.center)
    lengths = np.asarray(arm.muscles(arm.rest_state(arm.workspace.center)).fibre_length)
    scaling = {
        "proprioception": popsim.Scaling(np.append(lengths, np.zeros(6)), np.repeat([0.1, 1.0], 6)),
        "vision": popsim.Scaling(np.append(place, [0, 0]), [0.05, 0.05, 0.3, 0.3]),
        "target": popsim.Scaling(place, 0.05),
    }
    n_inputs = popsim.n_network_inputs(task.validation_trials(), arm, channels)
    excitation = {"output_fn": jax.nn.sigmoid, "output_bias": -3.0}

    def build(key):
        sizes = n_inputs, N_UNITS, arm.n_commands
        network = popsim.networks.LeakyRNN(*sizes, tau=0.02, dt=DT, gain=gain, key=key, **excitation)
        torque = (JointTorque(),)
        return popsim.SensorimotorLoop(network, arm, channels, scaling=scaling, interventions=torque, dt=DT)

    return popsim.make_ensemble(build, n, key=key)


def train(
    task: tasks.PosturalHold, ensemble: popsim.SensorimotorLoop, gain: float, n_batches: int, key: jax.Array
) -> popsim.SensorimotorLoop:
    """The trained ensemble; without recurrence the recurrent weights stay zero."""

    def where_train(model):
        network = model.network
        return network if gain else (network.input_weights, network.bias, network.readout)

    loads = tasks.random_torques(LOAD, window=FromEvent("pulse on"))
    optimizer = adam(optax.cosine_decay_schedule(RATE, n_batches, alpha=0.05), clip_norm=1.0)
    loaded = tasks.WithInterventions(task, [loads])
    return train_networks(
        loaded, ensemble, optimizer, n_batches, BATCH_SIZE, where_train=where_train, key=key
    )


def test(
    ensemble: popsim.SensorimotorLoop, task: tasks.PosturalHold
) -> tuple[dict[str, np.ndarray], np.ndarray]:
    """Signals [member, load, time, signal] by name, and how far each trial ends from its place (m)."""
    angles = 2 * np.pi * np.arange(N_LOADS) / N_LOADS
    torques = LOAD * np.stack([np.cos(angles), np.sin(angles)], axis=1)
    trials = trials_under_torques(task, torques)
    states = popsim.evaluate_ensemble(ensemble, task, trials=trials, key=jax.random.key(0)).states
    skeleton = states.plant.skeleton
    signals = {
        "units": popsim.networks.unit_activity(ensemble, states),
        "feedback": np.concatenate([states.feedback[name] for name in sorted(states.feedback)], axis=-1),
        "joints": np.concatenate([skeleton.angle, skeleton.velocity], axis=-1),
        "muscles": states.plant.activation,
    }
    ends = states.hand.position[:, :, -1] - trials.targets.position[:, -1]
    signals = {name: np.asarray(values, float) for name, values in signals.items()}
    return signals, np.linalg.norm(ends, axis=-1)


def fit(values: np.ndarray) -> neural_activity.Rotations:
    """The rotations of each member in the window; `values` are one signal."""
    inside = values[:, :, WINDOW]
    scaled = neural_activity.soft_normalize(inside, constant=SOFTNESS * float(np.ptp(inside)))
    centered = neural_activity.subtract_condition_mean(scaled)
    return neural_activity.rotations(centered, dt=DT, n_components=N_COMPONENTS)


def reference_rows(kind: str, name: str, values: np.ndarray, found: neural_activity.Rotations) -> list[Row]:
    """The fits of the first member beside those of the reference."""
    inside = values[:, :, WINDOW]
    prepared = reference.prepare(inside[0], SOFTNESS * float(np.ptp(inside)))
    skew, free = reference.rotation_fit(prepared, N_COMPONENTS)
    return [
        tolerance_row(f"{kind}, {name}, r² of a rotation", "0", found.r2_skew[0], skew, 1e-5),
        tolerance_row(f"{kind}, {name}, r² of any M", "0", found.r2_full[0], free, 1e-5),
    ]


def rotation_rows(kind: str, fits: dict[str, neural_activity.Rotations], names: tuple[str, ...]) -> list[Row]:
    """Gates of the signals in `names`: how much of their change rotations explain, by themselves."""
    return [
        at_least_row(f"{kind}, {name}, r² of a rotation", member, explained, LEAST_ROTATION)
        for name in names
        for member, explained in enumerate(fits[name].r2_skew)
    ]


def share_rows(kind: str, fits: dict[str, neural_activity.Rotations], names: tuple[str, ...]) -> list[Row]:
    """Gates of the share of rotations in linear dynamics, and of how well these fit the feedback."""
    rows = []
    for name in names:
        for member, share in enumerate(fits[name].r2_skew / fits[name].r2_full):
            rows.append(at_least_row(f"{kind}, {name}, share of rotation", member, share, LEAST_SHARE))
    fitted = enumerate(fits["feedback"].r2_full)
    return rows + [at_least_row(f"{kind}, feedback, r² of any M", i, value, LEAST_FIT) for i, value in fitted]


def shuffle_times(signals: dict[str, np.ndarray], seed: int) -> dict[str, np.ndarray]:
    """The signals in the window, at the same random order of times in all trials."""
    order = np.random.default_rng(seed).permutation(np.arange(WINDOW.start, WINDOW.stop))
    shuffled = {name: values.copy() for name, values in signals.items()}
    for name, values in signals.items():
        shuffled[name][:, :, WINDOW] = values[:, :, order]
    return shuffled


def run(kind: str, n_members: int, n_batches: int, seed: int) -> tuple[list[Row], dict[str, np.ndarray]]:
    """Train and test one kind of network: its rows and those of its controls, and the signals."""
    key, gain = popsim.key_stream(jax.random.key(seed), kind), KINDS[kind]
    arm = popsim.plants.arm26()
    task = build_task(arm)
    untrained = build_ensemble(arm, task, gain, n_members, popsim.key_stream(key, "networks"))
    trained = train(task, untrained, gain, n_batches, popsim.key_stream(key, "training"))
    signals, misses = test(trained, task)
    fits = {name: fit(values) for name, values in signals.items()}
    gated = ("units", "feedback") if gain else ("feedback",)
    rows = rotation_rows(kind, fits, gated) + share_rows(kind, fits, gated)
    for name in gated:
        rows += reference_rows(kind, name, signals[name], fits[name])
    rows += negative_controls(rotation_rows(kind, fits, ("joints", "muscles")))
    for label, other in (
        ("untrained", test(untrained, task)[0]),
        ("shuffled times", shuffle_times(signals, seed)),
    ):
        other_fits = {name: fit(values) for name, values in other.items()}
        rows += negative_controls(rotation_rows(f"{kind}, {label}", other_fits, gated))
    for name in SIGNALS:
        for member, found in enumerate(zip(fits[name].r2_skew, fits[name].r2_full, strict=True)):
            rows.append(Row(f"{kind}, {name}, r² of a rotation beside any M", str(member), *found))
    rows += [Row(f"{kind}, end error (mm)", str(i), 1000 * miss.mean(), 1.0) for i, miss in enumerate(misses)]
    return rows, signals


def main() -> int:
    """Train both kinds, print the table, draw the figure."""
    options = parse_options(__file__, __doc__ or "", short_form="two networks of each kind, fewer batches")
    n_members, n_batches = QUICK_SIZES if options.quick else SIZES
    rows, signals = [], {}
    for kind in KINDS:
        began = time.perf_counter()
        new_rows, signals[kind] = run(kind, n_members, n_batches, options.seed)
        rows += new_rows
        print(f"{kind}: {n_batches} batches, {time.perf_counter() - began:.0f} s", flush=True)
    print_table(rows, "found", "reference")
    fits = {
        kind: {name: fit(values) for name, values in of_kind.items()} for kind, of_kind in signals.items()
    }
    print(*draw_figure(options.out, fits, LEAST_ROTATION), sep="\n")
    return exit_code(rows)


if __name__ == "__main__":
    sys.exit(main())
