"""A finished run, reopened."""

import dataclasses
import functools
from pathlib import Path
from typing import Any

import equinox as eqx
import jax
import jax.numpy as jnp
from jaxtyping import Array, Key

from popsim.evaluate import Evaluation, evaluate_ensemble
from popsim.experiments.experiment import AbstractExperiment
from popsim.experiments.registry import EXPERIMENTS
from popsim.experiments.saved_history import TRAINABLES, open_history
from popsim.store import RunFolder, leaf_names, read_json, read_json_lines, read_tree
from popsim.task import AbstractTask
from popsim.training.training_trials import trials_of_batch
from popsim.trial import Trial


@dataclasses.dataclass(frozen=True)
class Run:
    """A run on disk. What is asked for is read then, and kept.

    - `folder`: where its files are.
    - `experiment`: the settings that it was trained with.
    """

    folder: RunFolder
    experiment: AbstractExperiment

    @functools.cached_property
    def task(self) -> AbstractTask:
        """The task."""
        return self.experiment.build_task()

    @functools.cached_property
    def ensemble(self) -> Any:
        """The trained ensemble."""
        template = eqx.filter_eval_shape(self.experiment.build_ensemble)
        return read_tree(self.folder.ensemble, template)

    @functools.cached_property
    def history(self) -> Any:
        """Losses, learning rate and trainables as a lazy `xarray.Dataset` with dims (batch, member, ...)."""
        return open_history(self.folder.history)

    @functools.cached_property
    def summary(self) -> dict[str, Any]:
        """The figures of merit, in SI units."""
        return read_json(self.folder.summary)

    @functools.cached_property
    def log(self) -> list[dict[str, Any]]:
        """The logging points."""
        return read_json_lines(self.folder.log)

    def ensemble_at(self, batch: int) -> Any:
        """The ensemble as it was after a training batch, counted from 0, whose trainables were kept.

        The ensemble before training is `run.experiment.build_ensemble()`.

        **Raises:** `ValueError` if they were not kept after `batch`.
        """
        kept = self.history.trainables_batch.values
        if batch not in kept:
            raise ValueError(f"`batch` must be one whose trainables were kept, {kept.tolist()}, got {batch}.")
        leaves, structure = jax.tree.flatten(self.ensemble)
        rows = self.history.sel(trainables_batch=batch)
        for name, index in leaf_names(self.ensemble).items():
            if TRAINABLES + name in rows:
                leaves[index] = jnp.asarray(rows[TRAINABLES + name].values)
        return jax.tree.unflatten(structure, leaves)

    def training_trials(self, batch: int) -> Trial:
        """The trials that the members were trained on in a batch, with axes (member, trial, ...)."""
        return trials_of_batch(
            self.task,
            self.experiment.batch_size,
            jnp.asarray(batch),
            member_ids=jnp.arange(self.experiment.n_members),
            shared_trials=False,
            key=self.experiment.key("training"),
        )

    def evaluate(
        self, ensemble: Any = None, *, trials: Trial | None = None, key: Key[Array, ""] | None = None
    ) -> Evaluation:
        """`popsim.evaluate_ensemble` with this run's task, and unless told otherwise its ensemble and key."""
        ensemble = self.ensemble if ensemble is None else ensemble
        key = self.experiment.key("evaluation") if key is None else key
        return evaluate_ensemble(ensemble, self.task, trials=trials, key=key)


def open_run(path: str | Path) -> Run:
    """Open the folder of a run.

    Nothing in the folder is executed: the experiment is looked up by its name among those registered.

    **Arguments:**

    - `path`: the folder.

    **Raises:** `ValueError` if there is no run, its experiment is not registered, or its settings are
    not those of the experiment.
    """
    folder = RunFolder.open(Path(path))
    description = read_json(folder.description)
    name, given = description.get("experiment"), description.get("settings")
    if not isinstance(name, str) or not isinstance(given, dict):
        raise ValueError(f"{folder.description} must name an experiment and its settings.")
    if name not in EXPERIMENTS:
        raise ValueError(
            f"the experiment of {path} must be registered, {sorted(EXPERIMENTS)}, got {name!r}: "
            "see popsim.experiments.register_experiment."
        )
    settings = {key: _as_plain(value) for key, value in given.items()}
    try:
        return Run(folder, EXPERIMENTS[name](**settings))
    except TypeError as error:
        raise ValueError(f"the settings in {folder.description} must be those of {name}: {error}") from None


def _as_plain(value: Any) -> Any:
    return tuple(value) if isinstance(value, list) else value
