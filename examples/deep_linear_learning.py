"""Two-layer linear networks learn the modes of a map one after the other (Saxe, McClelland & Ganguli 2014).

Networks that start aligned with the map follow a closed form; networks that start from small random weights
learn each mode in a time inverse to its strength. All are trained twice, with learning rates that differ by
ten: what is left of the error of gradient steps has to differ by ten too. The histories are saved, and
compared with `references/deep_linear_learning.py` in a fresh process, which draws the figure and exits with
1 when a gate fails or a negative control passes.
"""

import argparse
import dataclasses
import shutil
import sys
import time

import jax
import jax.numpy as jnp
import numpy as np
import optax
from jaxtyping import Array, Float, Key

import popsim
from command_line import parse_options, run_on_saved
from figures.deep_linear_learning import Course, draw_figure
from gates import (
    Row,
    exit_code,
    negative_controls,
    print_table,
    standard_error_row,
    tolerance_row,
    upper_bound_row,
)
from popsim.analysis.trainables import mode_strengths
from popsim.training import TaskTrainer, adam, open_history, save_history, sgd
from references import deep_linear_learning as reference

STRENGTHS = (4.0, 3.0, 2.0, 1.0)
N_UNITS, N_ALIGNED, N_RANDOM = 8, 3, 20
ALIGNED_SIZE, RANDOM_STD = 0.03, 1e-3
DURATION = 9.0  # in units of learning rate times batch
KEPT_EVERY = 0.02
COARSE, FINE = 1e-2, 1e-3
RATES = {"coarse": COARSE, "fine": FINE, "unhalved loss": FINE, "Adam": COARSE}  # by name of the history


class DeepLinear(popsim.AbstractModel):
    """y = W2 W1 x for all stimuli at once."""

    first: Float[Array, "*members hidden inputs"]
    second: Float[Array, "*members outputs hidden"]

    def init(self, trial, *, key):
        return jnp.zeros((self.second.shape[0], N_UNITS))

    def step(self, step_input, state, *, key):
        return self.second @ (self.first @ step_input.inputs)


class LearnMap(popsim.AbstractTask):
    """Map every stimulus as the matrix `target` does. The stimuli are exactly white: the unit vectors."""

    target: Float[Array, "outputs inputs"]
    loss: popsim.Loss

    def trial(self, *, batch, key):
        timeline = popsim.Timeline(dt=1.0, n_steps=1)
        return popsim.Trial((), jnp.eye(N_UNITS)[None], self.target[None], timeline)

    def validation_trials(self):
        return jax.tree.map(lambda leaf: leaf[None], self.trial(batch=0, key=jax.random.key(0)))


def squared_error(states, trial, model):
    return jnp.sum((states - trial.targets) ** 2)


def modes(seed: int) -> tuple[np.ndarray, np.ndarray]:
    """U and V: the modes of the map, in columns."""
    rng = np.random.default_rng(seed)
    U, V = (np.linalg.qr(rng.standard_normal((N_UNITS, N_UNITS)))[0] for _ in range(2))
    return U[:, : len(STRENGTHS)], V[:, : len(STRENGTHS)]


def build_task(seed: int, weight: float) -> LearnMap:
    """The map, and the sum of squared errors times `weight` as loss."""
    U, V = modes(seed)
    loss = weight * popsim.FunctionTerm("squared error", squared_error)
    return LearnMap(target=jnp.asarray(U * STRENGTHS @ V.T), loss=loss)


def build_ensemble(seed: int) -> DeepLinear:
    """Untrained networks: the first are aligned with the modes, the others random."""
    U, V = modes(seed)

    def aligned(key: Key[Array, ""]) -> DeepLinear:
        hidden = jnp.linalg.qr(jax.random.normal(key, (N_UNITS, N_UNITS)))[0][:, : len(STRENGTHS)]
        return DeepLinear(ALIGNED_SIZE * hidden @ jnp.asarray(V.T), ALIGNED_SIZE * jnp.asarray(U) @ hidden.T)

    def random(key: Key[Array, ""]) -> DeepLinear:
        return DeepLinear(*RANDOM_STD * jax.random.normal(key, (2, N_UNITS, N_UNITS)))

    keys = jax.random.split(jax.random.key(seed))
    kinds = [popsim.make_ensemble(aligned, N_ALIGNED, key=keys[0])]
    kinds.append(popsim.make_ensemble(random, N_RANDOM, key=keys[1]))
    return jax.tree.map(lambda *members: jnp.concatenate(members), *kinds)


def train(options: argparse.Namespace, name: str, optimizer: optax.GradientTransformation) -> None:
    """Train all networks, in double precision, and save the history as `name`."""
    n_batches, every = round(DURATION / RATES[name]), round(KEPT_EVERY / RATES[name])
    with jax.enable_x64(True):
        ensemble = build_ensemble(options.seed)
        _, history = TaskTrainer(optimizer)(
            build_task(options.seed, weight=1.0 if name == "unhalved loss" else 0.5),
            ensemble,
            n_batches,
            batch_size=1,
            where_train=lambda model: (model.first, model.second),
            ensembled=True,
            log_step=n_batches,
            save_model_trainables=np.arange(every - 1, n_batches, every),
            disable_tqdm=not sys.stderr.isatty(),
            key=jax.random.key(options.seed),
        )
    shutil.rmtree(options.out / name, ignore_errors=True)
    save_history(options.out / name, history, untrained=ensemble)


