"""With a large readout, gradient descent suppresses noise along the readout (Schuessler et al. 2024).

Linear networks with noise on their units have to hold their output at zero. Their recurrent weights W start
at zero and learn by plain gradient descent: the noise along the readout has to decay faster. With u the unit
vector along the readout w, y = 1 - u' W u, which is 1 less the eigenvalue of W along the readout. y and the
variance of the output have to follow `references/oblique_noise.py`, for |w| = 1 and |w| = 1 / sqrt(N).

The nearest wrong model is the theory of continuous time, whose y is 3.3 % too large in the end with the large
readout, and must miss. With the small one it is only 0.2 % off, which no gate tells. The theory of the other
readout must miss, and so must a direction orthogonal to the readout. Prints the numbers, draws the figure,
and exits with 1 when a gate fails or a negative control passes.
"""

import dataclasses
import sys
import time
from typing import Any

import equinox as eqx
import jax
import jax.numpy as jnp
import numpy as np

import popsim
from command_line import parse_options
from figures.oblique_noise import Course, draw_figure
from gates import Row, exit_code, negative_controls, print_table, standard_error_row, tolerance_row
from popsim.losses import OutputError
from popsim.training import TaskTrainer, sgd
from references import oblique_noise as reference

SETTING = reference.Setting()
N_UNITS, N_SEEDS = 48, 2
SIZES = {"large": 1.0, "small": N_UNITS**-0.5}  # |w| of the readouts
TAU = 1.0  # s
RATE, BATCH_SIZE = 0.15, 64
TOLERANCE = 0.02  # of y on its way, relative
LATE = 0.75  # the share of the batches that come before those whose variances are compared


@dataclasses.dataclass(frozen=True)
class Size:
    """How long networks learn, after which batches y is compared, and how near it has to be at the last."""

    n_batches: int
    last_tolerance: float

    @property
    def gated(self) -> np.ndarray:
        """Powers of two, and the last batch."""
        powers = 2 ** np.arange(8)
        return np.unique([*powers[powers < self.n_batches], self.n_batches])


FULL, QUICK = Size(250, 0.005), Size(64, TOLERANCE)


class HoldZero(popsim.AbstractTask):
    """Hold the output at zero, without any input. The first steps do not count."""

    loss: popsim.Loss

    def trial(self, *, batch, key):
        steps = jnp.arange(SETTING.n_steps)
        counts = jnp.where(steps >= SETTING.n_skipped, 1.0, 0.0)
        silence = jnp.zeros((SETTING.n_steps, 1))  # also the input: a network needs one
        target = popsim.OutputTarget(silence, counts, is_choice=False)
        timeline = popsim.Timeline(dt=SETTING.leak * TAU, n_steps=SETTING.n_steps)
        return popsim.Trial((), silence, target, timeline)

    def validation_trials(self):
        return jax.tree.map(lambda leaf: leaf[None], self.trial(batch=0, key=jax.random.key(0)))


def linear(x):
    return x


def build_model(key, size):
    """A linear network without recurrent weights, whose readout points anywhere and has length `size`."""
    dt = SETTING.leak * TAU
    network = popsim.networks.LeakyRNN(
        1, N_UNITS, 1, tau=TAU, dt=dt, nonlinearity=linear, noise_std=SETTING.sigma, gain=0.0, key=key
    )
    w = jax.random.normal(popsim.key_stream(key, "direction"), (1, N_UNITS))
    readout = (size * w / jnp.linalg.norm(w), jnp.zeros(1))
    network = eqx.tree_at(lambda n: (n.readout.weight, n.readout.bias), network, readout)
    return popsim.NetworkModel(network, dt=dt)


def train(size: Size, seed: int) -> dict[str, Course]:
    """Train networks with both readouts, and say what became of each kind."""
    members, key = popsim.member_grid(N_SEEDS, size=list(SIZES.values())), jax.random.key(seed)
    ensemble = popsim.build_members(build_model, members, key=popsim.key_stream(key, "networks"))
    _, history = TaskTrainer(sgd(RATE))(
        HoldZero(loss=1.0 * OutputError()),
        ensemble,
        size.n_batches,
        BATCH_SIZE,
        where_train=lambda model: model.network.recurrent_weights,
        ensembled=True,
        log_step=size.n_batches,
        save_model_trainables=size.gated - 1,
        disable_tqdm=not sys.stderr.isatty(),
        key=popsim.key_stream(key, "training"),
    )
    W = members.group(np.asarray(history.model_trainables.network.recurrent_weights, float), axis=1)
    network: Any = ensemble.network
    w = members.group(np.asarray(network.readout.weight, float)[:, 0], axis=0)
    variances = members.group(np.asarray(history.loss.total, float), axis=1)
    return {
        name: read_course(name, size.gated, W[:, i], w[i], variances[:, i], seed)
        for i, name in enumerate(SIZES)
    }


