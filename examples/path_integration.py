"""Networks that integrate a noisy velocity are off by what the noise adds up to (after Cueva & Wei 2018).

A rat moves in a square box. Networks see where it starts and then its velocity with white noise of sigma, and
tell its position. The error of a perfect integrator has the variance sigma² t along each axis. The error of
each network in the second second has to be that of the closed form, and its square has to grow by sigma² a
second, not faster. Untrained networks must miss that, and networks trained without the velocity. How much of
the activity of units is explained by position, and how much by velocity, is reported. Prints the numbers,
draws the figure, and exits with 1 when a gate fails or a control passes.
"""

import dataclasses
import sys
import time

import equinox as eqx
import jax
import jax.numpy as jnp
import numpy as np
from jaxtyping import Array, Key

import popsim
from command_line import parse_options
from figures.path_integration import Tested, Tuning, draw_figure
from gates import Row, exit_code, negative_controls, print_table
from popsim import tasks
from popsim.training import TaskTrainer, adam, cosine_decay

NOISE = 0.05  # m / s^0.5: 7 cm after 2 s, in a box of 2.2 m
N_UNITS, BATCH_SIZE, LEARNING_RATE, CLIP_NORM = 64, 64, 0.01, 1.0
N_TESTED, N_DRAWN = 2000, 4  # trials
LATE = 1.0  # s after the start, from when errors are compared
ERROR_GATE, GROWTH_GATE = (0.95, 1.05), (0.85, 1.05)
N_BINS, N_HEADINGS, N_SPEEDS = 11, 12, 3  # along each axis of the box; of the velocity


@dataclasses.dataclass(frozen=True)
class Size:
    """How much is trained."""

    n_members: int
    n_batches: int
    n_blind_batches: int


FULL, QUICK = Size(3, 1000, 200), Size(2, 600, 100)


class WithoutVelocity(popsim.AbstractTask):
    """The same task, of which the velocity is not shown."""

    task: tasks.PathIntegration
    loss: popsim.Loss

    def trial(self, *, batch, key):
        return without_velocity(self.task.trial(batch=batch, key=key))

    def validation_trials(self):
        return without_velocity(self.task.validation_trials())


def without_velocity(trials: popsim.Trial) -> popsim.Trial:
    """The same trials with a velocity input of zero."""
    return eqx.tree_at(lambda trials: trials.inputs["velocity"], trials, replace_fn=jnp.zeros_like)


def build_task() -> tasks.PathIntegration:
    """The task of the figure."""
    return tasks.PathIntegration(noise=NOISE)


def build_ensemble(n_members: int, key: Key[Array, ""]) -> popsim.NetworkModel:
    """Untrained gated networks: start and velocity in, position out."""

    def build(key):
        return popsim.NetworkModel(popsim.networks.GRUNetwork(4, N_UNITS, 2, key=key), dt=build_task().dt)

    return popsim.make_ensemble(build, n_members, key=key)


def train(
    task: popsim.AbstractTask, untrained: popsim.NetworkModel, n_batches: int, key: Key[Array, ""]
) -> popsim.NetworkModel:
    """The trained ensemble."""
    trained, _ = TaskTrainer(adam(cosine_decay(LEARNING_RATE, n_batches), clip_norm=CLIP_NORM))(
        task,
        untrained,
        n_batches,
        BATCH_SIZE,
        where_train=lambda model: model.network,
        ensembled=True,
        log_step=n_batches,
        disable_tqdm=not sys.stderr.isatty(),
        key=key,
    )
    return trained


def test(ensemble: popsim.NetworkModel, trials: popsim.Trial) -> tuple[Tested, np.ndarray]:
    """Errors of networks over the movement, and the activity of their units [member, trial, time, unit]."""
    states = popsim.evaluate_ensemble(ensemble, build_task(), trials=trials, key=jax.random.key(0)).states
    moving = build_task().n_pulse
    outputs = np.asarray(states.network.output)[:, :, moving:]
    squares = np.mean((outputs - np.asarray(trials.targets.values)[:, moving:]) ** 2, axis=(1, 3))
    return Tested(squares, outputs[:, :N_DRAWN]), np.asarray(states.network.hidden)[:, :, moving:]


def perfect_integrator(trials: popsim.Trial) -> Tested:
    """The same of the perfect integrator, as if it were one network."""
    moving = build_task().n_pulse
    estimates = np.asarray(jax.jit(jax.vmap(tasks.integrate_velocity))(trials))[None, :, moving:]
    squares = np.mean((estimates - np.asarray(trials.targets.values)[:, moving:]) ** 2, axis=(1, 3))
    return Tested(squares, estimates[:, :N_DRAWN])


def times() -> np.ndarray:
    """The seconds of movement at the end of each time step."""
    task = build_task()
    return task.dt * np.arange(1, task.n_steps - task.n_pulse + 1)


