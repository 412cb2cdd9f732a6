"""Links, pipes, devices and folders that somebody put into the folder of a sweep."""

import contextlib
import dataclasses
import os
import re
import warnings

import pytest
from hostile_places import LINKED, SPECIAL, content, link_to, put, within_a_minute
from short_form import mostly_in_full
from small_sweep import SWEEP, copy, make_begun

from popsim.cli import main
from popsim.store import CorruptDataError, files
from popsim.sweeps import CellsFailed, make_sweep, open_sweep, populations, run_cell, run_sweep, verify_sweep

pytestmark = [pytest.mark.slow, pytest.mark.usefixtures("limit")]
limit = pytest.fixture(within_a_minute)

OFFERED = "selections/000000/000000-scores"
FILES = ("sweep.json", "sweep.yaml", "index.safetensors", "run.lock", "run.lock.json", "failures/000001.json")
FILES += (f"{OFFERED}/000000002.safetensors", "logs/0.txt", "figures/rate_scores.png")
FOLDERS = ("cells", "failures", "selections", "selections/000000", OFFERED, "logs", "figures", "cells/000001")
OF_SWEEP = (
    *FILES,
    *FOLDERS,
    "sweep.json.0123abcd.partial",
    "index.safetensors.0123abcd.partial",
    "failures/000001.json.0123abcd.partial",
    f"{OFFERED}/000000002.safetensors.0123abcd.partial",
)
SPECIAL_OF_SWEEP = (
    *((name, kind) for name in FILES for kind in ("pipe", "device")),
    *((name, "folder") for name in FILES[:5]),
    *((name, "pipe") for name in FOLDERS),
)
OF_CELL = tuple(name for name in LINKED if not name.startswith("figures/")) + ("cell.json", "figures/one.png")
SPECIAL_OF_CELL = (*SPECIAL, ("cell.json", "pipe"), ("cell.json", "device"), ("cell.json", "folder"))
SHORT = {
    "sweep.json",
    "index.safetensors",
    "cells",
    "failures",
    "selections",
    OFFERED,
    "logs",
    "cells/000001",
}
SHORT_OF_CELL = {"run.json", "history.zarr", "checkpoints", "cell.json", "run.lock", "log.jsonl"}
USES = {
    "open": open_sweep,
    "verify": verify_sweep,
    "train a cell": lambda path: run_cell(path, 0, patience=0.0),
    "train all": run_sweep,
    "make": lambda path: make_sweep(SWEEP, path),
    "info": lambda path: main(["info", str(path), "--verify"]),
    "resume": lambda path: main(["resume", str(path), "--quiet"]),
    "show": lambda path: main(["show", str(path)]),
    "export": lambda path: main(["export", str(path), "--summary", str(path.parent / "s.csv")]),
    "script": lambda path: main(["sweep", "script", str(path), "--slurm"]),
}
USES_OF_CELL = {name: USES[name] for name in ("train a cell", "info", "verify")}


@pytest.fixture(scope="module")
def begun(tmp_path_factory):
    return make_begun(tmp_path_factory.mktemp("begun") / "sw")


@pytest.fixture
def sweep(begun, tmp_path, monkeypatch):
    monkeypatch.setattr(populations, "SECONDS_BETWEEN_LOOKS", 0.01)
    return copy(begun, tmp_path)


def assert_refused(path, name, capsys):
    """Whatever is done with the sweep, the error names what is wrong."""
    named = re.escape(str(path / name))
    for use in USES.values():
        with (
            contextlib.suppress(SystemExit),
            pytest.raises(CorruptDataError, match=f"^{named} must be a plain"),
        ):
            use(path)
    said = capsys.readouterr()
    assert said.out == "" and said.err.count("\n") == 5
    assert all(re.match(f"popsim: error: {named} must", line) for line in said.err.splitlines())


def put_link(sweep, name, tmp_path):
    """Put a link into a sweep, and return what is outside."""
    place = sweep / name
    place.parent.mkdir(parents=True, exist_ok=True)
    link_to(tmp_path / "outside" / "theirs", place)
    return tmp_path / "outside"


@pytest.mark.parametrize("name", mostly_in_full(OF_SWEEP, SHORT))
def test_nothing_of_a_sweep_is_reached_through_a_link(name, sweep, tmp_path, capsys):
    outside = put_link(sweep, name, tmp_path)
    before, inside = content(outside), content(sweep)
    assert_refused(sweep, name, capsys)
    assert content(outside) == before and content(sweep) == inside


