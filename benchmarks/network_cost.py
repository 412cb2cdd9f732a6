"""What each network costs in a training, beside a plain JAX scan of the same steps.

    python benchmarks/network_cost.py [--members 4]

Both train by back-propagation and Adam on the same trials of one batch: 64 trials of 100 steps, 64 units, 10
inputs and 2 outputs, without a body and without noise. The plain program calls the network's own `step` and
`read_out` in one `jax.lax.scan`, under `vmap` over trials and members. They take turns in one process;
medians of turns, in CPU time, on one core.
"""

import argparse
import functools
import os
import statistics

if __name__ == "__main__":  # before JAX starts
    os.environ["XLA_FLAGS"] = "--xla_cpu_multi_thread_eigen=false intra_op_parallelism_threads=1"

import equinox as eqx
import jax
import jax.numpy as jnp
from jax import Array
from plain_training import KEY, N_TRIALS, Training, time_in_turns, time_popsim
from plain_training import plain_training as train_plainly

import popsim
from popsim import networks
from popsim.networks import NETWORKS, build_network

N_INPUTS, N_UNITS, N_OUTPUTS, N_STEPS, DT = 10, 64, 2, 100, 0.01
ALL_NETWORKS = (*NETWORKS, "fast weights")


def squared_output(states, trial, model):
    """The mean square of the output."""
    return jnp.mean(states.network.output**2)


class Noise(popsim.AbstractTask):
    """Put out nothing while the inputs are white noise."""

    loss: popsim.Loss = eqx.field(
        default_factory=lambda: 1.0 * popsim.FunctionTerm("squared output", squared_output)
    )

    def trial(self, *, batch, key):
        return popsim.Trial(
            init=(),
            inputs=jax.random.normal(key, (N_STEPS, N_INPUTS)),
            targets=(),
            timeline=popsim.Timeline(dt=DT, n_steps=N_STEPS),
        )

    def validation_trials(self):
        return popsim.sample_trials(self, 2, batch=0, key=KEY)


def build(name: str, *, key: jax.Array) -> networks.AbstractNetwork:
    """One of the registered networks, or fast weights, which have a number for each connection."""
    if name == "fast weights":
        plasticity = networks.FastWeights(0.2, 1.0)
        return networks.LeakyRNN(N_INPUTS, N_UNITS, N_OUTPUTS, dt=DT, plasticity=plasticity, key=key)
    return build_network(name, N_INPUTS, N_UNITS, N_OUTPUTS, dt=DT, key=key)


def build_ensemble(name: str, n_members: int) -> popsim.NetworkModel:
    """Members of one of the networks, as models without a body."""
    return popsim.make_ensemble(
        lambda key: popsim.NetworkModel(build(name, key=key), dt=DT), n_members, key=KEY
    )


def plain_training(ensemble: popsim.NetworkModel, n_batches: int) -> Training:
    """The training with plain JAX: a function, and its arguments for this number of batches."""
    n_members = popsim.n_members(ensemble)

    def draw(key: Array) -> Array:
        return jax.random.normal(key, (n_members, N_TRIALS, N_STEPS, N_INPUTS))

    def loss_of_trial(network: networks.AbstractNetwork, inputs: Array) -> Array:
        def step(hidden, row):
            hidden = network.step(row, hidden, key=KEY)
            return hidden, network.read_out(hidden)

        return jnp.mean(jax.lax.scan(step, network.init(key=KEY), inputs)[1] ** 2)

    return train_plainly(ensemble, n_batches, draw, loss_of_trial)


def main() -> None:
    """Measure, and print a row for each network."""
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--members", type=int, default=4)
    parser.add_argument("--turns", type=int, default=5)
    parser.add_argument("--networks", nargs="+", default=ALL_NETWORKS)
    arguments = parser.parse_args()
    print(f"{'network':14}{'popsim ms':>11}{'plain ms':>11}{'ratio':>8}   least to most")
    for name in arguments.networks:
        ensemble = build_ensemble(name, arguments.members)
        pairs = time_in_turns(
            functools.partial(time_popsim, Noise(), ensemble),
            functools.partial(plain_training, ensemble),
            arguments.turns,
        )
        ratios = sorted(ours / theirs for ours, theirs in pairs)
        ours, theirs = (1e3 * statistics.median(times) for times in zip(*pairs, strict=True))
        print(
            f"{name:14}{ours:11.1f}{theirs:11.1f}{statistics.median(ratios):8.2f}   "
            f"{ratios[0]:.2f} to {ratios[-1]:.2f}",
            flush=True,
        )


if __name__ == "__main__":
    main()
