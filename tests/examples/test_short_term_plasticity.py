"""What is exchanged between trials."""

import jax.numpy as jnp
import numpy as np

import popsim
import short_term_plasticity as script


def hidden_states(n_trials=3):
    numbers = jnp.arange(float(n_trials))[:, None] * jnp.ones(2)
    synapses = {"available": 10 + numbers, "released": 20 + numbers}
    return popsim.networks.LeakyState(numbers, synapses)


def test_one_part_is_exchanged_and_the_other_kept():
    hidden, order = hidden_states(), np.array([2, 0, 1])
    by_activity, by_synapses = (script.exchange(hidden, order, part) for part in ("activity", "synapses"))
    assert by_activity.activation[:, 0].tolist() == [2, 0, 1]
    assert by_activity.synapses["released"][:, 0].tolist() == [20, 21, 22]
    assert by_synapses.activation[:, 0].tolist() == [0, 1, 2]
    assert by_synapses.synapses["available"][:, 0].tolist() == [12, 10, 11]
    plain = hidden.activation
    assert script.exchange(plain, order, "activity")[:, 0].tolist() == [2, 0, 1]
    assert script.exchange(plain, order, "synapses") is plain