def read_course(
    name: str, batches: np.ndarray, W: np.ndarray, w: np.ndarray, variances: np.ndarray, seed: int
) -> Course:
    """What became of the networks with one of the readouts, and what is expected of them.

    **Arguments:**

    - `name`: which readout.
    - `batches` [saved]: after how many batches W was saved.
    - `W` [saved, member, unit, unit], `w` [member, unit]: recurrent weights, and readouts.
    - `variances` [batch, member]: of the output.
    - `seed`: of the direction orthogonal to the readout.
    """
    u = w / np.linalg.norm(w, axis=1, keepdims=True)
    v = np.random.default_rng(seed).standard_normal(u.shape)
    v -= np.sum(u * v, axis=1, keepdims=True) * u
    v /= np.linalg.norm(v, axis=1, keepdims=True)
    along, orthogonal = (1 - np.einsum("mi,bmij,mj->bm", d, W, d) for d in (u, v))
    size, n_batches = SIZES[name], len(variances)
    expected = reference.expected_course(RATE, size, SETTING, n_batches)
    return Course(
        batches=batches,
        along=along,
        orthogonal=orthogonal,
        variances=variances / size**2,
        expected=expected,
        continuous=reference.continuous_course(RATE, size, SETTING, n_batches),
        expected_variances=np.array([reference.variance(y, SETTING) for y in expected]),
    )


def last_rows(name: str, found: np.ndarray, expected: np.ndarray, size: Size) -> list[Row]:
    """The last y of each member [saved, member], beside the last of an expected course."""
    return [
        tolerance_row(name, str(i), y, float(expected[-1]), size.last_tolerance)
        for i, y in enumerate(found[-1])
    ]


def course_rows(name: str, course: Course) -> list[Row]:
    """y of each member after the batches before the last."""
    return [
        tolerance_row(f"{name}, y after {batch}", str(i), y, float(course.expected[batch]), TOLERANCE)
        for batch, values in zip(course.batches[:-1], course.along[:-1], strict=True)
        for i, y in enumerate(values)
    ]


def variance_rows(name: str, course: Course, theory: np.ndarray) -> list[Row]:
    """The output's variance late in training over its theory [batch, before each], mean over batches."""
    first = round(LATE * len(course.variances))
    ratios = course.variances[first:] / theory[first:-1, None]
    errors = ratios.std(axis=0, ddof=1) / len(ratios) ** 0.5
    members = enumerate(zip(ratios.mean(axis=0), errors, strict=True))
    return [standard_error_row(name, str(i), ratio, 1.0, error) for i, (ratio, error) in members]


def gated_rows(courses: dict[str, Course], size: Size) -> list[Row]:
    """The rows of both readouts, and their controls."""
    rows, controls = [], []
    for name, other in (("large", "small"), ("small", "large")):
        course, wrong = courses[name], courses[other]
        rows += course_rows(name, course) + last_rows(f"{name}, last y", course.along, course.expected, size)
        rows += variance_rows(f"{name}, late variance / theory", course, course.expected_variances)
        controls += last_rows(f"{name}, theory of {other}", course.along, wrong.expected, size)
        controls += last_rows(f"{name}, orthogonal", course.orthogonal, course.expected, size)
        controls += variance_rows(f"{name}, variance of {other}", course, wrong.expected_variances)
    if size is FULL:
        large = courses["large"]
        controls += last_rows("large, continuous time", large.along, large.continuous, size)
    return rows + negative_controls(controls)


def main() -> int:
    """Train, print the table, draw the figure."""
    options = parse_options(__file__, __doc__ or "", short_form=f"{QUICK.n_batches} batches")
    size, began = QUICK if options.quick else FULL, time.perf_counter()
    courses = train(size, options.seed)
    print(f"trained in {time.perf_counter() - began:.0f} s", flush=True)
    rows = gated_rows(courses, size)
    print_table(rows, "found", "reference")
    if options.quick:
        after = f"y after 128 and {FULL.n_batches} batches (the last within {FULL.last_tolerance:.1%})"
        print(f"Not checked (--quick): {after}, and continuous time")
    print(*draw_figure(options.out, courses, TOLERANCE, size.last_tolerance), sep="\n")
    return exit_code(rows)


if __name__ == "__main__":
    sys.exit(main())
