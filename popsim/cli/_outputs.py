"""What the commands `info`, `export` and `animate` print and write; all arguments are checked first."""

import contextlib
import importlib.util
from collections.abc import Callable, Iterator, Sequence
from pathlib import Path
from typing import Any

from popsim import store
from popsim._shared.waiting import waiting_line
from popsim.experiments import info_table, open_run, read_run_info, save_ensemble, verify_run
from popsim.experiments.run_info import UNCHECKED
from popsim.store.files import check_replaceable, raise_save_errors, write_file
from popsim.sweeps import SweepFolder, open_sweep

FORMATS = {
    ".nc": (store.check_netcdf_path, store.write_netcdf),
    ".mat": (store.check_mat_path, store.write_mat),
}
"""How datasets are checked and written, by the ending of the file."""
DAMAGE = (store.CorruptDataError, store.MismatchError)
OF_RUN, OF_SWEEP = ("model", "history", "figures", "states"), ("summary", "history")


def run_info(path: Path, verify: bool) -> tuple[dict[str, Any], str, dict[str, str], str]:
    """Return what a run is as plain data and as text, what is damaged, and what was not checked."""
    info = read_run_info(path)
    return info, info_table(info), verify_run(path) if verify else {}, UNCHECKED


def export(command: Any) -> None:
    """Write the requested files of a run or of a sweep, and print their paths."""
    folder = SweepFolder(command.path)
    own, write = (OF_SWEEP, _export_sweep) if folder.is_sweep else (OF_RUN, _export_run)
    paths = {name: path for name in (*OF_RUN, "summary") if (path := getattr(command, name)) is not None}
    for name in [name for name in paths if name not in own]:
        if folder.is_sweep:
            of_cell = folder.command("export", "/cells/NUMBER")
            raise ValueError(f"`{name}` must be of a cell of a sweep: {of_cell} --{name} {paths[name]}")
        raise ValueError(f"`{name}` must be given for a sweep only, got {paths[name]}.")
    if not paths:
        raise ValueError(f"popsim export must be given --{', --'.join(own)}, got none of them.")
    write(command.path, paths, overwrite=command.overwrite)


def _format(name: str, path: Path) -> tuple[Callable[..., None], Callable[..., None]]:
    """Return what checks the path of a dataset, and what writes it, by the ending of the path."""
    if path.suffix not in FORMATS:
        raise ValueError(f"`{name}` must end in {' or '.join(FORMATS)}, got {path}.")
    return FORMATS[path.suffix]


def _export_run(path: Path, paths: dict[str, Path], *, overwrite: bool) -> None:
    from popsim.analysis.figures.style import is_figure
    from popsim.experiments.exported_states import history_dataset, states_dataset
    from popsim.experiments.run_figures import save_figures

    def check(path: Path) -> None:
        check_replaceable(path, is_figure, kind="a figure", overwrite=overwrite, name="figures")

    figures, options = paths.get("figures"), {"overwrite": overwrite}
    files = {name: paths[name] for name in ("model", "history", "states") if name in paths}
    for name, file in files.items():
        check_file = store.check_model_path if name == "model" else _format(name, file)[0]
        check_file(file, name=name, **options)
    run = open_run(path)
    drawn, failed = save_figures(run, figures, passes=DAMAGE, check=check) if figures else ((), ())
    for file in drawn:
        print(file)
    for name, file in files.items():
        with waiting_line(f"exporting the {name}"):
            if name == "model":
                save_ensemble(file, run.ensemble, run.experiment, **options)
            else:
                dataset = history_dataset(run) if name == "history" else states_dataset(run)
                _format(name, file)[1](dataset, file, **options)
        print(file)
    if failed:
        raise store.SaveError(f"{figures} could not be written whole: {'; '.join(map(str, failed))}")


def _export_sweep(path: Path, paths: dict[str, Path], *, overwrite: bool) -> None:
    from popsim.sweeps.results import is_summary

    if summary := paths.get("summary"):
        check_replaceable(summary, is_summary, kind="a summary", overwrite=overwrite, name="summary")
    if history := paths.get("history"):
        _format("history", history)[0](history, overwrite=overwrite, name="history")
        if importlib.util.find_spec("dask") is None:  # without it, all histories would be in memory at once
            raise ValueError(
                "`history` of a sweep must be exported where dask is installed: pip install popsim[dask]"
            )
    opened = open_sweep(path)
    if summary:
        write_file(summary, [opened.summary().to_csv().encode()])
        print(summary)
    if history:
        _format("history", history)[1](opened.load(), history, overwrite=overwrite)
        print(history)


@contextlib.contextmanager
def drawing(path: Path, figure: Any) -> Iterator[None]:
    """Write a figure in this context, which makes the folder of its path and closes it in the end."""
    import matplotlib.pyplot as plt

    try:
        with raise_save_errors(path):
            path.parent.mkdir(parents=True, exist_ok=True)
            yield
    except store.SaveError:
        raise
    except Exception as error:  # of matplotlib, by its settings
        raise store.SaveError(f"{path} could not be drawn: {type(error).__name__}: {error}") from error
    finally:
        plt.close(figure)


def write_movie(command: Any) -> Path:
    """Write the movie of a run, and return its path."""
    from popsim.analysis.figures import Playback, save_animation
    from popsim.analysis.figures.movies import check_frame_rate, check_movie_path, is_movie
    from popsim.experiments.run_movie import animate_run, find_trials

    playback = Playback(command.speed, command.frames_per_second, command.trail)
    path = command.path / "figures" / "movie.gif" if command.out is None else command.out
    check_movie_path("out", path)
    check_frame_rate(path, playback.frames_per_second)
    check_replaceable(path, is_movie, kind="a movie", overwrite=command.overwrite, name="out")
    if (folder := SweepFolder(command.path)).is_sweep:
        raise ValueError(f"`path` must be a cell of a sweep: {folder.command('animate', '/cells/NUMBER')}.")
    if command.conditions is not None and command.trials is not None:
        raise ValueError("`conditions` must be given in place of `trials`, got both.")
    run, trials = open_run(command.path), command.trials or (0,)
    if command.conditions is not None:
        trials = find_trials(run, _by_name(command.conditions))
    shown = {"members": command.members, "batches": command.batches, "trials": trials}
    animation = animate_run(run, **shown, noise=not command.without_noise, playback=playback)
    with drawing(path, animation._fig):  # pyright: ignore[reportAttributeAccessIssue]
        return save_animation(animation, path)


def _by_name(texts: Sequence[str]) -> dict[str, float]:
    try:
        return {name: float(value) for name, _, value in (text.partition("=") for text in texts)}
    except ValueError:
        given = ", ".join(texts)
        raise ValueError(f"`conditions` must be NAME=VALUE, such as direction=1.57, got {given}.") from None