def read_course(options: argparse.Namespace, name: str) -> Course:
    """What a saved history says."""
    saved = open_history(options.out / name)
    first, second = (saved[f"trainables.{layer}"].values for layer in ("first", "second"))
    U, V = modes(options.seed)
    strengths = np.moveaxis(mode_strengths(second @ first, U, V), 0, -1)
    imbalance = reference.imbalance(first, second)
    drift = np.abs(imbalance - imbalance[0]).max(axis=(0, 2, 3))
    return Course(RATES[name] * (saved.trainables_batch.values + 1), strengths, drift)


def sigmoids(times: np.ndarray) -> np.ndarray:
    """The strengths [mode, time] of networks that start aligned."""
    return np.stack([reference.mode_strength(times, s, ALIGNED_SIZE**2) for s in STRENGTHS])


def worst_errors(course: Course) -> np.ndarray:
    """The largest difference to the closed form of each aligned member, relative to the mode's strength."""
    differences = course.strengths[:N_ALIGNED] - sigmoids(course.times)
    return np.abs(differences / np.array(STRENGTHS)[:, None]).max(axis=(1, 2))


def half_times(course: Course) -> np.ndarray:
    """When each mode of each member first was at half its strength [member, mode]; NaN if never."""
    halves = np.full(course.strengths.shape[:2], np.nan)
    for (member, mode), _ in np.ndenumerate(halves):
        relative = course.strengths[member, mode] / STRENGTHS[mode]
        after = int(np.argmax(relative >= 0.5))
        if after > 0:
            around = slice(after - 1, after + 1)
            halves[member, mode] = np.interp(0.5, relative[around], course.times[around])
    return halves


def aligned_rows(coarse: Course, fine: Course) -> list[Row]:
    """The members that start aligned: how far from the closed form, and when they are halfway."""
    errors, halves, rows = worst_errors(fine), half_times(fine), []
    for member in range(N_ALIGNED):
        name = str(member)
        rows.append(upper_bound_row("aligned, largest error", name, errors[member], 0.005))
        error_at_coarse = worst_errors(coarse)[member]
        rows.append(Row("aligned, error at 10x rate", name, error_at_coarse, errors[member], gate=(8, 12)))
        for s, half in zip(STRENGTHS, halves[member], strict=True):
            expected = reference.half_time(s, ALIGNED_SIZE**2)
            rows.append(tolerance_row(f"aligned, half time s={s:g}", name, half, expected, 0.01))
    return rows


def random_rows(fine: Course) -> list[Row]:
    """The members that start at random: all learn the modes in order, in times inverse to their strengths."""
    halves = half_times(fine)[N_ALIGNED:]
    scaled = halves * STRENGTHS
    print("random members: s t_half of the modes", *(f"s={s:g}" for s in STRENGTHS))
    for member, member_times in enumerate(scaled):
        print(f"  {N_ALIGNED + member:>2}", *(f"{value:.3f}" for value in member_times))
    ordered = np.all(np.diff(halves) > 0, axis=1)
    rows = [Row("random, members in order", "all", ordered.sum(), N_RANDOM, gate=(1, 1))]
    means, errors = scaled.mean(axis=0), scaled.std(axis=0, ddof=1) / N_RANDOM**0.5
    spread = np.ptp(means) / means.mean()
    rows.append(upper_bound_row("random, spread of s t_half", "mean", spread, 0.1))
    for i, s in enumerate(STRENGTHS):
        expected = reference.random_scaled_half_time(s, i, N_UNITS, RANDOM_STD)
        rows.append(standard_error_row(f"random, s t_half s={s:g}", "mean", means[i], expected, errors[i]))
    return rows


def drift_rows(coarse: Course, fine: Course) -> list[Row]:
    """What the gradient flow conserves drifts in proportion to the rate, of the random members."""
    largest = [course.drift[N_ALIGNED:].max() for course in (coarse, fine)]
    rows = [upper_bound_row("random, drift at 10x rate", "worst", largest[0], 1e-5)]
    return [*rows, Row("random, drift at 10x rate", "worst", largest[0], largest[1], gate=(8, 12))]


def analyse(options: argparse.Namespace) -> int:
    """Compare the saved histories with the reference, print the table, draw the figure."""
    courses = {name: read_course(options, name) for name in RATES}
    coarse, fine = courses["coarse"], courses["fine"]
    rows = aligned_rows(coarse, fine) + random_rows(fine) + drift_rows(coarse, fine)
    unhalved = [row for row in aligned_rows(coarse, courses["unhalved loss"]) if "10x" not in row.condition]
    controls = [*unhalved, drift_rows(courses["Adam"], fine)[0]]
    names = [f"{'Adam' if 'drift' in row.condition else 'no 1/2'}: {row.condition}" for row in controls]
    controls = [dataclasses.replace(row, condition=name) for row, name in zip(controls, names, strict=True)]
    rows += negative_controls(controls)
    print_table(rows, "found", "reference")
    expected = [reference.random_scaled_half_time(s, i, N_UNITS, RANDOM_STD) for i, s in enumerate(STRENGTHS)]
    scaled = half_times(fine)[N_ALIGNED:] * STRENGTHS
    print(*draw_figure(options.out, courses, N_ALIGNED, STRENGTHS, sigmoids, scaled, expected), sep="\n")
    return exit_code(rows)


def main() -> int:
    """Train and save; then, in a fresh process, compare and draw."""
    options = parse_options(__file__, __doc__ or "", in_fresh_process=True)
    if options.saved:
        return analyse(options)
    began = time.perf_counter()
    fine = sgd(FINE)
    optimizers = {"coarse": sgd(COARSE), "fine": fine, "unhalved loss": fine, "Adam": adam(COARSE)}
    for name, optimizer in optimizers.items():
        train(options, name, optimizer)
    print(f"trained in {time.perf_counter() - began:.0f} s", flush=True)
    return run_on_saved(__file__, options)


if __name__ == "__main__":
    sys.exit(main())
