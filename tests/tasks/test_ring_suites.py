"""The suites of Yang et al. and of Driscoll et al.: their trials are those of the published code."""

import math
from pathlib import Path

import jax
import jax.numpy as jnp
import numpy as np
import pytest
from sample_trials import many_trials, share_error, validation_trials

from popsim import tasks
from popsim.tasks.rings.ring_rules import RingDraw

PUBLISHED = np.load(Path(__file__).parent / "references" / "ring_trials.npz")
SUITES = {"yang": tasks.yang2019, "driscoll": tasks.driscoll2024}


def published(suite):
    """By rule of the published code, in its order, what `benchmarks/ring_references.py` stores."""
    trials = {}
    for name in PUBLISHED:
        owner, rule, what = name.split("/")
        if owner == suite:
            trials.setdefault(rule, {})[what] = PUBLISHED[name]
    return trials


TASK = tasks.yang2019()
N = 600


@pytest.fixture(scope="module")
def drawn():
    """600 trials of the twenty tasks."""
    return many_trials(TASK, jax.random.key(3), N)


@pytest.mark.parametrize("suite", SUITES)
def test_noiseless_trials_are_those_of_the_published_code(suite):
    task, reference = SUITES[suite](noise=0.0), published(suite)
    assert len(reference) == len(task.names) == {"yang": 20, "driscoll": 15}[suite]
    make = jax.jit(jax.vmap(lambda rule, draw: task.make_trial(rule, draw, key=jax.random.key(0))))
    columns = {
        what: np.stack([each[what] for each in reference.values()]) for what in ("directions", "strengths")
    }
    n_rules, n_each = columns["directions"].shape[:2]
    steps = np.repeat([each["steps"] for each in reference.values()], n_each, axis=0)
    directions = columns["directions"].reshape(-1, 2)
    draws = RingDraw(
        steps=jnp.asarray(steps),
        directions=jnp.asarray(directions),
        strengths=jnp.asarray(columns["strengths"].reshape(-1, 2, 2)),
        is_match=jnp.asarray(directions[:, 0] == directions[:, 1]),
    )
    trials = jax.tree.map(np.asarray, make(jnp.repeat(jnp.arange(n_rules), n_each), draws))
    inputs = np.concatenate(
        [trials.inputs[name] for name in ("fixation", "ring 1", "ring 2", "rule")], axis=2
    )
    for index, (rule, each) in enumerate(reference.items()):
        own, n_steps = slice(index * n_each, (index + 1) * n_each), len(each["x"])
        np.testing.assert_allclose(inputs[own, :n_steps], each["x"].swapaxes(0, 1), atol=2e-6, err_msg=rule)
        values, counts = trials.targets.values[own], trials.targets.counts[own]
        np.testing.assert_allclose(values[:, :n_steps], each["y"].swapaxes(0, 1), atol=2e-6, err_msg=rule)
        np.testing.assert_allclose(counts[:, :n_steps], each["c_mask"].swapaxes(0, 1) ** 2, err_msg=rule)
        assert np.all(inputs[own, n_steps:] == 0) and np.all(counts[:, n_steps:] == 0)


def test_rules_durations_and_strengths_are_drawn_as_published(drawn):
    conditions, n = drawn.conditions, N
    rule, names = conditions["rule"], TASK.names
    np.testing.assert_allclose(np.bincount(rule) / n, 1 / 20, atol=share_error(1 / 20, n))
    seconds = {name: 0.02 * np.diff(steps)[:, 0] for name, steps in drawn.timeline.epochs.items()}

    def of(name, values):
        return values[rule == names.index(name)]

    delays, counts = np.unique(np.round(of("dms", seconds["delay 1"]), 6), return_counts=True)
    np.testing.assert_allclose(delays, [0.2, 0.4, 0.8, 1.6])
    np.testing.assert_allclose(counts / counts.sum(), 0.25, atol=share_error(0.25, counts.sum()))
    waits = of("rt-go", seconds["fixation"])
    assert (
        0.5 <= waits.min() < 0.8 and 2.2 < waits.max() < 2.5 and np.all(of("rt-go", seconds["delay 1"]) == 0)
    )
    assert drawn.timeline.epochs["response"][:, 1].max() <= 210
    coherence = of("dm-2", conditions["coherence"])
    np.testing.assert_allclose(np.unique(np.round(abs(coherence), 5)), [0.01, 0.02, 0.04, 0.08], atol=1e-5)
    assert abs(np.mean(coherence > 0) - 0.5) < share_error(0.5, len(coherence))
    assert np.all(of("dm-2", conditions["strength 1, ring 1"]) == 0)
    in_first = of("go", conditions["strength 1, ring 1"])
    assert set(in_first.tolist()) == {0.0, 1.0} and np.all(np.isnan(of("go", conditions["direction 2"])))
    tenths = of("dmc", conditions["direction 1"]) / math.pi * 10
    np.testing.assert_allclose(tenths, 2 * np.round((tenths - 1) / 2) + 1, atol=1e-4)
    for name in ("dms", "dnms", "dmc", "dnmc"):
        responds = ~np.isnan(of(name, conditions["response"]))
        np.testing.assert_array_equal(responds, of(name, conditions["match"]) == (name in ("dms", "dmc")))
        assert abs(responds.mean() - 0.5) < share_error(0.5, len(responds))


