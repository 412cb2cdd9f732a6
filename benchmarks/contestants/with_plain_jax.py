"""The reference work in plain JAX: a loop over batches, `vmap` over members and trials, a scan over time."""

import argparse

import jax
import jax.numpy as jnp
import optax
from contestants import worker

DT = 0.05


def initial_parameters(work: argparse.Namespace, key: jax.Array) -> dict[str, jax.Array]:
    """The weights of a GRU with a readout."""
    n = work.units
    shapes = {"input": (8, 3 * n), "recurrent": (n, 3 * n), "readout": (n, 2)}
    keys = jax.random.split(key, len(shapes))
    weights = {
        name: jax.random.uniform(k, shape, minval=-(n**-0.5), maxval=n**-0.5)
        for k, (name, shape) in zip(keys, shapes.items(), strict=True)
    }
    return weights | {"bias": jnp.zeros(3 * n), "bias_n": jnp.zeros(n), "offset": jnp.zeros(2)}


def mean_loss(p: dict[str, jax.Array], work: argparse.Namespace, key: jax.Array) -> jax.Array:
    """The mean loss of a batch, all noise drawn ahead."""
    n_steps, n_trials = work.steps, work.trials
    start_key, sense_key, motor_key = jax.random.split(key, 3)
    start, target = jax.random.uniform(start_key, (2, n_trials, 2), minval=-1.0, maxval=1.0)
    sense_noise = 0.025 * jax.random.normal(sense_key, (n_steps, n_trials, 4))
    motor_noise = jax.random.normal(motor_key, (n_steps, 2, n_trials, 2))
    target_input = jnp.concatenate([target, jnp.zeros_like(target)], axis=-1)

    def step(carry, noise):
        hidden, position, velocity = carry
        sensed = jnp.concatenate([position, velocity], axis=-1) + noise[0]
        from_input = jnp.concatenate([target_input, sensed], axis=-1) @ p["input"] + p["bias"]
        reset_in, update_in, new_in = jnp.split(from_input, 3, axis=-1)
        reset_rec, update_rec, new_rec = jnp.split(hidden @ p["recurrent"], 3, axis=-1)
        reset, update = jax.nn.sigmoid(reset_in + reset_rec), jax.nn.sigmoid(update_in + update_rec)
        new = jnp.tanh(new_in + reset * (new_rec + p["bias_n"]))
        hidden = new + update * (hidden - new)
        output = hidden @ p["readout"] + p["offset"]
        force = output + 0.025 * output * noise[1][0] + 0.045 * noise[1][1]
        carry = (hidden, position + DT * velocity, velocity + DT * force)
        return carry, (carry[1], output, hidden)

    initial_state = (jnp.zeros((n_trials, work.units)), start, jnp.zeros((n_trials, 2)))
    (_, _, velocity), (path, output, hidden) = jax.lax.scan(step, initial_state, (sense_noise, motor_noise))
    late = jnp.linspace(1 / n_steps, 1.0, n_steps) ** 6
    error = jnp.sum(late[:, None] * jnp.sum((path - target) ** 2, axis=-1), axis=0)
    costs = 1e-5 * (jnp.sum(output**2, axis=(0, 2)) + jnp.sum(hidden**2, axis=(0, 2)))
    return jnp.mean(error + jnp.sum(velocity**2, axis=-1) + costs)


def main() -> None:
    """Train, turn by turn."""
    work = worker.options()
    clock = worker.Clock()
    optimizer = optax.adam(1e-2)

    def train_step(state, key):
        parameters, optimizer_state = state
        loss, gradients = jax.value_and_grad(mean_loss)(parameters, work, key)
        updates, optimizer_state = optimizer.update(gradients, optimizer_state, parameters)
        return (optax.apply_updates(parameters, updates), optimizer_state), loss

    @jax.jit
    def run(first, n_batches, state, losses):
        def batch(number, carry):
            state, losses = carry
            keys = jax.random.split(jax.random.fold_in(jax.random.key(1), number), work.members)
            state, loss = jax.vmap(train_step)(state, keys)
            return state, losses.at[number].set(loss)

        return jax.lax.fori_loop(first, first + n_batches, batch, (state, losses))

    parameters = jax.vmap(lambda key: initial_parameters(work, key))(
        jax.random.split(jax.random.key(0), work.members)
    )
    losses = jnp.zeros((worker.n_batches(work), work.members))
    carry = (parameters, jax.vmap(optimizer.init)(parameters)), losses
    done = 0

    def train(n_batches: int) -> None:
        nonlocal carry, done
        carry = jax.block_until_ready(run(done, n_batches, *carry))
        done += n_batches

    clock.take_turns(train, work)


if __name__ == "__main__":
    main()
