"""Folders that a stranger may have made: refused by name, before anything is read or allocated."""

import contextlib
import copy
import json
import os
import resource
import struct
from pathlib import Path

import google_crc32c
import numcodecs
import numpy as np
import pytest
import zarr

from popsim.store.arrays import _commit_record as commit_record
from popsim.store.arrays._stored_array import SEAL_BYTES
from popsim.store.arrays.growing_arrays import GrowingArrays
from popsim.store.arrays.inspection import open_arrays, verify_arrays
from popsim.store.files import CorruptDataError, digest


@pytest.fixture
def path(tmp_path):
    path = tmp_path / "h.zarr"
    store = GrowingArrays.create(path, fixed={"scale": (("b",), np.ones(1))})
    store.append("n", {"x": (("a",), np.ones((4, 3)))})
    store.commit()
    return path


def refuse(path: Path, named: str) -> None:
    """Check that a folder is refused, and takes little memory."""
    before = resource.getrusage(resource.RUSAGE_SELF).ru_maxrss
    for read in (open_arrays, GrowingArrays.open):
        with pytest.raises(ValueError, match=named):
            read(path)
    with contextlib.suppress(ValueError):
        assert verify_arrays(path) != []
    assert resource.getrusage(resource.RUSAGE_SELF).ru_maxrss - before < 200e3


def forge(path: Path, change) -> None:
    """Change what is said of "x", and sign the record as if popsim had written it."""
    group = json.loads((path / "zarr.json").read_text())
    arrays = group["consolidated_metadata"]["metadata"]
    arrays["x"] = change(arrays["x"]) or arrays["x"]
    (path / "x" / "zarr.json").write_text(json.dumps(arrays["x"]))
    sign(path, group)


def sign(path: Path, group: dict) -> None:
    """Write a record of what is there, with a checksum that fits."""
    record = group["attributes"]["popsim_arrays"]
    record.pop("checksum", None)
    record["checksum"] = digest(group)
    (path / "zarr.json").write_text(json.dumps(group))


def sharding(metadata: dict) -> dict:
    return metadata["codecs"][0]["configuration"]


CHANGES = {
    "object": (lambda m: m.update(data_type="object"), "data type must be one of .* got 'object'"),
    "strings": (lambda m: m.update(data_type="string"), "data type must be one of .* got 'string'"),
    "bytes": (lambda m: m.update(data_type="variable_length_bytes"), "data type must be one of"),
    "complex": (lambda m: m.update(data_type="complex64"), "data type must be one of"),
    "extension type": (
        lambda m: m.update(data_type={"name": "numpy.datetime64", "configuration": {}}),
        "data type must be one of",
    ),
    "pickle": (
        lambda m: sharding(m)["codecs"].append({"name": "numcodecs.pickle", "configuration": {}}),
        "'codecs' must be .* got .*numcodecs.pickle",
    ),
    "blosc": (lambda m: sharding(m)["codecs"].__setitem__(1, {"name": "blosc"}), "got .*blosc"),
    "gzip index": (lambda m: sharding(m)["index_codecs"].append({"name": "gzip"}), "got .*gzip"),
    "no checksum": (
        lambda m: sharding(m)["codecs"][1]["configuration"].update(checksum=False),
        "'codecs' must be",
    ),
    "nested shards": (lambda m: sharding(m).update(codecs=copy.deepcopy(m["codecs"])), "'codecs' must be"),
    "zarr 2": (lambda m: m.update(zarr_format=2), "'zarr_format' must be 3, got 2"),
    "a group": (lambda m: m.update(node_type="group"), "'node_type' must be"),
    "transformers": (lambda m: m.update(storage_transformers=[{"name": "x"}]), "'storage_transformers'"),
    "an unknown key": (lambda m: m.update(must_understand=1), "'must_understand' must be None"),
    "chunk names": (
        lambda m: m["chunk_key_encoding"].update(configuration={"separator": "/"}),
        "'chunk_key_encoding'",
    ),
    "an irregular grid": (lambda m: m["chunk_grid"].update(name="rectangular"), "'chunk_grid' must be"),
    "another fill value": (lambda m: m.update(fill_value=0.0), "'fill_value' must be NaN"),
    "fractions": (lambda m: m.update(shape=[4.5, 3]), "whole numbers"),
    "negative lengths": (lambda m: m.update(shape=[4, -3]), "whole numbers"),
    "true as a length": (lambda m: m.update(shape=[4, True]), "whole numbers"),
    "chunks of nothing": (lambda m: sharding(m).update(chunk_shape=[0, 3]), "whole numbers"),
    "too few axes": (lambda m: m.update(dimension_names=["n"]), "must fit"),
    "unnamed axes": (lambda m: m.update(dimension_names=["n", None]), "must be strings"),
    "another axis": (lambda m: m.update(dimension_names=["a", "a"]), "axis 'a' .* must have the length 4"),
    "parts of chunks": (lambda m: sharding(m).update(chunk_shape=[3, 2]), "whole chunks"),
    "no codecs": (lambda m: m.update(codecs=[]), "damaged"),
    "no object": (lambda m: [1, 2, 3], "damaged"),
    "no axes": (
        lambda m: m.update(shape=[], dimension_names=[]) or sharding(m).update(chunk_shape=[]),
        "must fit",
    ),
    "10^15 rows": (lambda m: m.update(shape=[10**15, 3]), "at most 2147483648 shards"),
    "10^15 columns": (lambda m: m.update(shape=[4, 10**15]), "at most 2147483648 shards"),
    "10^12 rows": (lambda m: m.update(shape=[10**12, 3]), r"there must be a file .*x/c\.1\.0; it is missing"),
    "10^9 columns": (lambda m: m.update(shape=[4, 10**9]), r"there must be a file .*x/c\.0\.1; it is"),
    "10^15 entries in a shard": (
        lambda m: m["chunk_grid"]["configuration"].update(chunk_shape=[10**12, 1000]) or None,
        "whole chunks|at most",
    ),
}