def test_validation_has_each_rule_as_often_and_both_signs_of_coherence():
    conditions = validation_trials(TASK).conditions
    assert np.all(np.bincount(conditions["rule"]) == 32)
    assert np.sum(conditions["coherence"] > 0) == np.sum(conditions["coherence"] < 0) == 160


def test_a_rule_alone_has_the_trials_that_it_has_among_all(drawn):
    """The other rules do not change what else is drawn."""
    alone = tasks.yang2019("context-dm-2", duration=TASK.duration)
    here = np.flatnonzero(drawn.conditions["rule"] == TASK.names.index("context-dm-2"))[:5]
    keys = jax.random.split(jax.random.key(3), N)[here]
    trials = jax.jit(jax.vmap(lambda key: alone.trial(batch=0, key=key)))(keys)
    for name in ("fixation", "ring 1", "ring 2"):
        np.testing.assert_allclose(drawn.inputs[name][here], trials.inputs[name], atol=1e-6)
    np.testing.assert_allclose(drawn.targets.values[here], trials.targets.values, atol=1e-6)
    told = drawn.inputs["rule"][here].mean(axis=1)
    assert np.all(told.argmax(axis=1) == TASK.names.index("context-dm-2"))


def test_a_batch_may_have_one_rule_and_rules_their_shares():
    task = tasks.yang2019(("go", "anti", "dms"), one_rule_per_batch=True, shares={"dms": 0.0})
    draw = jax.jit(
        lambda batch, key: jax.vmap(lambda key: task.trial(batch=batch, key=key).conditions["rule"])(
            jax.random.split(key, 4)
        )
    )
    rules = np.array([draw(batch, jax.random.key(batch % 3)) for batch in range(60)])
    assert np.all(rules == rules[:, :1]) and set(rules[:, 0].tolist()) == {0, 1}
    assert abs(np.mean(rules[:, 0]) - 0.5) < share_error(0.5, 60)


def test_inputs_have_the_published_noise_until_a_trial_ends(drawn):
    ends = drawn.timeline.epochs["response"][:, 1]
    lasts = np.arange(210) < ends[:, None]
    rule = drawn.inputs["rule"][lasts]
    silent = rule[rule < 0.5]
    assert silent.std() == pytest.approx(0.01 * (2 / 0.2) ** 0.5, rel=0.01)
    assert all(np.all(channels[~lasts] == 0) for channels in drawn.inputs.values())


def test_a_response_is_correct_within_the_tolerance_and_without_fixation(drawn):
    right = drawn.conditions["response"]
    responds, last = ~np.isnan(right), drawn.timeline.epochs["response"][:, 1] - 1
    trial = np.arange(N)
    outputs = np.array(drawn.targets.values)
    assert np.all(TASK.is_correct(outputs, drawn))
    performance = TASK.performance(np.stack([outputs, outputs]), drawn)
    assert performance.keys() == set(TASK.names)
    assert all(own.tolist() == [1, 1] for own in performance.values())
    degrees = math.pi / 180
    for error, is_correct in ((35, True), (-35, True), (37, False), (180, False)):
        outputs[trial, last, 1:] = TASK.code.encode(jnp.asarray(right + error * degrees))
        correct = np.asarray(TASK.is_correct(np.stack([outputs, outputs]), drawn))
        assert correct.shape == (2, N) and np.all(correct[:, responds] == is_correct), error
    outputs = np.array(drawn.targets.values)
    outputs[trial, last, 0] = np.where(responds, 0.6, 0.4)
    assert not np.any(TASK.is_correct(outputs, drawn))


@pytest.mark.parametrize("code", [tasks.RingCode(), tasks.SineCode()], ids=["ring", "sine"])
def test_a_code_is_read_out(code):
    directions = jnp.linspace(-3.1, 3.1, 20)
    np.testing.assert_allclose(code.decode(code.encode(directions)), directions, atol=1e-5)
    assert code.encode(directions).shape == (20, code.n_units)


def test_a_suite_may_be_built_within_a_program():
    trial = jax.eval_shape(lambda: tasks.driscoll2024("dms").trial_of(0, key=jax.random.key(0)))
    assert trial.inputs["ring 2"].shape == (tasks.driscoll2024("dms").n_steps, 2)
