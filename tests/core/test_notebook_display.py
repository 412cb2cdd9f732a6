"""What tasks, trials, losses and models show in a notebook, and what histories print."""

import re
import xml.etree.ElementTree

import equinox as eqx
import jax
import jax.numpy as jnp
import numpy as np
import pytest
from small_reaches import small_reach_setup
from small_tasks import Choose
from small_training import RunningSum, train

import popsim
from popsim import losses


def displayed(value) -> str:
    """The text of what an object shows, which must be well-formed and hold no arrays."""
    text = value._repr_html_()
    root = xml.etree.ElementTree.fromstring(text)
    for colour in ("color:", "background"):
        assert colour not in text, "the colours must be those of the theme"
    shown = " | ".join(part.strip() for part in root.itertext())
    assert "shown as text" not in shown and "Array(" not in shown and "f32[" not in shown
    return shown


def test_a_task_shows_what_is_drawn_and_its_loss():
    task = popsim.tasks.DelayedReaches(popsim.plants.PointMass().workspace)
    shown = displayed(task)
    assert str(task.describe()) in shown and repr(task.loss) in shown
    assert "first member" in displayed(RunningSum(scale=popsim.PerMember([1.0, 2.0])))
    weighted = RunningSum(loss=popsim.PerMember([1.0, 1e-6]) * losses.OutputError())
    assert "first member" not in (shown := displayed(weighted)) and "[1.0, 1e-06]" in shown


def test_trials_show_their_timeline_and_how_many_there_are_of_each_condition():
    trials = popsim.sample_trials(Choose(), 40, batch=0, key=jax.random.key(0))
    shown = displayed(trials)
    n_right = int((np.asarray(trials.conditions["side"]) == 1).sum())
    assert f"-1: {40 - n_right}, 1: {n_right}" in shown
    assert "40 trials" in shown and "20 steps of 0.02 s" in shown and "20 × 1" in shown
    one = displayed(jax.tree.map(lambda leaf: leaf[0], trials))
    assert "Trial | : 20 steps" in one and "side | " in one and "trials" not in one
    by_member = jax.tree.map(lambda leaf: jnp.stack([leaf, leaf]), trials)
    assert "2 × 40 trials" in displayed(by_member) and f"1: {2 * n_right}" in displayed(by_member)


def test_what_jax_traces_shows_as_text():
    """No display fails, whatever is in the object."""
    shown = []

    def traced(x):
        trial = popsim.Trial((), x, x, popsim.Timeline(0.01, 4), conditions={"size": x[0, 0]})
        shown.extend(value._repr_html_() for value in [trial, RunningSum(scale=x[0, 0])])
        return x

    jax.jit(traced)(jnp.ones((4, 1)))
    assert len(shown) == 2 and all(text.startswith("<div") for text in shown)


def test_a_history_prints_what_was_recorded_of_which_batches():
    _, history = train(save_model_trainables=np.array([1, 5]), save_trial_specs=[3])
    assert str(history).startswith("History: 6 batches of 2 members\n")
    assert re.search(r"loss \(activity, squared_error\) +6: 0 to 5 +2 of 6 × 2 +96 B", repr(history))
    assert re.search(r"model_trainables +2: 1 to 5", repr(history)) and "frozen" not in repr(history)
    assert "TaskTrainerHistory(" in repr(jax.tree.map(np.shape, history))
    frozen = eqx.tree_at(lambda each: each.frozen_from, history, np.array([-1, 4]))
    assert "frozen: 1 from batch 4 on" in repr(frozen)
    alone = eqx.tree_at(lambda each: each.frozen_from, history, np.asarray(-1))
    assert "6 batches of one model" in repr(alone)


def test_a_model_shows_as_a_tree_where_treescope_is_installed(getkey):
    pytest.importorskip("treescope")
    _, build_model = small_reach_setup()
    assert "treescope" in (build_model(getkey())._repr_html_() or "")
