"""Trials that were made elsewhere: by another program, or recorded from an animal."""

import os
from collections.abc import Mapping, Sequence
from typing import Any, get_args

import equinox as eqx
import jax
import jax.numpy as jnp
import numpy as np
from jaxtyping import Array, Float, Int, Key, Shaped

from popsim._shared.argument_shapes import check_fields
from popsim._shared.checks import check_instance, check_time_step, short_repr
from popsim.loss import Loss
from popsim.losses import ChoiceError, OutputError
from popsim.parameters import replace_fields
from popsim.randomness import key_stream
from popsim.task import AbstractTask
from popsim.tasks.stored._nwb import read_nwb
from popsim.tasks.stored._stored_arrays import (
    NO_TRIAL,
    WITHIN,
    SeriesShape,
    as_conditions,
    as_recordings,
    finite_where,
    steps_of_times,
    training_and_validation,
)
from popsim.tasks.stored._training_order import (
    Normalise,
    Order,
    n_training_trials,
    normalised_loss,
    numbers_of_members,
    places_in_epochs,
)
from popsim.tasks.stored._trial_datasets import read_variables
from popsim.trial import OutputTarget, RecordedActivity, Trial
from popsim.windows import Timeline

__all__ = ["RecordedActivity", "StoredTrials"]

TRIAL, STORED = "trial", "stored trial"


