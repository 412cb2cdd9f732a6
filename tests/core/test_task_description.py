import equinox as eqx
import numpy as np
import pytest
from small_tasks import Choose, pushed_reaches

import popsim


def named(things):
    return {thing.name: thing for thing in things}


def test_a_task_without_a_body_is_described_as_it_is_planned():
    said = Choose().describe()
    assert (said.name, said.dt, said.n_steps, said.n_drawn) == ("Choose", 0.02, 20, 200)
    assert said.summary.startswith("After a go cue") and said.n_validation_trials == 2
    inputs, targets = named(said.inputs), named(said.targets)
    assert inputs["stimulus"].shape == (1,) and (inputs["stimulus"].low, inputs["stimulus"].high) == (-1, 1)
    assert inputs["cues"].shape == (2,) and (inputs["cues"].low, inputs["cues"].high) == (0, 1)
    assert targets["values"].shape == (1,) and targets["counts"].shape == ()
    assert (targets["counts"].low, targets["counts"].high) == (0.5, 1)


def test_epochs_and_events_are_those_of_the_trials_that_have_them():
    said = Choose().describe()
    assert [epoch.name for epoch in said.epochs] == ["stimulus", "response"]
    stimulus, response = said.epochs
    assert stimulus.fraction == 1 and stimulus.start == popsim.task_description.Spread(0, 0, 0)
    assert response.fraction == pytest.approx(0.75, abs=4 * (0.75 * 0.25 / 200) ** 0.5)
    np.testing.assert_allclose([response.start.low, response.start.high], [0.1, 0.2])
    assert response.start.mean == pytest.approx(0.15, abs=4 * 0.05 / 150**0.5)
    np.testing.assert_allclose([response.length.low, response.length.high], [0.2, 0.3])
    assert stimulus.length.high == pytest.approx(0.4)  # in a catch trial
    assert [event.name for event in said.events] == ["stimulus on", "go cue"]
    assert said.events[1].fraction == response.fraction and said.events[1].start == response.start


def test_conditions_have_their_values_and_missing_labels_are_none_of_them():
    conditions = named(Choose().describe().conditions)
    assert conditions["side"].values == conditions["answer"].values == (-1.0, 1.0)
    reach = popsim.tasks.RandomReaches(popsim.plants.PointMass().workspace)
    direction = named(reach.describe().conditions)["direction"]
    assert direction.values is None and direction.low < -3 and direction.high > 3


def test_interventions_have_their_share_their_time_and_their_parameters():
    said = pushed_reaches(popsim.plants.PointMass()).describe()
    (push,) = said.interventions
    assert push.name == "constant force" and 0.35 < push.fraction < 0.65
    assert push.active.low == push.active.high == pytest.approx(0.05)
    assert list(push.parameters.values()) == [(0.0, 2.0)]
    assert named(said.conditions)["constant force"].values == (False, True)


@pytest.mark.full
def test_a_wrapped_task_is_named_by_what_is_in_it_and_what_wraps_it():
    reach = popsim.tasks.CenterOutReaches(popsim.plants.PointMass().workspace, duration=0.1)
    plans = [popsim.interventions.InterventionPlan(name, 1.0) for name in ("force channel", "curl field")]
    in_field = popsim.tasks.WithInterventions(reach, plans)
    said = in_field.describe()
    assert said.name == "CenterOutReaches with curl field, force channel"
    assert said.summary == reach.describe().summary
    assert str(said).startswith(f"{said.name}: {said.summary}\n")
    fixed = popsim.tasks.WithFixation(in_field, "target on")
    assert popsim.task_description.named_task(fixed)[0] == f"WithFixation of {said.name}"
    assert popsim.task_description.innermost_task(fixed) is reach


def test_the_table_is_the_same_every_time_and_names_everything():
    task = pushed_reaches(popsim.plants.PointMass())
    table = str(task.describe())
    assert table == str(task.describe())
    for name in ("target", "position", "velocity", "movement", "direction", "constant force", "0.3 s"):
        assert name in table
    assert len({line.index("at a step") for line in table.splitlines() if "at a step" in line}) == 1


def test_members_that_differ_are_described_one_by_one():
    chance = popsim.PerMember([0.0, 1.0])
    differing = eqx.tree_at(lambda task: task.plan.catch_probability, Choose(), chance)
    with pytest.raises(ValueError, match="select_member"):
        differing.describe()
    assert popsim.select_member(differing, 1).describe().events[1].fraction == 0


def test_an_environment_that_draws_what_it_shows_is_described():
    told = popsim.tasks.ChangingEnvironment(n_choices=3).describe().environment
    assert told.name == "ChangingTargets"
    assert told.shows == {"evidence": 1, "last action": 4, "last reward": 1}
