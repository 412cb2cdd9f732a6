"""Every task by name."""

import jax
import jax.numpy as jnp
import pytest
from short_form import every_nth

from popsim.tasks.library import TASKS


@pytest.mark.parametrize("name", every_nth(TASKS, 12))
def test_validation_trials_are_those_of_training_in_kind(name):
    """Of the same structure, shapes and types, finite, with conditions that label them."""
    task = TASKS[name]()
    trials = jax.jit(lambda: task.validation_trials())()
    drawn = jax.eval_shape(lambda: task.trial(batch=0, key=jax.random.key(0)))
    assert jax.tree.structure(trials) == jax.tree.structure(drawn)
    for own, other in zip(jax.tree.leaves(trials), jax.tree.leaves(drawn), strict=True):
        assert own.shape[1:] == other.shape and own.dtype == other.dtype
    for leaf in jax.tree.leaves((trials.inputs, trials.targets)):
        assert bool(jnp.all(jnp.isfinite(leaf)))
    assert trials.conditions
