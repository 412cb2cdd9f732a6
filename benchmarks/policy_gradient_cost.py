"""What a policy gradient costs in a training, beside a plain JAX scan of the same sizes.

    python benchmarks/policy_gradient_cost.py [--members 4]

Both train GRUs of 48 units with a critic on bandits of 100 choices, 64 trials a batch, by Adam. The plain
program is written as PureJaxRL writes its loops: one `jax.lax.scan` over time under `vmap` over trials and
members, in which network and bandit take turns, a reverse scan for the returns, and one `jax.lax.scan` over
batches. It differentiates the loop that it plays, so that the network runs once, where PureJaxRL runs it
again on what it has stored. They take turns in one process; medians of turns, in CPU time, on one core.
"""

import argparse
import functools
import os
import statistics

if __name__ == "__main__":  # before JAX starts
    os.environ["XLA_FLAGS"] = "--xla_cpu_multi_thread_eigen=false intra_op_parallelism_threads=1"

import jax
import jax.numpy as jnp
from jax import Array
from plain_training import KEY, N_TRIALS, Training, plain_training, time_in_turns, time_popsim

import popsim
from popsim import losses, networks, tasks
from popsim.policies import Categorical

N_UNITS, N_STEPS, DISCOUNT, VALUE, ENTROPY = 48, 100, 0.9, 0.05, 0.01


def build(key: Array) -> popsim.NetworkModel:
    """A network that receives the last action and the last reward."""
    network = networks.GRUNetwork(3, N_UNITS, 3, key=key)
    return popsim.NetworkModel(network, policy=Categorical(2, critic=True), dt=0.1)


def bandit() -> tasks.BernoulliBandit:
    """The task of popsim, with the weights of the plain loss."""
    loss = losses.PolicyGradient(discount=DISCOUNT) + VALUE * losses.ValueRegression(discount=DISCOUNT)
    return tasks.BernoulliBandit(n_choices=N_STEPS, loss=loss + ENTROPY * losses.Entropy())


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


def train_plainly(ensemble: popsim.NetworkModel, n_batches: int) -> Training:
    """The training with plain JAX: a function, and its arguments for this number of batches."""
    shape = (popsim.n_members(ensemble), N_TRIALS)
    return plain_training(ensemble, n_batches, lambda key: jax.random.split(key, shape), loss_of_trial)


def main() -> None:
    """Measure, and print a row for each number of members."""
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--members", type=int, nargs="+", default=[1, 4, 16])
    parser.add_argument("--turns", type=int, default=5)
    arguments = parser.parse_args()
    print(f"{'members':8}{'popsim ms':>11}{'plain ms':>11}{'updates a second, popsim to plain':>36}")
    for count in arguments.members:
        ensemble = popsim.make_ensemble(build, count, key=KEY)
        pairs = time_in_turns(
            functools.partial(time_popsim, bandit(), ensemble),
            functools.partial(train_plainly, ensemble),
            arguments.turns,
        )
        ratios = sorted(theirs / ours for ours, theirs in pairs)
        ours, theirs = (1e3 * statistics.median(times) for times in zip(*pairs, strict=True))
        spread = f"{statistics.median(ratios):.2f}   {ratios[0]:.2f} to {ratios[-1]:.2f}"
        print(f"{count:<8}{ours:11.1f}{theirs:11.1f}{spread:>36}", flush=True)


if __name__ == "__main__":
    main()
