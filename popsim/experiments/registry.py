"""The registry of experiments, and their descriptions in run folders and model files."""

import collections
import dataclasses
import functools
import json
from collections.abc import Callable, Collection, Iterator, Mapping, Sequence
from pathlib import Path
from typing import Any

import equinox as eqx
import jax

from popsim._shared.checks import short_repr
from popsim._shared.plain_values import plain_value
from popsim._shared.text_checks import suggestion
from popsim.experiments.experiment import AbstractExperiment, check_experiment
from popsim.experiments.motor_experiment import AbstractMotorExperiment, CenterOut
from popsim.experiments.network_experiment import AbstractNetworkExperiment, Cognitive
from popsim.experiments.settings import check_annotations
from popsim.experiments.task_experiments import task_fields
from popsim.networks.registry import NETWORKS, modules_of_networks
from popsim.store.array_file import check_forms
from popsim.store.files import MismatchError
from popsim.store.model_file import array_forms, load_model, read_model_details, save_model
from popsim.store.run_folder import import_option
from popsim.task import AbstractTask
from popsim.tasks.library import TASKS, MotorTask, task_definition

__all__ = ["EXPERIMENTS", "register_experiment", "save_ensemble", "load_ensemble"]


class ExperimentRegistry(collections.UserDict[str, type[AbstractExperiment]]):
    """Experiments by name: in `data` those that are registered; else on a task of `TASKS`, made on demand."""

    def __missing__(self, name: str) -> type[AbstractExperiment]:
        if name not in TASKS:
            raise KeyError(name)
        return task_experiment(name)

    def __iter__(self) -> Iterator[str]:
        return iter({**self.data, **dict.fromkeys(TASKS)})

    def __contains__(self, name: object) -> bool:
        return name in self.data or name in TASKS  # without making the experiment

    def __len__(self) -> int:
        return sum(1 for _ in self)


ADAPTATION = {"n_batches": 1300, "learning_rate_course": "constant"}  # all phases, each learned at one rate
DEFAULTS: Mapping[str, Mapping[str, float | str]] = {
    "force-field-adaptation": ADAPTATION,
    "visuomotor-rotation": ADAPTATION,
    "angle-reproduction": {"n_batches": 2500, "learning_rate": 3e-3},
}
"""Defaults of the settings of experiments that differ from those of other tasks."""


def task_experiment(name: str) -> type[AbstractExperiment]:
    """Return the experiment on a task of `TASKS`, always the same class, with the task's arguments."""
    return _task_experiment(name, TASKS[name])


@functools.cache
def _task_experiment(name: str, build: Callable[..., AbstractTask]) -> type[AbstractExperiment]:
    is_motor, written = isinstance(build, MotorTask), task_definition(name)
    base = AbstractMotorExperiment if is_motor else AbstractNetworkExperiment
    arguments = task_fields(written)
    if taken := [argument for argument, *_ in arguments if argument == "name" or hasattr(base, argument)]:
        raise ValueError(
            f"the arguments of the task {name!r} must have names of their own, got {', '.join(taken)}, which "
            "every experiment has."
        )
    changed, fields = [], {field.name: field for field in dataclasses.fields(base)}
    for setting, default in DEFAULTS.get(name, {}).items():
        field = dataclasses.field(default=default, metadata=fields[setting].metadata)
        changed.append((setting, fields[setting].type, field))
    summary = (written.__doc__ or "").strip().partition("\n")[0]
    title = "".join(map(str.capitalize, name.split("-")))
    about = f"{summary}\n\n`popsim show-task {name}` shows its trials."
    namespace = {"__doc__": about, "name": name, "definition": staticmethod(build)}
    kind = dataclasses.make_dataclass(
        title, [*changed, *arguments], bases=(base,), namespace=namespace, frozen=True
    )
    of_library = written.__module__.startswith("popsim.")
    kind.__module__ = __name__ if of_library else written.__module__  # which `--import` names
    return kind


EXPERIMENTS = ExperimentRegistry({kind.name: kind for kind in (CenterOut, Cognitive)})


def advice_on_name(name: str, names: Collection[str] = EXPERIMENTS) -> str:
    """Return what to do about the name of an experiment, or of a task, that is not known."""
    return (
        "popsim --import MODULE COMMAND ... first imports the module of one of your own; popsim list shows "
        f"the others.{suggestion(name[:100], names)}"
    )


def register_experiment(experiment: type[AbstractExperiment]) -> type[AbstractExperiment]:
    """Register an experiment by name for the command line and `open_run`; usable as a decorator."""
    if not isinstance(experiment, type) or not issubclass(experiment, AbstractExperiment):
        raise ValueError(
            f"`experiment` must be a subclass of AbstractExperiment, got {short_repr(experiment)}."
        )
    check_annotations(experiment)
    registered = EXPERIMENTS.data.setdefault(experiment.name, experiment)
    if registered is not experiment:
        raise ValueError(f"`experiment` must have a name of its own, got {experiment.name!r} again.")
    return experiment


