"""Networks of two kinds that remember three bits (Sussillo & Barak 2013; Maheswaranathan et al. 2019).

A short pulse on an input sets a bit, which has to be put out until the next pulse. Five gated networks and
five of tanh units are trained until the mean squared error of each is below 1e-3. Without pulses they then
have to settle where they still hold their bits, and to stay there for 500 steps. Untrained networks must
fail, and trained ones that are asked for the bits of another trial. Networks and histories are saved, and
opened in a fresh process, which prints the numbers of all members, draws the figure, and exits with 1 when
a gate fails or a control passes. `trained_networks` gives the networks to other scripts.
"""

import argparse
import dataclasses
import shutil
import sys
import time
from collections.abc import Callable
from pathlib import Path
from typing import Any

import equinox as eqx
import jax
import jax.numpy as jnp
import numpy as np
from jaxtyping import Array, Float, Key

import popsim
from command_line import parse_options, run_on_saved
from figures.flip_flop import Memory, draw_figure
from gates import Row, exit_code, negative_controls, print_table, upper_bound_row
from popsim.store import load_model, read_model_details, save_model
from popsim.training import TaskTrainer, adam, log_spaced_batches, open_history, save_history

N_BITS, PULSE_PROBABILITY = 3, 0.06  # of a pulse on each input at each step
N_STEPS, BATCH_SIZE = 100, 64
DT = 1.0  # a time step is the unit of time
N_TESTED = 512  # trials
N_HELD = 500  # steps for which outputs have to stay
# Trials of 100 steps teach no network what to do later: gated ones have slow modes, and take this long.
N_SETTLING, N_SOON = 5000, 50
LARGEST_DRIFT = 0.05  # of an output that has settled
LARGEST_HELD_ERROR = 0.5  # so that it is nearer to its bit, +1 or -1, than to none


@dataclasses.dataclass(frozen=True)
class NetworkKind:
    """A kind of network, and the learning rate for it."""

    build: Callable[[Key[Array, ""]], popsim.networks.AbstractNetwork]
    rate: float


def build_gru(key: Key[Array, ""]) -> popsim.networks.GRUNetwork:
    """32 gated recurrent units."""
    return popsim.networks.GRUNetwork(N_BITS, 32, N_BITS, key=key)


def build_tanh(key: Key[Array, ""]) -> popsim.networks.LeakyRNN:
    """64 units h' = tanh(W h + W_in u + b): leaky units that forget all of themselves in a step."""
    return popsim.networks.LeakyRNN(N_BITS, 64, N_BITS, tau=DT, dt=DT, gain=0.9, key=key)


NETWORK_KINDS = {"GRU": NetworkKind(build_gru, 5e-3), "tanh": NetworkKind(build_tanh, 3e-3)}


@dataclasses.dataclass(frozen=True)
class Size:
    """How much is trained, and which mean squared error passes."""

    n_members: int
    n_batches: int
    largest_error: float


FULL, QUICK = Size(5, 3000, 1e-3), Size(2, 300, 0.1)


def mean_squared_error(states, trial, model):
    return jnp.mean((states.network.output - trial.targets.values) ** 2)


class FlipFlop(popsim.AbstractTask):
    """Put out for each input the sign of its last pulse; all are pulsed at the first step."""

    n_steps: int = eqx.field(static=True, default=N_STEPS)
    loss: popsim.Loss = eqx.field(
        default_factory=lambda: 1.0 * popsim.FunctionTerm("squared error", mean_squared_error)
    )

    def trial(self, *, batch, key):
        shape = (self.n_steps, N_BITS)
        comes = (
            jax.random.bernoulli(popsim.key_stream(key, "times"), PULSE_PROBABILITY, shape).at[0].set(True)
        )
        signs = jax.random.rademacher(popsim.key_stream(key, "signs"), shape, float)
        return self.trial_of(jnp.where(comes, signs, 0.0))

    def validation_trials(self):
        """The eight triples of bits, set at the first step and held."""
        bits = 1.0 - 2.0 * ((jnp.arange(2**N_BITS)[:, None] >> jnp.arange(N_BITS)) & 1)
        return jax.vmap(lambda triple: self.trial_of(jnp.zeros((self.n_steps, N_BITS)).at[0].set(triple)))(
            bits
        )

    def trial_of(self, pulses: Float[Array, "time bit"]) -> popsim.Trial:
        """The trial with these pulses, +1, -1 or 0 for none."""
        bits = jax.lax.associative_scan(lambda old, new: jnp.where(new == 0, old, new), pulses)
        targets = popsim.OutputTarget(bits, jnp.ones(self.n_steps))
        return popsim.Trial((), {"pulses": pulses}, targets, popsim.Timeline(dt=DT, n_steps=self.n_steps))


def build_ensemble(cell: str, n_members: int, seed: int) -> popsim.NetworkModel:
    """Untrained networks."""
    key = popsim.key_stream(jax.random.key(seed), f"{cell} networks")

    def build(key):
        return popsim.NetworkModel(NETWORK_KINDS[cell].build(key), dt=DT)

    return popsim.make_ensemble(build, n_members, key=key)


def train(folder: Path, cell: str, size: Size, seed: int) -> popsim.NetworkModel:
    """The trained ensemble; it and its history are saved in `folder`."""
    untrained = build_ensemble(cell, size.n_members, seed)
    trained, history = TaskTrainer(adam(NETWORK_KINDS[cell].rate))(
        FlipFlop(),
        untrained,
        size.n_batches,
        BATCH_SIZE,
        where_train=lambda model: model.network,
        ensembled=True,
        log_step=size.n_batches,
        save_model_trainables=log_spaced_batches(size.n_batches, 20),
        disable_tqdm=not sys.stderr.isatty(),
        key=popsim.key_stream(jax.random.key(seed), f"{cell} training"),
    )
    folder.mkdir(parents=True, exist_ok=True)
    shutil.rmtree(folder / cell, ignore_errors=True)
    save_history(folder / cell, history, untrained=untrained)
    details = describe(size, seed)
    save_model(folder / f"{cell}.safetensors", trained, details=details, overwrite=True)
    return trained


