"""Trials of files of NWB are those of their arrays, and files that do not fit are refused."""

import shutil
import sys

import h5py
import numpy as np
import pytest
from wrong_arguments import assert_named_in_one_line, wrong_arguments

from popsim import losses
from popsim.tasks import StoredTrials

pytestmark = pytest.mark.filterwarnings("ignore:[12] of . units have no spike")
DT, N, N_UNITS = 0.02, 12, 5
RANDOM = np.random.default_rng(0)
LENGTH = RANDOM.uniform(0.5, 0.9, N)
START = 5000 + np.cumsum(LENGTH + 0.3)  # s; late, as float32 would tell no milliseconds
GO = np.where(np.arange(N) == 7, np.nan, START + 0.2)
TRAINS = [np.sort(RANDOM.uniform(START[0], START[-1] + 1, n)) for n in (300, 0, 120, 50, 200)]
SAMPLES = np.arange(4999, 5020, 0.001)
TABLE = {
    "start_time": START,
    "stop_time": START + LENGTH,
    "go_time": GO,
    "direction": np.arange(N) % 4,
    "result": np.array(["miss", "ok", "ok"] * 4, object),
}
HAND = "processing/behavior/Position/hand"
SPIKES = 1.0 * losses.SpikeCountLikelihood(units=range(N_UNITS))


def hand(times):
    return np.stack([np.sin(times), np.cos(times)], axis=-1)


def write_lists(table, name, rows):
    """A column of lists, as pynwb writes it: one after the other, and where each ends."""
    table[name] = np.concatenate(rows)
    table[f"{name}_index"] = np.cumsum([len(row) for row in rows]).astype("u2")


def write_nwb(path):
    """A file in the layout of pynwb 4.2."""
    with h5py.File(path, "w") as file:
        file.attrs["nwb_version"] = "2.9.0"
        for name, column in TABLE.items():
            file[f"intervals/trials/{name}"] = column
        file["intervals/trials/id"] = np.arange(N)
        write_lists(file["intervals/trials"], "touches", [np.zeros(n % 3) for n in range(N)])
        file["units/id"] = np.arange(N_UNITS)
        file["units/area"] = np.array(["M1", "PMd", "M1", "PMd", "M1"], object)
        write_lists(file["units"], "spike_times", TRAINS)
        file[f"{HAND}/data"] = 100 * (hand(SAMPLES) - 0.5)
        file[f"{HAND}/data"].attrs.update(conversion=0.01, offset=0.5)
        file[f"{HAND}/timestamps"] = SAMPLES
        file["processing/eye/hand/data"], file["processing/eye/hand/timestamps"] = SAMPLES, SAMPLES
        file["acquisition/force/data"] = np.sin(SAMPLES)
        file["acquisition/force/starting_time"] = SAMPLES[0]
        file["acquisition/force/starting_time"].attrs["rate"] = 1000.0
    return path


@pytest.fixture(scope="module")
def path(tmp_path_factory):
    return write_nwb(tmp_path_factory.mktemp("nwb") / "session.nwb")


def task_of(path, inputs=("force",), **options):
    return StoredTrials.from_nwb(path, inputs, **{"dt": DT, "loss": SPIKES, **options})


def assert_read(task, begins, units):
    """Counts are those of NumPy, and series what was recorded in the middle of each step; then zeros."""
    read = (task.timeline.epochs["trial"], task.recordings["spikes"].values, task.recordings["spikes"].counts)
    bounds, spikes, counts, hands, force = map(np.asarray, (*read, task.inputs["hand"], task.targets.values))
    for trial, (begin, n) in enumerate(zip(begins, bounds[:, 1], strict=True)):
        edges = begin + DT * np.arange(n + 1)
        middles = edges[:-1] + DT / 2
        expected = np.stack([np.histogram(TRAINS[unit], edges)[0] for unit in units], axis=1)
        np.testing.assert_array_equal(spikes[trial, :n], expected)
        np.testing.assert_array_equal(counts[trial, :, 0], np.arange(task.timeline.n_steps) < n)
        np.testing.assert_allclose(hands[trial, :n], hand(middles), atol=1e-6)
        np.testing.assert_allclose(force[trial, :n, 0], np.sin(middles), atol=1e-6)
        assert not np.any(spikes[trial, n:]) and not np.any(hands[trial, n:])


def test_whole_trials_of_unequal_length_are_those_of_the_file(path):
    task = task_of(
        path,
        {"hand": HAND, "cue": "direction"},
        targets="force",
        conditions=["direction", "result", "id"],
        events=["go_time"],
        validation={"direction": [1]},
    )
    assert_read(task, START, range(N_UNITS))
    lengths = np.asarray(task.timeline.epochs["trial"])[:, 1]
    np.testing.assert_array_equal(lengths, np.floor(LENGTH / DT))
    np.testing.assert_array_equal(np.asarray(task.inputs["cue"])[:, 0, 0], TABLE["direction"])
    np.testing.assert_array_equal(task.conditions["result"], TABLE["result"] == "ok")
    np.testing.assert_array_equal(task.conditions["id"], np.arange(N))
    go = np.asarray(task.timeline.events["go_time"])
    np.testing.assert_array_equal(np.where(np.isnan(GO), go > 1000, go == 10), True)
    np.testing.assert_array_equal(task.validation, [1, 5, 9])


