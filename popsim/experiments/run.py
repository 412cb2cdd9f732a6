"""A run, reopened."""

import dataclasses
import functools
from collections.abc import Callable
from pathlib import Path
from typing import Any

import equinox as eqx
import jax
import jax.numpy as jnp
from jaxtyping import Array, Key

from popsim.evaluate import Evaluation, evaluate_ensemble
from popsim.experiments.experiment import AbstractExperiment
from popsim.experiments.rebuild import rebuild_experiment
from popsim.experiments.run_history import RunHistory
from popsim.store import Checkpoint, RunFolder
from popsim.store.run_folder import read_description
from popsim.store.run_parts import (
    RunParts,
    check_history_lengths,
    own_checkpoints,
    read_log,
    read_parts,
    read_summary,
)
from popsim.task import AbstractTask
from popsim.training import open_history
from popsim.training.named_state import MODEL, named_arrays, with_named_arrays
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

    @property
    def is_finished(self) -> bool:
        """Whether it came to its end; if not, `popsim resume` continues it."""
        return self.folder.is_finished

    @functools.cached_property
    def task(self) -> AbstractTask:
        """The task."""
        return self.experiment.build_task()

    @functools.cached_property
    def parts(self) -> RunParts:
        """The identity of the run, and what must be in its folder."""
        return read_parts(self.folder)

    @functools.cached_property
    def _template(self) -> Any:
        return eqx.filter_eval_shape(self.experiment.build_ensemble)

    @functools.cached_property
    def _checkpoint(self) -> Checkpoint:
        """The model of the last checkpoint."""
        expected = named_arrays(MODEL, self._template)
        shapes = {name: jax.ShapeDtypeStruct(leaf.shape, leaf.dtype) for name, leaf in expected.items()}
        checkpoints = own_checkpoints(self.folder, self.parts)
        if (found := checkpoints.restore(lambda details: shapes, subset=True)) is None:
            raise ValueError(f"the run {self.folder.path} must have a checkpoint: it has none yet.")
        return found

    @functools.cached_property
    def ensemble(self) -> Any:
        """The trained ensemble; of a run that is not finished, the ensemble of its last checkpoint.

        **Raises:** `ValueError` if there is no checkpoint; `DamagedError` if none is as it was written;
        `MismatchError` if they are of other shapes than the experiment has, or of another run. For one that
        is damaged or missing there is a warning.
        """
        return with_named_arrays(MODEL, self._template, self._checkpoint.arrays)

    @property
    def n_batches_trained(self) -> int:
        """After how many batches `ensemble` is."""
        return self._checkpoint.step

    @functools.cached_property
    def history(self) -> RunHistory:
        """Losses, learning rate, trainables and more, as lazy arrays with dims (batch, member, ...)."""
        dataset = open_history(self.folder.history, run_id=self.parts.run_id)
        check_history_lengths(self.folder, self.parts, dataset.sizes)
        return RunHistory(dataset, self._template)

    @functools.cached_property
    def summary(self) -> dict[str, Any]:
        """The figures of merit, in SI units; raises `ValueError` if the run is not finished."""
        if not self.is_finished:
            raise ValueError(
                f"the run {self.folder.path} must be finished, it has no summary.json: "
                f"popsim resume {self.folder.path} makes it."
            )
        return read_summary(self.folder, self.parts.run_id)

    @functools.cached_property
    def log(self) -> list[dict[str, Any]]:
        """The logging points."""
        return read_log(self.folder, self.parts)

    def models(self, *, batch: int) -> Any:
        """The ensemble as it was after a training batch, counted from 0, whose trainables were kept.

        **Arguments:**

        - `batch`: the number of the batch; -1 for the ensemble before training.

        **Raises:** `ValueError` if they were not kept after `batch`.
        """
        if batch == -1:
            return self.experiment.build_ensemble()
        dataset = self.history.dataset
        kept = dataset["trainables_batch"].values.tolist() if "trainables_batch" in dataset.coords else []
        if batch not in kept:
            raise ValueError(
                f"`batch` must be one whose trainables were kept, {kept}, or -1, the start; got {batch}."
            )

        def at_batch(leaf: Any, rows: Any) -> Any:
            if rows is None:
                return leaf
            return jnp.asarray(rows.sel(trainables_batch=batch).values, leaf.dtype)

        is_leaf = _is_none
        return jax.tree.map(at_batch, self.ensemble, self.history.trainables, is_leaf=is_leaf)

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


def _is_none(node: Any) -> bool:
    return node is None


def open_run(path: str | Path, *, build: Callable[..., AbstractExperiment] | None = None) -> Run:
    """Open the folder of a run, finished or not.

    Nothing in the folder is executed: the experiment is looked up by its name among those registered, or
    made by `build`.

    **Arguments:**

    - `path`: the folder.
    - `build`: makes the experiment from its settings, `build(**settings)`, such as its class; None to look
        it up.

    **Raises:** `ValueError` if there is no run, its experiment is not registered, or its settings are
    not those of the experiment; `MismatchError` if it is of another format, or its `training.json` of
    another run; `DamagedError` if one of these is not as it was written, or missing. So do the parts of the
    run, when they are read.
    """
    folder = RunFolder.open(Path(path))
    description = read_description(folder.description)
    run = Run(folder, rebuild_experiment(description, folder.description, build=build))
    read_parts(folder)
    return run
