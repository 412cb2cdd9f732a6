"""What the command `animate` writes."""

from pathlib import Path
from typing import Any

import matplotlib.pyplot as plt

from popsim.analysis.figures import Playback, save_animation
from popsim.analysis.figures.movies import check_frame_rate, check_movie_path, is_movie
from popsim.experiments import open_run
from popsim.experiments.run_movie import animate_run, find_trials
from popsim.store import SaveError
from popsim.store.files import check_replaceable, saving
from popsim.sweeps import SweepFolder


def write_movie(command: Any) -> Path:
    """Write the movie of a run, and return its path.

    **Arguments:**

    - `command`: the command, `popsim.cli._commands.Animate`, which loads this module when it runs.

    **Raises:** `ValueError` for what `popsim animate` refuses, before anything is written; `SaveError` if the
    movie cannot be drawn or written.
    """
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
    try:
        with saving(path):
            path.parent.mkdir(parents=True, exist_ok=True)
            return save_animation(animation, path)
    except SaveError:
        raise
    except Exception as error:  # of matplotlib, by its settings
        raise SaveError(f"{path} could not be drawn: {type(error).__name__}: {error}") from error
    finally:
        plt.close(animation._fig)  # pyright: ignore[reportAttributeAccessIssue]


def _trials(run: Any, command: Any) -> tuple[int, ...]:
    """Return the numbers of the trials that are asked for by number, or by their conditions."""
    if command.conditions is None:
        return (0,) if command.trials is None else command.trials
    if command.trials is not None:
        raise ValueError("`conditions` must be given in place of `trials`, got both.")
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