def test_a_series_may_begin_and_end_in_the_middle_of_the_first_and_the_last_step(path, tmp_path):
    shutil.copy(path, tmp_path / "short.nwb")
    middles = np.arange(START[0], START[1] + 20 * DT, DT) + DT / 2
    with h5py.File(tmp_path / "short.nwb", "a") as file:
        file["acquisition/short/timestamps"] = times = np.round(middles, 7)
        file["acquisition/short/data"] = np.sin(times)
        file["intervals/trials/start_time"][1] = START[0] + (middles.size - 20) * DT
    task = task_of(tmp_path / "short.nwb", ["short"], window=(0, 20 * DT), trials=[0, 1], validation=[0])
    np.testing.assert_allclose(task.inputs["short"][0, :, 0], np.sin(middles[:20]), atol=1e-5)
    np.testing.assert_allclose(task.inputs["short"][1, :, 0], np.sin(middles[-20:]), atol=1e-5)


def test_units_without_a_spike_in_the_trials_are_told(path):
    with pytest.warns(UserWarning, match="1 of 5 units have no spike in these trials, such as unit 1: leave"):
        task_of(path, validation=[0])


def test_a_window_about_an_event_leaves_out_trials_without_it(path):
    with pytest.warns(UserWarning, match="1 of 8 trials without 'go_time' .* left out"):
        task = task_of(
            path,
            {"hand": HAND},
            targets="force",
            conditions=["id"],
            align="go_time",
            window=(-0.1, 0.3),
            trials={"result": "ok"},
            units={"area": ["M1"]},
            events=["stop_time"],
            loss=1.0 * losses.SpikeCountLikelihood(units=range(3)),
        )
    kept = np.flatnonzero((TABLE["result"] == "ok") & ~np.isnan(GO))
    np.testing.assert_array_equal(task.conditions["id"], kept)
    assert task.timeline.n_steps == 20
    assert_read(task, GO[kept] - 0.1, [0, 2, 4])
    assert np.all(np.asarray(task.timeline.events["stop_time"]) > 20)  # after the window


def test_numbers_select_and_without_units_nothing_is_recorded(path):
    task = task_of(
        path, targets="force", trials=[3, 1], units=[], conditions=["id"], validation=[0], loss=None
    )
    assert task.conditions["id"].tolist() == [3, 1] and not task.recordings


def test_where_units_were_not_observed_nothing_counts(tmp_path):
    path = write_nwb(tmp_path / "observed.nwb")
    pause = START[4] + 0.11  # s, in the sixth step
    whole, parts = [[4990.0, 6000.0]], [[4990.0, pause], [pause + 0.1, 6000.0]]
    with h5py.File(path, "a") as file:
        write_lists(file["units"], "obs_intervals", [whole, whole, parts, whole, np.zeros((0, 2))])
    task = task_of(path)
    counts = np.array(task.recordings["spikes"].counts)
    within = np.arange(task.timeline.n_steps) < np.asarray(task.timeline.epochs["trial"])[:, 1:]
    with_pause = within.copy()
    with_pause[4, 5:11] = False
    for unit, expected in enumerate((within, within, with_pause, within, False & within)):
        np.testing.assert_array_equal(counts[..., unit], expected)


def changed(change, **options):
    """A call that reads a copy of the file with a change."""

    def call(path):
        copy = shutil.copy(path, path.with_name("changed.nwb"))
        with h5py.File(copy, "a") as file:
            change(file)
        task_of(copy, **options)

    return call


def of_options(**options):
    return lambda path: task_of(path, **options)


def without(*names):
    def change(file):
        for name in names:
            del file[name]

    return change


def gap(file):
    file[f"{HAND}/timestamps"][10_000:] += 0.5


def as_nwb_1(file):
    del file.attrs["nwb_version"]
    file["nwb_version"] = "NWB-1.0.6"


@wrong_arguments(
    path=[
        ("path", lambda path: task_of(path.with_name("none.nwb"))),
        ("path", lambda path: task_of(__file__)),
        ("path", changed(as_nwb_1)),
        ("path", changed(without("intervals/trials"))),
        ("path", changed(without("intervals"))),
    ],
    series=[
        ("inputs", of_options(inputs="force")),
        ("inputs['hand']", of_options(inputs=["hand"])),  # of two
        ("inputs['and']", of_options(inputs=["and"])),
        ("targets", of_options(targets="eye/position")),
        ("inputs['force']", of_options(align="stop_time", window=(-0.1, 9.0), trials=[N - 1])),
        ("inputs['cue']", of_options(inputs={"cue": "go_time"})),  # NaN
        (f"inputs['{HAND}']", changed(gap, inputs=[HAND])),
    ],
    columns=[
        ("align", of_options(align="go")),
        ("conditions", of_options(conditions=["touches"])),  # lists
        ("events", of_options(events=["touch"])),
        ("trials", of_options(trials={"results": "ok"})),
        ("trials['result']", of_options(trials={"result": ["ok", "early"]})),
        ("trials", of_options(trials=[N])),
        ("units['area']", of_options(units={"area": "V1"})),
        ("units", of_options(units=3)),
        ("units", changed(without("units"), units=[0])),
    ],
    steps=[
        ("dt", of_options(dt=0.0)),
        ("window", of_options(window=(0.2, 0.2))),
        ("window", of_options(align="stop_time")),
        ("window", of_options(trials=[])),
        ("loss", of_options(loss=None)),
    ],
)
def test_what_does_not_fit_is_named(as_users_run, path, argument, call):
    assert_named_in_one_line(argument, lambda: call(path))


def test_the_extra_is_named_where_it_is_missing(path, monkeypatch):
    monkeypatch.setitem(sys.modules, "h5py", None)
    with pytest.raises(ImportError, match=r"popsim\[netcdf\]"):
        task_of(path)
