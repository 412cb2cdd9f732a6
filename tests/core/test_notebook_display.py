"""What tasks, trials, losses and models show in a notebook, and what histories print."""

import re
import xml.etree.ElementTree

import equinox as eqx
import jax
import jax.numpy as jnp
import numpy as np
import pytest
import xarray
from small_reaches import small_reach_setup
from small_tasks import Choose
from small_training import RunningSum, train

import popsim
from popsim import losses
from popsim.experiments import RunHistory
from popsim.senses import network_input_names
from popsim.windows import Before


def displayed(value) -> str:
    """The text of what an object shows, which must be well-formed and hold no arrays."""
    text = value._repr_html_()
    root = xml.etree.ElementTree.fromstring(text)
    for colour in ("color:", "background"):
        assert colour not in text, "the colours must be those of the theme"
    shown = " | ".join(part.strip() for part in root.itertext())
    assert "shown as text" not in shown and "Array(" not in shown and "f32[" not in shown
    return shown


def test_a_task_shows_inputs_in_order_targets_epochs_conditions_and_its_loss():
    task = popsim.tasks.DelayedReaches(popsim.plants.PointMass().workspace)
    shown = displayed(task)
    names = list(network_input_names(task.validation_trials()))
    places = [shown.index(f" | {name} | ") for name in names]
    assert places == sorted(places)
    for part in ("DelayedReaches", "150 steps of 0.01 s", "target on", "movement", "catch", "direction"):
        assert part in shown
    for name, weight in task.loss.weights.items():
        assert f"{name} | {float(weight):.6g} | " in shown
    assert displayed(task.describe()) in shown


def test_a_task_that_differs_between_members_shows_the_first():
    differing = RunningSum(scale=popsim.PerMember([1.0, 2.0]))
    assert "first member" in displayed(differing)
    weighted = RunningSum(loss=popsim.PerMember([1.0, 1e-6]) * losses.OutputError())
    assert "first member" not in (shown := displayed(weighted))
    assert "[1.0, 1e-06]" in shown


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


def test_an_event_that_does_not_happen_is_marked_nowhere():
    plan = eqx.tree_at(lambda task: task.plan.catch_probability, Choose(), jnp.asarray(1.0))
    caught = popsim.sample_trials(plan, 2, batch=0, key=jax.random.key(0))
    assert "go cue (never)" in displayed(caught)
    assert caught._repr_html_().count("<circle") == 1  # the stimulus


def test_trials_without_a_timeline_show_as_many_as_there_are():
    trials = RunningSum().validation_trials()
    assert "4 trials" in displayed(trials) and "<svg" not in trials._repr_html_()
    square = jax.vmap(lambda key: RunningSum().trial(batch=0, key=key))(
        jax.random.split(jax.random.key(0), 6)
    )
    assert "6 trials" in displayed(square)  # of six time steps
    assert "Trial | : 6 steps" in displayed(jax.tree.map(lambda leaf: leaf[0], square))


def test_a_loss_shows_weights_as_numbers_and_what_terms_measure():
    rising = popsim.schedules.LinearSchedule(0.0, 1e-3, last_batch=5)
    own = popsim.FunctionTerm("<b>own</b>", lambda states, trial, model: 0.0)
    loss = (
        1e-6 * losses.Effort() + popsim.PerMember([0.0, 0.1]) * losses.Hold(Before("go cue")) + rising * own
    )
    printed = repr(loss)
    assert "'effort': 1e-06 * Effort()" in printed and "PerMember(values=[0.0, 0.1])" in printed
    assert "LinearSchedule(start=0.0, stop=0.001, last_batch=5)" in printed
    shown = displayed(loss)
    assert "effort | 1e-06 | Sum over time of w_t |u_t|²" in shown and "[0.0, 0.1]" in shown
    assert "<b>own</b>" in shown and "<b>" not in loss._repr_html_()


def test_values_of_a_loss_show_their_mean_and_range_and_what_is_not_finite():
    values = popsim.loss.LossValues({"error": np.array([[1.0, 3.0], [np.nan, 2.0]])})
    assert "error | 2 | 1 | 3 | 1 not finite" in displayed(values)


def test_what_jax_traces_shows_as_text():
    """No display fails, whatever is in the object."""
    shown = []

    def traced(x):
        trial = popsim.Trial((), x, x, popsim.Timeline(0.01, 4), conditions={"size": x[0, 0]})
        values = [trial, RunningSum(scale=x[0, 0]), x[0, 0] * losses.Effort()]
        shown.extend(value._repr_html_() for value in [*values, popsim.loss.LossValues({"error": x})])
        return x

    jax.jit(traced)(jnp.ones((4, 1)))
    assert len(shown) == 4 and all(text.startswith("<div") for text in shown)


def test_a_task_that_fails_shows_as_text_with_the_error():
    class Broken(RunningSum):
        def trial(self, *, batch, key):
            raise ValueError("no <such> trial")

    text = Broken()._repr_html_()
    assert "Broken(" in text and "no &lt;such&gt; trial" in text


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


def test_a_stored_history_prints_its_arrays_and_reads_none():
    class Unreadable(xarray.backends.BackendArray):
        shape, dtype = (3, 2), np.dtype(np.float32)

        def __getitem__(self, key):
            raise AssertionError("was read")

    lazy = xarray.Variable(("batch", "member"), xarray.core.indexing.LazilyIndexedArray(Unreadable()))
    dataset = xarray.Dataset({"loss": lazy}, {"batch": [0, 1, 2]})
    assert "loss" in repr(RunHistory(dataset, None))


def test_a_model_shows_as_a_tree_where_treescope_is_installed(getkey):
    pytest.importorskip("treescope")
    _, build_model = small_reach_setup()
    assert "treescope" in (build_model(getkey())._repr_html_() or "")
