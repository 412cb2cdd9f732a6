"""Small, low-dimensional changes of weights suffice to adapt (Feulner et al. 2022; Schuessler et al. 2020).

The networks of `force_field.py` learn to reach, and then, by plain gradient descent on their recurrent
weights alone, to reach in a curl field. The change dW of those weights has few dimensions beside a matrix
without structure, a quarter of its singular modes does nearly all that it does, and it is smaller than the
change by which the networks learned to reach. The same entries in another order, the weak modes alone, and a
network that does the same with its units in another order must not pass. Histories are saved and analysed in
a fresh process, which draws the figure and exits with 1 when a gate fails or a negative control passes.

Sources. Adaptation by local connectivity needs "only small, correlated connectivity changes": Feulner,
Perich, Chowdhury, Miller, Gallego & Clopath 2022, Nat Commun 13, s41467-022-32646-w (abstract verified; they
rotated what was seen of the movement). Learned changes are of low rank: Schuessler, Mastrogiuseppe, Dubreuil,
Ostojic & Barak 2020, NeurIPS 33 (abstract verified). The numbers are of neither paper: they are relative to
matrices without structure, and they depend on the optimizer, so that Adam is reported beside.
"""

import argparse
import dataclasses
import shutil
import sys
import time
from collections.abc import Callable, Mapping, Sequence
from typing import Any

import equinox as eqx
import jax
import jax.numpy as jnp
import numpy as np
import optax

import popsim
from command_line import parse_options, run_on_saved
from figures.weight_change import Change, draw_figure
from force_field import FORCE_NOISE, INITIAL_RATE, REACH, build_untrained, evaluate, targets
from gates import Row, cost_rows, exit_code, negative_controls, print_table, tolerance_row, upper_bound_row
from lqr_reaching import BATCH_SIZE, N_MEMBERS, build_task
from popsim.analysis import trainables
from popsim.store import load_model, save_model
from popsim.training import TaskTrainer, adam, open_history, save_history, sgd
from references import force_field as controllers
from references import weight_change as reference

STRENGTH = 3.0  # N s/m, of the curl field
ADAM_RATE = 1e-3
KEPT_EVERY = 20  # batches
RECURRENT = "network.cell.weight_hh"
RANKS = np.array([0, 1, 2, 4, 6, 8, 12, 16, 24, 32])
QUARTER = 8  # of the 32 singular modes
LEAST_KEPT = 0.95  # of the improvement of the cost


@dataclasses.dataclass(frozen=True)
class Size:
    """How much is trained, and which cost passes, relative to the optimum."""

    n_members: int
    n_initial: int
    n_adaptation: int
    rate: float  # of gradient descent, for J in cm²
    highest_cost: float


FULL, QUICK = Size(N_MEMBERS, 2000, 1000, 5e-3, 1.06), Size(2, 300, 100, 1e-2, 1.3)


def untrained(options: argparse.Namespace, size: Size) -> popsim.SensorimotorLoop:
    """The first networks of `force_field.py`."""
    return jax.tree.map(lambda leaf: leaf[: size.n_members], build_untrained(options.seed))


def train(
    options: argparse.Namespace,
    name: str,
    ensemble: popsim.SensorimotorLoop,
    optimizer: optax.GradientTransformation,
    where_train: Callable[[Any], Any],
    saved_batches: np.ndarray,
) -> popsim.SensorimotorLoop:
    """Train all members, in the field unless `name` is "initial", and save the history.

    J is given in cm². The weights are saved before training and after the batches `saved_batches`.
    """
    strength, n_batches = (0.0 if name == "initial" else STRENGTH), int(saved_batches[-1]) + 1
    scheduled = {"curl field": strength, "force noise": FORCE_NOISE}
    plans = [
        popsim.interventions.InterventionPlan(intervention, parameter)
        for intervention, parameter in scheduled.items()
    ]
    trained, history = TaskTrainer(optimizer)(
        popsim.tasks.WithInterventions(build_task(REACH, weight=1e4), plans),
        ensemble,
        n_batches,
        BATCH_SIZE,
        where_train=where_train,
        ensembled=True,
        log_step=n_batches,
        save_model_trainables=saved_batches,
        disable_tqdm=not sys.stderr.isatty(),
        key=popsim.key_stream(jax.random.key(options.seed), f"weight change, {name}"),
    )
    shutil.rmtree(options.out / name, ignore_errors=True)
    save_history(options.out / name, history, untrained=ensemble)
    return trained


