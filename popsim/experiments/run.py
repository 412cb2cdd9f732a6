"""Runs opened for analysis."""

import dataclasses
import functools
from collections.abc import Callable, Mapping
from pathlib import Path
from typing import Any

import equinox as eqx
import jax
import jax.numpy as jnp
from jaxtyping import Array, Key, PyTree

from popsim._shared.checks import WholeNumber, warn_caller
from popsim._shared.text_checks import count_text
from popsim.ensemble import make_ensemble
from popsim.evaluation import Evaluation, evaluate, evaluate_ensemble
from popsim.experiments.experiment import AbstractExperiment
from popsim.experiments.registry import rebuild_experiment, setting_text
from popsim.experiments.results import ResultTable
from popsim.experiments.run_info import describe_run
from popsim.model import AbstractModel, with_trained_inputs
from popsim.randomness import seed_key
from popsim.store import Checkpoint, MismatchError, RunFolder, leaf_names
from popsim.store.run_folder import DescribedRun
from popsim.store.run_parts import RunParts, read_parts, read_summary
from popsim.task import AbstractTask, check_task
from popsim.training import open_history
from popsim.training.history.computation import (
    compare_computations,
    different_settings,
    task_computation,
)
from popsim.training.history.recording import PREFIXES, TRAINABLES
from popsim.training.steps.member_step import trials_of_batch
from popsim.training.steps.train_state import named_arrays, with_named_arrays
from popsim.trial import Trial

__all__ = ["RunHistory", "Run", "open_run"]


def kept_batches(dataset: Any) -> list[int]:
    """Return the numbers of the batches after which trainables were kept in a history."""
    return dataset["trainables_batch"].values.tolist() if "trainables_batch" in dataset.coords else []


@dataclasses.dataclass(frozen=True)
class RunHistory:
    """The history of a run.

    It has the attributes and items of `dataset`: `history.loss.sel(member=2)`, `history["trainables.…"]`.

    - `dataset`: a lazy `xarray.Dataset`, see `open_history`.
    - `template`: the ensemble, of arrays or of their shapes.
    """

    dataset: Any
    template: PyTree

    def __getattr__(self, name: str) -> Any:
        if name.startswith("_") or name in ("dataset", "template"):
            raise AttributeError(name)
        if hasattr(type(self), name):  # its own property failed: raise the original error
            return object.__getattribute__(self, name)
        return getattr(self.dataset, name)

    def __getitem__(self, name: str) -> Any:
        return self.dataset[name]

    def __repr__(self) -> str:
        return repr(self.dataset)

    @property
    def total_loss(self) -> Any:
        """The sum of the loss terms in each training batch, an `xarray.DataArray` (batch, member).

        NaN where a term is, as for frozen members; `loss.sum("term")` would skip such terms.
        """
        return self.dataset["loss"].sum("term", skipna=False)

    @property
    def total_validation_loss(self) -> Any:
        """The sum of the loss terms in the validation trials, as `total_loss`: (validation_batch, member)."""
        return self.dataset["validation_loss"].sum("term", skipna=False)

    @property
    def trainables(self) -> PyTree:
        """The trainable arrays in the structure of the ensemble: at each leaf a lazy `xarray.DataArray` with
        the axes (trainables_batch, member, ...), and None where nothing was kept."""
        structure = jax.tree.structure(self.template)
        arrays: list[Any] = [None] * structure.num_leaves
        for name, index in leaf_names(self.template).items():
            arrays[index] = self.dataset.get(PREFIXES[TRAINABLES] + name)
        return jax.tree.unflatten(structure, arrays)


@dataclasses.dataclass(frozen=True)
class Script:
    """A task, and what builds a model, `build(key)`, with which a training by a script is opened."""

    task: AbstractTask
    build: Callable[[Key[Array, ""]], AbstractModel]

    def build_task(self) -> AbstractTask:
        return self.task

    def build_ensemble(self, n_members: int | None) -> Any:
        key = seed_key(0)
        return self.build(key) if n_members is None else make_ensemble(self.build, n_members, key=key)