class StoredTrials(AbstractTask):
    """Trials made elsewhere, as arrays: by another program, or recorded from an animal.

    A training trial is one of those in `train`, see `order`; the validation trials are all of those in
    `validation`. Trials of unequal length are padded with zeros, which do not
    count. The epoch "trial" is without the padding, the condition "stored trial" the number of the trial.

    Durations of NumPy, `timedelta64`, and numbers with a unit of time, as the attribute `units` of xarray or
    the unit of Astropy and pint says, become seconds.

    The arrays are in memory once, for all members. A run holds their fingerprint, not the arrays: it is
    resumed with the same data only.

    **Arguments:**

    - `inputs`: arrays of shape (trial, time, channel) by name; or for each name a list with an array of
        shape (time, channel) for each trial.
    - `targets`: (trial, time, output), or a list as for inputs; may be NaN where the mask is zero.
        An `OutputTarget` of arrays has its own mask and `is_choice`.
    - `mask`: which time steps of the targets count: (trial, time), or (trial, time, output), of bools or
        weights; by default all.
    - `conditions`: labels by name, for each trial a number.
    - `dt`: the time step in seconds.
    - `recordings`: activity of units by name, for `losses.RateError` and `losses.SpikeCountLikelihood`,
        (trial, time, unit) or a list as for inputs; where some of it is missing, a `RecordedActivity` with
        counts of shape (trial, time) or (trial, time, unit), or a list with one for each trial.
    - `epochs`, `events`: times in seconds by name, (trial, 2) for epochs and (trial,) for events, rounded to
        time steps; NaN in trials that have none.
    - `start`: when trials start in the times of `epochs` and `events`, in seconds: -0.5 where these are
        relative to a cue half a second later; or one for each trial, as in times of the session.
    - `validation`: the trials that validate: their numbers, a bool for each, values of conditions, such as
        `{"direction": [0, 3]}`, or the fraction of all, which are then drawn at random, always the same. A
        `PerMember` of numbers or bools lets each member hold out others, equally many, as in a
        cross-validation.
    - `train`: the trials that train, as for `validation`; by default all others. A fraction is drawn from the
        trials that the other argument does not select. Members may have unequally many: in a `PerMember` of
        numbers, -1 is no trial.
    - `is_choice`: whether the targets represent choices, see `OutputTarget`; by default they do not.
    - `order`: how training trials come. "drawn": each with equal probability, by the key. "epochs": each
        once, in random order, before any comes again; the order is the same in all trainings, and for all
        members that have the same trials. "all": all of them in every batch, as for L-BFGS; the size of the
        batch must be their number.
    - `normalise`: over what terms of the loss such as `CrossEntropy` are means. "trial": over the time steps
        of each trial, and then over trials. "all": over all time steps that count in the trials of `train`,
        for which the sum over a trial is divided by how many count in the mean trial. An evaluation has mean
        losses of single trials only with "trial".
    - `loss`: the loss to train with; by default `OutputError`, if there are targets and no recordings.
    - `timeline`: times of the trials as a `StoredTrials` holds them, in place of `dt`, `epochs` and `events`.

    `dataclasses.replace` changes any of the fields. It refuses `dt`, `epochs` and `events`, which are in
    the `timeline`, and `mask` and `is_choice`, which are in the `targets`.

    **Warns:** if a trial both trains and validates.
    """

    inputs: dict[str, Float[Array, "trial time channel"]]
    targets: OutputTarget | tuple[()]
    conditions: dict[str, Shaped[Array, "trial ..."]]
    recordings: dict[str, RecordedActivity]
    timeline: Timeline
    train: Int[Array, " train"]
    validation: Int[Array, " validation"]
    order: Order = eqx.field(static=True)
    normalise: Normalise = eqx.field(static=True)
    loss: Loss
    data_fields = ("inputs", "targets", "conditions", "recordings", "timeline", "train", "validation")

    def __init__(
        self,
        inputs: Mapping[str, Any],
        targets: Any = None,
        mask: Any = None,
        conditions: Mapping[str, Any] | None = None,
        *,
        dt: float | None = None,
        recordings: Mapping[str, Any] | None = None,
        epochs: Mapping[str, Any] | None = None,
        events: Mapping[str, Any] | None = None,
        start: Any = 0.0,
        validation: Any = 0.2,
        train: Any = None,
        is_choice: bool | None = None,
        order: Order = "drawn",
        normalise: Normalise = "trial",
        loss: Loss | None = None,
        timeline: Timeline | None = None,
    ):
        check_instance("inputs", inputs, Mapping, 'arrays by name, such as {"stimulus": stimulus}')
        if not inputs:
            raise ValueError("`inputs` must be at least one array, got none.")
        if isinstance(targets, OutputTarget):
            _refuse_beside("an OutputTarget", mask=mask, is_choice=is_choice)
            targets, mask, is_choice = targets.values, targets.counts, targets.is_choice
        targets = None if isinstance(targets, tuple) and not targets else targets
        if timeline is None:
            shape, step = SeriesShape(inputs), _time_step(dt)
        else:
            _refuse_beside("a `timeline`", dt=dt, epochs=epochs, events=events)
            shape, step = _shape_of(timeline, inputs), timeline.dt
        labels = as_conditions(conditions or {}, shape.n_trials)
        labels = labels if timeline is None else {name: labels[name] for name in labels if name != STORED}
        training, validating = training_and_validation(train, validation, labels, shape.n_trials)
        self.targets = _target(targets, mask, shape, bool(is_choice))
        self.recordings = as_recordings(recordings or {}, shape)
        _check_something_counts(self.targets, self.recordings)
        bounds = np.stack([np.zeros_like(shape.lengths), shape.lengths], axis=1)
        of_epochs = steps_of_times("epochs", epochs or {}, shape, step, start, n_bounds=2)
        of_events = steps_of_times("events", events or {}, shape, step, start, n_bounds=0)
        series = {name: _input(name, each, shape) for name, each in inputs.items()}
        named = _with_name("conditions", labels, STORED, np.arange(shape.n_trials))
        times = _with_name("epochs", of_epochs, TRIAL, bounds), of_events
        arrays = jax.tree.map(jnp.asarray, (series, named, times, training, validating))
        self.inputs, self.conditions, times, self.train, self.validation = arrays
        self.timeline = Timeline(step, shape.n_steps, *times) if timeline is None else timeline
        if loss is None and (targets is None or recordings):
            raise ValueError(
                "`loss` must be given where there are recordings or no targets, such as "
                "1.0 * losses.RateError(units=range(30)), got None."
            )
        self.order, self.normalise = order, normalise
        trials = self._all_trials()
        self.loss = normalised_loss(
            1.0 * OutputError() if loss is None else loss, trials, self.train, normalise
        )
        self.loss.check(trials, None)
        if is_choice:
            ChoiceError().check(trials, None)

    def __check_init__(self):
        check_fields(self)
        if self.order not in get_args(Order):
            raise ValueError(f"`order` must be one of {get_args(Order)}, got {self.order!r}.")
        if self.order == "all" and np.any(np.asarray(numbers_of_members(self.train)) == NO_TRIAL):
            raise ValueError('`train` must be equally many trials for each member where `order` is "all".')

    @classmethod
    def from_dataset(
        cls,
        dataset: Any,
        inputs: Sequence[str],
        targets: str | None = None,
        mask: str | None = None,
        conditions: Sequence[str] = (),
        *,
        recordings: Sequence[str] = (),
        trials: Any = None,
        axes: tuple[str, str] = ("trial", "time"),
        dt: float | None = None,
        **options: Any,
    ) -> "StoredTrials":
        """Make a task of an `xarray.Dataset`, or of a NetCDF or HDF5 file that xarray opens.

        Only the variables and the trials that are asked for are read, and stay in memory.

        The unit of a time is that of its type, `timedelta64` or `datetime64`, or of its attribute `units`,
        such as "ms", "minutes" or "ms since stimulus". Variables with a unit of time become seconds.

        **Arguments:**

        - `dataset`: the dataset, or the path of a file, for which the extra `netcdf` is needed.
        - `inputs`, `targets`, `mask`, `conditions`, `recordings`: names of variables, or of coordinates.
        - `trials`: the trials to read: a slice, their numbers, or a bool for each; by default all.
        - `axes`: the names of the axes of trials and of time.
        - `dt`: the time step in seconds; by default the step of the coordinate of time, which is in seconds
            if it has no unit and its steps are below 1. If both are there and the coordinate has a unit,
            they must agree.
        - `options`: other arguments of the class; `epochs` and `events` are given as arrays, whose unit is
            that of their type or attribute, too. `start` is by default the first time of the coordinate,
            unless these are dates.

        **Warns:** if `dt` differs from a coordinate without a unit, and is taken.
        """
        names = {"inputs": inputs, "conditions": conditions, "recordings": recordings}
        single = {"targets": targets, "mask": mask}
        arrays, times = read_variables(dataset, names, single, trials=trials, axes=axes, dt=dt)
        return cls(**arrays, **{**times, **options})

    @classmethod
    def from_nwb(
        cls,
        path: str | os.PathLike[str],
        inputs: Sequence[str] | Mapping[str, str],
        targets: str | None = None,
        conditions: Sequence[str] = (),
        *,
        dt: float,
        align: str = "start_time",
        window: tuple[float, float] | None = None,
        trials: Any = None,
        units: Any = None,
        events: Sequence[str] = (),
        **options: Any,
    ) -> "StoredTrials":
        """Make a task of a file of NWB 2 in HDF5; the extra `netcdf` is needed, pynwb is not.

        The spikes of units in each time step become the recording "spikes", for
        `losses.SpikeCountLikelihood`; where units were not observed (`obs_intervals`), they do not count.
        Series are interpolated linearly at the middle of each time step, and not averaged over it; a gap of
        more than ten of their usual intervals is not bridged, but refused.

        **Arguments:**

        - `path`: the path of the file.
        - `inputs`, `targets`: names of series, such as "hand", or paths, such as
            "processing/behavior/Position/hand"; or of columns of the trials, constant throughout each.
            `inputs` by other names are a dictionary, `{"hand": "processing/behavior/Position/hand"}`.
        - `conditions`: columns of the trials; text is numbered in alphabetical order. "id" tells which
            trials were read.
        - `dt`: the time step in seconds.
        - `align`: the column with the time of an event in each trial, in seconds of the session.
        - `window`: the time from and to in seconds after this event, such as `(-0.2, 0.8)`; by default from
            the event to the end of the trial, so that trials may be of unequal length.
        - `trials`, `units`: those to read: numbers of rows, a bool for each, or values of columns, such as
            `{"area": ["M1", "PMd"]}`; by default all. Without units, `units=[]`, there is no recording.
        - `events`: columns with times, which are never where they are NaN or not within the trial.
        - `options`: other arguments of the class. Arrays among them are of the trials that are read.

        **Warns:** if trials without the event that aligns them, or without an end, are left out; if units
        have no spike in the trials.
        """
        times = {"dt": dt, "align": align, "window": window, "events": events}
        arrays = read_nwb(path, inputs, targets, conditions, trials=trials, units=units, **times)
        return cls(**arrays, dt=dt, **options)

    @property
    def dt(self) -> float:
        """The time step in seconds."""
        return self.timeline.dt

    def trial(self, *, batch: int | Int[Array, ""], key: Key[Array, ""]) -> Trial:
        place = jax.random.randint(key_stream(key, "which trial"), (), 0, n_training_trials(self.train))
        return self._stored(self.train[place])

    def trials(self, *, batch: int | Int[Array, ""], n: int, key: Key[Array, ""]) -> Trial:
        if self.draws_trials:
            return super().trials(batch=batch, n=n, key=key)
        if self.order == "all" and n != self.train.size:
            raise ValueError(
                f'`batch_size` must be the number of training trials where `order` is "all", '
                f"{self.train.size}, got {n}."
            )
        places = jnp.arange(n) if self.order == "all" else places_in_epochs(self.train, batch, n)
        return jax.vmap(self._stored)(self.train[places])

    @property
    def draws_trials(self) -> bool:
        """Whether training trials are drawn one by one."""
        return self.order == "drawn"

    def validation_trials(self) -> Trial:
        return jax.vmap(self._stored)(self.validation)

    def _all_trials(self) -> Trial:
        """Return all trials, stacked, without a copy of their arrays."""
        names = ("inputs", "targets", "conditions", "recordings", "timeline")
        return replace_fields(self._stored(jnp.asarray(0)), **{name: getattr(self, name) for name in names})

    def _stored(self, number: Int[Array, ""]) -> Trial:
        """Return the trial of a number in the arrays."""
        parts = (self.inputs, self.targets, self.conditions, self.recordings, self.timeline)
        inputs, targets, conditions, recordings, timeline = jax.tree.map(lambda leaf: leaf[number], parts)
        return Trial((), inputs, targets, timeline, conditions=conditions, recordings=recordings)


