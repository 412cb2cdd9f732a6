"""States of trained networks on the validation trials, and histories, as datasets for other software."""

import dataclasses
from collections.abc import Iterator, Mapping
from typing import Any

import jax
import numpy as np
from jaxtyping import PyTree

from popsim.evaluation import validation_trials
from popsim.experiments.registry import describe_experiment
from popsim.experiments.run import Run
from popsim.networks import AbstractNetwork
from popsim.networks.activity import defines_activity, unit_activity
from popsim.store import leaf_names
from popsim.task import differs_between_members
from popsim.trial import Trial

__all__ = ["history_dataset", "states_dataset"]

FEATURES: Mapping[str, tuple[str, str]] = {
    "activity": ("unit", "1"),
    "network_hidden": ("unit", "1"),
    "network_output": ("output", "1"),
    "network_received": ("input", "1"),
    "received": ("input", "1"),
    "unit_input": ("unit", "1"),
    "command": ("actuator", ""),
    "hand_position": ("space", "m"),
    "hand_velocity": ("space", "m/s"),
    "cursor_position": ("space", "m"),
    "cursor_velocity": ("space", "m/s"),
    "target_position": ("space", "m"),
    "target_velocity": ("space", "m/s"),
    "external_force": ("space", "N"),
    "external_torque": ("coordinate", "N m"),
    "start": ("space", "m"),
}
"""By variable, the name of its last axis, and its unit; "" where it depends on the model. A plant names those
of its state, see `AbstractPlant.state_axes`."""


def states_dataset(run: Run) -> Any:
    """Return states and trials of the trained networks on the validation trials, as an `xarray.Dataset`.

    The variables are called as in `Evaluation.states`, with "_" between the parts of a name. An epoch has its
    first step, and the step after its last; `time` is that of the state after each step, in s.
    """
    import xarray

    task, count = run.task, run.experiment.n_members
    trials = validation_trials(task, count)
    evaluation = run.evaluate()
    of_members = ("member",) if differs_between_members(task) else ()
    plant = getattr(run.ensemble, "plant", None)
    of_body = {} if plant is None else plant.state_axes()
    axes = NamedAxes({**FEATURES, **{f"plant_{name}": axis for name, axis in of_body.items()}})
    for name, array in named_states(run.ensemble, evaluation.states):
        axes.add(name, ("member", "trial", "time"), array)
    for name, leading, array in named_parts(trials):
        axes.add(name, (*of_members, *leading), array)
    losses = evaluation.losses.terms
    stacked = np.stack([np.asarray(loss) for loss in losses.values()], axis=-1)
    axes.variables["loss"] = (("member", "trial", "term"), stacked, {"long_name": "weighted loss"})
    timeline = trials.timeline
    times = (np.arange(timeline.n_steps) + 1) * timeline.dt
    coordinates = {
        "time": ("time", times, {"units": "s", "long_name": "time of the state after the step"}),
        "member": np.asarray(run.experiment.members.ids),
        "term": list(losses),
        **_areas(run.ensemble, axes.lengths),
    }
    return xarray.Dataset(axes.variables, coordinates, {**_attributes(run), "dt": float(timeline.dt)})


def history_dataset(run: Run) -> Any:
    """Return the history of a run as a lazy `xarray.Dataset` with settings, and names of axes.

    The axes of parameters have the names of what they are about where a network says it, such as unit,
    presynaptic_unit and gate_unit; the others are called after the array: "network.tau axis 0".
    """
    import xarray

    dataset, sizes = run.history.dataset, {}
    network = getattr(run.history.template, "network", None)
    known = network.parameter_axes if isinstance(network, AbstractNetwork) else {}
    roles = {f"network.{name}": axes for name, axes in known.items()}

    def renamed(name: str, variable: Any) -> Any:
        named = roles.get(name.removeprefix("trainables."))
        renamed = variable.copy(deep=False)
        n_leading = variable.ndim - len(named or ())
        lengths = dict(zip(named or (), variable.shape[n_leading:], strict=True)) if n_leading >= 1 else {}
        if lengths and all(sizes.get(axis, length) == length for axis, length in lengths.items()):
            sizes.update(lengths)
            renamed.dims = (*variable.dims[:n_leading], *lengths)
        return renamed

    variables = {name: renamed(str(name), variable) for name, variable in dataset.variables.items()}
    coordinates = {name: variables.pop(name) for name in dataset.coords}
    coordinates |= _areas(run.history.template, sizes)
    attributes = {**dataset.attrs, **_attributes(run), "dt": float(run.task.validation_trials().timeline.dt)}
    described = xarray.Dataset(variables, coordinates, attributes)
    for name, units in (("loss", "1"), ("validation_loss", "1"), ("learning_rate", "1")):
        if name in described:
            described[name].attrs.setdefault("units", units)
    return described


