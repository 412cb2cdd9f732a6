import jax.numpy as jnp
import numpy as np
import pytest
from motor_trials import WORKSPACE, assert_share, many_trials

import popsim
from popsim.distributions import Uniform
from popsim.schedules import LAST_BATCH
from popsim.tasks import ADAPTATION_PHASES, RandomReaches, WithInterventions, adaptation_plan, phase_batches

PHASES = (("baseline", 3, 0.0), ("field", 4, 1.0), ("washout", 3, 0.0), ("opposite", 3, -1.0))
REACHES = RandomReaches(WORKSPACE, duration=0.05)
BATCHES = range(14)


def strengths(plan):
    return [float(plan.parameters(batch)) for batch in BATCHES]


def shares(plan):
    return [float(plan.probability(batch)) for batch in BATCHES]


def test_phases_begin_where_the_ones_before_them_end():
    assert phase_batches(PHASES) == {
        "baseline": (0, 3),
        "field": (3, 7),
        "washout": (7, 10),
        "opposite": (10, 13),
    }
    assert phase_batches()["field again"] == (800, 1300)
    assert [name for name, _, _ in ADAPTATION_PHASES] == ["baseline", "field", "washout", "field again"]


def test_an_abrupt_field_comes_and_goes_at_once_with_catch_trials():
    plan = adaptation_plan("curl field", 5.0, PHASES, catch_share=0.25)
    assert strengths(plan) == [0.0] * 3 + [5.0] * 4 + [0.0] * 3 + [-5.0] * 4
    assert shares(plan) == [0.0] * 3 + [0.75] * 4 + [0.0] * 3 + [0.75] * 4
    assert float(plan.parameters(LAST_BATCH)) == -5.0


def test_a_gradual_field_acts_while_it_comes_and_while_it_goes():
    plan = adaptation_plan("curl field", 6.0, PHASES, ramp=3)
    np.testing.assert_allclose(strengths(plan), [0, 0, 0, 2, 4, 6, 6, 4, 2, 0, -2, -4, -6, -6], atol=1e-5)
    assert shares(plan) == [0.0] * 3 + [1.0] * 6 + [0.0] + [1.0] * 4


def test_trials_have_the_field_of_their_batch(getkey):
    plan = adaptation_plan("curl field", 5.0, PHASES, catch_share=0.2)
    task = WithInterventions(REACHES, [plan])
    for batch, probability, strength in ((0, 0.0, 0.0), (3, 0.8, 5.0), (9, 0.0, 0.0), (10, 0.8, -5.0)):
        trials = many_trials(task, getkey(), batch=batch)
        field = trials.interventions["curl field"]
        np.testing.assert_array_equal(field.parameters, strength)
        assert_share(trials.conditions["curl field"], probability)
        np.testing.assert_array_equal(np.all(field.active, axis=1), trials.conditions["curl field"])


def test_a_gain_goes_from_the_one_that_does_nothing():
    plan = adaptation_plan("cursor gain", 1.5, PHASES, ramp=2, null=1.0)
    np.testing.assert_allclose(strengths(plan)[2:8], [1.0, 1.25, 1.5, 1.5, 1.5, 1.25])


def test_only_what_differs_from_the_null_parameters_is_graded():
    spring, place = 100 * jnp.eye(2), jnp.array([0.1, 0.2])
    full = popsim.interventions.ElasticFieldParameters(spring, place)
    null = popsim.interventions.ElasticFieldParameters(0 * spring, place)
    parameters = adaptation_plan("elastic field", full, PHASES, ramp=2, null=null).parameters
    np.testing.assert_allclose(parameters.stiffness(3), 50 * np.eye(2))
    for batch in BATCHES:
        np.testing.assert_allclose(parameters.center(batch), place)


def test_what_trials_draw_comes_and_goes_in_whole(getkey):
    plan = adaptation_plan("curl field", Uniform(4.0, 6.0), PHASES[:3])
    trials = many_trials(WithInterventions(REACHES, [plan]), getkey(), 200, batch=5)
    assert 4.0 <= trials.interventions["curl field"].parameters.min() < 4.2
    assert np.all(trials.conditions["curl field"])


def test_members_may_meet_fields_of_their_own_with_catch_trials_of_their_own():
    plan = adaptation_plan(
        "curl field", popsim.PerMember([2.0, 8.0]), PHASES, catch_share=popsim.PerMember([0.0, 0.5])
    )
    own = [popsim.select_member(plan, index) for index in range(2)]
    assert [float(one.parameters(4)) for one in own] == [2.0, 8.0]
    assert [float(one.probability(4)) for one in own] == [1.0, 0.5]


def test_a_field_and_what_it_may_not_act_with_never_meet(getkey):
    plans = [
        popsim.interventions.InterventionPlan("constant force", jnp.ones(2), probability=0.3),
        adaptation_plan("curl field", 5.0, PHASES, unless=("constant force",)),
    ]
    trials = many_trials(WithInterventions(REACHES, plans), getkey(), batch=4)
    force, field = (np.asarray(trials.interventions[plan.name].active) for plan in plans)
    assert_share(np.all(force, axis=1), 0.3)
    np.testing.assert_array_equal(field, ~force)


@pytest.mark.parametrize(
    "options, message",
    [
        ({"phases": ()}, "`phases`"),
        ({"phases": (("a", 1, 0.0), ("a", 2, 1.0))}, "`phases`"),
        ({"phases": (("a", 0, 0.0),)}, r"`phases\['a'\]`"),
        ({"phases": (("a", 1, float("nan")),)}, r"`phases\['a'\]`"),
        ({"ramp": 0}, "`ramp`"),
        ({"ramp": 4}, "`ramp` must be at most the shortest phase, 3 batches, got 4"),
        ({"catch_share": 1.5}, "`catch_share`"),
        ({"null": (0.0, 1.0)}, "`null`"),
        ({"parameters": float("inf")}, "`full`"),
        ({"parameters": Uniform(0.0, 1.0)}, "`parameters` must be numbers"),
        ({"parameters": Uniform(0.0, 1.0), "phases": (("a", 5, 1.0),), "ramp": 2}, "`parameters` must be"),
    ],
)
def test_bad_protocols_are_refused_by_name(options, message):
    with pytest.raises(ValueError, match=message):
        adaptation_plan("curl field", **{"parameters": 5.0, "phases": PHASES} | options)