def _time_step(dt: float | None) -> float:
    """Return the time step; raise `ValueError` unless it is given."""
    if dt is None:
        raise ValueError("`dt` must be the time step in seconds where there is no `timeline`, got None.")
    check_time_step(dt)
    return dt


def _shape_of(timeline: Timeline, inputs: Mapping[str, Any]) -> SeriesShape:
    """Return the shape of inputs; raise `ValueError` unless it is that of the times of a `StoredTrials`."""
    check_instance("timeline", timeline, Timeline, "that of a StoredTrials")
    bounds = timeline.epochs.get(TRIAL)
    if bounds is None or bounds.ndim != 2:
        raise ValueError(
            f"`timeline` must have the epoch {TRIAL!r} of stacked trials, as a StoredTrials has."
        )
    given, expected = SeriesShape(inputs), (len(bounds), timeline.n_steps)
    if (given.n_trials, given.n_steps) != expected:
        raise ValueError(
            f"`inputs` must have the trials and time steps of the `timeline`, {expected}, got "
            f"{(given.n_trials, given.n_steps)}: make a new StoredTrials to have others."
        )
    return SeriesShape(inputs, bounds[:, 1])


def _refuse_beside(replacement: str, **given: Any) -> None:
    """Raise `ValueError` for an argument that another one stands for, as in `dataclasses.replace`."""
    for name, value in given.items():
        if value is not None:
            raise ValueError(
                f"`{name}` must not be given with {replacement}, which has its own, got {short_repr(value)}: "
                "make a new StoredTrials, or change that."
            )