def _areas(model: Any, lengths: Mapping[str, int]) -> dict[str, tuple[str, list[str]]]:
    """Return the area of each unit, its first group, as a coordinate; none for a network without areas."""
    network = getattr(model, "network", None)
    groups = network.unit_groups() if isinstance(network, AbstractNetwork) else {}
    if "unit" not in lengths or not groups:
        return {}
    names = [""] * lengths["unit"]
    for area, units in reversed(groups.items()):
        for unit in units:
            names[unit] = area
    return {"area": ("unit", names)}


def _attributes(run: Run) -> dict[str, Any]:
    """Return what a file says of the run from which it comes."""
    experiment = run.experiment
    described = describe_experiment(experiment)
    return {
        "experiment": experiment.name,
        "task": type(run.task).__name__,
        "seed": experiment.seed,
        "settings": described["settings"],
        "settings_in_effect": described["in_force"],
        "n_batches_trained": run.n_batches_trained,
        "run_id": run.parts.run_id,
    }


@dataclasses.dataclass
class NamedAxes:
    """Variables of a dataset, whose axes with a common name have a common length."""

    features: Mapping[str, tuple[str, str]] = dataclasses.field(default_factory=lambda: FEATURES)
    variables: dict[str, Any] = dataclasses.field(default_factory=dict)
    lengths: dict[str, int] = dataclasses.field(default_factory=dict)

    def add(self, name: str, leading: tuple[str, ...], array: Any) -> None:
        """Add an array, the first axes of which are known."""
        values = np.asarray(array)
        shape = values.shape[len(leading) :]
        axis, units = self.features.get(name, (f"{name}_feature", ""))
        further = tuple(f"{name}_axis_{i}" for i in range(len(shape)))
        if len(shape) == 1 and self.lengths.get(axis, shape[0]) == shape[0]:
            further = (axis,)
        self.lengths |= dict(zip(further, shape, strict=True))
        self.variables[name] = ((*leading, *further), values, {"units": units} if units else {})


def _named_leaves(tree: PyTree, name: str) -> Iterator[tuple[str, Any]]:
    """Yield the arrays of a tree, called by the name of the tree and their place in it."""
    leaves = jax.tree.leaves(tree)
    for place, index in leaf_names(tree).items():
        yield "_".join(part for part in (name, *place.split(".")) if part), leaves[index]


def named_states(ensemble: Any, states: PyTree) -> Iterator[tuple[str, Any]]:
    """Yield the recorded states by name; the hidden state of a network only if it is not its activity."""
    activity = unit_activity(ensemble, states) if defines_activity(ensemble, states) else None
    if activity is not None:
        yield "activity", activity
    for name, array in _named_leaves(states, ""):
        is_activity = name == "network_hidden" and activity is not None and np.array_equal(array, activity)
        if not is_activity:
            yield name, array


def named_parts(trials: Trial) -> Iterator[tuple[str, tuple[str, ...], Any]]:
    """Yield what trials consist of: names, the names of their first axes, and arrays."""
    parts = {"input": trials.inputs, "target": trials.targets, "recording": trials.recordings}
    for name, part in parts.items():
        for leaf_name, array in _named_leaves(part, name):
            yield leaf_name, ("trial", "time"), array
    for name, label in trials.conditions.items():
        for leaf_name, array in _named_leaves(label, f"condition_{name}"):
            yield leaf_name, ("trial",), array
    for name, steps in trials.timeline.epochs.items():
        yield f"epoch_{name}", ("trial", "bound"), steps
    for name, step in trials.timeline.events.items():
        yield f"event_{name}", ("trial",), step