@dataclasses.dataclass(frozen=True)
class Run:
    """A run on disk, or a training by a script. Properties are read on first use, and kept.

    - `described`: the folder of the run, with its description when it was opened.
    - `source`: the experiment with its settings, or what a script's training is opened with.
    """

    described: DescribedRun
    source: AbstractExperiment | Script

    def __repr__(self) -> str:
        if isinstance(own := self.source, Script):
            return f"Run({str(self.folder.path)!r}: {type(self.task).__name__})"
        sizes = f"{count_text(own.n_members, 'member')}, {count_text(own.n_batches, 'batch')}"
        return f"Run({str(self.folder.path)!r}: {own.name}, {sizes})"

    @property
    def folder(self) -> RunFolder:
        """The folder of the run, or of the training."""
        return self.described.folder

    @property
    def is_finished(self) -> bool:
        """Whether the run is finished; unknown, and so False, without an experiment."""
        return self.described.is_run and self.folder.is_finished

    @functools.cached_property
    def parts(self) -> RunParts:
        """The identity of the run, and the list of what its folder must contain."""
        return read_parts(self.described)

    @functools.cached_property
    def info(self) -> dict[str, Any]:
        """What the folder says of itself, as `read_run_info` returns it."""
        return describe_run(self.described)

    @property
    def experiment(self) -> AbstractExperiment:
        """The experiment with its settings; raises `ValueError` for a script's training, which has none."""
        if isinstance(self.source, Script):
            raise ValueError(
                f"{self.folder.path} must be the run of an experiment; it is a script's training."
            )
        return self.source

    @functools.cached_property
    def task(self) -> AbstractTask:
        """The task."""
        return self.source.build_task()

    @functools.cached_property
    def _n_members(self) -> int | None:  # None for a single model
        if isinstance(self.source, Script):
            return self._dataset.sizes.get("member")
        return self.source.n_members

    @functools.cached_property
    def _template(self) -> Any:
        """The ensemble, or the model, with `jax.ShapeDtypeStruct`s in place of arrays."""
        if isinstance(self.source, Script):
            return eqx.filter_eval_shape(functools.partial(self.source.build_ensemble, self._n_members))
        return eqx.filter_eval_shape(self.source.build_ensemble)

    @functools.cached_property
    def _dataset(self) -> Any:
        dataset = open_history(self.folder.history, run_id=self.parts.run_id)
        self.parts.check_history_lengths(dataset.sizes)
        return dataset

    @functools.cached_property
    def _checkpoint(self) -> Checkpoint:
        try:
            checkpoint = self._restore(named_arrays({"model": self._template}), with_final=True)
        except MismatchError as error:
            if not isinstance(self.source, Script):
                raise
            path = self.folder.path
            raise MismatchError(f"`build` must give what was trained in {path}: {error}") from error
        if checkpoint is None:
            raise ValueError(f"the run {self.folder.path} must have a checkpoint: it has none yet.")
        return checkpoint

    def _restore(self, arrays: Mapping[str, Any], *, with_final: bool = False) -> Checkpoint | None:
        """Read from the last checkpoint what has the names, shapes and dtypes of some arrays.

        Of a model also the leaves with which members end, where an update of the population set them.
        """
        shapes = {name: jax.ShapeDtypeStruct(array.shape, array.dtype) for name, array in arrays.items()}

        def expected(details: Mapping[str, Any]) -> Mapping[str, jax.ShapeDtypeStruct]:
            final = details.get("final", ()) if with_final else ()
            named = {_name_of_final(name): shape for name, shape in shapes.items()}
            return shapes | {name: named[name] for name in final}

        return self.parts.open_checkpoints().restore(expected, subset=True)

    @functools.cached_property
    def ensemble(self) -> Any:
        """The ensemble, or single model, of the last checkpoint; damaged and missing ones give a warning.

        Members have their best weights where `EarlyStopping` restores them.

        **Raises:** `CorruptDataError` if all are damaged; `MismatchError` if they are of another run.
        """
        if isinstance(self.source, Script):
            self._warn_if_changed()
        arrays = jax.device_put(self._checkpoint.arrays)

        def final_or_last(name: str) -> Any:
            return arrays.get(_name_of_final(name), arrays[name])

        ensemble = with_named_arrays({"model": self._template}, final_or_last)["model"]
        return with_trained_inputs(ensemble, self._checkpoint.details.get("inputs"))

    @functools.cached_property
    def _changes(self) -> str:
        """What the task and the model compute now, but did not in the training; empty if nothing."""
        then = self._checkpoint.details["computation"]
        now = task_computation(self.task, self._template, n_members=self._n_members)
        if different := different_settings(then, now):
            return different
        checkpoint = self._restore(now.arrays)  # whichever is the last by now: all have the same of these
        found = compare_computations(then, now, checkpoint.arrays if checkpoint else {})
        return "; ".join(found.refused + found.unknown)

    def _warn_if_changed(self) -> None:
        if self._changes:
            warn_caller(
                f"`task` and model must be those trained in {self.folder.path}, got others "
                f"({self._changes}): results are not those of the training."
            )

    @property
    def n_batches_trained(self) -> int:
        """The number of batches after which `ensemble` was saved."""
        return self._checkpoint.step

    @functools.cached_property
    def history(self) -> RunHistory:
        """Losses, learning rate, trainables and more, as lazy arrays with dims (batch, member, ...).

        The axis `member` is missing if a single model was trained.
        """
        return RunHistory(self._dataset, self._template)

    @functools.cached_property
    def log(self) -> list[dict[str, Any]]:
        """The log points; raises `CorruptDataError` if a line of the log is damaged."""
        return [*self.parts.stream_log()]

    def models(self, *, batch: WholeNumber) -> Any:
        """Return the ensemble, or the model, after a training batch whose trainables were kept.

        **Arguments:**

        - `batch`: the number of the batch, from 0; -1 for the ensemble of an experiment before training.
        """
        is_script = isinstance(self.source, Script)
        if batch == -1 and not is_script:
            return self.experiment.build_ensemble()
        if batch not in (batches := kept_batches(self._dataset)):
            start = "; what a script began with is not saved" if is_script else ", or -1, the start"
            raise ValueError(
                f"`batch` must be one whose trainables were kept by `save_model_trainables`, "
                f"{batches}{start}; got {batch}."
            )

        def at_batch(leaf: Any, rows: Any) -> Any:
            return leaf if rows is None else jnp.asarray(rows.sel(trainables_batch=batch).values, leaf.dtype)

        return jax.tree.map(at_batch, self.ensemble, self.history.trainables, is_leaf=lambda x: x is None)

    def evaluate(
        self, ensemble: Any = None, *, trials: Trial | None = None, key: Key[Array, ""] | None = None
    ) -> Evaluation:
        """Call `popsim.evaluate_ensemble`, or `popsim.evaluate` for a single model, with this task.

        **Arguments:**

        - `ensemble`: by default that of the last checkpoint.
        - `trials`: by default the validation trials.
        - `key`: by default that of the experiment; of a script's training it must be given.
        """
        ensemble = self.ensemble if ensemble is None else ensemble
        if not isinstance(self.source, Script):
            self._warn_if_changed()
            key = self.experiment.key("evaluation") if key is None else key
            ids = self.experiment.members.ids
            return evaluate_ensemble(ensemble, self.task, trials=trials, member_ids=ids, key=key)
        if key is None:
            raise ValueError("`key` must be given for a script's training, got None.")
        run = evaluate if self._n_members is None else evaluate_ensemble
        return run(ensemble, self.task, trials=trials, key=key)

    @functools.cached_property
    def summary(self) -> dict[str, Any]:
        """The metrics, in SI units; raises `ValueError` if the run is not finished."""
        if not self.is_finished:
            raise ValueError(
                f"the run {self.folder.path} must be finished, it has no summary.json. "
                f"To make it: {self.folder.resume_command}"
            )
        return read_summary(self.described)

    def results(self) -> ResultTable:
        """The metrics as a table, with settings and seed of each member where members differ in them."""
        return self.experiment.table(self.summary).with_labels(self.member_labels())

    def member_labels(self) -> dict[str, list[str]]:
        """Return the settings and the seed of each member as text; nothing if all have the same settings."""
        members, units = self.experiment.members, self.experiment.units()
        if not members.settings:
            return {}
        labels = {
            name: [setting_text(value, units.get(name, ())) for value in values.tolist()]
            for name, values in members.settings.items()
        }
        return {**labels, "seed": [*map(str, members.ids)]}

    def training_trials(self, batch: WholeNumber) -> Trial:
        """Return the training trials of all members in a batch, with axes (member, trial, ...)."""
        return trials_of_batch(
            self.task,
            self.experiment.batch_size,
            jnp.asarray(batch),
            member_ids=jnp.asarray(self.experiment.members.ids),
            shared_trials=False,
            key=self.experiment.key("training"),
        )


