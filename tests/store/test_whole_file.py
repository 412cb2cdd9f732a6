import os
import shutil

import pytest

from popsim.store.files import SaveError, atomic_file, check_replaceable


def test_a_reader_sees_the_old_file_until_the_new_one_is_finished(tmp_path):
    path = tmp_path / "file"
    path.write_text("old")
    with atomic_file(path) as partial:
        partial.write_text("new")
        assert path.read_text() == "old"
    assert path.read_text() == "new" and os.listdir(tmp_path) == ["file"]


def test_after_an_error_nothing_has_happened(tmp_path):
    path = tmp_path / "file"
    path.write_text("old")
    with pytest.raises(KeyboardInterrupt), atomic_file(path) as partial:
        partial.write_text("half")
        raise KeyboardInterrupt
    assert path.read_text() == "old" and os.listdir(tmp_path) == ["file"]


def test_a_folder_that_vanishes_is_named(tmp_path):
    folder = tmp_path / "folder"
    folder.mkdir()
    with pytest.raises(SaveError, match="folder/file"), atomic_file(folder / "file") as partial:
        partial.write_text("half")
        shutil.rmtree(folder)
    assert not folder.exists()


def test_only_what_popsim_wrote_is_replaced_and_only_when_told_to(tmp_path):
    path, link = tmp_path / "file", tmp_path / "link"
    check_replaceable(path, lambda _: False, kind="a file", overwrite=False)
    link.symlink_to(path)  # to nothing yet
    for taken in (link, path):
        with pytest.raises(ValueError, match="overwrite"):
            check_replaceable(taken, lambda _: True, kind="a file", overwrite=False)
        with pytest.raises(ValueError, match="anything but a file of popsim"):
            check_replaceable(taken, lambda _: False, kind="a file", overwrite=True)
        path.touch()
    check_replaceable(path, lambda _: True, kind="a file", overwrite=True)