def error_rows(name: str, tested: Tested) -> list[Row]:
    """The error of each network in the second second, and the growth of its square, beside the noise."""
    seconds, rows = times(), []
    closed_form = np.asarray(tasks.integration_error(NOISE, jnp.asarray(seconds)))
    late = seconds > LATE
    expected = float(np.mean(closed_form[late] ** 2) ** 0.5)
    for i, squares in enumerate(tested.squares):
        error = float(np.mean(squares[late]) ** 0.5)
        rows.append(Row(f"{name}, error (m)", str(i), error, expected, gate=ERROR_GATE))
        growth = float(np.polyfit(seconds, squares, 1)[0])
        rows.append(Row(f"{name}, growth (m²/s)", str(i), growth, NOISE**2, gate=GROWTH_GATE))
    return rows


def share_explained(activity: np.ndarray, bins: np.ndarray) -> np.ndarray:
    """The share of the variance of each unit [sample, unit] that is between the bins of the samples."""
    count = np.bincount(bins)
    sums = np.stack([np.bincount(bins, unit) for unit in activity.T], axis=1)
    means = sums[count > 0] / count[count > 0, None]
    between = count[count > 0] @ (means - activity.mean(axis=0)) ** 2 / len(bins)
    return between / np.maximum(activity.var(axis=0), 1e-12)


def tune(activity: np.ndarray, trials: popsim.Trial) -> Tuning:
    """What explains the activity [trial, time, unit] of the units of one network."""
    task = build_task()
    paths, width = np.asarray(trials.targets.values), float(task.width)
    positions = paths[:, task.n_pulse :].reshape(-1, 2)
    velocity = np.diff(paths[:, task.n_pulse - 1 :], axis=1).reshape(-1, 2)
    units = activity.reshape(len(positions), -1).astype(float)
    column, row = np.clip(((positions / width + 0.5) * N_BINS).astype(int), 0, N_BINS - 1).T
    speed = np.linalg.norm(velocity, axis=1)
    speed_bin = np.searchsorted(np.quantile(speed, np.arange(1, N_SPEEDS) / N_SPEEDS), speed)
    heading = np.arctan2(velocity[:, 1], velocity[:, 0])
    heading_bin = np.clip(((heading / (2 * np.pi) + 0.5) * N_HEADINGS).astype(int), 0, N_HEADINGS - 1)
    place_bin = row * N_BINS + column
    count = np.bincount(place_bin, minlength=N_BINS**2)
    maps = np.stack([np.bincount(place_bin, unit, minlength=N_BINS**2) / count for unit in units.T])
    plane = np.column_stack([np.ones(len(positions)), positions])
    residual = units - plane @ np.linalg.lstsq(plane, units, rcond=None)[0]
    return Tuning(
        maps.reshape(-1, N_BINS, N_BINS),
        position=share_explained(units, place_bin),
        plane=1 - residual.var(axis=0) / np.maximum(units.var(axis=0), 1e-12),
        velocity=share_explained(units, speed_bin * N_HEADINGS + heading_bin),
    )


def tuning_rows(name: str, tunings: list[Tuning]) -> list[Row]:
    """The median over units of what is explained; only reported."""
    return [
        Row(f"{name}, explained by {what}", str(i), float(np.median(getattr(tuning, what))), 1.0)
        for what in ("position", "plane", "velocity")
        for i, tuning in enumerate(tunings)
    ]


def main() -> int:
    """Train networks with and without the velocity, print the table, draw the figure."""
    short = f"train {QUICK.n_members} members for {QUICK.n_batches} batches"
    options = parse_options(__file__, __doc__ or "", short_form=short)
    size, key, task = QUICK if options.quick else FULL, jax.random.key(options.seed), build_task()
    began = time.perf_counter()
    untrained = build_ensemble(size.n_members, popsim.key_stream(key, "networks"))
    trained = train(task, untrained, size.n_batches, popsim.key_stream(key, "training"))
    blind_task = WithoutVelocity(task=task, loss=task.loss)
    blind = train(blind_task, untrained, size.n_blind_batches, popsim.key_stream(key, "training"))
    seconds = time.perf_counter() - began
    print(f"{size.n_members} members, {size.n_batches} batches: {seconds:.0f} s", flush=True)
    trials = popsim.sample_trials(task, N_TESTED, batch=0, key=popsim.key_stream(key, "test"))
    tested, activity = test(trained, trials)
    before, activity_before = test(untrained, trials)
    not_shown, _ = test(blind, without_velocity(trials))
    tunings = [tune(units, trials) for units in activity]
    rows = error_rows("perfect integrator", perfect_integrator(trials)) + error_rows("trained", tested)
    rows += tuning_rows("trained", tunings)
    rows += tuning_rows("untrained", [tune(units, trials) for units in activity_before])
    rows += negative_controls(error_rows("untrained", before) + error_rows("without velocity", not_shown))
    print_table(rows, "found", "reference")
    paths = np.asarray(trials.targets.values)[:N_DRAWN, task.n_pulse :]
    results = {
        "trained": tested,
        "perfect integrator": perfect_integrator(trials),
        "without velocity": not_shown,
        "untrained": before,
    }
    print(*draw_figure(options.out, times(), results, paths, NOISE, tunings[0]), sep="\n")
    return exit_code(rows)


if __name__ == "__main__":
    sys.exit(main())
