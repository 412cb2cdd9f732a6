"""Trials that were made elsewhere are those of the arrays, and arrays that do not fit are refused."""

import dataclasses
import functools
import re

import jax
import numpy as np
import pytest
import xarray
from sample_trials import many_trials, validation_trials
from small_training import assert_same

import popsim
from popsim import losses, tasks
from popsim.store import MismatchError
from popsim.tasks import RecordedActivity, StoredTrials
from popsim.training import TaskTrainer, adam, training_trials

N, N_STEPS, DT = 12, 5, 0.02
RANDOM = np.random.default_rng(0)
STIMULUS = RANDOM.normal(size=(N, N_STEPS, 2))
TARGETS = RANDOM.normal(size=(N, N_STEPS, 3))
RATES = RANDOM.normal(size=(N, N_STEPS, 4))
DIRECTION = np.arange(N) % 4
OF_RATES = 1.0 * losses.RateError(units=range(4))
OPTIMIZER = adam(1e-2)


def task_of(inputs=None, targets=TARGETS, mask=None, conditions=None, **options):
    """A task of the arrays above."""
    inputs = {"stimulus": STIMULUS} if inputs is None else inputs
    conditions = {"direction": DIRECTION} if conditions is None else conditions
    return StoredTrials(inputs, targets, mask, conditions, **{"dt": DT, **options})


LENGTHS = [3, 5, 2, 4]


def ragged(array):
    """The first four trials, of unequal length."""
    return [array[i, :n] for i, n in enumerate(LENGTHS)]


def changed(array, places, value):
    array = np.array(array, float)
    array[places] = value
    return array


def build(key):
    network = popsim.networks.LeakyRNN(2, 5, 3, tau=0.05, dt=DT, key=key)
    return popsim.NetworkModel(network, dt=DT)


def train(task, n_batches=4, *, folder=None, **options):
    """Train two networks on a task, from the checkpoint in a folder if it has one."""
    ensemble = popsim.make_ensemble(build, 2, key=jax.random.key(0))
    options = {"ensembled": True, "disable_tqdm": True, "key": jax.random.key(1), **options}
    trainer = TaskTrainer(OPTIMIZER, chkpt_dir=folder)
    options = {"restore_checkpoint": folder is not None, **options}
    n_trials = options.pop("batch_size", 4)
    return trainer(task, ensemble, n_batches, n_trials, lambda model: model.network, **options)


def test_drawn_trials_are_those_that_train_each_as_often_and_the_others_validate(getkey):
    task = task_of(validation={"direction": [1, 3]})
    trials = many_trials(task, getkey(), 600)
    number = trials.conditions["stored trial"]
    train = np.flatnonzero(np.isin(DIRECTION, [0, 2]))
    assert set(number) == set(train)
    np.testing.assert_allclose(np.bincount(number)[train], 100, atol=50)
    np.testing.assert_allclose(trials.inputs["stimulus"], STIMULUS[number], rtol=1e-6)
    np.testing.assert_allclose(trials.targets.values, TARGETS[number], rtol=1e-6)
    np.testing.assert_array_equal(trials.conditions["direction"], DIRECTION[number])
    assert np.all(trials.targets.counts == 1) and not trials.targets.is_choice
    validation = validation_trials(task)
    np.testing.assert_array_equal(
        validation.conditions["stored trial"], np.flatnonzero(np.isin(DIRECTION, [1, 3]))
    )
    np.testing.assert_allclose(
        validation.inputs["stimulus"], STIMULUS[np.asarray(task.validation)], rtol=1e-6
    )


def numbers_of(task, batch, n, member_id=0):
    key = jax.random.key(batch)
    trials = training_trials(task, n, batch=batch, member_id=member_id, key=key)
    return np.asarray(trials.conditions["stored trial"])


