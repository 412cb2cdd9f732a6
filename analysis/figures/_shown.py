"""What the environment of trials shows to one that does not learn, for drawings of tasks."""

import jax
import jax.numpy as jnp
import numpy as np
from jaxtyping import Array, Float, PyTree, Shaped

from popsim._compiled import jit
from popsim.environment import Box, Discrete
from popsim.interaction import respond, start_interaction
from popsim.randomness import folded_key, seed_key
from popsim.trial import Trial, n_trials


def shown_signals(trials: Trial) -> dict[str, Shaped[np.ndarray, "trial time features"]]:
    """Return by name what the environment shows if actions are random, and hands stay where they start."""
    environment = trials.environment
    if environment is None:
        return {}
    shape = (n_trials(trials), trials.timeline.n_steps)
    match environment.actions:
        case Discrete(n=n):
            actions: PyTree[Array] = jax.random.randint(seed_key(0), shape, 0, n)
        case Box(n=n):
            actions = jax.random.normal(seed_key(0), (*shape, n))
        case _:
            actions = jax.tree.map(
                lambda leaf: jnp.broadcast_to(leaf[:, None], (*shape, leaf.shape[-1])), trials.init
            )
    return jax.tree.map(np.asarray, _observations(trials, actions))


@jit
def _observations(trials: Trial, actions: PyTree[Array]) -> dict[str, Float[Array, "trial time features"]]:
    def of_trial(trial: Trial, actions: PyTree[Array]) -> dict[str, Float[Array, "time features"]]:
        environment = trial.environment
        assert environment is not None
        first = jax.tree.map(lambda leaf: leaf[0], actions)

        def step(interaction, at_step):
            action, index = at_step
            key = folded_key(seed_key(0), index)
            interaction = respond(environment, interaction, action, key=key)
            return interaction, interaction.received

        start = start_interaction(environment, first, None, key=seed_key(0))
        return jax.lax.scan(step, start, (actions, jnp.arange(trial.timeline.n_steps)))[1]

    return jax.vmap(of_trial)(trials, actions)
