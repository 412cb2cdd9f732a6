"""Sweeps before anything is trained: axes, cells, what is typed, what is refused."""

import dataclasses
import itertools
import warnings

import pytest
from swept_runs import Swept

from popsim.cli import main
from popsim.experiments import CenterOut, Recording
from popsim.sweeps import Sweep, make_sweep, open_sweep
from popsim.sweeps.progress import SweepProgress
from popsim.sweeps.sweep_config import config_text, parse_axes, parse_seeds, read_config

AXES = {"rate": (1e-3, 1e-2), "n_units": (3, 4), "hidden_noise": (0.0, 0.1, 0.2), "label": ("a", "b")}


def rows_of(sweep):
    """What identifies each member, by its number in the sweep."""
    rows = []
    for cell in sweep.cells():
        assert cell.first_member == len(rows) == sweep.first_members()[cell.number]
        labels = sweep.labels_of(cell.number)
        grid, own = cell.experiment.members.settings, cell.experiment
        for place in range(own.n_members):
            row = tuple(labels[name][place] for name in (*AXES, "seed"))
            built = {**{name: getattr(own, name) for name in AXES}, **{k: v[place] for k, v in grid.items()}}
            assert row == (*(built[name] for name in AXES), own.members.ids[place])
            rows.append(row)
    return rows


@pytest.mark.parametrize("most", [None, 60, 7, 1])
def test_cells_divide_the_members_into_grids_and_cover_each_once(most):
    sweep = Sweep(Swept(), AXES, range(3, 8), members_per_cell=most)
    rows = rows_of(sweep)
    expected = itertools.product(*AXES.values(), range(3, 8))
    assert sorted(rows) == sorted(expected) and len(rows) == sweep.n_members == 120
    widths = [cell.experiment.n_members for cell in sweep.cells()]
    assert len(widths) == sweep.n_cells and max(widths) <= (most or 30)
    if most is None:
        assert sweep.member_axes == ("rate", "hidden_noise") and widths == [30] * 4
    with pytest.raises(ValueError, match=f"`cell` must be 0 to {sweep.n_cells - 1}"):
        sweep.cell(sweep.n_cells)


def test_values_that_are_no_numbers_are_trained_in_cells_of_their_own():
    sweep = Sweep(CenterOut(), {"hidden_noise": (None, 0.1), "vision_delay": (0.0, 0.05)}, range(2))
    assert sweep.member_axes == ("vision_delay",) and sweep.n_cells == 2


def test_what_is_typed():
    axes = parse_axes(
        CenterOut,
        [
            "learning-rate=1e-3, 3e-3",
            "vision-noise=0.002 0.02,0.004 0.04",
            "--plant=arm26",
            "hidden-noise=None,0.1",
        ],
    )
    assert axes == {
        "learning_rate": (1e-3, 3e-3),
        "vision_noise": ((0.002, 0.02), (0.004, 0.04)),
        "plant": ("arm26",),
        "hidden_noise": (None, 0.1),
    }
    assert (parse_seeds("0:20"), parse_seeds("7")) == (range(20), range(7, 8))


ONE_SEED = "`seeds` 10 is one network, that of seed 10: for 10 networks, say 0:10."


@pytest.mark.parametrize("seeds, said", [("10", [ONE_SEED]), ("1", []), ("10:11", [])])
def test_one_seed_that_may_be_meant_as_a_count_is_said_so(seeds, said, tmp_path):
    file, out = tmp_path / "sweep.yaml", str(tmp_path / "sw")
    file.write_text(f"experiment: swept\ngrid: {{rate: 1e-3}}\nseeds: {seeds}\n")
    for command in (["swept", "--grid", "rate=1e-3", "--seeds", seeds], ["--config", str(file)]):
        with warnings.catch_warnings(record=True) as told:
            warnings.simplefilter("always")
            main(["sweep", *command, "--out", out, "--dry-run"])
        assert [str(each.message) for each in told] == said


