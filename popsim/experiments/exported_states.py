"""States of trained networks on the validation trials, and histories, as datasets for other software."""

from collections.abc import Iterable, Iterator, Mapping
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
    **dict.fromkeys(("activity", "network_hidden", "unit_input"), ("unit", "1")),
    **dict.fromkeys(("network_received", "received"), ("input", "1")),
    "network_output": ("output", "1"),
    "command": ("actuator", ""),
    **{f"{what}_position": ("space", "m") for what in ("hand", "cursor", "target")},
    **{f"{what}_velocity": ("space", "m/s") for what in ("hand", "cursor", "target")},
    "external_force": ("space", "N"),
    "external_torque": ("coordinate", "N m"),
    "start": ("space", "m"),
}
"""By variable, the name of its last axis, and its unit; "" where it depends on the model. A plant names those
of its state, see `AbstractPlant.state_axes`."""


NO_UNIT = ("loss", "validation_loss", "learning_rate")


def states_dataset(run: Run) -> Any:
    """Return states and trials of the trained networks on the validation trials, as an `xarray.Dataset`.

    The variables are called as in `Evaluation.states`, with "_" between the parts of a name. An epoch has its
    first step, and the step after its last; `time` is that of the state after each step, in s.
    """
    import xarray

    task, evaluation = run.task, run.evaluate()
    trials = validation_trials(task, run.experiment.n_members)
    of_members = ("member",) if differs_between_members(task) else ()
    plant = getattr(run.ensemble, "plant", None)
    of_body = {} if plant is None else plant.state_axes()
    arrays = [*named_states(run.ensemble, evaluation.states), *named_parts(trials, of_members)]
    features = {**FEATURES, **{f"plant_{name}": axis for name, axis in of_body.items()}}
    variables, lengths = named_variables(arrays, features)
    losses = jax.device_get(evaluation.losses.terms)
    about: Any = {"long_name": "weighted loss"}
    variables["loss"] = (("member", "trial", "term"), np.stack([*losses.values()], axis=-1), about)
    timeline = trials.timeline
    times = (np.arange(timeline.n_steps) + 1) * timeline.dt
    coordinates = {
        "time": ("time", times, {"units": "s", "long_name": "time of the state after the step"}),
        "member": np.asarray(run.experiment.members.ids),
        "term": list(losses),
        **_areas(run.ensemble, lengths),
    }
    return xarray.Dataset(variables, coordinates, {**_attributes(run), "dt": float(timeline.dt)})


def history_dataset(run: Run) -> Any:
    """Return the history of a run as a lazy `xarray.Dataset` with settings, and names of axes.

    The axes of parameters have the names of what they are about where a network says it, such as unit,
    presynaptic_unit and gate_unit; the others are called after the array: "network.tau axis 0".
    """
    import xarray

    dataset, template, sizes = run.history.dataset, run.history.template, {}
    network = getattr(template, "network", None)
    known = network.parameter_axes if isinstance(network, AbstractNetwork) else {}

    def named(name: str, variable: Any) -> Any:
        axes = known.get(name.partition("trainables.network.")[2], ())
        variable, n_leading = variable.copy(deep=False), variable.ndim - len(axes)
        lengths = dict(zip(axes, variable.shape[n_leading:], strict=True)) if n_leading >= 1 else {}
        if all(sizes.get(axis, length) == length for axis, length in lengths.items()):
            sizes.update(lengths)
            variable.dims = (*variable.dims[: variable.ndim - len(lengths)], *lengths)
        if name in NO_UNIT:
            variable.attrs = {"units": "1", **variable.attrs}
        return variable

    variables = {name: named(str(name), variable) for name, variable in dataset.variables.items()}
    coordinates = {name: variables.pop(name) for name in dataset.coords} | _areas(template, sizes)
    dt = float(run.task.validation_trials().timeline.dt)
    return xarray.Dataset(variables, coordinates, {**dataset.attrs, **_attributes(run), "dt": dt})


def _areas(model: Any, lengths: Mapping[str, int]) -> dict[str, tuple[str, list[str]]]:
    """Return the area of each unit, its first group, as a coordinate; none for a network without areas."""
    network = getattr(model, "network", None)
    groups = network.unit_groups() if isinstance(network, AbstractNetwork) else {}
    if "unit" not in lengths or not groups:
        return {}
    area_of = {unit: area for area, units in reversed(groups.items()) for unit in units}
    return {"area": ("unit", [area_of.get(unit, "") for unit in range(lengths["unit"])])}


def _attributes(run: Run) -> dict[str, Any]:
    described = describe_experiment(run.experiment)
    return {
        "experiment": run.experiment.name,
        "task": type(run.task).__name__,
        "seed": run.experiment.seed,
        "settings": described["settings"],
        "settings_in_effect": described["in_force"],
        "n_batches_trained": run.n_batches_trained,
        "run_id": run.parts.run_id,
    }


NamedArray = tuple[str, tuple[str, ...], Any]
"""The name of an array, those of its first axes, and the array."""


def named_variables(
    arrays: Iterable[NamedArray], features: Mapping[str, tuple[str, str]] = FEATURES
) -> tuple[dict[str, Any], dict[str, int]]:
    """Return variables of a dataset, and the lengths of their axes, of which those of one name are equal."""
    variables: dict[str, Any] = {}
    lengths: dict[str, int] = {}
    for name, leading, array in arrays:
        shape = np.shape(array)[len(leading) :]
        axis, units = features.get(name, (f"{name}_feature", ""))
        further = tuple(f"{name}_axis_{i}" for i in range(len(shape)))
        if len(shape) == 1 and lengths.get(axis, shape[0]) == shape[0]:
            further = (axis,)
        lengths |= dict(zip(further, shape, strict=True))
        variables[name] = ((*leading, *further), np.asarray(array), {"units": units} if units else {})
    return variables, lengths


def _named_leaves(tree: PyTree, name: str, *leading: str) -> Iterator[NamedArray]:
    leaves = jax.tree.leaves(tree)
    for place, index in leaf_names(tree).items():
        yield "_".join(part for part in (name, *place.split(".")) if part), leading, leaves[index]


def named_states(ensemble: Any, states: PyTree) -> Iterator[NamedArray]:
    """Yield the recorded states by name; the hidden state of a network only if it is not its activity."""
    axes, activity = ("member", "trial", "time"), None
    if defines_activity(ensemble, states):
        activity = unit_activity(ensemble, states)
        yield "activity", axes, activity
    for name, _, array in _named_leaves(states, ""):
        if name != "network_hidden" or activity is None or not np.array_equal(array, activity):
            yield name, axes, array


def named_parts(trials: Trial, of_members: tuple[str, ...] = ()) -> Iterator[NamedArray]:
    """Yield what trials consist of; `of_members` is the axis before that of trials, where there is one."""
    of_trials = (*of_members, "trial")
    parts = {"input": trials.inputs, "target": trials.targets, "recording": trials.recordings}
    for name, part in parts.items():
        yield from _named_leaves(part, name, *of_trials, "time")
    for name, label in trials.conditions.items():
        yield from _named_leaves(label, f"condition_{name}", *of_trials)
    for name, steps in trials.timeline.epochs.items():
        yield f"epoch_{name}", (*of_trials, "bound"), steps
    for name, step in trials.timeline.events.items():
        yield f"event_{name}", of_trials, step