@pytest.mark.parametrize("n", [2, 5, 30])
def test_in_epochs_each_trial_comes_once_before_any_comes_again(n):
    task = task_of(validation=[0, 4, 5], order="epochs")
    shown = np.concatenate([numbers_of(task, batch, n) for batch in range(60 // n)])
    epochs = shown[: shown.size // 9 * 9].reshape(-1, 9)
    np.testing.assert_array_equal(np.sort(epochs, axis=1), np.tile(task.train, (len(epochs), 1)))
    assert np.unique(epochs[:2], axis=0).shape[0] == 2
    np.testing.assert_array_equal(numbers_of(task, 1, n), numbers_of(task, 1, n, member_id=3))


def test_members_have_epochs_of_the_trials_that_they_train():
    own = popsim.PerMember([[3, 1, -1], [2, 4, 7]])
    task = task_of(train=own, validation=[0], order="epochs")
    _, history = train(task, 4, save_trial_specs=range(4), batch_size=3)
    numbers = [history.trial_specs[batch].conditions["stored trial"] for batch in range(4)]
    first, second = np.concatenate(numbers, axis=1)
    assert set(first.tolist()) == {1, 3} and set(map(tuple, np.sort(first.reshape(-1, 2)))) == {(1, 3)}
    np.testing.assert_array_equal(np.sort(second.reshape(-1, 3)), [[2, 4, 7]] * 4)


def test_all_trials_are_a_batch_in_their_order_and_of_no_other_size():
    task = task_of(train=[4, 2, 9], validation=[0], order="all")
    assert numbers_of(task, 7, 3).tolist() == [4, 2, 9]
    with pytest.raises(ValueError, match='`batch_size` must be .* where `order` is "all", 3, got 4'):
        train(task, batch_size=4)
    own = popsim.PerMember([[3, 1, -1], [2, 4, 7]])
    with pytest.raises(ValueError, match="`train` must be equally many trials for each member"):
        task_of(train=own, validation=[0], order="all")


def test_wrappers_show_trials_in_the_order_of_their_task_or_refuse_it():
    task = task_of(validation=[0, 4, 5], order="epochs", events={"go cue": np.full(N, 2 * DT)})
    wrapped = tasks.WithFixation(task)
    halved = tasks.ParameterCurriculum(
        wrapped,
        lambda task: task.task.targets.values,
        popsim.schedules.PiecewiseSchedule([0], task.targets.values[None]),
    )
    plan = popsim.interventions.InterventionPlan("current", 1.0, probability=0.5)
    planned = tasks.WithInterventions(halved, [plan])
    acts = training_trials(planned, 60, batch=0, member_id=0, key=jax.random.key(0)).conditions["current"]
    assert 15 < np.sum(acts) < 45
    for each in (wrapped, halved, planned):
        assert not each.draws_trials
        np.testing.assert_array_equal(numbers_of(each, 3, 5), numbers_of(task, 3, 5))
    for refused in (
        lambda: tasks.HeldOutConditions(wrapped, lambda conditions: conditions["direction"] == 1),
        lambda: tasks.Mixture([task, task]),
        lambda: tasks.TaskCurriculum([task, task], [0, 5]),
        lambda: tasks.MultiTask({"one": task}),
        lambda: tasks.Session(task, 3),
    ):
        with pytest.raises(ValueError, match="`task` must draw each trial by itself .* got (Stored|With)"):
            refused()


@pytest.mark.parametrize("of_members", [False, True])
def test_over_all_time_steps_each_counts_as_much_in_short_trials_and_in_long_ones(of_members):
    arrays = {"stimulus": ragged(STIMULUS)}, ragged(TARGETS), None, {}
    chosen = popsim.PerMember([[0, 1, 2], [2, 0, -1]]) if of_members else [0, 1, 2]
    task = task_of(*arrays, train=chosen, validation=[3], normalise="all")
    ensemble = popsim.make_ensemble(build, 2, key=jax.random.key(0))
    for member, numbers in enumerate([[0, 1, 2], [0, 2] if of_members else [0, 1, 2]]):
        model = popsim.member(ensemble, member)
        trials = task._all_trials()
        states = popsim.evaluate(model, task_of(*arrays), trials=trials, key=jax.random.key(1)).states
        own = popsim.per_member.select_member(task, member)
        values = [
            own.loss(*jax.tree.map(lambda leaf, i=i: leaf[i], (states, trials)), model).total for i in numbers
        ]
        errors = [
            np.sum((states.network.output[i, : LENGTHS[i]] - TARGETS[i, : LENGTHS[i]]) ** 2) / 3
            for i in numbers
        ]
        np.testing.assert_allclose(
            np.mean(values), np.sum(errors) / np.sum(np.take(LENGTHS, numbers)), rtol=1e-5
        )
    again = dataclasses.replace(task, normalise="trial")
    assert again.loss.terms[0].total is None
    with pytest.raises(ValueError, match="`loss` must have a mean over time steps that count"):
        task_of(*arrays, normalise="all", loss=1.0 * losses.Effort())


@pytest.mark.parametrize(
    "validation, expected",
    [
        ([7, 2], [7, 2]),
        (np.arange(N) > 9, [10, 11]),
        ({"direction": 2}, [2, 6, 10]),
        ({"direction": [1, 2], "side": [True]}, [5, 6, 9, 10]),
    ],
)
def test_trials_validate_by_number_or_by_condition(validation, expected):
    conditions = {"direction": DIRECTION, "side": np.arange(N) > 4}
    task = task_of(conditions=conditions, validation=validation)
    np.testing.assert_array_equal(task.validation, expected)
    np.testing.assert_array_equal(task.train, np.setdiff1d(np.arange(N), expected))
    with pytest.warns(UserWarning, match=f"`train` and `validation` have {len(expected)} of 12 trials"):
        both = task_of(conditions=conditions, validation=validation, train=np.arange(N))
    np.testing.assert_array_equal(both.train, np.arange(N))


def test_what_a_fraction_draws_is_the_same_each_time_and_not_selected_by_the_other_argument():
    first, again = (task_of(validation=0.25).validation for _ in range(2))
    np.testing.assert_array_equal(first, again)
    for options, n_train, n_validation in (
        ({"validation": 0.5}, 6, 6),
        ({"validation": 0.25, "train": 0.5}, 6, 3),
        ({"validation": 0.25, "train": {"direction": [0, 1]}}, 6, 3),
        ({"validation": {"direction": 2}, "train": 0.5}, 6, 3),
    ):
        task = task_of(**options)
        train, validation = set(np.asarray(task.train)), set(np.asarray(task.validation))
        assert (len(train), len(validation)) == (n_train, n_validation) and not train & validation
    thirds = StoredTrials({"stimulus": STIMULUS[:3]}, TARGETS[:3], dt=DT, validation=0.5, train=0.5)
    assert len(thirds.validation) == 2 and len(thirds.train) == 1


def test_recordings_of_unequal_length_may_miss_something():
    rates = [changed(each, (1, 2), np.nan) for each in ragged(RATES)]
    for counts in ([~np.isnan(each) for each in rates], [np.arange(n)[:, None] != 1 for n in LENGTHS]):
        recorded = {"rates": list(map(RecordedActivity, rates, counts))}
        task = StoredTrials(
            {"stimulus": ragged(STIMULUS)}, dt=DT, recordings=recorded, loss=OF_RATES, validation=[0]
        )
        stored = task.recordings["rates"].counts
        assert stored.shape == (4, 5, counts[0].shape[1])
        np.testing.assert_array_equal(stored[0, :3], counts[0])
        assert not np.any(stored[0, 3:]) and np.all(np.isfinite(task.recordings["rates"].values))


def test_trials_of_unequal_length_end_where_they_end():
    with pytest.warns(UserWarning, match="in common"):
        task = StoredTrials(
            {"stimulus": ragged(STIMULUS)},
            ragged(TARGETS),
            [np.arange(n) > 0 for n in LENGTHS],
            recordings={"rates": ragged(RATES)},
            dt=DT,
            validation=range(4),
            train=[0],
            loss=OF_RATES,
        )
    trials = validation_trials(task)
    within = np.arange(5) < np.array(LENGTHS)[:, None]
    np.testing.assert_array_equal(trials.timeline.epochs["trial"], [[0, n] for n in LENGTHS])
    np.testing.assert_array_equal(trials.targets.counts, within & (np.arange(5) > 0))
    np.testing.assert_array_equal(trials.recordings["rates"].counts[..., 0], within)
    for series, array in (
        (trials.inputs["stimulus"], STIMULUS),
        (trials.targets.values, TARGETS),
        (trials.recordings["rates"].values, RATES),
    ):
        np.testing.assert_allclose(series, np.where(within[..., None], array[:4], 0.0), rtol=1e-6)


def test_stored_trials_can_be_changed_by_replace():
    events = {"cue": np.array([0.02, 0.04, np.nan, 0.0])}
    options = {"dt": DT, "events": events, "conditions": {"side": [0, 1, 0, 1]}, "validation": [1]}
    arrays = {"stimulus": ragged(STIMULUS)}, ragged(TARGETS)
    task = StoredTrials(*arrays, **options)
    louder = dataclasses.replace(task, loss=2.0 * task.loss)
    assert_same(louder, StoredTrials(*arrays, loss=2.0 * task.loss, **options))
    other = dataclasses.replace(task, validation=np.array([3]), train=np.array([0, 2]))
    assert_same(other, StoredTrials(*arrays, **{**options, "validation": [3], "train": [0, 2]}))
    recorded = StoredTrials(arrays[0], dt=DT, recordings={"rates": RATES[:4]}, loss=OF_RATES, validation=[0])
    assert_same(dataclasses.replace(recorded), recorded)


@pytest.mark.parametrize(
    ("change", "name"),
    [
        ({"dt": 0.5}, "dt"),
        ({"epochs": {"delay": np.zeros((N, 2))}}, "epochs"),
        ({"events": {"go": np.zeros(N)}}, "events"),
        ({"mask": np.ones((N, N_STEPS))}, "mask"),
        ({"is_choice": True}, "is_choice"),
        ({"inputs": {"stimulus": STIMULUS[1:]}}, "inputs"),
        ({"inputs": {"stimulus": STIMULUS[:, 1:]}}, "inputs"),
        ({"timeline": None}, "dt"),
        ({"timeline": popsim.Timeline(DT, N_STEPS)}, "timeline"),
    ],
)
def test_what_replace_could_not_change_is_refused(change, name):
    with pytest.raises(ValueError, match=f"`{name}` must"):
        dataclasses.replace(task_of(), **change)


def test_times_in_seconds_are_those_of_the_nearest_step():
    go = changed(np.linspace(0.0, 0.1, N), 3, np.nan)
    delay = np.stack([np.full(N, 0.021), np.full(N, 0.059)], axis=1)
    delay = changed(delay, 2, np.nan)
    timeline = task_of(events={"go cue": go}, epochs={"delay": delay}).timeline
    expected = np.floor(np.nan_to_num(go) / DT + 0.5001).astype(int)
    np.testing.assert_array_equal(timeline.events["go cue"], changed(expected, 3, popsim.NEVER))
    last = task_of(epochs={"delay": np.tile([0.0, 0.11], (N, 1))}).timeline.epochs["delay"]
    np.testing.assert_array_equal(last, np.tile([0, N_STEPS], (N, 1)))
    np.testing.assert_array_equal(timeline.epochs["delay"], changed(np.tile([1, 3], (N, 1)), 2, N_STEPS))
    starts = 1e6 + 1.3 * np.arange(N)  # of a session, where single precision has steps of 0.06 s
    session = {"events": {"go cue": go + starts}, "epochs": {"delay": delay + starts[:, None]}}
    assert_same(task_of(**session, start=starts).timeline, timeline)
    for start in (np.zeros(3), np.nan, "early"):
        with pytest.raises(ValueError, match="`start` must be"):
            task_of(start=start)


def test_times_of_a_dataset_are_those_of_its_coordinate(dataset):
    go, read = (
        np.full(N, 0.02),
        functools.partial(StoredTrials.from_dataset, inputs=["stimulus"], targets="speed"),
    )
    for units, ratio in ((None, 1), ("ms", 1e3)):
        time = ("time", (STEPS * DT - 0.04) * ratio, {} if units is None else {"units": units})
        about_cue = dataset.assign_coords(time=time)
        assert np.all(read(about_cue, events={"go": go}).timeline.events["go"] == 3)
        assert np.all(read(about_cue, events={"go": go}, start=0.0).timeline.events["go"] == 1)
    dates = dataset.assign_coords(time=np.datetime64("2020-01-01", "ns") + (STEPS * 20).astype("m8[ms]"))
    assert np.all(read(dates, events={"go": go}).timeline.events["go"] == 1)


def test_a_mask_is_the_weight_in_the_loss_and_what_it_hides_may_be_nan(getkey):
    """The loss of each trial is that of numpy, for a weight of each step and of each output."""
    model = build(getkey())
    for mask in (RANDOM.uniform(size=(N, N_STEPS)), RANDOM.uniform(size=(N, N_STEPS, 3)) * (TARGETS > -1)):
        mask = changed(mask, (slice(None), 2), 0.0)
        task = task_of(targets=changed(TARGETS, (slice(None), 2), np.nan), mask=mask)
        evaluation = popsim.evaluate(model, task, key=getkey())
        number = np.asarray(task.validation)
        weights = mask[number] if mask.ndim == 3 else np.repeat(mask[number][..., None], 3, axis=2)
        squared = (np.asarray(evaluation.states.network.output) - TARGETS[number]) ** 2
        expected = np.sum(weights * squared, axis=(1, 2)) / np.sum(weights, axis=(1, 2))
        np.testing.assert_allclose(evaluation.losses.total, expected, rtol=1e-5)


@pytest.mark.full
@pytest.mark.slow
def test_training_resumes_with_the_same_data_only_and_no_array_is_in_the_run(tmp_path, count_compilations):
    """Other data of the same shapes train by the same program: arrays are arguments of it."""
    many = RANDOM.normal(size=(N, N_STEPS, 20_000))  # 5 MB
    options = {"recordings": {"many": many}, "loss": 1.0 * losses.OutputError()}
    task, other = task_of(**options), task_of(targets=TARGETS + 1, **options)
    whole, _ = train(task, 4)
    with count_compilations() as compiled:
        train(other, 4)
    assert not compiled
    train(task, 2, folder=tmp_path)
    with pytest.raises(MismatchError, match="targets.values"):
        train(other, 4, folder=tmp_path)
    resumed, _ = train(task_of(**options), 4, folder=tmp_path)
    assert_same(whole, resumed)
    assert sum(path.stat().st_size for path in tmp_path.rglob("*")) < 1e6


FOLDS = popsim.PerMember([[0, 1, 2], [3, 4, 5]])


def test_members_train_on_what_they_do_not_hold_out():
    task = task_of(validation=FOLDS)
    np.testing.assert_array_equal(task.train.values, [range(3, N), [*range(3), *range(6, N)]])
    halves = np.arange(N) // 6 == np.arange(2)[:, None]
    np.testing.assert_array_equal(
        task_of(validation=popsim.PerMember(halves)).validation.values[1], range(6, N)
    )
    with pytest.warns(UserWarning, match="`train` and `validation` have 2 of 12 trials in common, such as 1"):
        task_of(validation=FOLDS, train=popsim.PerMember([[1, 7], [5, 0]]))


@pytest.fixture(scope="module")
def dataset():
    """Arrays with named axes, in another order, and one that nobody asks for."""
    axes = ("time", "trial", "channel")
    return xarray.Dataset(
        {
            "stimulus": (axes, STIMULUS.transpose(1, 0, 2)),
            "speed": (("trial", "time"), TARGETS[..., 0]),
            "good": (("trial", "time"), TARGETS[..., 1] > -2),
            "rates": (("trial", "unit", "time"), RATES.transpose(0, 2, 1)),
            "not read": (("trial", "time"), np.full((N, N_STEPS), np.nan)),
        },
        {"time": np.arange(N_STEPS) * DT, "direction": ("trial", DIRECTION)},
    )


def test_a_dataset_or_its_file_gives_the_same_task(dataset, tmp_path):
    dataset.to_netcdf(tmp_path / "recording.nc", engine="h5netcdf")
    for source in (dataset, tmp_path / "recording.nc"):
        task = StoredTrials.from_dataset(
            source,
            ["stimulus"],
            "speed",
            "good",
            ["direction"],
            recordings=["rates"],
            trials=slice(2, None),
            validation={"direction": [1]},
            loss=OF_RATES,
        )
        assert task.dt == DT and len(task.train) + len(task.validation) == N - 2
        np.testing.assert_allclose(task.inputs["stimulus"], STIMULUS[2:], rtol=1e-6)
        np.testing.assert_allclose(task.targets.values, TARGETS[2:, :, :1], rtol=1e-6)
        np.testing.assert_array_equal(task.targets.counts, TARGETS[2:, :, 1] > -2)
        np.testing.assert_allclose(task.recordings["rates"].values, RATES[2:], rtol=1e-6)
        np.testing.assert_array_equal(task.conditions["direction"], DIRECTION[2:])


UNITS = {"ns": 1e9, "\u00b5s": 1e6, "\u03bcs": 1e6, "[ms]": 1e3, "Milliseconds": 1e3}  # how many are a second
UNITS |= {"ms since stimulus": 1e3, "Seconds": 1, "min": 1 / 60, "hours": 1 / 3600}
STEPS = np.arange(N_STEPS)


def dt_of(dataset, time, units=None, dt=None):
    """The time step of the task of a dataset at other times."""
    coords = time if units is None else ("time", time, {"units": units})
    return StoredTrials.from_dataset(dataset.assign_coords(time=coords), ["stimulus"], "speed", dt=dt).dt


@pytest.mark.parametrize("units", [*UNITS, "Ms", "S", "m", "samples", "before stimulus", "1"])
def test_times_may_have_another_unit_and_no_other(dataset, units):
    if units in UNITS:
        assert dt_of(dataset, STEPS * DT * UNITS[units], units) == DT
        go = xarray.DataArray(np.full(N, 0.04 * UNITS[units]), attrs={"units": units})
        assert np.all(task_of(events={"go": go}).timeline.events["go"] == 2)
        return
    with pytest.raises(ValueError, match=f"`dt` must .*'{units}'"):
        dt_of(dataset, STEPS * 20, units)
    assert dt_of(dataset, STEPS * 20, units, DT) == DT
    with pytest.raises(ValueError, match=rf"`events\['go'\]` must .*'{units}'"):
        task_of(events={"go": xarray.DataArray(np.zeros(N), attrs={"units": units})})


def test_time_and_dt_that_differ_are_told(dataset):
    """Without a unit, steps of 20 are no seconds; dates and durations have one."""
    durations = (STEPS * 20).astype("m8[ms]").astype("m8[ns]")
    gap = changed(STEPS * 20, slice(3, -1), STEPS[4:] * 20)  # of the same mean step
    for time, units, dt in (
        (STEPS * 20, None, None),
        (STEPS * 20, "ms", 0.01),
        (gap, "ms", DT),
        (durations, None, 0.01),
    ):
        with pytest.raises(ValueError, match="`dt`"):
            dt_of(dataset, time, units, dt)
    with pytest.warns(UserWarning, match="`dt` is 0.02 s, which is taken"):
        assert dt_of(dataset, STEPS * 20, None, DT) == DT
    for time in (durations, np.datetime64("2020-01-01", "ns") + durations):
        assert dt_of(dataset, time) == dt_of(dataset, time, None, DT) == DT
    assert dt_of(dataset, np.round(STEPS / 60, 3), None, 1 / 60) == 1 / 60


@pytest.mark.parametrize("units", ["seconds", "ms"])
def test_variables_with_a_unit_of_time_are_in_seconds(dataset, tmp_path, units):
    """Those of a dataset, and of its file, whether xarray makes durations of them or not."""
    delay = np.linspace(0.1, 1.2, N)
    numbers = xarray.Variable("trial", delay * (1 if units == "seconds" else 1e3), {"units": units})
    durations = np.round(1e3 * delay).astype("m8[ms]").astype("m8[ns]")
    timed = dataset.assign(delay=numbers, pause=("trial", durations))
    timed.to_netcdf(tmp_path / "times.nc", engine="h5netcdf")
    with xarray.open_dataset(tmp_path / "times.nc", decode_timedelta=True) as decoded:
        for source in (timed, tmp_path / "times.nc", decoded):
            task = StoredTrials.from_dataset(source, ["stimulus"], "speed", conditions=["delay", "pause"])
            np.testing.assert_allclose(task.conditions["delay"], delay, rtol=1e-6)
            np.testing.assert_allclose(task.conditions["pause"], delay, rtol=1e-6)


def test_a_file_that_cannot_be_read_is_named(tmp_path):
    path = tmp_path / "bad.nc"
    path.write_text("text")
    with pytest.raises(ValueError, match=rf"`dataset` must be .*{path}"):
        StoredTrials.from_dataset(path, [], "speed", dt=DT)


NAN_INSIDE = changed(TARGETS, (4, 3, 1), np.nan)
NOTHING_OF_TWO = changed(np.ones((N, N_STEPS)), ([2, 5],), 0.0)


@pytest.mark.parametrize(
    ("options", "name"),
    [
        ({"inputs": {"x": STIMULUS[0]}}, "inputs['x']"),
        ({"inputs": {"x": changed(STIMULUS, (1, 2, 0), np.inf)}}, "inputs['x']"),
        ({"inputs": {"x": STIMULUS, "y": STIMULUS[1:]}}, "inputs['y']"),
        ({"targets": TARGETS[:, 1:]}, "targets"),
        ({"targets": TARGETS + 1j}, "targets"),
        ({"targets": [*TARGETS[:5], TARGETS[5, 1:], *TARGETS[6:]]}, "targets[5]"),
        ({"targets": NAN_INSIDE}, "targets"),
        ({"targets": np.ma.masked_less(TARGETS, 0)}, "targets"),
        ({"mask": np.ones((N, 4))}, "mask"),
        ({"mask": -np.ones((N, N_STEPS))}, "mask"),
        ({"mask": NOTHING_OF_TWO}, "mask"),
        ({"targets": None}, "loss"),
        ({"recordings": {"rates": RATES}}, "loss"),
        ({"recordings": {"rates": changed(RATES, (0, 0, 0), np.nan)}}, "recordings['rates']"),
        ({"conditions": {"side": DIRECTION[1:]}}, "conditions['side']"),
        ({"conditions": {"side": np.array(["l", "r"] * 6)}}, "conditions['side']"),
        ({"conditions": {"stored trial": DIRECTION}}, "conditions"),
        ({"epochs": {"trial": np.zeros((N, 2))}}, "epochs"),
        ({"epochs": {"delay": np.tile([0.06, 0.02], (N, 1))}}, "epochs['delay']"),
        ({"events": {"go": changed(np.zeros(N), 7, 30.0)}}, "events['go']"),
        ({"events": {"go": np.full(N, 20, "M8[ms]")}}, "events['go']"),
        ({"validation": {"direction": [0, 9]}}, "validation['direction']"),
        ({"validation": [3, 12]}, "validation"),
        ({"validation": 1.5}, "validation"),
        ({"validation": range(N)}, "train"),
        ({"validation": [0, 1, 2], "train": 0.9}, "train"),
        ({"validation": popsim.PerMember([0.2, 0.5])}, "validation"),
        ({"is_choice": True, "targets": np.full((N, N_STEPS, 1), 3)}, "targets"),
    ],
)
def test_arrays_that_do_not_fit_are_refused(as_users_run, options, name):
    with pytest.raises(ValueError, match=f"`.*{re.escape(name)}`? "):
        task_of(**options)


def test_what_is_no_whole_number_is_no_spike_count():
    likelihood = 1.0 * losses.SpikeCountLikelihood(units=range(4))
    counts = changed(np.abs(np.round(RATES)), (2, 3, 1), 0.5)
    with pytest.raises(ValueError, match=r"`recordings\['spikes'\]`"):
        task_of(recordings={"spikes": counts}, loss=likelihood)
    ignored = RecordedActivity(counts, np.all(counts != 0.5, axis=2, keepdims=True))
    assert validation_trials(task_of(recordings={"spikes": ignored}, loss=likelihood)).recordings
