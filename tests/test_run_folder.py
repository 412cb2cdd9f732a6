import pytest

from popsim.store import RunFolder, write_json


def test_a_run_is_not_overwritten_unless_told_to(tmp_path):
    folder = RunFolder.create(tmp_path / "run")
    write_json(folder.description, {"format": 1, "popsim": "0"})
    folder.ensemble.mkdir()
    mine = folder.path / "notes.txt"
    mine.write_text("mine")
    with pytest.raises(ValueError, match="out.*--overwrite"):
        RunFolder.create(tmp_path / "run")
    assert folder.ensemble.exists()
    RunFolder.create(tmp_path / "run", overwrite=True)
    assert not folder.description.exists() and not folder.ensemble.exists()
    assert mine.read_text() == "mine"


def test_a_folder_with_somebody_elses_run_is_left_alone(tmp_path):
    write_json(tmp_path / "run.json", {"somebody": "else"})
    (tmp_path / "log.jsonl").write_text("theirs")
    with pytest.raises(ValueError, match="popsim run"):
        RunFolder.create(tmp_path, overwrite=True)
    assert (tmp_path / "log.jsonl").read_text() == "theirs"


def test_a_folder_with_files_of_a_runs_names_that_is_no_run_is_left_alone(tmp_path):
    (tmp_path / "figures").mkdir()
    with pytest.raises(ValueError, match="out"):
        RunFolder.create(tmp_path, overwrite=True)
    assert (tmp_path / "figures").exists()


@pytest.mark.parametrize("out", ["/proc/popsim", "a-file/run"])
def test_a_folder_that_cannot_be_written_is_refused(out, tmp_path):
    (tmp_path / "a-file").write_text("")
    with pytest.raises(ValueError, match="out"):
        RunFolder.create(tmp_path / out)


def test_opening_what_is_no_finished_run_is_refused(tmp_path):
    with pytest.raises(ValueError, match="run.json"):
        RunFolder.open(tmp_path)
    write_json(tmp_path / "run.json", {"format": 1})
    with pytest.raises(ValueError, match="finished"):
        RunFolder.open(tmp_path)
    (tmp_path / "ensemble.zarr").mkdir()
    assert RunFolder.open(tmp_path).path == tmp_path
    write_json(tmp_path / "run.json", {"format": 99})
    with pytest.raises(ValueError, match="format"):
        RunFolder.open(tmp_path)
