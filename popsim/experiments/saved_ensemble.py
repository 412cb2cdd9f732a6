"""A trained ensemble in one file, with the experiment that it belongs to."""

from collections.abc import Callable
from pathlib import Path
from typing import Any

import equinox as eqx
import jax

from popsim.experiments.experiment import AbstractExperiment
from popsim.experiments.rebuild import describe_experiment, rebuild_experiment
from popsim.store.errors import DamagedError, MismatchError
from popsim.store.model_file import array_forms, check_arrays, load_model, read_model_details, save_model


def save_ensemble(
    path: str | Path, ensemble: Any, experiment: AbstractExperiment, *, overwrite: bool = False
) -> None:
    """Write the ensemble of an experiment into one safetensors file, with the name and settings of this.

    **Arguments:**

    - `path`: the file; see `popsim.store.save_model`.
    - `ensemble`: with the structure that `experiment.build_ensemble()` has.
    - `experiment`: what it was trained by.
    - `overwrite`: whether to replace a model file that is already there.

    **Raises:** `MismatchError` naming the array or number of `ensemble` that `experiment` would not build.
    `ValueError` and `SaveError` as `popsim.store.save_model`.
    """
    template = eqx.filter_eval_shape(experiment.build_ensemble)
    check_arrays(array_forms(ensemble), template, source="`ensemble`")
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
    """Read an ensemble that `save_ensemble` wrote.

    Nothing in the file is executed or imported: the experiment is looked up by its name among those
    registered, or made by `build`.

    **Arguments:**

    - `path`: the file.
    - `build`: makes the experiment from its settings, `build(**settings)`, such as the class of an experiment
        that is not registered.

    **Returns:** the experiment and the ensemble.

    **Raises:** `ValueError` if the experiment is not registered, or the settings are not those of it.
    `DamagedError` and `MismatchError` as `popsim.store.load_model`.
    """
    experiment = rebuild_experiment(read_model_details(path), path, build=build)
    if experiment.n_members > Path(path).stat().st_size:
        raise DamagedError(f"{path} must hold {experiment.n_members} members; it is too short for them.")
    return experiment, load_model(path, eqx.filter_eval_shape(experiment.build_ensemble))


def _numbers(tree: Any) -> dict[str, Any]:
    leaves = jax.tree.leaves_with_path(tree)
    return {jax.tree_util.keystr(path): leaf for path, leaf in leaves if isinstance(leaf, bool | int | float)}