def open_run(
    path: str | Path, *, task: AbstractTask | None = None, build: Callable[..., Any] | None = None
) -> Run:
    """Open the folder of a run, or of a training by a script with a `chkpt_dir`, finished or not.

    Nothing in the folder is executed: the experiment is a registered one, or the result of `build`; the task
    and model of a script are the given ones.

    **Arguments:**

    - `path`: the folder.
    - `task`: the task of a script's training. If it or the model differs from the trained one, there is a
        warning when the ensemble is read.
    - `build`: builds the experiment from its settings, `build(**settings)`, such as its class; None for the
        registered one. With a `task`: builds one model, `build(key)`, as for `popsim.make_ensemble`.

    **Raises:** `MismatchError` if it has another format, or its `training.json` is of another run;
    `CorruptDataError` if one of these is damaged or missing. The parts of the run raise the same errors when
    they are read. `popsim.experiments.read_run_info` opens a run without its experiment.
    """
    if task is None:
        described = RunFolder.open(path)
        run = Run(described, rebuild_experiment(described.content, described.path, build=build))
    elif callable(build):
        check_task(task)
        run = Run(RunFolder.open_training(path), Script(task, build))
    else:
        raise ValueError(f"`build` must make one model, build(key), as for a `task`, got {build!r:.100}.")
    _ = run.parts
    return run


def _name_of_final(name: str) -> str:
    """Return the name of an array of a model, such as "model.network.tau", among those with which it ends."""
    return f"final{name.removeprefix('model')}"