def test_a_config_is_read_as_it_was_written_and_as_people_write(tmp_path):
    swept = Swept(n_batches=6, label="no", seed=3, select_every=2)
    sweep = Sweep(swept, {"rate": (1e-3, 1e-2), "noise": ((0.1, 0.2),)}, range(2, 5), 2, 4, Recording("all"))
    file = tmp_path / "sweep.yaml"
    file.write_text(config_text(sweep))
    assert read_config(file) == sweep
    file.write_text("experiment: swept\ngrid:\n  n-units: [3, 4]\n  rate: 1e-3\nsettings: {n-batches: 6}\n")
    assert read_config(file) == Sweep(Swept(n_batches=6), {"n_units": (3, 4), "rate": (1e-3,)}, range(5))
    file.write_text("experiment: swept\ngrid: {label: [no, 010, true]}\nseeds: 1:20\nfloat16: true\n")
    odd = Sweep(Swept(), {"label": ("no", "010", "true")}, range(1, 20), recording=Recording(float16=True))
    assert read_config(file) == odd


@pytest.mark.parametrize(
    ("arguments", "said"),
    [
        (["--grid", "rat=1"], "Perhaps you meant rate"),
        (["--grid", "seed=1,2"], "--seeds are the seeds"),
        (["--grid", "rate=fast"], "--rate must be a number, got 'fast'"),
        (["--grid", "n-units=6", "--n-units", "4"], "--n-units must be given once, got 4 and values of it"),
        (["--grid", "rate=1,1"], "different values"),
        (["--grid", "rate=1", "--grid", "rate=2"], "each axis once"),
        (["--grid", "log-step=3", "--keep", "100"], "must be batches from 0 to 7"),
        (["--seeds", "many"], "--seeds must be whole numbers"),
        (["--seeds", "0:1000000", "--grid", "n-units=5000"], "of memory"),
        (["--workers", "2"], "--workers must be given with --on dask only"),
        (
            ["--select-every", "4"],
            "--select-every must be given with a sweep over settings of the trainer, rate,",
        ),
        (["--select-every", "4", "--grid", "rate=1", "--seeds", "0:1"], "two networks or more, got 1"),
        (["--grid", "select-every=2,4"], "the members of a population select at the same batches"),
    ],
)
def test_bad_axes_give_one_clear_line_and_make_nothing(arguments, said, capsys, tmp_path, monkeypatch):
    monkeypatch.chdir(tmp_path)
    with pytest.raises(SystemExit) as end:
        main(["sweep", "swept", *arguments, "--out", "sw"])
    told = capsys.readouterr().err
    assert end.value.code == 2 and told.count("\n") == 1 and said in told
    assert not [*tmp_path.iterdir()]


def test_a_folder_holds_one_sweep(tmp_path):
    sweep = Sweep(Swept(), {"rate": (1e-3, 1e-2)}, range(2))
    opened = make_sweep(sweep, tmp_path / "sw")
    assert opened.sweep == sweep and opened.counts["not started"] == 1 and not opened.is_finished
    assert read_config(opened.folder.config) == sweep
    with pytest.raises(ValueError, match="To continue it: popsim --import swept_runs resume .*sw"):
        make_sweep(sweep, tmp_path / "sw")
    other = dataclasses.replace(sweep, experiment=Swept(n_units=7))
    with pytest.raises(ValueError, match="another sweep.*n_units is 5 there and 7 here"):
        make_sweep(other, tmp_path / "sw")
    (tmp_path / "full").mkdir()
    (tmp_path / "full" / "thesis.tex").touch()
    with pytest.raises(ValueError, match="it has thesis.tex"):
        make_sweep(sweep, tmp_path / "full")
    with pytest.raises(ValueError, match="it has no sweep.json"):
        open_sweep(tmp_path / "full")
    text = opened.folder.description.read_text()
    opened.folder.description.write_text(text.replace('"n_units": 5', '"n_units": 6'))
    with pytest.raises(ValueError, match="checksum"):
        open_sweep(tmp_path / "sw")


def test_progress_says_how_long_a_cell_has_compiled(tmp_path, capsys):
    opened = make_sweep(Sweep(Swept(), {"n_units": (3, 4)}, range(2)), tmp_path / "sw")
    progress = SweepProgress(opened, [0, 1])
    for program, said in (("training", "compiling … 0 s"), ("loss", "compiling the loss … 0 s")):
        with progress.shown():
            progress.begin_cell(0)
            progress.on_compilation(program)
        assert capsys.readouterr().err.startswith(f"sweep: 0/16 batches, 0/2 cells, {said}")
    with progress.shown():
        progress.on_pause(0)
    assert "compiling" not in capsys.readouterr().err