def train_all(options: argparse.Namespace, size: Size) -> None:
    """Train the whole network to reach, and from there its recurrent weights in the field."""
    start = adam(optax.cosine_decay_schedule(INITIAL_RATE, size.n_initial), clip_norm=1.0)
    last = np.array([size.n_initial - 1])
    trained = train(options, "initial", untrained(options, size), start, lambda m: m.network, last)
    save_model(options.out / "initial.safetensors", trained, overwrite=True)
    saved_batches = np.arange(KEPT_EVERY - 1, size.n_adaptation, KEPT_EVERY)
    for name, optimizer in optimizers(options, size).items():
        train(options, name, trained, optimizer, lambda m: m.network.cell.weight_hh, saved_batches)


def optimizers(options: argparse.Namespace, size: Size) -> Mapping[str, optax.GradientTransformation]:
    """How the networks adapt; in the short form by gradient descent only."""
    by_name = {"SGD": sgd(size.rate)}
    return by_name if options.quick else by_name | {"Adam": adam(ADAM_RATE)}


def read_initial(
    options: argparse.Namespace, size: Size
) -> tuple[popsim.SensorimotorLoop, np.ndarray, np.ndarray]:
    """The networks that had learned to reach, and their recurrent weights [member, row, column] before and
    after that."""
    template = eqx.filter_eval_shape(untrained, options, size)
    recurrent = open_history(options.out / "initial")[f"trainables.{RECURRENT}"].values.astype(float)
    return load_model(options.out / "initial.safetensors", template), recurrent[0], recurrent[-1]


def costs_in_field(ensemble: popsim.SensorimotorLoop, change: np.ndarray) -> np.ndarray:
    """J (m²) [member, trial] in the field with the recurrent weights changed by `change`."""
    weights = np.asarray(trainables.arrays_by_name(ensemble)[RECURRENT], float) + change
    changed = trainables.with_arrays(ensemble, {RECURRENT: jnp.asarray(weights, jnp.float32)})
    return evaluate(changed, STRENGTH)[1]


def kept_shares(
    ensemble: popsim.SensorimotorLoop, change: np.ndarray, parts: Sequence[np.ndarray]
) -> np.ndarray:
    """Of the improvement of the cost by a change, the share that each part of it brings [part, member]."""
    changes = [np.zeros_like(change), change, *parts]
    before, after, *between = (costs_in_field(ensemble, part).mean(axis=1) for part in changes)
    return np.stack([(before - cost) / (before - after) for cost in between])


def shuffle_entries(change: np.ndarray, seed: int) -> np.ndarray:
    """The entries of each member's matrix in another order."""
    rng = np.random.default_rng(seed)
    flat = change.reshape(change.shape[0], -1)
    return rng.permuted(flat, axis=1).reshape(change.shape)


def permute_units(weights: np.ndarray, seed: int) -> np.ndarray:
    """Recurrent weights [member, gate and unit, unit] of the same GRUs with their units in another order."""
    n_units = weights.shape[-1]
    order = np.random.default_rng(seed).permutation(n_units)
    blocks = weights.reshape(weights.shape[0], 3, n_units, n_units)
    return blocks[:, :, order][..., order].reshape(weights.shape)


def dimension_rows(name: str, change: np.ndarray) -> list[Row]:
    """The participation ratio of each member beside half of that of a matrix without structure."""
    half = trainables.gaussian_participation_ratio(*change.shape[1:]) / 2
    ratios = trainables.participation_ratio_of_singular_values(np.linalg.svd(change, compute_uv=False))
    return [upper_bound_row(f"{name}, PR(dW)", str(i), float(ratio), half) for i, ratio in enumerate(ratios)]


def kept_rows(name: str, shares: np.ndarray) -> list[Row]:
    """The share of the improvement that a part of the change brings to each member."""
    gate = (LEAST_KEPT, 2 - LEAST_KEPT)
    return [
        Row(f"{name}, share kept", str(i), float(share), 1.0, gate=gate) for i, share in enumerate(shares)
    ]


def size_rows(name: str, change: np.ndarray, initial: np.ndarray) -> list[Row]:
    """|dW| of each member beside that of learning to reach."""
    sizes, first = (np.linalg.norm(x, axis=(1, 2)) for x in (change, initial))
    return [
        upper_bound_row(f"{name}, |dW|", str(i), float(sizes[i]), float(first[i])) for i in range(len(sizes))
    ]


def reference_rows(change: np.ndarray) -> list[Row]:
    """The measures of popsim beside those of the reference."""
    n_rows, n_columns = change.shape[1:]
    closed = trainables.gaussian_participation_ratio(n_rows, n_columns)
    sampled = reference.gaussian_participation_ratio((n_rows, n_columns))
    by_singular_values = trainables.participation_ratio_of_singular_values(
        np.linalg.svd(change, compute_uv=False)
    ).mean()
    parts = (
        trainables.low_rank_approximation(change, QUARTER),
        reference.strongest_directions(change, QUARTER),
    )
    difference = float(np.abs(parts[0] - parts[1]).max() / np.abs(change).max())
    return [
        tolerance_row("Gaussian PR", "", closed, sampled, 0.01),
        tolerance_row(
            "PR(dW) by traces", "mean", by_singular_values, reference.participation_ratio(change).mean(), 1e-6
        ),
        upper_bound_row("truncation, difference", "worst", difference, 1e-6),
    ]


