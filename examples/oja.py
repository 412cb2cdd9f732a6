"""Oja's rule finds the first principal component of its input, as its closed form says when (Oja 1982).

Linear units learn side by side by Oja's rule, by Hebb's, and, from inputs that are not centred, by the
covariance rule and by Hebb's again. The histories are saved, and compared with `references/oja.py` in a
fresh process, which prints the numbers, draws the figure, and exits with 1 when a gate fails, or when the
rules that must miss the component (Hebb's without centred inputs) or the unit norm (Hebb's) do not.
"""

import argparse
import shutil
import sys
import time

import jax
import jax.numpy as jnp
import numpy as np
import optax
from jaxtyping import Array, Float

import popsim
from command_line import parse_options, run_on_saved
from figures.oja import Course, draw_figure
from gates import Row, exit_code, negative_controls, print_table, tolerance_row, upper_bound_row
from popsim.training import TaskTrainer, open_history, save_history
from popsim.training.rules import CovarianceHebb, Hebb, Oja, Synapses
from references import oja as reference

VARIANCES = np.array([5.0, 3.0, 2.0, *7 * [1.0]])  # along the principal components
MEAN = 2.0  # of the inputs that are not centred, along the second component
N_INPUTS, N_MEMBERS = len(VARIANCES), 10
START, OVERLAP = 0.5, 0.5  # |w| at the start, and its cosine with each of the first two components
RATE, N_BATCHES, KEPT_EVERY = 1e-3, 4000, 20
N_STEPS = 4  # the inputs of a trial, all independent
BATCH_SIZES = {"64 inputs": 16, "256 inputs": 64}  # in trials, by name of the history
RULES = {"Oja": Oja, "Hebb": Hebb, "covariance": CovarianceHebb, "uncentred Hebb": Hebb}
INPUTS = {"Oja": "centred", "Hebb": "centred", "covariance": "shifted", "uncentred Hebb": "shifted"}


class LinearUnits(popsim.AbstractModel):
    """One linear unit for each rule, y = w' x."""

    weights: dict[str, Float[Array, "*members 1 inputs"]]

    def init(self, trial, *, key):
        return {name: jnp.zeros(1) for name in self.weights}

    def step(self, step_input, state, *, key):
        return {name: w @ step_input.inputs[INPUTS[name]] for name, w in self.weights.items()}


def power(states, trial, model):
    return jnp.mean(states["Oja"] ** 2)


class Receive(popsim.AbstractTask):
    """Receive normally distributed inputs, centred and not; nothing is to be done with them."""

    components: Float[Array, "inputs component"]
    loss: popsim.Loss

    def trial(self, *, batch, key):
        deviations = jnp.sqrt(jnp.asarray(VARIANCES, jnp.float32))
        return self.trial_of(deviations * jax.random.normal(key, (N_STEPS, N_INPUTS)))

    def validation_trials(self):
        return jax.tree.map(lambda leaf: leaf[None], self.trial_of(jnp.ones((N_STEPS, N_INPUTS))))

    def trial_of(self, along: Float[Array, "time component"]) -> popsim.Trial:
        """The trial whose inputs are so far along the components."""
        centred = along @ self.components.T
        inputs = {"centred": centred, "shifted": centred + MEAN * self.components[:, 1]}
        return popsim.Trial((), inputs, (), popsim.Timeline(dt=1.0, n_steps=N_STEPS))


def principal_components(seed: int) -> np.ndarray:
    """The principal components, in columns."""
    rng = np.random.default_rng(seed)
    return np.linalg.qr(rng.standard_normal((N_INPUTS, N_INPUTS)))[0]


def build_ensemble(components: np.ndarray, seed: int) -> LinearUnits:
    """Units whose overlaps with the first two components are fixed: some would start almost without any.

    Those would follow noise, and not the closed form, to one sign or the other of where they end.
    """
    directions = np.random.default_rng([seed, 1]).standard_normal((N_MEMBERS, N_INPUTS - 2))
    directions *= (1 - 2 * OVERLAP**2) ** 0.5 / np.linalg.norm(directions, axis=1, keepdims=True)
    along = np.hstack([np.full((N_MEMBERS, 2), OVERLAP), directions])
    starts = START * along @ components.T
    return LinearUnits({name: jnp.asarray(starts[:, None], jnp.float32) for name in RULES})


def build_rules() -> tuple:
    """Each rule on the weights of its unit."""

    def on(name: str) -> Synapses:
        return Synapses(
            lambda model: model.weights[name],
            pre=lambda activity: activity.trial.inputs[INPUTS[name]],
            post=lambda activity: activity.states[name],
        )

    return tuple(rule(on(name), RATE) for name, rule in RULES.items())


