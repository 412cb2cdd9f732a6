"""What the commands `export` and `animate` write; each takes its command, whose arguments it checks first."""

import contextlib
import importlib.util
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any

from popsim._shared.waiting import waiting_line
from popsim.experiments import open_run, save_ensemble
from popsim.store import (
    CorruptDataError,
    MismatchError,
    SaveError,
    check_mat_path,
    check_model_path,
    check_netcdf_path,
    write_mat,
    write_netcdf,
)
from popsim.store.files import check_replaceable, saving, write_file
from popsim.sweeps import SweepFolder, open_sweep

FORMATS = {".nc": (check_netcdf_path, write_netcdf), ".mat": (check_mat_path, write_mat)}
"""How states are checked and written, by the ending of the file."""


def export_run(command: Any) -> None:
    """Write the requested files of a run, and print their paths."""
    from popsim.experiments.exported_states import history_dataset, states_dataset

    options = {"overwrite": command.overwrite}
    paths = {name: getattr(command, name) for name in ("model", "history", "states", "figures")}
    paths = {name: path for name, path in paths.items() if path is not None}
    if command.summary is not None:
        raise ValueError(f"`summary` must be given for a sweep only, got {command.summary}.")
    if not paths:
        raise ValueError(
            "popsim export must be given --model, --history, --figures or --states, got none of them."
        )
    if "states" in paths and command.states.suffix not in FORMATS:
        raise ValueError(f"`states` must end in {' or '.join(FORMATS)}, got {command.states}.")
    check_states, write_states = FORMATS[command.states.suffix if "states" in paths else ".nc"]
    checks = {"model": check_model_path, "history": check_netcdf_path, "states": check_states}
    for name in [name for name in checks if name in paths]:
        checks[name](paths[name], name=name, **options)
    run = open_run(command.path)
    failed = _export_figures(run, command.figures, **options) if "figures" in paths else []
    writers: dict[str, Callable[[Path], object]] = {
        "model": lambda path: save_ensemble(path, run.ensemble, run.experiment, **options),
        "history": lambda path: write_netcdf(history_dataset(run), path, **options),
        "states": lambda path: write_states(states_dataset(run), path, **options),
    }
    for name in [name for name in writers if name in paths]:
        with waiting_line(f"exporting the {name}"):
            writers[name](paths[name])
        print(paths[name])
    if failed:
        raise SaveError(f"{command.figures} could not be written whole: {'; '.join(map(str, failed))}")


def _export_figures(run: Any, folder: Path, *, overwrite: bool) -> list[Any]:
    """Write the figures of a run and print their paths; return what cannot be drawn."""
    from popsim.analysis.figures.style import is_figure
    from popsim.experiments.run_figures import save_figures

    def check(path: Path) -> None:
        check_replaceable(path, is_figure, kind="a figure", overwrite=overwrite, name="figures")

    paths, failed = save_figures(run, folder, passes=(CorruptDataError, MismatchError), check=check)
    for path in paths:
        print(path)
    return failed


def export_sweep(command: Any) -> None:
    """Write the summary and the history of a sweep, and print their paths."""
    from popsim.sweeps.results import is_summary, summary_csv

    overwrite, summary, history = command.overwrite, command.summary, command.history
    for name in ("model", "figures", "states"):
        if (place := getattr(command, name)) is not None:
            of_cell = SweepFolder(command.path).command("export", "/cells/NUMBER")
            raise ValueError(f"`{name}` must be of a cell of a sweep: {of_cell} --{name} {place}")
    if summary is None and history is None:
        raise ValueError("popsim export must be given --summary or --history for a sweep, got neither.")
    if summary is not None:
        check_replaceable(summary, is_summary, kind="a summary", overwrite=overwrite, name="summary")
    if history is not None:
        check_netcdf_path(history, overwrite=overwrite, name="history")
        if importlib.util.find_spec("dask") is None:  # without it, all histories would be in memory at once
            raise ValueError(
                "`history` of a sweep must be exported where dask is installed: pip install popsim[dask]"
            )
    opened = open_sweep(command.path)
    if summary is not None:
        write_file(summary, [summary_csv(opened.summary()).encode()])
        print(summary)
    if history is not None:
        write_netcdf(opened.load(), history, overwrite=overwrite)
        print(history)


@contextlib.contextmanager
def drawing(path: Path, figure: Any) -> Iterator[None]:
    """Write a figure in this context, which makes the folder of its path and closes it in the end."""
    import matplotlib.pyplot as plt

    try:
        with saving(path):
            path.parent.mkdir(parents=True, exist_ok=True)
            yield
    except SaveError:
        raise
    except Exception as error:  # of matplotlib, by its settings
        raise SaveError(f"{path} could not be drawn: {type(error).__name__}: {error}") from error
    finally:
        plt.close(figure)


def write_movie(command: Any) -> Path:
    """Write the movie of a run, and return its path; all arguments are checked first."""
    from popsim.analysis.figures import Playback, save_animation
    from popsim.analysis.figures.movies import check_frame_rate, check_movie_path, is_movie
    from popsim.experiments.run_movie import animate_run

    playback = Playback(command.speed, command.frames_per_second, command.trail)
    path = command.path / "figures" / "movie.gif" if command.out is None else command.out
    check_movie_path("out", path)
    check_frame_rate(path, playback.frames_per_second)
    check_replaceable(path, is_movie, kind="a movie", overwrite=command.overwrite, name="out")
    if (folder := SweepFolder(command.path)).is_sweep:
        raise ValueError(f"`path` must be a cell of a sweep: {folder.command('animate', '/cells/NUMBER')}.")
    run = open_run(command.path)
    animation = animate_run(
        run,
        members=command.members,
        batches=command.batches,
        trials=_trials(run, command),
        noise=not command.without_noise,
        playback=playback,
    )
    with drawing(path, animation._fig):  # pyright: ignore[reportAttributeAccessIssue]
        return save_animation(animation, path)


def _trials(run: Any, command: Any) -> tuple[int, ...]:
    """Return the numbers of the trials that are asked for by number, or by their conditions."""
    if command.conditions is None:
        return (0,) if command.trials is None else command.trials
    if command.trials is not None:
        raise ValueError("`conditions` must be given in place of `trials`, got both.")
    from popsim.experiments.run_movie import find_trials

    conditions = {}
    for text in command.conditions:
        name, _, value = text.partition("=")
        try:
            conditions[name] = float(value)
        except ValueError:
            raise ValueError(
                f"`conditions` must be NAME=VALUE, such as direction=1.57, got {text!r}."
            ) from None
    return tuple(find_trials(run, conditions))