def _input(name: str, series: Any, shape: SeriesShape) -> Any:
    label = f"inputs[{name!r}]"
    return finite_where(label, shape.padded(label, series), shape.is_within, WITHIN)


def _target(targets: Any, mask: Any, shape: SeriesShape, is_choice: bool) -> OutputTarget | tuple[()]:
    if targets is None:
        if mask is not None:
            raise ValueError("`mask` must be given with `targets`, got one without: recordings have counts.")
        if is_choice:
            raise ValueError("`is_choice` must be given with `targets`, got True without.")
        return ()
    values = shape.padded("targets", targets, "output")
    counts = shape.counts("mask", mask, values.shape[2])
    place = WITHIN if mask is None else "where `mask` is not zero"
    values = finite_where("targets", values, counts, place)
    return OutputTarget(jnp.asarray(values), jnp.asarray(counts), is_choice=is_choice)


def _check_something_counts(
    target: OutputTarget | tuple[()], recorded: Mapping[str, RecordedActivity]
) -> None:
    """Raise `ValueError` if targets and recordings count nowhere in a trial."""
    counts = [each.counts for each in recorded.values()]
    counts += [] if isinstance(target, tuple) else [target.counts]
    if not counts:
        return
    totals = sum(each.reshape(each.shape[0], -1).sum(axis=1) for each in counts)
    empty = np.flatnonzero(np.asarray(totals) == 0)
    if empty.size:
        raise ValueError(
            "`mask` must leave something of each trial, in targets or recordings, got nothing in trials "
            f"{empty[:8].tolist()}{' and others' if empty.size > 8 else ''}: leave these out."
        )


def _with_name(argument: str, named: Mapping[str, Any], name: str, value: Any) -> dict[str, Any]:
    if name in named:
        raise ValueError(f"`{argument}` must have other names than {name!r}, which StoredTrials adds.")
    return {name: value, **named}