def describe_experiment(experiment: AbstractExperiment) -> dict[str, Any]:
    """Return the name, module and settings of an experiment: as given, and those in effect as text."""
    units, grid, in_effect = experiment.units(), dict(experiment.grid), {}
    common = {field.name for field in dataclasses.fields(AbstractExperiment)}
    for name in [field.name for field in dataclasses.fields(experiment)]:
        setting = getattr(experiment, name) if name in common else experiment.effective_value(name)
        texts = [setting_text(value, units.get(name, ())) for value in grid.get(name, (setting,))]
        in_effect[name] = " or ".join(texts)
    return {
        "experiment": experiment.name,
        **described_modules(experiment, grid.get("network", ())),
        "settings": dataclasses.asdict(experiment),
        "in_force": in_effect | {"grid": ", ".join(grid) or "not set"},
    }


def described_modules(experiment: AbstractExperiment, networks: Sequence[Any] = ()) -> dict[str, Any]:
    """Return the modules that make an experiment, and further networks, known, as descriptions name them."""
    modules = modules_of_networks((getattr(experiment, "network", None), *networks))
    described = {"module": type(experiment).__module__}
    return {**described, "network_modules": modules} if modules else described


def setting_text(value: object, units: Sequence[str] = ()) -> str:
    """Format a JSON value or a tuple with one unit, or one for each number: "0.002 m, 0.02 m/s"."""
    if value is None:
        return "not set"
    if len(units) > 1 and (not isinstance(value, list | tuple) or len(units) != len(value)):
        raise ValueError(f"`units` must be one, or one for each number of {value!r}, got {units!r}.")
    if isinstance(value, list | tuple):
        each_unit = [(unit,) for unit in units] if len(units) > 1 else [units] * len(value)
        return ", ".join(map(setting_text, value, each_unit))
    text = value if isinstance(value, str) else json.dumps(value)
    return " ".join([text, *units])


def rebuild_experiment(
    description: Mapping[str, Any],
    source: str | Path,
    *,
    build: Callable[..., AbstractExperiment] | None = None,
) -> AbstractExperiment:
    """Rebuild an experiment from a description in a file, by `build(**settings)` or what is registered."""
    name, stored_settings = description.get("experiment"), description.get("settings")
    if not isinstance(name, str) or not isinstance(stored_settings, dict):
        raise ValueError(f"{source} must name an experiment and its settings.")
    if build is None and name not in EXPERIMENTS:
        known = {"module": "__main__", **description}
        raise ValueError(_advice_on_import("experiment", name, known, source))
    axes = description.get("axes") or {}  # of a sweep
    for network in (stored_settings.get("network"), *axes.get("network", ())):
        is_registered = not isinstance(network, str) or network in NETWORKS
        if not is_registered and description.get("network_modules"):
            raise ValueError(_advice_on_import("network", str(network), description, source))
    settings = {key: plain_value(key, value) for key, value in stored_settings.items()}
    try:
        return (build or EXPERIMENTS[name])(**settings)
    except TypeError as error:
        raise ValueError(f"the settings in {source} must be those of {name}: {error}") from None


def _advice_on_import(what: str, name: str, description: Mapping[str, Any], source: str | Path) -> str:
    return (
        f"the {what} of {source} must be registered, got {name!r}: see register_{what} of popsim.{what}s; on "
        f"the command line name the module that does it: popsim {import_option(description)}..."
    )


def save_ensemble(
    path: str | Path, ensemble: Any, experiment: AbstractExperiment, *, overwrite: bool = False
) -> None:
    """Write the ensemble of an experiment to a safetensors file, with the experiment's name and settings.

    **Arguments:**

    - `path`: the file; see `popsim.store.save_model`.
    - `ensemble`: an ensemble with the structure of `experiment.build_ensemble()`.
    - `experiment`: the experiment that trained it.
    - `overwrite`: whether to replace an existing model file.

    **Raises:** `MismatchError` naming the array or number of `ensemble` that `experiment` would not build;
    `SaveError`.
    """
    check_experiment(experiment)
    template = eqx.filter_eval_shape(experiment.build_ensemble)
    check_forms(array_forms(ensemble), array_forms(template), source="`ensemble`")
    expected = _numbers(template)
    for name, number in _numbers(ensemble).items():
        if name not in expected or number != expected[name]:
            raise MismatchError(
                f"{name} of `ensemble` must be that of `experiment`, {expected.get(name)}, got {number}: "
                "it would be lost, as only arrays are saved. Use popsim.store.save_model."
            )
    save_model(path, ensemble, details=describe_experiment(experiment), overwrite=overwrite)


def load_ensemble(
    path: str | Path, *, build: Callable[..., AbstractExperiment] | None = None
) -> tuple[AbstractExperiment, Any]:
    """Read an ensemble from a file of `save_ensemble`. Nothing in the file is executed or imported.

    **Arguments:**

    - `path`: the file.
    - `build`: builds the experiment from its settings, `build(**settings)`, such as its class; by default the
        registered experiment of the name in the file.

    **Returns:** the experiment and the ensemble.

    **Raises:** `CorruptDataError` and `MismatchError` as `popsim.store.load_model`.
    """
    experiment = rebuild_experiment(read_model_details(path), path, build=build)
    return experiment, load_model(path, eqx.filter_eval_shape(experiment.build_ensemble))


def _numbers(tree: Any) -> dict[str, Any]:
    leaves = jax.tree.leaves_with_path(tree)
    return {jax.tree_util.keystr(path): leaf for path, leaf in leaves if isinstance(leaf, bool | int | float)}
