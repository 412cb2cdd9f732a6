"""Movies of the body of a run: members side by side, stages of training below one another."""

from collections.abc import Mapping, Sequence
from typing import Any

import jax
import numpy as np
from jaxtyping import PyTree

from popsim._shared.checks import WholeNumber, short_repr
from popsim._shared.text_checks import suggestion
from popsim.ensemble import member
from popsim.evaluation import validation_trials
from popsim.experiments.run import Run, kept_batches
from popsim.noise import with_zero_noise
from popsim.plants import AbstractPlant
from popsim.task import differs_between_members
from popsim.trial import Trial, n_trials

__all__ = ["animate_run", "find_trials"]

Stage = WholeNumber | str


def animate_run(
    run: Run,
    *,
    members: Sequence[WholeNumber] = (0,),
    batches: Sequence[Stage] = ("last",),
    trials: Sequence[WholeNumber] = (0,),
    noise: bool = True,
    playback: Any = None,
) -> Any:
    """Animate the body of a run in validation trials, on axes of its own.

    Members are side by side, and stages of training below one another; of one member, stages are side by
    side.

    **Arguments:**

    - `run`: a run of models with a body.
    - `members`: the numbers of the members.
    - `batches`: the stages of training: numbers of batches whose trainables were kept; "start" for the
        untrained networks; "first" and "middle" for the first and the middle one of the kept batches; "last"
        for the last checkpoint.
    - `trials`: the numbers of the validation trials, which are played one after another; see `find_trials`.
    - `noise`: whether the models have their noise, that of `run.evaluate`.
    - `playback`: the speed, a `popsim.analysis.figures.Playback`; by default real time, at 25 frames per
        second.

    **Returns:** the matplotlib animation, see `popsim.analysis.figures.save_animation`.
    """
    import matplotlib.pyplot as plt  # an experiment needs neither it nor what draws with it

    from popsim.analysis.figures import animate_body, body_motion, figure_style

    if not isinstance(getattr(run.ensemble, "plant", None), AbstractPlant):
        raise ValueError(
            f"`run` must be of models with a body, got {type(run.ensemble).__name__} in {run.folder.path}."
        )
    n_each = {"members": run.experiment.n_members, "trials": n_trials(_trials_of(run, 0))}
    for (name, count), numbers in zip(n_each.items(), (members, trials), strict=True):
        if len(numbers) == 0 or not all(0 <= number < count for number in numbers):
            got = short_repr(tuple(numbers))
            raise ValueError(f"`{name}` must be numbers from 0 to {count - 1}, got {got}.")
    stages = _stages(run, batches)
    motions, titles = [], []
    for title, batch in stages:
        ensemble = run.ensemble if batch is None else run.models(batch=batch)
        ensemble = ensemble if noise else with_zero_noise(ensemble)
        states = run.evaluate(ensemble).states
        for index in members:
            drawn, model = _trials_of(run, index), member(ensemble, int(index))
            motions.append([body_motion(_at(states, (index, n)), _at(drawn, n), model) for n in trials])
            names = [f"member {index}"] if len(members) > 1 or len(stages) == 1 else []
            names += [title] if len(stages) > 1 or batch is not None else []
            titles.append(", ".join(names))
    n_columns = len(members) if len(members) > 1 else len(stages)
    n_rows = len(motions) // n_columns
    size = (1.4 + 2.6 * n_columns, 0.5 + 2.8 * n_rows)
    options: dict[str, Any] = {"figsize": size, "sharex": True, "sharey": True, "layout": "constrained"}
    with figure_style():
        _, axes = plt.subplots(n_rows, n_columns, squeeze=False, **options)
        return animate_body(axes, motions, titles=titles, playback=playback)


def find_trials(run: Run, conditions: Mapping[str, float]) -> list[int]:
    """Return the numbers of the validation trials with these conditions, such as `{"direction": 1.57}`.

    **Arguments:**

    - `run`: the run.
    - `conditions`: values by name, as in `run.task.validation_trials().conditions`; three digits suffice.
    """
    trials = _trials_of(run, 0)
    labels = {name: np.asarray(each, float) for name, each in trials.conditions.items() if np.ndim(each) == 1}
    fits = np.ones(n_trials(trials), bool)
    for name, value in conditions.items():
        if name not in labels:
            known = ", ".join(sorted(labels)) or "a task with some"
            raise ValueError(f"`conditions` must be of {known}, got {name!r}.{suggestion(name, labels)}")
        near = np.abs(labels[name] - value) <= 0.006 * np.maximum(np.abs(labels[name]), 0.01)  # three digits
        if not near.any():
            there = ", ".join(f"{each:.3g}" for each in np.unique(labels[name]).tolist()[:20])
            raise ValueError(f"`conditions` must have a {name} among {there}, got {value:g}.")
        fits &= near
    if not fits.any():
        raise ValueError(f"`conditions` must be those of a validation trial, got {short_repr(conditions)}.")
    return np.flatnonzero(fits).tolist()


def _trials_of(run: Run, index: WholeNumber) -> Trial:
    """Return the validation trials of a member: those of all unless the task has values for each."""
    trials = validation_trials(run.task, run.experiment.n_members)
    return _at(trials, index) if differs_between_members(run.task) else trials


def _at(tree: PyTree, place: Any) -> Any:
    return jax.tree.map(lambda leaf: leaf[place], tree)


def _stages(run: Run, batches: Sequence[Stage]) -> list[tuple[str, int | None]]:
    """Return the title and the batch of each stage; no batch for the last checkpoint."""
    kept, stages = kept_batches(run.history.dataset), []
    named: dict[str, int | None] = {"start": -1, "last": None} | {str(batch): batch for batch in kept}
    named |= {"first": kept[0], "middle": kept[len(kept) // 2]} if kept else {}
    for text in map(str, batches):
        if text not in named:
            some = ", ".join(map(str, kept if len(kept) <= 12 else [*kept[:6], "…", *kept[-3:]]))
            raise ValueError(
                "`batches` must be start, first, middle, last, or a batch whose trainables were kept, "
                f"{some or 'of which there are none'}; got {text!r}."
            )
        n_trained = run.n_batches_trained if (batch := named[text]) is None else batch + 1
        stages.append((f"after {n_trained} batches" if n_trained else "untrained", batch))
    return stages
