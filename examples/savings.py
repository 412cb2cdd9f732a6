"""Savings in a force field, beyond a control group and what washout left (after Shahbazi et al. 2025).

Networks learn to move a point mass, then in a curl field, then without it, and in the field again. No input
tells of the field. A control group, with the same weights at first, has as many batches without the field
before its first. What is saved is how much less the loss in the field is than that of the control group, on
the same trials. Some of it is left-over adaptation: in the field, the first loss after washout is smaller. A
head start is the nearest wrong model: the losses of the control group, from further along. Networks with
little noise of force have to save more than that. Those with ten times the noise must miss: they save nothing
once washout has left little. A short washout must miss, too. Prints the numbers, draws the figure, and exits
with 1 when a gate fails or a negative control passes.
"""

import sys
import time

import jax
import numpy as np
import optax

import popsim
from command_line import parse_options
from figures.savings import Comparison, Course, draw_figure
from gates import Row, at_least_row, exit_code, negative_controls, print_table, upper_bound_row
from popsim import losses, plants, tasks, windows
from popsim.analysis.behaviour import maximum_perpendicular_deviation
from popsim.ensemble import Members
from popsim.interventions import CurlField, InterventionPlan
from popsim.training import TaskTrainer, TaskTrainerHistory, adam

FIELD = 8.0  # N s/m
NOISES = {"little noise": 0.05, "much noise": 0.5}  # N at each step
DT, DURATION, DELAY = 0.02, 1.0, 0.06  # s; the last, of vision
BATCH_SIZE, INITIAL_RATE, RATE = 16, 3e-3, 3e-4
N_EXPOSURE, N_SHORT = 80, 80  # batches in the field, and of the short washout
FULL = (3, (24, 48, 96), (700, 520))  # networks, units; batches at first, and of washout after the short one
QUICK = (2, (48,), (500, 300))
MOST_LEFT, LEAST_SAVED = 0.05, 0.025  # shares of the control group's


def build_task() -> tasks.DelayedReaches:
    """Reaches of 10 cm in eight directions, after a delay in which the target is shown."""
    cost = losses.PositionError(profile=losses.PowerProfile(window=windows.InEpoch("movement")))
    cost = cost + losses.Hold(windows.Before("go cue")) + 0.1 * losses.FinalVelocity()
    return tasks.DelayedReaches(
        plants.PointMass().workspace,
        loss=1e3 * cost + 0.1 * losses.Effort(),
        hold=0.1,
        delay=popsim.distributions.Uniform(0.1, 0.3),
        catch_probability=0.0,
        duration=DURATION,
        dt=DT,
    )


def build_ensemble(n_units: int, members: Members, key: jax.Array) -> popsim.SensorimotorLoop:
    """Untrained networks, of which each has its own noise of force."""
    plant = plants.PointMass()
    channels = {"vision": popsim.SensoryChannel(popsim.vision, DELAY)}
    center = np.asarray(plant.workspace.center)
    scaling = {
        "vision": popsim.Scaling(np.append(center, [0, 0]), [0.05, 0.05, 0.3, 0.3]),
        "target": popsim.Scaling(center, 0.05),
    }
    n_inputs = popsim.n_network_inputs(build_task().validation_trials(), plant, channels)

    def build(key, noise):
        network = popsim.networks.GRUNetwork(n_inputs, n_units, plant.n_commands, key=key)
        forces, field = popsim.MotorNoise(0, noise), (CurlField(),)
        return popsim.SensorimotorLoop(network, plant, channels, forces, scaling, field, dt=DT)

    return popsim.build_members(build, members, key=key)


def measure(states, trials: popsim.Trial) -> dict[str, np.ndarray]:
    """Deviations of paths in the field, and activity at the go cue without it, of validation trials."""
    position, hidden = np.asarray(states.hand.position), np.asarray(states.network.hidden)
    ends = trials.init.position, trials.targets.position[:, -1]
    deviation = maximum_perpendicular_deviation(position, *ends)
    on = np.asarray(trials.conditions["curl field"])
    go = int(trials.timeline.events["go cue"][0])
    return {"deviation": deviation[:, on].mean(axis=1), "prepared": hidden[:, ~on, go - 1]}


def train(
    ensemble: popsim.SensorimotorLoop,
    in_field: bool,
    n_batches: int,
    key: jax.Array,
    *,
    n_logs: int = 1,
    rate: optax.Schedule | float = RATE,
) -> tuple[popsim.SensorimotorLoop, TaskTrainerHistory]:
    """All members trained with or without the field by a new Adam, on the trials that the key gives."""
    plan = InterventionPlan("curl field", FIELD, probability=float(in_field))
    trainer = TaskTrainer(adam(rate, clip_norm=1.0), validation_metrics=measure)
    return trainer(
        tasks.WithInterventions(build_task(), [plan]),
        ensemble,
        n_batches,
        BATCH_SIZE,
        where_train=lambda model: model.network,
        ensembled=True,
        ensemble_random_trials=False,
        log_step=n_batches // n_logs,
        disable_tqdm=not sys.stderr.isatty(),
        key=key,
    )


def follow(
    ensemble: popsim.SensorimotorLoop, begins_in_field: bool, n_washout: int, key: jax.Array
) -> Course:
    """One group, from trained networks on: with the field or without it, washout, and in the field.

    Networks enter the field after a short and after a long washout, each time on the same trials.
    """
    keys = {name: popsim.key_stream(key, name) for name in ("field", "short", "long")}
    ensemble, history = train(ensemble, begins_in_field, N_EXPOSURE, keys["field"])
    losses = {"first": np.asarray(history.loss.total)}
    batches, deviations = [np.zeros(1, int)], [history.metrics["deviation"][-1:]]
    prepared = {"first": history.metrics["prepared"][-1]}
    for name, n_batches in (("short", N_SHORT), ("long", n_washout)):
        ensemble, history = train(ensemble, False, n_batches, keys[name], n_logs=4)
        batches.append(batches[-1][-1] + history.validation_batch + 1)
        deviations.append(history.metrics["deviation"])
        prepared[name] = history.metrics["prepared"][-1]
        losses[name] = np.asarray(train(ensemble, True, N_EXPOSURE, keys["field"])[1].loss.total)
    before = {"short": deviations[1][-1], "long": deviations[2][-1]}
    return Course(losses, before, prepared, np.concatenate(batches), np.concatenate(deviations))