def read_change(
    options: argparse.Namespace, name: str, ensemble: popsim.SensorimotorLoop, start: np.ndarray
) -> Change:
    """What a saved adaptation did to the recurrent weights."""
    saved = open_history(options.out / name)
    weights = saved[f"trainables.{RECURRENT}"]
    change = np.asarray(weights[-1], float) - start
    return Change(
        batch=saved.trainables_batch.values,
        change=change,
        singular_values=trainables.change_singular_values(weights)[-1],
        travelled=trainables.distance_travelled(saved)[RECURRENT].relative,
        from_start=trainables.distance_from_start(saved)[RECURRENT].relative,
        ranks=RANKS,
        kept=kept_shares(
            ensemble, change, [trainables.low_rank_approximation(change, int(rank)) for rank in RANKS]
        ),
    )


def gated_rows(name: str, change: Change, initial: np.ndarray) -> list[Row]:
    """What is asked of an adaptation: its dimensions, what a quarter of them does, and its size."""
    weight_change = change.change
    rows = dimension_rows(name, weight_change) + size_rows(name, weight_change, initial)
    rows += dimension_rows(
        f"{name}, candidates", weight_change[:, -weight_change.shape[-1] :]
    )  # gates change little
    return rows + kept_rows(f"{name}, rank {QUARTER}", change.kept[list(RANKS).index(QUARTER)])


def control_rows(
    options: argparse.Namespace,
    ensemble: popsim.SensorimotorLoop,
    change: np.ndarray,
    before: np.ndarray,
    start: np.ndarray,
) -> list[Row]:
    """Changes without what makes the others pass."""
    mixed, renamed = shuffle_entries(change, options.seed), permute_units(start + change, options.seed)
    rows = dimension_rows("shuffled", mixed) + size_rows("units reordered", renamed - start, start - before)
    strong = trainables.low_rank_approximation(change, QUARTER)
    parts = {
        f"shuffled, rank {QUARTER}": trainables.low_rank_approximation(mixed, QUARTER),
        "weak modes": change - strong,
    }
    for name, shares in zip(parts, kept_shares(ensemble, change, list(parts.values())), strict=True):
        rows += kept_rows(name, shares)
    return negative_controls(rows)


def analyse(options: argparse.Namespace, size: Size) -> int:
    """Open what was saved, compare, print the table, draw the figure."""
    ensemble, before, start = read_initial(options, size)
    names = list(optimizers(options, size))
    changes = {name: read_change(options, name, ensemble, start) for name in names}
    change = changes["SGD"].change
    _, optimum = controllers.controlled_reach(REACH, targets()[0], field=STRENGTH, expected=STRENGTH)
    gate = (optimum, size.highest_cost, True)
    rows = cost_rows("SGD, J (m²)", costs_in_field(ensemble, change), *gate)
    rows += negative_controls(cost_rows("no adaptation, J (m²)", costs_in_field(ensemble, 0 * change), *gate))
    rows += gated_rows("SGD", changes["SGD"], start - before)
    rows += control_rows(options, ensemble, change, before, start)
    rows += reference_rows(change)
    if "Adam" in changes:
        adam_change = changes["Adam"].change
        adam_rows = cost_rows("Adam, J (m²)", costs_in_field(ensemble, adam_change), *gate)
        adam_rows += gated_rows("Adam", changes["Adam"], start - before)
        rows += [dataclasses.replace(row, gate=None) for row in adam_rows]
    print_table(rows, "found", "reference")
    if "Adam" not in changes:
        print("Not reported (--quick): Adam")
    print(*draw_figure(options.out, changes, LEAST_KEPT, jax.random.key(options.seed)), sep="\n")
    return exit_code(rows)


def main() -> int:
    """Train and save; then, in a fresh process, compare and draw."""
    short = f"{QUICK.n_members} members, fewer batches, a higher cost"
    options = parse_options(__file__, __doc__ or "", in_fresh_process=True, short_form=short)
    size = QUICK if options.quick else FULL
    if options.saved:
        return analyse(options, size)
    began = time.perf_counter()
    train_all(options, size)
    print(f"trained in {time.perf_counter() - began:.0f} s", flush=True)
    return run_on_saved(__file__, options)


if __name__ == "__main__":
    sys.exit(main())