@pytest.mark.parametrize("place", mostly_in_full(SPECIAL_OF_SWEEP, {(name, "pipe") for name in SHORT}))
def test_what_is_no_file_of_a_sweep_is_refused_and_never_waited_for(place, sweep, capsys):
    name, kind = place
    put(sweep / name, kind)
    inside = content(sweep)
    assert_refused(sweep, name, capsys)
    assert content(sweep) == inside


def assert_named(sweep, name, capsys):
    """The cell is damaged, by name; others are used, and what is read of it is NaN."""
    named = re.escape(str(sweep / name))
    with pytest.raises(CorruptDataError, match=f"^{named} must be a plain"):
        run_cell(sweep, 0, patience=0.0)
    with pytest.raises(CellsFailed, match=f"0; the first: {named} must be a plain"):
        run_sweep(sweep, [0])
    (told,) = verify_sweep(sweep).values()
    assert re.match(f"{named} must be a plain", told)
    with pytest.raises(SystemExit) as end:
        main(["info", str(sweep)])
    assert end.value.code == 2 and re.search(f"DAMAGED: cells/000000: {named} must", capsys.readouterr().out)
    with warnings.catch_warnings():
        warnings.simplefilter("ignore")
        opened = open_sweep(sweep)
        if "loss" in opened.history:
            assert not opened.history.loss.notnull().any()
    with pytest.raises(CorruptDataError, match=named):
        opened.run(0)


@pytest.mark.parametrize("name", mostly_in_full(OF_CELL, SHORT_OF_CELL))
def test_nothing_of_a_cell_is_reached_through_a_link(name, sweep, tmp_path, capsys):
    name = f"cells/000000/{name}"
    outside = put_link(sweep, name, tmp_path)
    before, inside = content(outside), content(sweep / "cells")
    assert_named(sweep, name, capsys)
    assert content(outside) == before and content(sweep / "cells") == inside


@pytest.mark.parametrize("place", mostly_in_full(SPECIAL_OF_CELL, {(name, "pipe") for name in SHORT_OF_CELL}))
def test_what_is_no_file_of_a_cell_is_refused_and_never_waited_for(place, sweep, capsys):
    name, kind = f"cells/000000/{place[0]}", place[1]
    put(sweep / name, kind)
    inside = content(sweep / "cells")
    assert_named(sweep, name, capsys)
    assert content(sweep / "cells") == inside


@pytest.mark.full
def test_a_sweep_is_reached_by_a_link_and_may_hold_files_of_others(sweep, tmp_path):
    (tmp_path / "link").symlink_to(sweep)
    (sweep / "notes").symlink_to(tmp_path / "nowhere")
    (sweep / "cells" / "notes").symlink_to(tmp_path / "nowhere")
    left = [sweep / f"{name}.0123abcd.partial" for name in ("sweep.yaml", "index.safetensors", "sweep.json")]
    for path in left:
        path.write_text("half")
    assert run_sweep(tmp_path / "link").is_finished and verify_sweep(tmp_path / "link") == {}
    assert not any(path.exists() for path in left) and not os.path.lexists(sweep / "failures" / "000001.json")
    assert all(os.path.islink(path) for path in (sweep / "notes", sweep / "cells" / "notes"))


@pytest.mark.parametrize("n_steps", range(7))
def test_a_start_that_was_interrupted_blocks_nothing(n_steps, tmp_path, monkeypatch):
    """After any number of files that were written, as where the disk is full or the process is killed."""
    written = iter(range(n_steps))
    replace = files.Path.replace

    def until_full(self, target):
        if next(written, None) is None:
            raise OSError(28, "No space left on device")
        return replace(self, target)

    monkeypatch.setattr(files.Path, "replace", until_full)
    with contextlib.suppress(OSError):
        make_sweep(SWEEP, tmp_path / "sw")
    monkeypatch.undo()
    if (tmp_path / "sw" / "sweep.json").exists():
        with pytest.raises(ValueError, match="To continue it: popsim .*resume "):
            make_sweep(SWEEP, tmp_path / "sw")
    else:
        make_sweep(SWEEP, tmp_path / "sw")
    with contextlib.suppress(CellsFailed):
        run_sweep(tmp_path / "sw", [])
    assert verify_sweep(tmp_path / "sw") == {}


@pytest.mark.parametrize("axes", [{"rate": (float("nan"),)}, {"label": ({1},)}])
def test_settings_that_cannot_be_written_make_no_folder(axes, tmp_path, as_users_run):
    plain = dataclasses.replace(SWEEP.experiment, select_every=None)
    with pytest.raises(ValueError, match=r"`\w+"):
        make_sweep(dataclasses.replace(SWEEP, experiment=plain, axes=axes), tmp_path / "sw")
    assert not (tmp_path / "sw").exists()