def train(options: argparse.Namespace, name: str) -> None:
    """Let all units learn from batches of one size, and save the history."""
    components = principal_components(options.seed)
    ensemble = build_ensemble(components, options.seed)
    loss = 1.0 * popsim.FunctionTerm("power", power)
    task = Receive(components=jnp.asarray(components, jnp.float32), loss=loss)
    _, history = TaskTrainer(optax.set_to_zero(), model_update_funcs=build_rules())(
        task,
        ensemble,
        N_BATCHES,
        BATCH_SIZES[name],
        where_train=lambda model: model.weights,
        ensembled=True,
        log_step=N_BATCHES,
        save_model_trainables=np.arange(KEPT_EVERY - 1, N_BATCHES, KEPT_EVERY),
        disable_tqdm=not sys.stderr.isatty(),
        key=popsim.key_stream(jax.random.key(options.seed), name),
    )
    shutil.rmtree(options.out / name, ignore_errors=True)
    save_history(options.out / name, history, untrained=ensemble)


def read_course(options: argparse.Namespace, name: str) -> Course:
    """The weights of each unit in a saved history, along the components, and what is expected of them."""
    saved = open_history(options.out / name)
    times = RATE * (saved.trainables_batch.values + 1.0)
    components = principal_components(options.seed)
    weights = {
        unit: saved[f"trainables.weights.{unit}"].values[:, :, 0].astype(float) @ components for unit in RULES
    }
    covariance, shift = np.diag(VARIANCES), np.zeros((N_INPUTS, N_INPUTS))
    shift[1, 1] = MEAN**2
    n_inputs = (
        BATCH_SIZES[name] * N_STEPS
    )  # the mean is that of the batch, which takes a share of the variance
    matrices = {
        "Hebb": covariance,
        "covariance": covariance * (1 - 1 / n_inputs),
        "uncentred Hebb": covariance + shift,
    }
    expected = {unit: reference.hebb_course(K, weights[unit][0], times) for unit, K in matrices.items()}
    expected["Oja"] = reference.oja_course(covariance, weights["Oja"][0], times)
    return Course(times, weights, expected)


def cosine_rows(name: str, weights: np.ndarray, component: int) -> list[Row]:
    """How well the last weights [member, input] point along a component, one way or the other."""
    cosines = np.abs(weights[:, component]) / np.linalg.norm(weights, axis=-1)
    return [Row(name, str(i), cosine, 1.0, gate=(0.999, 1 + 1e-6)) for i, cosine in enumerate(cosines)]


def norm_rows(name: str, weights: np.ndarray) -> list[Row]:
    """How close the norm of the last weights [member, input] is to one."""
    return [tolerance_row(name, str(i), float(np.linalg.norm(w)), 1.0, 0.01) for i, w in enumerate(weights)]


def growth_rows(name: str, course: Course, unit: str, exponent: float) -> list[Row]:
    """The exponent with which the norm of each member grew in the second half."""
    late = course.times >= course.times[-1] / 2
    logs = np.log(np.linalg.norm(course.found[unit][late], axis=-1))
    slopes = np.polyfit(course.times[late], logs, 1)[0]
    return [tolerance_row(name, str(i), slope, exponent, 0.02) for i, slope in enumerate(slopes)]


def course_rows(small: Course, large: Course) -> list[Row]:
    """Oja's rule on its way: the mean along the first component, and less noise in larger batches."""
    first = small.found["Oja"][..., 0].mean(axis=1) - small.expected["Oja"][..., 0].mean(axis=1)
    rows = [upper_bound_row("Oja, mean along PC1, largest error", "mean", np.abs(first).max(), 0.006)]
    errors = [np.sqrt(np.mean((c.found["Oja"] - c.expected["Oja"]) ** 2)) for c in (small, large)]
    return [*rows, Row("Oja, RMS error, batch x4", "all", errors[1], errors[0], gate=(0.4, 0.6))]


def analyse(options: argparse.Namespace) -> int:
    """Compare the saved histories with the reference, print the table, draw the figure."""
    courses = {name: read_course(options, name) for name in BATCH_SIZES}
    small, large = courses.values()
    last = {unit: weights[-1] for unit, weights in small.found.items()}
    rows = [
        *cosine_rows("Oja, cosine with PC1", last["Oja"], 0),
        *norm_rows("Oja, |w|", last["Oja"]),
        *course_rows(small, large),
        *growth_rows("Hebb, growth exponent", small, "Hebb", VARIANCES[0]),
        *cosine_rows("covariance, cosine with PC1", last["covariance"], 0),
        *cosine_rows("uncentred Hebb, cosine with PC2", last["uncentred Hebb"], 1),
        *negative_controls(cosine_rows("uncentred Hebb, cosine with PC1", last["uncentred Hebb"], 0)),
        *negative_controls(norm_rows("Hebb, |w|", last["Hebb"])),
    ]
    print_table(rows, "found", "reference")
    print(*draw_figure(options.out, courses), sep="\n")
    return exit_code(rows)


def main() -> int:
    """Train and save; then, in a fresh process, compare and draw."""
    options = parse_options(__file__, __doc__ or "", in_fresh_process=True)
    if options.saved:
        return analyse(options)
    for name in BATCH_SIZES:
        began = time.perf_counter()
        train(options, name)
        print(f"{name} a batch: {N_BATCHES} batches, {time.perf_counter() - began:.1f} s", flush=True)
    return run_on_saved(__file__, options)


if __name__ == "__main__":
    sys.exit(main())