def describe(size: Size, seed: int) -> dict[str, int]:
    """What a saved ensemble was trained with."""
    return {"members": size.n_members, "batches": size.n_batches, "seed": seed}


def trained_networks(folder: Path, cell: str, size: Size, seed: int) -> popsim.NetworkModel:
    """The ensemble that `train` saved in `folder`."""
    path, expected = folder / f"{cell}.safetensors", describe(size, seed)
    saved = read_model_details(path)
    if saved != expected:
        raise ValueError(f"`folder` must hold networks of {expected}, got {saved} in {path}.")
    return load_model(path, eqx.filter_eval_shape(build_ensemble, cell, size.n_members, seed))


def respond(ensemble: popsim.NetworkModel, task: FlipFlop, trials: popsim.Trial, seed: int) -> Memory:
    """What networks put out in trials, the same for all members."""
    key = jax.random.key(seed)
    outputs = popsim.evaluate_ensemble(ensemble, task, trials=trials, key=key).states.network.output
    return Memory(*(np.asarray(x, float) for x in (trials.inputs["pulses"], trials.targets.values, outputs)))


def error_rows(name: str, memory: Memory, largest: float) -> list[Row]:
    """The mean squared error of each member."""
    errors = np.mean((memory.outputs - memory.bits) ** 2, axis=(1, 2, 3))
    return [upper_bound_row(f"{name}, MSE", str(i), error, largest) for i, error in enumerate(errors)]


def held_rows(name: str, memory: Memory) -> list[Row]:
    """By how much a held output is wrong at most."""
    errors = memory.largest_errors()[:, N_SETTLING:].max(axis=1)
    return [
        upper_bound_row(f"{name}, held error", str(i), error, LARGEST_HELD_ERROR)
        for i, error in enumerate(errors)
    ]


def drift_rows(name: str, memory: Memory) -> list[Row]:
    """By how much a held output moves at most: soon after the pulse, which is only reported, and settled."""
    rows = []
    for when, start in (("soon", N_SOON), ("settled", N_SETTLING)):
        outputs = memory.outputs[:, :, start : start + N_HELD]
        drifts = np.abs(outputs - outputs[:, :, :1]).max(axis=(1, 2, 3))
        rows += [
            upper_bound_row(f"{name}, drift {when}", str(i), drift, LARGEST_DRIFT)
            for i, drift in enumerate(drifts)
        ]
    return [dataclasses.replace(row, gate=None) if "soon" in row.condition else row for row in rows]


def kind_rows(
    cell: str, trained: popsim.NetworkModel, size: Size, seed: int
) -> tuple[list[Row], dict[str, Memory]]:
    """The rows of one kind of network, and what the networks put out in trials and when they hold."""
    task, holding = FlipFlop(), FlipFlop(n_steps=N_SETTLING + N_HELD)
    keys = jax.random.split(popsim.key_stream(jax.random.key(seed), "test"), N_TESTED)
    trials = jax.vmap(lambda key: task.trial(batch=0, key=key))(keys)
    untrained = build_ensemble(cell, size.n_members, seed)
    memory, before = (respond(ensemble, task, trials, seed) for ensemble in (trained, untrained))
    triples = holding.validation_trials()
    holding_memory, held_before = (
        respond(ensemble, holding, triples, seed) for ensemble in (trained, untrained)
    )
    rows = (
        error_rows(cell, memory, size.largest_error)
        + held_rows(cell, holding_memory)
        + drift_rows(cell, holding_memory)
    )
    other_trial = dataclasses.replace(memory, bits=np.roll(memory.bits, 1, axis=0))
    controls = error_rows(f"{cell}, untrained", before, size.largest_error)
    controls += held_rows(f"{cell}, untrained", held_before)
    controls += error_rows(f"{cell}, other trial", other_trial, size.largest_error)
    return rows + negative_controls(controls), {"trials": memory, "holding": holding_memory}


def analyse(options: argparse.Namespace, size: Size) -> int:
    """Open what was saved, test it, print the table, draw the figure."""
    rows: list[Row] = []
    memories: dict[str, Any] = {}
    for cell in NETWORK_KINDS:
        trained = trained_networks(options.out, cell, size, options.seed)
        new_rows, memories[cell] = kind_rows(cell, trained, size, options.seed)
        rows += new_rows
    print_table(rows, "found", "largest")
    losses = {
        cell: open_history(options.out / cell).loss.sum("term", skipna=False).values for cell in NETWORK_KINDS
    }
    largest = (size.largest_error, LARGEST_HELD_ERROR)
    print(*draw_figure(options.out, memories, losses, largest, N_HELD), sep="\n")
    return exit_code(rows)


def main() -> int:
    """Train and save; then, in a fresh process, test and draw."""
    short = f"train {QUICK.n_members} members for {QUICK.n_batches} batches, to a larger error"
    options = parse_options(__file__, __doc__ or "", in_fresh_process=True, short_form=short)
    size = QUICK if options.quick else FULL
    if options.saved:
        return analyse(options, size)
    for cell in NETWORK_KINDS:
        began = time.perf_counter()
        train(options.out, cell, size, options.seed)
        seconds = time.perf_counter() - began
        print(f"{cell}: {size.n_members} members, {size.n_batches} batches, {seconds:.0f} s", flush=True)
    return run_on_saved(__file__, options)


if __name__ == "__main__":
    sys.exit(main())