def head_start(losses: np.ndarray, left: np.ndarray) -> np.ndarray:
    """The share [member] saved by a start from further along the same losses [batch, member] of a control.

    That far, that `left` [member] of the first loss is gone. The losses are smoothed by a polynomial.
    """
    batches, saved = np.arange(len(losses)), []
    for values, gone in zip(losses.T, left, strict=True):
        smooth = np.polynomial.Polynomial.fit(batches, np.log(values), 4)
        fine = np.linspace(0, batches[-1], 1000)
        ahead = np.interp(-np.log1p(-gone), np.maximum.accumulate(smooth(0) - smooth(fine)), fine)
        later = np.minimum(batches + ahead, batches[-1])
        saved.append(1 - np.exp(smooth(later)).mean() / np.exp(smooth(batches)).mean())
    return np.array(saved)


def compare(exposed: Course, control: Course, at_first: np.ndarray, members: Members) -> Comparison:
    """What is left after each washout, and what is saved: shares [noise, network] by washout.

    `at_first` [member] is the deviation in the field before any exposure (m).
    """
    shares = {}
    shift = (exposed.prepared["first"] - control.prepared["first"]).mean(axis=1)
    for name, before in exposed.before.items():
        losses, others = exposed.losses[name], control.losses[name]
        later = (exposed.prepared[name] - control.prepared[name]).mean(axis=1)
        found = {
            "left of deviation": 1 - before / control.before[name],
            "since first": 1 - before / at_first,
            "left of loss": 1 - losses[0] / others[0],
            "head start": head_start(others, 1 - losses[0] / others[0]),
            "saved": 1 - losses.mean(axis=0) / others.mean(axis=0),
            "drifted": 1 - others.mean(axis=0) / exposed.losses["first"].mean(axis=0),
            "shift kept": np.sum(later * shift, axis=-1) / np.sum(shift**2, axis=-1),
        }
        for what, values in found.items():
            shares.setdefault(what, {})[name] = members.group(np.asarray(values, float), axis=0)
    return Comparison(exposed, control, shares)


def run(n_units: int, members: Members, lengths: tuple[int, int], key: jax.Array) -> Comparison:
    """Train networks of one size, and follow both groups from there."""
    n_batches, n_washout = lengths
    rate = optax.cosine_decay_schedule(INITIAL_RATE, n_batches, alpha=RATE / INITIAL_RATE)
    untrained = build_ensemble(n_units, members, popsim.key_stream(key, "networks"))
    trained, history = train(untrained, False, n_batches, popsim.key_stream(key, "initial"), rate=rate)
    exposed, control = (follow(trained, in_field, n_washout, key) for in_field in (True, False))
    return compare(exposed, control, history.metrics["deviation"][-1], members)


def network_rows(n_units: int, shares: dict[str, dict[str, np.ndarray]]) -> list[Row]:
    """The gates, controls and other numbers of all networks of one size."""
    rows, controls = [], []
    for number, noise in enumerate(NOISES):
        label = f"{n_units} units, {noise}"
        for member in range(shares["saved"]["long"].shape[1]):
            short, long = (
                {what: float(by_washout[name][number, member]) for what, by_washout in shares.items()}
                for name in ("short", "long")
            )
            for what in ("left of deviation", "left of loss"):
                rows.append(upper_bound_row(f"{label}, {what}", str(member), abs(long[what]), MOST_LEFT))
            gained = at_least_row(f"{label}, saved", member, long["saved"], LEAST_SAVED)
            beside = at_least_row(
                f"{label}, saved beside head start", member, long["saved"], long["head start"]
            )
            if noise == "little noise":
                rows += [gained, beside]
            else:
                controls.append(gained)
            left = abs(short["left of loss"])
            controls.append(
                upper_bound_row(f"{label}, short washout, left of loss", str(member), left, MOST_LEFT)
            )
            others = {
                "short washout, saved": short["saved"],
                "a head start would save": long["head start"],
                "left of deviation since first": long["since first"],
                "saved by control group": long["drifted"],
                "shift of preparation kept": long["shift kept"],
            }
            rows += [Row(f"{label}, {what}", str(member), value, 1.0) for what, value in others.items()]
    return rows + negative_controls(controls)


def main() -> int:
    """Train networks of all sizes, print the table, draw the figure."""
    options = parse_options(__file__, __doc__ or "", short_form="two networks of one size, fewer batches")
    n_seeds, sizes, lengths = QUICK if options.quick else FULL
    members, rows, results = popsim.member_grid(n_seeds, noise=[*NOISES.values()]), [], {}
    for n_units in sizes:
        began = time.perf_counter()
        key = popsim.key_stream(jax.random.key(options.seed), f"{n_units} units")
        results[n_units] = run(n_units, members, lengths, key)
        rows += network_rows(n_units, results[n_units].shares)
        print(f"{n_units} units: {time.perf_counter() - began:.0f} s", flush=True)
    print_table(rows, "found", "reference")
    print(*draw_figure(options.out, results, tuple(NOISES), LEAST_SAVED), sep="\n")
    return exit_code(rows)


if __name__ == "__main__":
    sys.exit(main())
