"""Networks that time noisy intervals regress to the mean as they should (after Jazayeri & Shadlen 2010).

Two pulses mark an interval t, but what is shown is a measurement of it, m = t (1 + 0.1 x) with normal x. The
output has to ramp to 1 within t after the second pulse. The best guess of t from m is the Bayes least-squares
estimate, which depends on the prior from which t is drawn. Networks are trained on a short, a middle and a
long prior. The mean interval that each produces for each measurement has to lie within a tenth of the prior's
range of the estimate of `references/interval_timing.py`, which shares no code with popsim. Its error in noisy
trials has to be near the smallest possible. Networks trained without the noise produce what they are shown,
and must miss both. The estimates for another prior must miss the first, and so must somebody who regresses
half as much. Prints the numbers, draws the figure, and exits with 1 when a gate fails or a control
passes.
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
from figures.interval_timing import Timed, draw_figure
from gates import Row, exit_code, negative_controls, print_table, tolerance_row, upper_bound_row
from popsim.analysis.behaviour import produced_interval
from popsim.distributions import Choice, Uniform
from popsim.tasks import ReadySetGo
from popsim.training import TaskTrainer, adam, cosine_decay
from references import interval_timing as reference

PRIORS = {"short": (0.494, 0.847), "middle": (0.6705, 1.0235), "long": (0.847, 1.2)}  # s
WEBER_FRACTION = 0.1
DT, PULSE, FIXATION = 0.04, 0.08, (0.08, 0.2)  # s
DURATION, TEST_DURATION = 3.32, 4.4  # s: of the longest measurement and ramp, and half as much again
N_UNITS, BATCH_SIZE, LEARNING_RATE, CLIP_NORM = 48, 64, 0.01, 1.0
N_MEASUREMENTS, N_REPEATS, N_TESTED = 9, 32, 2000  # trials
LARGEST_DEVIATION = 0.1  # of the range of the prior
HIGHEST_ERROR = 1.05  # relative to the smallest; half-way to the measurement it is 1.07 to 1.13
TOWARD_SHOWN = 0.5  # how far from the estimate toward the measurement misses the first of these


@dataclasses.dataclass(frozen=True)
class Size:
    """Which priors are trained, and for how many batches with and without noise."""

    priors: tuple[str, ...]
    n_batches: int
    n_noiseless: int


FULL, QUICK = Size(("short", "middle", "long"), 1500, 500), Size(("long",), 1000, 400)


def build_task(interval: popsim.distributions.AbstractDistribution, weber_fraction, duration: float):
    """The task with this prior and noise."""
    return ReadySetGo(
        interval=interval,
        weber_fraction=weber_fraction,
        fixation=Uniform(*FIXATION),
        pulse=PULSE,
        duration=duration,
        dt=DT,
    )


def train(
    priors: tuple[str, ...], weber_fraction: float, n_batches: int, key: Key[Array, ""]
) -> popsim.NetworkModel:
    """Trained networks, one for each prior."""
    lows, highs = np.transpose([PRIORS[name] for name in priors])
    prior = Uniform(popsim.PerMember(lows), popsim.PerMember(highs))

    def build(key):
        return popsim.NetworkModel(popsim.networks.GRUNetwork(2, N_UNITS, 1, key=key), dt=DT)

    trained, _ = TaskTrainer(adam(cosine_decay(LEARNING_RATE, n_batches), clip_norm=CLIP_NORM))(
        build_task(prior, weber_fraction, DURATION),
        popsim.make_ensemble(build, len(priors), key=popsim.key_stream(key, "networks")),
        n_batches,
        BATCH_SIZE,
        where_train=lambda model: model.network,
        ensembled=True,
        log_step=n_batches,
        disable_tqdm=not sys.stderr.isatty(),
        key=popsim.key_stream(key, "training"),
    )
    return trained


def produce(ensemble: popsim.NetworkModel, task: ReadySetGo, trials: popsim.Trial) -> np.ndarray:
    """The interval [member, trial] after which the output of each network reaches 1, in s."""
    states = popsim.evaluate_ensemble(ensemble, task, trials=trials, key=jax.random.key(0)).states
    output, set_ = states.network.output[..., 0], trials.timeline.events["set"]
    return np.asarray(jax.vmap(lambda ramps: produced_interval(ramps, set_, dt=DT))(output))


def measurements(prior: tuple[float, float]) -> np.ndarray:
    """The intervals that are shown, whole steps, from one standard deviation below the prior to one above."""
    low, high = prior[0] * (1 - WEBER_FRACTION), prior[1] * (1 + WEBER_FRACTION)
    return DT * np.unique(np.round(np.linspace(low, high, N_MEASUREMENTS) / DT))


def of_prior(ensembles: tuple[popsim.NetworkModel, popsim.NetworkModel], number: int) -> popsim.NetworkModel:
    """The two networks of one prior: the one trained with noise, and the one without."""
    networks = [popsim.member(ensemble, number) for ensemble in ensembles]
    return jax.tree.map(
        lambda *leaves: jnp.stack(leaves) if eqx.is_array(leaves[0]) else leaves[0], *networks
    )


def test(ensemble: popsim.NetworkModel, prior: tuple[float, float], key: Key[Array, ""]) -> Timed:
    """What the networks of one prior produce in its trials: of chosen measurements, and of drawn ones."""
    shown = measurements(prior)
    task = build_task(Choice(shown), 0.0, TEST_DURATION)
    trials = popsim.sample_trials(
        task, N_REPEATS * len(shown), batch=0, key=popsim.key_stream(key, "measurements")
    )
    produced = produce(ensemble, task, trials)
    index = np.argmin(np.abs(np.asarray(trials.conditions["measured"])[:, None] - shown), axis=1)
    means = np.stack([produced[:, index == i].mean(axis=1) for i in range(len(shown))], axis=1)
    task = build_task(Uniform(*prior), WEBER_FRACTION, TEST_DURATION)
    trials = popsim.sample_trials(task, N_TESTED, batch=0, key=popsim.key_stream(key, "noisy trials"))
    measured, intervals = (np.asarray(trials.conditions[name], float) for name in ("measured", "interval"))
    return Timed(
        shown,
        means,
        reference.estimate(shown, *prior, WEBER_FRACTION),
        (produce(ensemble, task, trials) - intervals) ** 2,
        (reference.estimate(measured, *prior, WEBER_FRACTION) - intervals) ** 2,
        (measured - intervals) ** 2,
    )


def deviation_row(name: str, width: float, means: np.ndarray, estimates: np.ndarray) -> Row:
    """The largest deviation of mean intervals from the estimates, beside the largest that passes."""
    deviation = float(np.abs(means - estimates).max())
    return upper_bound_row(f"{name}, deviation (s)", "0", deviation, LARGEST_DEVIATION * width)


def error_row(name: str, squares: np.ndarray, best_squares: np.ndarray) -> Row:
    """The error in noisy trials, beside that of the best estimate in the same trials."""
    best = float(best_squares.mean())
    error = float((squares - best_squares).std(ddof=1) / len(squares) ** 0.5 / best / 2)
    values = float(squares.mean() ** 0.5), best**0.5
    return Row(f"{name}, error (s)", "0", *values, error, (1 - 3 * error, HIGHEST_ERROR))


def prior_rows(name: str, timed: Timed) -> list[Row]:
    """The rows of a prior: of the network trained with noise, and of the one without, which must miss."""
    low, high = PRIORS[name]
    gated, controls = (
        [
            deviation_row(label, high - low, timed.means[i], timed.estimates),
            error_row(label, timed.squares[i], timed.best_squares),
        ]
        for i, label in enumerate((name, f"{name}, without noise"))
    )
    off = timed.estimates + TOWARD_SHOWN * (timed.shown - timed.estimates)
    controls.append(deviation_row(f"{name}, half-way to shown", high - low, off, timed.estimates))
    for other in (other for other in PRIORS if other != name):
        wrong = reference.estimate(timed.shown, *PRIORS[other], WEBER_FRACTION)
        label = f"{name}, as if {other}"
        controls.append(deviation_row(label, high - low, timed.means[0], wrong))
    measured = float(timed.measured_squares.mean() ** 0.5)
    smallest = reference.smallest_error(low, high, WEBER_FRACTION)
    played = float(timed.best_squares.mean() ** 0.5)
    reported = [
        Row(f"{name}, error of measurement", "", measured, smallest),
        tolerance_row(f"{name}, error of estimate", "", played, smallest, 0.05),
    ]
    return [*gated, *reported, *negative_controls(controls)]


def main() -> int:
    """Train and test networks on all priors, print the table, draw the figure."""
    short = f"the {QUICK.priors[0]} prior only, {QUICK.n_batches} batches"
    options = parse_options(__file__, __doc__ or "", short_form=short)
    size, key = QUICK if options.quick else FULL, jax.random.key(options.seed)
    began = time.perf_counter()
    ensembles = (
        train(size.priors, WEBER_FRACTION, size.n_batches, key),
        train(size.priors, 0.0, size.n_noiseless, key),
    )
    seconds = time.perf_counter() - began
    print(f"{len(size.priors)} networks, {size.n_batches} batches: {seconds:.0f} s", flush=True)
    results = {
        name: test(of_prior(ensembles, number), PRIORS[name], popsim.key_stream(key, f"test {name}"))
        for number, name in enumerate(size.priors)
    }
    rows = [row for name, timed in results.items() for row in prior_rows(name, timed)]
    print_table(rows, "found", "reference")
    print(*draw_figure(options.out, results, PRIORS), sep="\n")
    return exit_code(rows)


if __name__ == "__main__":
    sys.exit(main())