@pytest.mark.parametrize("case", CHANGES)
def test_arrays_as_popsim_does_not_write_them_are_refused(case, path, as_users_run):
    change, named = CHANGES[case]
    forge(path, change)
    refuse(path, named)


def test_a_forged_record_alone_is_read(path):
    forge(path, lambda metadata: None)
    np.testing.assert_array_equal(open_arrays(path).x, np.ones((4, 3)))


def test_more_than_the_bytes_on_disk_can_hold_is_refused(path):
    def many(metadata):
        metadata["shape"] = [3 * 10**6, 1]
        metadata["chunk_grid"]["configuration"]["chunk_shape"] = [4 * 10**6, 1]
        sharding(metadata)["chunk_shape"] = [10**6, 1]

    forge(path, many)
    refuse(path, "must hold 24000000 bytes, got")


@pytest.mark.parametrize("name", ["../x", "a/b", "..", "", "/etc", "x\x00", "\ud800"])
def test_names_that_lead_elsewhere_are_refused(name, path):
    group = json.loads((path / "zarr.json").read_text())
    arrays = group["consolidated_metadata"]["metadata"]
    arrays[name] = arrays.pop("x")
    sign(path, group)
    refuse(path, "plain name")


SOUND = {"format": commit_record.FORMAT, "run_id": "0" * 32, "fixed": []}


@pytest.mark.parametrize(
    ("record", "named"),
    [
        (SOUND | {"format": 2}, "must have format 3, got 2: use another popsim"),
        (SOUND | {"run_id": "../x"}, "must have the identity of a run"),
        (SOUND | {"fixed": 1}, "must describe arrays as popsim writes them"),
        ({"format": commit_record.FORMAT, "run_id": "0" * 32}, "must describe arrays as popsim writes them"),
        ({"fixed": []}, "must have format"),
        ([], "must be written by popsim"),
        (None, "must be written by popsim"),
    ],
    ids=str,
)
def test_records_of_another_kind_are_refused(record, named, path):
    group = {"attributes": {commit_record.KEY: record}, "consolidated_metadata": {"metadata": {}}}
    if isinstance(record, dict):
        sign(path, copy.deepcopy(group))
    else:
        (path / "zarr.json").write_text(json.dumps(group))
    refuse(path, rf"zarr\.json {named}")


