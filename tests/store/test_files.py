"""Files that are written atomically, JSON files with a seal, and logs of JSON lines."""

import os
import shutil

import jax.numpy as jnp
import numpy as np
import pytest
import safetensors.numpy
import xarray

from popsim.store import CorruptDataError, SaveError, json_files, save_model, write_mat, write_netcdf
from popsim.store.files import atomic_file
from popsim.store.json_files import append_json_line, read_json, stream_json_lines, write_json


def test_a_reader_sees_the_old_file_until_the_new_one_is_finished(tmp_path):
    path = tmp_path / "file"
    path.write_text("old")
    with pytest.raises(KeyboardInterrupt), atomic_file(path) as partial:
        partial.write_text("half")
        raise KeyboardInterrupt
    assert path.read_text() == "old" and os.listdir(tmp_path) == ["file"]
    with atomic_file(path) as partial:
        partial.write_text("new")
        assert path.read_text() == "old"
    assert path.read_text() == "new" and os.listdir(tmp_path) == ["file"]


def test_a_folder_that_vanishes_is_named(tmp_path):
    (folder := tmp_path / "folder").mkdir()
    with pytest.raises(SaveError, match="folder/file"), atomic_file(folder / "file") as partial:
        partial.write_text("half")
        shutil.rmtree(folder)
    for write in (write_json, append_json_line):
        with pytest.raises(SaveError, match=r"folder/a\.json"):
            write(folder / "a.json", {})
    assert not folder.exists()


DATASET = xarray.Dataset({"x": ("a", [1, 2])})
WRITERS = {
    "a model file": lambda path, **options: save_model(path, {"x": jnp.ones(1)}, **options),
    "a NetCDF file": lambda path, **options: write_netcdf(DATASET, path, **options),
    "a MAT file": lambda path, **options: write_mat(DATASET, path, **options),
}


@pytest.mark.parametrize("kind", WRITERS)
def test_only_a_file_of_its_kind_is_replaced_and_only_when_told_to(kind, tmp_path):
    path, link, write = tmp_path / "own", tmp_path / "link", WRITERS[kind]
    write(path)
    before = path.read_bytes()
    with pytest.raises(ValueError, match="overwrite"):
        write(path)
    assert path.read_bytes() == before
    write(path, overwrite=True)
    link.symlink_to(tmp_path / "nothing yet")
    DATASET.to_netcdf(tmp_path / "other.nc", engine="h5netcdf")
    safetensors.numpy.save_file({"x": np.ones(2)}, tmp_path / "other")
    (tmp_path / "thesis").write_text("all of it")
    for other in (link, *(tmp_path / name for name in ("other.nc", "other", "thesis"))):
        with pytest.raises(ValueError, match=f"anything but {kind} of popsim"):
            write(other, overwrite=True)
    assert (tmp_path / "thesis").read_text() == "all of it" and link.is_symlink()
    with pytest.raises(SaveError, match="gone/own"):
        write(tmp_path / "gone" / "own")


def test_json_is_read_as_it_was_written_or_the_file_is_named(tmp_path):
    path = tmp_path / "a.json"
    write_json(path, {"x": [2.5, None]})
    with pytest.raises(ValueError, match="JSON"):
        write_json(path, float("nan"))
    assert read_json(path) == {"x": [2.5, None]}
    path.write_text("{")
    for name in ("a.json", "lost.json"):
        with pytest.raises(CorruptDataError, match=name):
            read_json(tmp_path / name)


def test_a_log_is_read_up_to_a_torn_last_line_and_other_damage_is_named(tmp_path):
    path = tmp_path / "log.jsonl"
    json_files.keep_json_lines(path, lambda line: True)
    with pytest.raises(CorruptDataError, match=r"log\.jsonl; it is missing"):
        [*stream_json_lines(path)]
    for value in ({"batch": 0}, {"batch": 1}):
        append_json_line(path, value)
    whole = path.read_bytes()
    path.write_bytes(whole[:-5])
    assert [*stream_json_lines(path)] == [{"batch": 0}]
    for first in (b"{\n", b'{"batch": 0, "\xff": 1}\n'):
        path.write_bytes(first + whole)
        with pytest.raises(CorruptDataError, match="line 1"):
            [*stream_json_lines(path)]
    for damaged in ('{"bauch": 0}\n', "[]\n", '{"batch": "0"}\n'):
        path.write_text(damaged)
        with pytest.raises(CorruptDataError, match=r"log\.jsonl"):
            json_files.keep_json_lines(path, lambda line: line["batch"] < 3)


def test_a_seal_breaks_when_anything_changes(tmp_path):
    path = tmp_path / "a.json"
    value = {"format": 1, "settings": {"noise": (0.1, 2.0), "seed": 3}, "none": None}
    json_files.write_sealed_json(path, value)
    assert json_files.read_sealed_json(path) == value | {"settings": {"noise": [0.1, 2.0], "seed": 3}}
    good = path.read_text()
    for damaged in (good.replace("3", "2"), good.replace("seed", "sead"), "[]", "{}"):
        path.write_text(damaged)
        with pytest.raises(CorruptDataError, match=r"a\.json"):
            json_files.read_sealed_json(path)
    path.write_text(good.replace("  ", " "))
    assert json_files.read_sealed_json(path)["format"] == 1


def test_numbers_that_are_not_finite_become_null():
    values = [[1.5, float("nan")], [float("-inf"), 2.0]]
    assert json_files.as_json_numbers(jnp.asarray(values)) == [[1.5, None], [None, 2.0]]
    assert [json_files.as_json_numbers(number) for number in (jnp.asarray(0.5), jnp.inf)] == [0.5, None]
