import hashlib
import json
import os

import pytest

from popsim.store._manifest import LARGEST_MANIFEST, MANIFEST, check_manifest, read_manifest, write_manifest
from popsim.store.files import CorruptDataError, MismatchError

DETAILS = {"step": 640, "rate": 0.1, "names": ["a", "é"], "none": None}


@pytest.fixture
def folder(tmp_path):
    """A folder of three files, one of them empty, with a manifest."""
    folder = tmp_path / "whole"
    (folder / "below").mkdir(parents=True)
    (folder / "a.bin").write_bytes(bytes(range(256)))
    (folder / "below" / "b.bin").write_bytes(b"b" * 1000)
    (folder / "below" / "none").touch()
    write_manifest(folder, DETAILS)
    return folder


def _forge(folder, **changes):
    """Change a manifest, and make its checksum right again."""
    content = json.loads((folder / MANIFEST).read_bytes()) | changes
    del content["checksum"]
    body = json.dumps(content)[1:].encode()
    digest = hashlib.sha256(body).hexdigest().encode()
    (folder / MANIFEST).write_bytes(b'{\n "checksum": "' + digest + b'",\n' + body)


def test_round_trip(folder):
    assert read_manifest(folder) == DETAILS
    content = json.loads((folder / MANIFEST).read_text())
    assert set(content["files"]) == {"a.bin", "below/b.bin", "below/none"}
    assert content["files"]["below/b.bin"]["bytes"] == 1000
    assert sorted(path.name for path in folder.iterdir()) == ["a.bin", "below", MANIFEST]


def test_every_byte_of_a_manifest_counts(folder):
    path = folder / MANIFEST
    good = path.read_bytes()
    for place in range(len(good)):
        bad = bytearray(good)
        bad[place] ^= 1 << place % 8
        path.write_bytes(bad)
        with pytest.raises(CorruptDataError, match=MANIFEST):
            read_manifest(folder)
    for length in range(0, len(good), 10):
        path.write_bytes(good[:length])
        with pytest.raises(CorruptDataError, match=MANIFEST):
            read_manifest(folder)
    path.write_bytes(good + b" ")
    with pytest.raises(CorruptDataError, match=MANIFEST):
        read_manifest(folder)


@pytest.mark.parametrize("name", ["a.bin", "below/b.bin"])
def test_a_damaged_file_is_named(folder, name):
    path = folder / name
    good = path.read_bytes()
    for bad in (good[:-1], good + b"\0", b"", good[:-1] + bytes([good[-1] ^ 1])):
        path.write_bytes(bad)
        with pytest.raises(CorruptDataError, match=path.name):
            read_manifest(folder)
    path.unlink()
    with pytest.raises(CorruptDataError, match=f"{path.name}.*missing"):
        read_manifest(folder)


@pytest.mark.parametrize("name", [".DS_Store", "._a.bin", "Thumbs.db", ".nfs00000001234abcd"])
def test_files_of_operating_systems_do_not_count(name, folder):
    (folder / "below" / name).touch()
    assert read_manifest(folder) == check_manifest(folder) == DETAILS
    write_manifest(folder.joinpath("below"), {})
    assert read_manifest(folder / "below") == {}
    assert name not in (folder / "below" / MANIFEST).read_text()


def test_a_file_too_many_is_named(folder):
    (folder / "below" / "more.npy").touch()
    with pytest.raises(CorruptDataError, match=r"more\.npy.*does not list"):
        read_manifest(folder)


def test_a_missing_manifest_or_folder_is_named(folder):
    (folder / MANIFEST).unlink()
    with pytest.raises(CorruptDataError, match=MANIFEST):
        read_manifest(folder)
    with pytest.raises(CorruptDataError, match="nowhere"):
        read_manifest(folder / "nowhere")


def test_links_and_pipes_are_refused(folder, tmp_path):
    (tmp_path / "b.bin").write_bytes(b"b" * 1000)
    path = folder / "below" / "b.bin"
    path.unlink()
    for make in (lambda: path.symlink_to(tmp_path / "b.bin"), lambda: os.mkfifo(path)):
        make()
        with pytest.raises(CorruptDataError, match="link"):
            read_manifest(folder)
        with pytest.raises(CorruptDataError, match="link"):
            write_manifest(folder, {})
        path.unlink()
    (folder / "below").rename(tmp_path / "below")
    (folder / "below").symlink_to(tmp_path / "below")
    with pytest.raises(CorruptDataError, match="link"):
        read_manifest(folder)
    (folder / MANIFEST).rename(tmp_path / MANIFEST)
    (folder / MANIFEST).symlink_to(tmp_path / MANIFEST)
    with pytest.raises(CorruptDataError, match=MANIFEST):
        read_manifest(folder)


@pytest.mark.parametrize("name", ["../secret", "/etc/hostname", "below/../../secret", "", "."])
def test_names_that_lead_elsewhere_are_refused(folder, name):
    os.mkfifo(folder.parent / "secret")  # to open it would block for ever
    entry = {"bytes": 0, "sha256": hashlib.sha256().hexdigest()}
    files = json.loads((folder / MANIFEST).read_bytes())["files"]
    _forge(folder, files=files | {name: entry})
    with pytest.raises(CorruptDataError, match="must list files below it|missing"):
        read_manifest(folder)


@pytest.mark.parametrize(
    "changes",
    [{"files": []}, {"files": {"a.bin": 3}}, {"files": {"a.bin": {}}}, {"files": None}, {"details": []}],
)
def test_a_manifest_of_another_form_is_refused(folder, changes):
    _forge(folder, **changes)
    with pytest.raises(CorruptDataError, match="whole"):
        read_manifest(folder)


def test_another_format_is_refused(folder):
    _forge(folder, format=2)
    with pytest.raises(MismatchError, match="format 1, got 2"):
        read_manifest(folder)


def test_an_absurd_manifest_is_refused(folder):
    with (folder / MANIFEST).open("r+b") as file:
        file.truncate(2**40)
    with pytest.raises(CorruptDataError, match=str(LARGEST_MANIFEST)):
        read_manifest(folder)
    body = b' "format": 1, "details": ' + b'{"a":' * 100_000 + b"}" * 100_001
    digest = hashlib.sha256(body).hexdigest().encode()
    (folder / MANIFEST).write_bytes(b'{\n "checksum": "' + digest + b'",\n' + body)
    with pytest.raises(CorruptDataError, match=MANIFEST):
        read_manifest(folder)


def test_what_cannot_be_kept_writes_no_manifest(folder):
    (folder / MANIFEST).unlink()
    for details in ({"a": float("nan")}, {"a": object()}, {"a": "b" * LARGEST_MANIFEST}):
        with pytest.raises((ValueError, TypeError)):
            write_manifest(folder, details)
        assert not (folder / MANIFEST).exists()