@pytest.mark.parametrize("metadata", [[1], None, 3, {"x": None}, {"x": {}}, {"x": []}], ids=str)
def test_arrays_that_are_not_described_are_refused(metadata, path):
    group = json.loads((path / "zarr.json").read_text())
    group["consolidated_metadata"]["metadata"] = metadata
    sign(path, group)
    refuse(path, r"zarr\.json must describe arrays as popsim writes them")


@pytest.mark.parametrize(
    "content", ["[" * 10**5, "1" * 10**5, '{"a": ', "\xff", "null", "3", "{}"], ids=lambda c: c[:5]
)
@pytest.mark.parametrize("file", ["zarr.json", "x/zarr.json"])
def test_metadata_that_is_no_object_is_refused(file, content, path):
    (path / file).write_bytes(content.encode("latin1"))
    refuse(path, file.replace(".", r"\."))


@pytest.mark.parametrize("file", ["zarr.json", "x/zarr.json"])
def test_huge_metadata_is_refused_unread(file, path):
    os.truncate(path / file, 10**12)
    refuse(path, f"{file} must have at most")


@pytest.mark.parametrize("file", ["zarr.json", "x/zarr.json", "x/c.0.0", "x"])
def test_links_are_refused(file, path, tmp_path):
    (path / file).rename(tmp_path / "elsewhere")
    (path / file).symlink_to(tmp_path / "elsewhere")
    refuse(path, f"{file} must be a plain")


@pytest.mark.parametrize("make", [os.mkfifo, os.mkdir])
@pytest.mark.parametrize("file", ["zarr.json", "x/zarr.json", "x/c.0.0"])
def test_what_is_no_file_is_refused(make, file, path):
    (path / file).unlink()
    make(path / file)
    refuse(path, f"{file} must be a plain file")


def test_a_group_of_something_else_is_refused(tmp_path):
    group = zarr.create_group(tmp_path / "h.zarr")
    group.create_array("x", data=np.ones(3))
    refuse(tmp_path / "h.zarr", "must be written by popsim")


def replace_shard(path: Path, frame: bytes, begin: int | None, n_bytes: int | None) -> None:
    """Put another compressed chunk into the first shard of "x", with a valid index and seal."""
    file = path / "x" / "c.0.0"
    metadata = json.loads((path / "x" / "zarr.json").read_text())
    whole, part = metadata["chunk_grid"]["configuration"]["chunk_shape"], sharding(metadata)["chunk_shape"]
    index = np.full((whole[0] // part[0], whole[1] // part[1], 2), 2**64 - 1, "<u8")
    begin = index.nbytes + 4 if begin is None else begin
    index[0, 0] = begin, len(frame) if n_bytes is None else n_bytes
    content = index.tobytes()
    checksum = struct.pack("<I", google_crc32c.value(content))
    file.write_bytes(content + checksum + frame + file.read_bytes()[-SEAL_BYTES:])


BOMB = numcodecs.Zstd(level=1).encode(np.zeros(2 * 10**8, "u1"))
HUGE = bytes.fromhex("28b52ffde0") + struct.pack("<Q", 2**46) + b"\x01\x00\x00" + bytes(100)


@pytest.mark.parametrize(
    ("frame", "begin", "n_bytes"),
    [
        (BOMB, None, None),
        (HUGE, None, None),
        (b"x" * 100, 0, 2**63),
        (b"x" * 100, 2**63, 2**63),
        (b"x" * 100, 2**64 - 1, 2**64 - 1),
        (b"", 0, 0),
        (numcodecs.Zstd().encode(b""), None, None),
        (numcodecs.Zstd().encode(bytes(16)), None, None),
    ],
    ids=["bomb", "huge", "long", "far", "absent", "empty", "nothing", "short"],
)
def test_shards_with_forged_chunks_are_refused(frame, begin, n_bytes, path):
    replace_shard(path, frame, begin, n_bytes)
    before = resource.getrusage(resource.RUSAGE_SELF).ru_maxrss
    with pytest.raises(CorruptDataError, match=r"x/c\.0\.0"):
        open_arrays(path).x.load()
    assert resource.getrusage(resource.RUSAGE_SELF).ru_maxrss - before < 300e3
