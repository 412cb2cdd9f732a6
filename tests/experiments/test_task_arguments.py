"""Arguments of tasks as settings: their types, defaults, documentation and units."""

from types import SimpleNamespace
from typing import Literal

import equinox as eqx
import jax
import jax.numpy as jnp
import pytest

import popsim
from popsim.distributions import Choice, Normal, Uniform
from popsim.experiments import EXPERIMENTS
from popsim.experiments.task_experiments import _as_argument, task_fields
from popsim.tasks.library import TASKS, MotorTask, register_task, task_definition


def fields_of(build):
    """The fields of the arguments of a task, with what is in their metadata as attributes."""
    return {
        name: SimpleNamespace(kind=kind, default=field.default, **field.metadata)
        for name, kind, field in task_fields(build)
    }


def arguments_of(name):
    return fields_of(task_definition(name))


def test_numbers_and_distributions_of_the_library_are_settings_with_their_units():
    of_reaches = arguments_of("delayed-reaches")
    assert " ".join(of_reaches) == "distance n_directions hold delay catch_probability duration dt"
    assert of_reaches["delay"].default == (0.2, 0.6)
    assert of_reaches["distance"].units == ("m",) and of_reaches["hold"].units == ("s",)
    assert of_reaches["dt"].help == "the time step of the model, in seconds"
    assert of_reaches["hold"].help.startswith("the time before target onset, in seconds; ")
    assert of_reaches["n_directions"].kind == int | None and not of_reaches["n_directions"].units
    choice = arguments_of("perceptual-decision")["coherence"]
    assert choice.default[0] == -0.512 and choice.drawn_by == "choice"
    values = _as_argument("coherence", (0.1, 0.2), "choice").values.tolist()
    assert values == pytest.approx([0.1, 0.2])
    for name in TASKS:
        assert all(len(argument.help) > 8 for argument in arguments_of(name).values()), name


UNITS = {
    "s": "bin_duration correlation_time cue decision delay dt duration durations f1 f2 first fixation flash "
    "foreperiod grace hold interval jump_time memory offer passing_time pulse ramp reach report sample "
    "second second_delay shape signal speed_time start stimulus targets test wait",
    "m": "border distance offset radius reveal_distance validation_distance width",
    "rad": "angle separation turning",
    **{"m/s": "speed", "N": "force", "N s/m": "strength", "s^0.5": "noise"},
    "Hz": "boundary frequency rate total_rate",
}
OTHER_UNITS = {("path-integration", "noise"): "m", ("direction-category", "boundary"): ""}
OTHER_UNITS |= {("hierarchical-reasoning", "boundary"): "s"}


def test_units_do_not_follow_the_wording_of_docstrings():
    unit_of = {name: unit for unit, names in UNITS.items() for name in names.split()}
    for task in TASKS:
        for name, argument in arguments_of(task).items():
            unit = OTHER_UNITS.get((task, name), unit_of.get(name, ""))
            assert argument.units == ((unit,) if unit else ()), (task, name)


def test_two_numbers_are_a_uniform_distribution_and_one_is_itself():
    assert eqx.tree_equal(_as_argument("delay", (0.1, 0.3), "range"), Uniform(0.1, 0.3))
    assert _as_argument("delay", 0.2, "range") == 0.2
    assert _as_argument("delay", (0.1, 0.3), "pair") == (0.1, 0.3)
    for task, name, value, named in (
        ("delayed-reaches", "delay", (0.3, 0.1), "`high` must be at least `low`"),
        ("delayed-reaches", "delay", (0.1,), "length 2, got 1"),
        ("delayed-reaches", "delay", "fast", "got 'fast'"),
        ("perceptual-decision", "coherence", (), "`values` must be some to choose from"),
    ):
        with pytest.raises(ValueError, match=f"`{name}`.*{named}"):
            EXPERIMENTS[task](**{name: value})


CHOICE, NORMAL, ZEROS = Choice([1.0, 2.0]), Normal(0.0, 1.0), jnp.zeros(3)


def example(
    workspace,
    count: int = 3,
    rate: float = 0.5,
    kind: Literal["a", "b"] = "a",
    flag: bool = False,
    limit: float | None = None,
    pair: tuple[float, float] = (1.0, 2.0),
    drawn=CHOICE,
    spread=NORMAL,
    table=((1.0, 2.0), (3.0, 4.0)),
    made=ZEROS,
):
    """An example.

    **Arguments:**

    - `count`: how many.
    - `rate`, `limit`: the rate and the limit, in N s/m.
    - `pair`: two places,
        in m.

    **Returns:** nothing.
    """


def test_what_is_plain_is_a_setting_and_what_is_not_is_left_out():
    found = fields_of(example)
    assert [*found] == ["count", "rate", "kind", "flag", "limit", "pair", "drawn"]
    assert found["rate"].units == found["limit"].units == ("N s/m",) and found["pair"].units == ("m",)
    assert found["pair"].help == "two places, in m" and found["kind"].help == ""
    assert found["drawn"].default == (1.0, 2.0) and found["limit"].kind == float | None


def test_a_task_of_a_users_is_registered_once_by_a_name(monkeypatch):
    monkeypatch.setattr("popsim.tasks.library.TASKS", tasks := {})
    reaches = register_task("my-reaches")(popsim.tasks.RandomReaches)
    assert reaches is popsim.tasks.RandomReaches and isinstance(tasks["my-reaches"], MotorTask)
    register_task("my-reaches")(popsim.tasks.RandomReaches)  # a module that is loaded again
    assert jax.eval_shape(lambda: tasks["my-reaches"]().validation_trials()).timeline.n_steps == 100
    register_task("bits")(popsim.tasks.FlipFlop)
    assert tasks["bits"] is popsim.tasks.FlipFlop
    for name, build, named in (
        ("bits", popsim.tasks.SineGeneration, "no other has"),
        ("two words", popsim.tasks.FlipFlop, "must be a word"),
        ("more", 3, "subclass of AbstractTask"),
        ("more", popsim.Loss, "subclass of AbstractTask"),
        ("more", lambda workspace, speed: None, "defaults for all arguments but `workspace`.* speed"),
    ):
        with pytest.raises(ValueError, match=named):
            register_task(name)(build)
