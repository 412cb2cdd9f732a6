"""The matrix products of the reference work alone, forward and backward: what a batch cannot do without."""

import jax
import jax.numpy as jnp
from contestants import worker


def main() -> None:
    """Multiply, turn by turn: a member after the other, the trials on the last axis, which is fastest."""
    work = worker.options()
    clock = worker.Clock()
    n, n_inputs, n_outputs = work.units, 8, 2
    keys = jax.random.split(jax.random.key(0), 4)
    weights = jax.random.normal(keys[0], (work.members, 3 * n, n_inputs + n)) / n
    readout = jax.random.normal(keys[1], (work.members, n_outputs, n)) / n
    received = jax.random.normal(keys[2], (work.steps, n_inputs + n, work.trials))
    hidden = jax.random.normal(keys[3], (work.steps, n, work.trials))

    def of_member(arrays):
        weights, readout = arrays

        def step(sums, inputs):
            x, h = inputs
            gates, output = weights @ x, readout @ h
            back = weights.T @ gates, readout.T @ output
            return (sums[0] + gates @ x.T, sums[1] + output @ h.T), (back[0][0, 0], back[1][0, 0])

        return jax.lax.scan(step, jax.tree.map(jnp.zeros_like, arrays), (received, hidden))

    @jax.jit
    def run(n_batches, arrays):
        def batch(_, arrays):
            sums, _ = jax.lax.map(of_member, arrays)
            return jax.tree.map(lambda old, new: old + 1e-9 * new, arrays, sums)

        return jax.lax.fori_loop(0, n_batches, batch, arrays)

    arrays = (weights, readout)

    def multiply(n_batches: int) -> None:
        nonlocal arrays
        arrays = jax.block_until_ready(run(n_batches, arrays))

    clock.take_turns(multiply, work)


if __name__ == "__main__":
    main()
