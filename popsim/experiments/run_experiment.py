"""From settings to a finished run on disk."""

import dataclasses
from collections.abc import Sequence
from pathlib import Path
from typing import Any

import jax
import numpy as np
from numpy.typing import ArrayLike

from popsim.analysis.figures import save_figure
from popsim.ensemble import member
from popsim.experiments.experiment import AbstractExperiment
from popsim.experiments.run import Run
from popsim.experiments.saved_history import save_history
from popsim.loss import LossValues
from popsim.store import RunFolder, append_json_line, as_json_numbers, write_json, write_tree
from popsim.store.run_folder import FORMAT
from popsim.training import LogEntry
from popsim.version import __version__


def run_experiment(
    experiment: AbstractExperiment,
    out: str | Path,
    *,
    overwrite: bool = False,
    quiet: bool = False,
    save_model_trainables: bool | ArrayLike | None = None,
    devices: Sequence[jax.Device] | None = None,  # pyright: ignore[reportInvalidTypeForm]
) -> Run:
    """Train an experiment's ensemble and save the run: settings, log, ensemble, history, summary, figures.

    **Arguments:**

    - `experiment`: what to train.
    - `out`: the folder of the run.
    - `overwrite`: whether a run that is there is replaced.
    - `quiet`: whether to show no progress bar.
    - `save_model_trainables`: after which batches to keep the trainable arrays; by default at the logging
        points, the last batch among them.
    - `devices`: over which the members are divided, see `TaskTrainer`. How many there are changes the last
        digits of the result; the run says how many there were.

    **Returns:** the run, as `open_run` would open it.

    **Raises:** `ValueError` if `out` holds something already, or cannot be written.
    """
    RunFolder.check_free(Path(out), overwrite=overwrite)
    task, untrained = experiment.build_task(), experiment.build_ensemble()
    member(untrained, 0).check(task.validation_trials())
    folder = RunFolder.create(Path(out), overwrite=overwrite)
    description = {
        "format": FORMAT,
        "popsim": __version__,
        "experiment": experiment.name,
        "settings": dataclasses.asdict(experiment),
        "devices": 1 if devices is None else min(len(devices), experiment.n_members),
    }
    write_json(folder.description, description)
    if save_model_trainables is None:
        logged = np.arange(experiment.log_step - 1, experiment.n_batches, experiment.log_step)
        save_model_trainables = np.append(logged, experiment.n_batches - 1)
    trainer = experiment.build_trainer(
        log_fns=[lambda entry: append_json_line(folder.log, _log_line(entry))], devices=devices
    )
    ensemble, history = trainer(
        task,
        untrained,
        experiment.n_batches,
        experiment.batch_size,
        experiment.where_train,
        ensembled=True,
        log_step=experiment.log_step,
        save_model_trainables=save_model_trainables,
        disable_tqdm=quiet,
        key=experiment.key("training"),
    )
    write_tree(folder.ensemble, ensemble)
    save_history(folder.history, history)
    write_json(folder.summary, experiment.summarize(ensemble))
    run = Run(folder, experiment)
    save_figures(run)
    return run


def save_figures(run: Run) -> list[Path]:
    """Draw all figures of a run into its folder; the paths of the PNG files."""
    import matplotlib.pyplot as plt

    paths = []
    for name, figure in run.experiment.draw_figures(run).items():
        paths.append(save_figure(figure, run.folder.figures, name)[0])
        plt.close(figure)
    return paths


def _log_line(entry: LogEntry) -> dict[str, Any]:
    return {
        "batch": entry.batch,
        "seconds": round(entry.seconds, 3),
        "loss": _by_term(entry.loss),
        "validation_loss": _by_term(entry.validation_loss),
        "learning_rate": as_json_numbers(entry.learning_rate),
    }


def _by_term(loss: LossValues) -> dict[str, list[float | None]]:
    return {name: as_json_numbers(values) for name, values in loss.terms.items()}
