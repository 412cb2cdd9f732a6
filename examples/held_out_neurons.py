"""Networks predict neurons that were held out, from others in the same trial (scored as in Pei et al. 2021).

Spikes of 40 units follow a Lorenz system, which begins somewhere else in each trial. An encoder reads 30
units and gives the start of a network without inputs, whose outputs are the log rates of all 40. In trials
that were held out as well, the other 10 units are scored in bits per spike, beside the true rates. Each
network has to come near them, and to surpass the nearest wrong model: Poisson regression on smoothed spikes,
with the width that is best in these very trials. Further networks read the first half of a trial, and have to
know something of the second. Nothing must be known by networks with one learned start for all trials, and by
starts that are encoded from another trial. Prints the numbers, draws the figure, and exits with 1 when a gate
fails or a control passes.
"""

import dataclasses
import sys
import time
from collections.abc import Callable

import equinox as eqx
import jax
import jax.numpy as jnp
import numpy as np

import popsim
from command_line import parse_options
from figures.held_out_neurons import draw_figure
from gates import Row, at_least_row, exit_code, negative_controls, print_table, upper_bound_row
from popsim import losses, networks, tasks, training, windows
from popsim.analysis.neural_activity import bits_per_spike
from references import held_out_neurons as reference

DT, N_STEPS, N_UNITS, N_READ, N_TRAIN, N_TEST = reference.DT, 50, 40, 30, 1000, 200
N_HIDDEN, N_MEMBERS, BATCH_SIZE = 32, 3, 64
WIDTHS = (1, 2, 3, 4, 6)  # time steps: of smoothing
SHARE_OF_TRUE, LEAST_KNOWN = (0.75, 1.0), 0.01  # of the score of the true rates; bits per spike
LARGEST_DIFFERENCE = 1e-9  # of one score by two programs, in bits per spike
PAST = windows.Between(0.0, N_STEPS // 2 * DT)
ENCODED, FROM_PAST, ONE_START, OTHER_TRIAL = "encoded", "from the past", "one start", "other trial"
STARTS: dict[str, Callable[[networks.LeakyRNN, jax.Array], networks.AbstractNetwork]] = {
    ENCODED: lambda inner, key: networks.EncodedStart(inner, range(N_READ), key=key),
    FROM_PAST: lambda inner, key: networks.EncodedStart(inner, range(N_READ), window=PAST, key=key),
    ONE_START: lambda inner, key: networks.TrainableStart(inner),
}


@dataclasses.dataclass(frozen=True)
class Data:
    """A recording, of whose trials the last `N_TEST` are held out, and the task to fit the others."""

    recording: reference.Recording
    task: tasks.StoredTrials

    @property
    def true_rates(self) -> np.ndarray:
        """Those of all units in the trials that are held out [trial, time, unit]."""
        return self.recording.rates[-N_TEST:]

    def score(self, rates: np.ndarray, *, in_second_half: bool = False) -> np.ndarray:
        """Bits per spike [member] of the units that are not read, from rates [..., trial, time, unit]."""
        spikes = self.recording.spikes[-N_TEST:, :, N_READ:]
        counts = np.arange(N_STEPS)[:, None] >= (N_STEPS // 2 if in_second_half else 0)
        predicted = rates.reshape(-1, *rates.shape[-3:])[..., N_READ - N_UNITS :]
        return bits_per_spike(predicted, spikes, dt=DT, counts=counts)


def make_data(n_train: int, seed: int) -> Data:
    """Spikes, and the task to make each output the log rate of a unit."""
    n_trials = n_train + N_TEST
    recording = reference.record(n_trials, N_STEPS, N_UNITS, seed)
    task = tasks.StoredTrials(
        {"nothing": np.zeros((n_trials, N_STEPS, 1))},
        dt=DT,
        recordings={"spikes": recording.spikes},
        validation=range(n_train, n_trials),
        loss=1.0 * losses.SpikeCountLikelihood(of="output", log_rates=True),
    )
    return Data(recording, task)


def fit(data: Data, start: Callable, n_batches: int, key: jax.Array) -> popsim.NetworkModel:
    """Networks with this kind of start, trained. Their outputs begin at the log of mean rates."""
    log_rates = np.log(data.recording.spikes[:-N_TEST].mean(axis=(0, 1)) / DT)

    def build(key):
        inner = networks.LeakyRNN(1, N_HIDDEN, N_UNITS, dt=DT, output_bias=log_rates, key=key)
        return popsim.NetworkModel(start(inner, popsim.key_stream(key, "start")), dt=DT)

    ensemble = popsim.make_ensemble(build, N_MEMBERS, key=popsim.key_stream(key, "networks"))
    optimizer = training.adam(training.cosine_decay(5e-3, n_batches), clip_norm=1.0)
    trained, _ = training.TaskTrainer(optimizer)(
        data.task,
        ensemble,
        n_batches,
        BATCH_SIZE,
        where_train=lambda model: model.network,
        ensembled=True,
        log_step=n_batches,
        disable_tqdm=not sys.stderr.isatty(),
        key=popsim.key_stream(key, "training"),
    )
    return trained


def rates_of(models: popsim.NetworkModel, data: Data, *, of_another: bool = False) -> np.ndarray:
    """Rates [member, trial, time, unit] in the trials that are held out, or from what another one encodes."""
    trials = data.task.validation_trials()
    if of_another:
        spikes = jnp.roll(trials.recordings["spikes"].values, 1, axis=0)
        trials = eqx.tree_at(lambda trials: trials.recordings["spikes"].values, trials, spikes)
    key = jax.random.key(0)  # nothing is drawn
    return np.exp(popsim.evaluate_ensemble(models, data.task, trials=trials, key=key).states.network.output)


def score_rows(data: Data, rates: dict[str, np.ndarray], regressed: dict[int, np.ndarray]) -> list[Row]:
    """The scores of regressions, and of networks with their gates and controls."""
    true, true_later = (float(data.score(data.true_rates, in_second_half=half)[0]) for half in (False, True))
    widths = {width: float(data.score(found)[0]) for width, found in regressed.items()}
    rows = [Row(f"regression, width {width}, of true rates", "-", n, true) for width, n in widths.items()]
    scores = {name: data.score(found) for name, found in rates.items()}
    later = {name: data.score(found, in_second_half=True) for name, found in rates.items()}
    for member in range(N_MEMBERS):
        score, label = float(scores[ENCODED][member]), str(member)
        rows.append(Row(f"{ENCODED}, of true rates", label, score, true, gate=SHARE_OF_TRUE))
        rows.append(at_least_row(f"{ENCODED}, beside regression", member, score, max(widths.values())))
        score = float(later[FROM_PAST][member])
        rows.append(Row(f"{FROM_PAST}, second half, of true rates", label, score, true_later))
        rows.append(at_least_row(f"{FROM_PAST}, second half, bits", member, score, LEAST_KNOWN))
        controls = {
            f"{ONE_START}, bits": scores[ONE_START],
            f"{OTHER_TRIAL}, bits": scores[OTHER_TRIAL],
            f"{ONE_START}, second half, bits": later[ONE_START],
        }
        rows += negative_controls(
            [
                at_least_row(name, member, float(found[member]), LEAST_KNOWN)
                for name, found in controls.items()
            ]
        )
    spikes = data.recording.spikes[-N_TEST:, :, N_READ:]
    same = reference.bits_per_spike(rates[ENCODED][0, ..., N_READ:].astype(float), spikes)
    difference = abs(same - float(scores[ENCODED][0]))
    return [*rows, upper_bound_row("score beside NumPy's", "0", difference, LARGEST_DIFFERENCE)]


def main() -> int:
    """Fit networks and regressions, print the table, draw the figure."""
    options = parse_options(__file__, __doc__ or "", short_form="fewer batches")
    n_batches = 350 if options.quick else 600
    data, key, began = make_data(N_TRAIN, options.seed), jax.random.key(options.seed), time.perf_counter()
    rates = {}
    for name, start in STARTS.items():
        models = fit(data, start, n_batches, key)
        rates[name] = rates_of(models, data)
        if name == ENCODED:
            rates[OTHER_TRIAL] = rates_of(models, data, of_another=True)
    regressed = {width: reference.regress(data.recording.spikes, N_READ, N_TRAIN, width) for width in WIDTHS}
    print(f"run in {time.perf_counter() - began:.0f} s")
    rows = score_rows(data, rates, regressed)
    print_table(rows, "found", "reference")
    shown = {name: found[..., N_READ:] for name, found in (("true", data.true_rates), *rates.items())}
    spikes = data.recording.spikes[-N_TEST:, :, N_READ:]
    print(*draw_figure(options.out, shown, regressed, spikes), sep="\n")
    return exit_code(rows)


if __name__ == "__main__":
    sys.exit(main())
