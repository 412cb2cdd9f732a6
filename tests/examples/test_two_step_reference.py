"""The agents of the two-step task and their fit against hand-made sequences."""

import numpy as np
import pytest

two_step = pytest.importorskip("references.two_step", reason="examples/ is not beside the tests")

NUMBERS = (0.8, 0.9, 0.025, 100, 100)  # common, paid, hazard rate, sessions, choices


def test_after_one_rare_reward_only_a_planner_leaves():
    """By hand: V(1) = F(0) = 0.75 after action 0, stage 1 and a reward, from 1/2."""
    sessions = two_step.Sessions(np.array([[0, 0]]), np.array([[1, 0]]), np.array([[1, 0]]))
    for weight, preference in ((1.0, 0.6 * 0.25), (0.0, -0.25)):
        agent = two_step.Agent(weight, 0.5, 4.0, 0.2)
        staying = -np.log1p(np.exp(4.0 * preference - 0.2))
        expected = (np.log(0.5) + staying) / 2
        assert two_step.log_likelihood(agent, sessions, 0.8) == pytest.approx(expected)


@pytest.mark.parametrize("weight", [0.0, 0.6, 1.0])
def test_the_fit_recovers_the_agent(weight):
    truth = two_step.Agent(weight, 0.5, 5.0, 0.3)
    sessions = two_step.simulate(truth, *NUMBERS, seed=0)
    fitted, likelihood = two_step.fit(sessions, 0.8)
    assert fitted.weight == pytest.approx(weight, abs=0.07)
    assert fitted.learning_rate == pytest.approx(0.5, abs=0.05)
    assert fitted.perseveration == pytest.approx(0.3, abs=0.1)
    assert likelihood >= two_step.log_likelihood(truth, sessions, 0.8)


def test_staying_is_counted_by_reward_and_transition():
    sessions = two_step.Sessions(
        actions=np.array([[0, 0, 1, 1, 0, 1]]),
        stages=np.array([[0, 1, 1, 0, 0, 1]]),  # common, rare, common, rare, common
        rewards=np.array([[1, 1, 0, 0, 1, 0]]),
    )
    # Paid: stays after common once of two, not after rare. Not paid: stays after common, not after rare.
    np.testing.assert_array_equal(two_step.stay_probabilities(sessions), [[0, 1], [0, 0.5]])
    assert two_step.interaction(sessions) == pytest.approx(-0.5)
