"""One trial through one model: the only loop over time."""

import equinox as eqx
import jax
import jax.numpy as jnp
from jaxtyping import Array, PRNGKeyArray, PyTree

from popsim.model import AbstractModel
from popsim.randomness import as_key, key_stream
from popsim.trial import Trial


def initial_state(model: AbstractModel, trial: Trial, *, key: PRNGKeyArray) -> PyTree[Array]:
    """The state before the first step of a trial, as `simulate` with the same key starts from it."""
    return model.init(trial, key=key_stream(key, "initial state"))


@eqx.filter_jit
def simulate(model: AbstractModel, trial: Trial, *, remat: bool = False, key: PRNGKeyArray) -> PyTree[Array]:
    """Run a model through one trial.

    Batches of trials and ensembles of models are `jax.vmap`s around this function: see
    `popsim.evaluate` and `popsim.evaluate_ensemble`.

    **Arguments:**

    - `model`: the model.
    - `trial`: one trial.
    - `remat`: whether gradients recompute each step rather than keep what it computed: less memory
        for more time.
    - `key`: the key of the trial; the noise of step t depends on it and on t alone.

    **Returns:** what `model.record` keeps of the states, each leaf with a leading time axis. Row t is the
    state after step t, at time (t + 1) dt.
    """
    key = as_key(key)
    step_key = key_stream(key, "steps")

    def step(state, at_step):
        t, inputs, active = at_step
        state = model.step(trial.at_step(inputs, active), state, key=jax.random.fold_in(step_key, t))
        return state, model.record(state)

    active = {name: schedule.active for name, schedule in trial.interventions.items()}
    start = initial_state(model, trial, key=key)
    body = jax.checkpoint(step, prevent_cse=False) if remat else step
    _, states = jax.lax.scan(body, start, (jnp.arange(trial.timeline.n_steps), trial.inputs, active))
    return states
