"""What is made, replaced and left alone in the folder of a run."""

import os
import shutil

import pytest
from kept_runs import finished_run, stopped_run
from small_training import assert_same

from popsim.experiments import open_run, resume_run, verify_run
from popsim.store import MismatchError, RunFolder, write_json, write_sealed_json
from popsim.store.files import FORMAT


def test_a_run_is_not_overwritten_unless_told_to(tmp_path):
    folder = RunFolder.create(tmp_path / "run")
    write_sealed_json(folder.description, {"format": FORMAT, "popsim": "0"})
    folder.checkpoints.mkdir()
    for name in ("000000064.safetensors", "000000032.safetensors.0123abcd.partial"):
        (folder.checkpoints / name).touch()
    notes = [folder.path / "notes.txt", folder.checkpoints / "notes.txt"]
    for mine in notes:
        mine.write_text("mine")
    with pytest.raises(ValueError, match="out.*--overwrite.*popsim resume"):
        RunFolder.create(tmp_path / "run")
    assert (folder.checkpoints / "000000064.safetensors").exists()
    RunFolder.create(tmp_path / "run", overwrite=True)
    assert folder.description.exists()  # until the new one replaces it: without one the folder is nobody's
    assert [*folder.checkpoints.iterdir()] == [notes[1]]
    assert all(mine.read_text() == "mine" for mine in notes)


def test_a_folder_with_somebody_elses_run_is_left_alone(tmp_path):
    write_json(tmp_path / "run.json", {"somebody": "else"})
    (tmp_path / "log.jsonl").write_text("theirs")
    with pytest.raises(ValueError, match="popsim run"):
        RunFolder.create(tmp_path, overwrite=True)
    assert (tmp_path / "log.jsonl").read_text() == "theirs"


def test_what_an_attempt_that_was_killed_left_does_not_block_the_next_one(tmp_path):
    partial = (f"{name}.0123abcd.partial" for name in ("run.lock.json", "run.json"))
    for name in ("run.lock", "run.lock.json", *partial, "._run.json", "Thumbs.db"):
        (tmp_path / name).touch()
    RunFolder.create(tmp_path)
    (tmp_path / "notes.partial").touch()
    with pytest.raises(ValueError, match="`out` must be an empty folder .* it has notes.partial"):
        RunFolder.create(tmp_path)


OPTIONS = {None: "", "popsim.experiments.motor_experiment": "", "my_lab.reaches": "--import my_lab.reaches "}
OPTIONS |= dict.fromkeys(("__main__", "mine; rm"), "--import MODULE ")


@pytest.mark.parametrize(("module", "option"), OPTIONS.items())
def test_the_command_that_resumes_imports_the_experiment(module, option, tmp_path):
    folder = RunFolder.create(tmp_path / "a run")
    assert folder.resume_command == f"popsim resume '{folder.path}'"
    write_sealed_json(folder.description, {"format": FORMAT, "popsim": "0", "module": module})
    assert folder.resume_command == f"popsim {option}resume '{folder.path}'"
    with pytest.raises(ValueError, match=f"popsim {option}resume"):
        RunFolder.create(folder.path)


def test_a_training_does_not_begin_among_the_files_of_another_or_of_something_else(tmp_path):
    def refused(named, *, restore, error=ValueError):
        with pytest.raises(error, match=named):
            RunFolder(tmp_path).check_free_for_training(restore=restore)

    (tmp_path / "log.jsonl").write_text("")
    refused(r"`chkpt_dir`.*log.jsonl of something else", restore=True)
    write_sealed_json(tmp_path / "training.json", {"format": FORMAT})
    RunFolder(tmp_path).check_free_for_training(restore=True)
    RunFolder(tmp_path).check_free_for_training(restore=False)  # nothing is saved
    (tmp_path / "run.json").touch()
    refused("restore_checkpoint=True", restore=False)
    (tmp_path / "run.json").unlink()
    write_sealed_json(tmp_path / "training.json", {"format": FORMAT, "checkpoints": [2]})
    refused("restore_checkpoint=True", restore=False)
    write_json(tmp_path / "training.json", {"format": 99})
    refused(f"format {FORMAT}", restore=True, error=MismatchError)


@pytest.mark.slow
def test_a_run_is_reached_by_a_link_and_files_shared_with_a_copy_stay_as_they_are(tmp_path, tmp_path_factory):
    """Hard links, as `cp -al` and snapshots make them; and what killed processes left is cleared away."""
    run = shutil.copytree(stopped_run(tmp_path_factory), tmp_path / "run")
    shutil.copytree(run, tmp_path / "snapshot", copy_function=os.link)
    before = {path: path.read_bytes() for path in (tmp_path / "snapshot").rglob("*") if path.is_file()}
    (tmp_path / "link").symlink_to(run)
    left = [run / "log.jsonl.0123abcd.partial", run / "history.zarr/zarr.json.0123abcd.partial"]
    for path in left:
        path.write_text("half")
    (run / "notes").symlink_to(tmp_path / "nowhere")  # of somebody who keeps notes there
    assert resume_run(tmp_path / "link", quiet=True).is_finished
    assert verify_run(tmp_path / "link") == {}
    assert not any(path.exists() for path in left) and (run / "notes").is_symlink()
    assert all(path.read_bytes() == content for path, content in before.items())
    assert_same(open_run(run).ensemble, open_run(finished_run(tmp_path_factory)).ensemble)
