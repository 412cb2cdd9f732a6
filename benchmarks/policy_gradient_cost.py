"""What a policy gradient costs in a training, beside a plain JAX scan of the same sizes.

    python benchmarks/policy_gradient_cost.py [--members 4]

Both train GRUs of 48 units with a critic on bandits of 100 choices, 64 trials a batch, by Adam. The plain
program is written as PureJaxRL writes its loops: one `jax.lax.scan` over time under `vmap` over trials and
members, in which network and bandit take turns, a reverse scan for the returns, and one `jax.lax.scan` over
batches. It differentiates the loop that it plays, so that the network runs once, where PureJaxRL runs it
again on what it has stored. They take turns in one process; medians of turns, in CPU time, on one core.
"""

import argparse
import os
import statistics
import time
from collections.abc import Callable
from typing import Any

if __name__ == "__main__":  # before JAX starts
    os.environ["XLA_FLAGS"] = "--xla_cpu_multi_thread_eigen=false intra_op_parallelism_threads=1"

import equinox as eqx
import jax
import jax.numpy as jnp
import optax
from jax import Array

import popsim
from popsim import losses, networks, tasks, training
from popsim.policies import Categorical

N_UNITS, N_TRIALS, N_STEPS, DISCOUNT, VALUE, ENTROPY = 48, 64, 100, 0.9, 0.05, 0.01
KEY = jax.random.key(0)


def build(key: Array) -> popsim.NetworkModel:
    """A network that receives the last action and the last reward."""
    network = networks.GRUNetwork(3, N_UNITS, 3, key=key)
    return popsim.NetworkModel(network, policy=Categorical(2, critic=True), dt=0.1)


def bandit() -> tasks.BernoulliBandit:
    """The task of popsim, with the weights of the plain loss."""
    loss = losses.PolicyGradient(discount=DISCOUNT) + VALUE * losses.ValueRegression(discount=DISCOUNT)
    return tasks.BernoulliBandit(n_choices=N_STEPS, loss=loss + ENTROPY * losses.Entropy())


def with_popsim(ensemble: popsim.NetworkModel, n_batches: int) -> float:
    """CPU seconds of a training after it has been compiled."""
    began = {}
    training.TaskTrainer(training.adam(1e-3))(
        bandit(),
        ensemble,
        n_batches,
        N_TRIALS,
        lambda model: model.network,
        ensembled=True,
        log_step=10**6,
        disable_tqdm=True,
        on_begin=lambda _: began.update(at=time.process_time()),
        key=KEY,
    )
    return time.process_time() - began["at"]


def loss_of_trial(network: networks.AbstractNetwork, key: Array) -> Array:
    """The surrogate loss of one bandit with plain JAX."""
    arms_key, play_key = jax.random.split(key)
    arms = jax.random.uniform(arms_key, (2,))

    def step(carry, key):
        hidden, seen = carry
        choice_key, reward_key = jax.random.split(key)
        hidden = network.step(seen, hidden, key=key)
        output = network.read_out(hidden)
        log_p = jax.nn.log_softmax(output[:2])
        action = jax.random.categorical(choice_key, log_p)
        reward = jax.random.bernoulli(reward_key, arms[action]).astype(float)
        seen = jnp.append(jax.nn.one_hot(action, 2), reward)
        return (hidden, seen), (log_p[action], -jnp.sum(jnp.exp(log_p) * log_p), output[2], reward)

    start = (network.init(key=key), jnp.zeros(3))
    _, (log_p, entropy, values, rewards) = jax.lax.scan(step, start, jax.random.split(play_key, N_STEPS))

    def backward(later, reward):
        total = reward + DISCOUNT * later
        return total, total

    _, returns = jax.lax.scan(backward, jnp.zeros(()), rewards, reverse=True)
    advantage = jax.lax.stop_gradient(returns - values)
    return jnp.sum(-advantage * log_p + VALUE * 0.5 * (values - returns) ** 2 - ENTROPY * entropy)


def plain_program(ensemble: popsim.NetworkModel) -> Callable[[int], float]:
    """A function that trains for some batches with plain JAX and returns the CPU seconds."""
    network = ensemble.network
    learned, rest = eqx.partition(network, popsim.is_parameter(network))
    optimizer = optax.chain(optax.clip_by_global_norm(1.0), optax.adam(1e-3))
    count = popsim.n_members(ensemble)

    def mean_loss(learned: Any, rest: Any, keys: Array) -> Array:
        network = eqx.combine(learned, rest)
        return jnp.mean(jax.vmap(lambda key: loss_of_trial(network, key))(keys))

    def batch(carry: Any, key: Array) -> tuple[Any, None]:
        learned, slots = carry
        keys = jax.random.split(key, (count, N_TRIALS))
        gradients = eqx.filter_vmap(eqx.filter_grad(mean_loss))(learned, rest, keys)
        updates, slots = eqx.filter_vmap(optimizer.update)(gradients, slots, learned)
        return (eqx.apply_updates(learned, updates), slots), None

    loop = eqx.filter_jit(lambda carry, keys: jax.lax.scan(batch, carry, keys)[0][0])

    def train(n_batches: int) -> float:
        carry = (learned, eqx.filter_vmap(optimizer.init)(learned))
        keys = jax.random.split(KEY, n_batches)
        began = time.process_time()
        jax.block_until_ready(eqx.filter(loop(carry, keys), eqx.is_array))
        return time.process_time() - began

    return train


def main() -> None:
    """Measure, and print a row for each number of members."""
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--members", type=int, nargs="+", default=[1, 4, 16])
    parser.add_argument("--turns", type=int, default=5)
    arguments = parser.parse_args()
    short, long = 2, 22
    print(f"{'members':8}{'popsim ms':>11}{'plain ms':>11}{'updates a second, popsim to plain':>36}")
    for count in arguments.members:
        ensemble = popsim.make_ensemble(build, count, key=KEY)
        plain = plain_program(ensemble)
        for n_batches in (short, long):  # compiled for each number of batches
            plain(n_batches)
        pairs = []
        for turn in range(arguments.turns + 1):
            of_popsim = with_popsim(ensemble, long) - with_popsim(ensemble, short)
            of_plain = plain(long) - plain(short)
            if turn:
                pairs.append((of_popsim / (long - short), of_plain / (long - short)))
        ratios = sorted(theirs / ours for ours, theirs in pairs)
        ours, theirs = (1e3 * statistics.median(times) for times in zip(*pairs, strict=True))
        spread = f"{statistics.median(ratios):.2f}   {ratios[0]:.2f} to {ratios[-1]:.2f}"
        print(f"{count:<8}{ours:11.1f}{theirs:11.1f}{spread:>36}", flush=True)


if __name__ == "__main__":
    main()
