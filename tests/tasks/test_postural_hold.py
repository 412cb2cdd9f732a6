import numpy as np
from motor_trials import CENTER, WORKSPACE, assert_uniform, many_trials, validation

from popsim.distributions import Uniform
from popsim.tasks import PosturalHold


def test_the_hand_is_to_stay_wherever_it_is_in_the_workspace(getkey):
    trials = many_trials(PosturalHold(WORKSPACE), getkey())
    place = np.asarray(trials.init.position)
    assert_uniform(place, np.array([-0.1, 0.3]), np.array([0.2, 0.5]))
    for positions in (trials.inputs["target"], trials.targets.position):
        np.testing.assert_array_equal(positions, np.repeat(place[:, None], 120, axis=1))
    np.testing.assert_array_equal(trials.targets.velocity, 0.0)
    from_center = (place - CENTER) @ [1, 1j]
    np.testing.assert_allclose(trials.conditions["place distance"], np.abs(from_center), atol=1e-6)
    turn = np.asarray(trials.conditions["place direction"]) - np.angle(from_center)
    np.testing.assert_allclose(np.exp(1j * turn), 1.0, atol=1e-3)


def test_a_pulse_may_come_at_a_drawn_time_for_a_drawn_while(getkey):
    trials = many_trials(PosturalHold(WORKSPACE, pulse=Uniform(0.1, 0.3)), getkey())
    on, off = (np.asarray(trials.timeline.events[name]) for name in ("pulse on", "pulse off"))
    assert_uniform(0.01 * on, 0.195, 0.505)
    assert_uniform(0.01 * (off - on), 0.095, 0.305)
    np.testing.assert_array_equal(trials.timeline.epochs["pulse"], np.stack([on, off], axis=1))


def test_validation_is_nine_places_with_typical_times():
    trials = validation(PosturalHold(WORKSPACE))
    x, y = np.meshgrid([-0.075, 0.0, 0.075], [-0.05, 0.0, 0.05], indexing="ij")
    np.testing.assert_allclose(
        trials.init.position, CENTER + np.stack([x.ravel(), y.ravel()], axis=1), atol=1e-6
    )
    labels = [
        np.round(np.asarray(trials.conditions[f"place {name}"], float), 5).tolist()
        for name in ("direction", "distance")
    ]
    assert labels[0][4] == labels[1][4] == 0.0 and len(set(zip(*labels, strict=True))) == 9
    assert labels[0][1] == round(np.pi, 5)
    assert set(trials.timeline.events["pulse on"].tolist()) == {35}
    assert set(trials.timeline.events["pulse off"].tolist()) == {45}
