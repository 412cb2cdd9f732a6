"""Places in the folder of a run at which somebody may put a link, a pipe, a device or a folder."""

import os
import shutil
import signal
import stat

SAVED, CHUNK = "checkpoints/000000002.safetensors", "history.zarr/loss/c.0.0.0"
LINKED = (
    *("run.json", "run.yaml", "training.json", "log.jsonl", "summary.json", "run.lock", "run.lock.json"),
    *(f"{name}.0123abcd.partial" for name in ("run.json", "summary.json", "run.lock.json")),
    *("figures", "figures/one.png", "figures/one.pdf"),
    *("history.zarr", "history.zarr.0123abcd.partial", "history.zarr/zarr.json"),
    "history.zarr/zarr.json.0123abcd.partial",
    *("history.zarr/loss", CHUNK),
    *("history.zarr/loss/zarr.json", "history.zarr/member"),
    *("checkpoints", SAVED, "checkpoints/000000004.safetensors.0123abcd.partial"),
)
SPECIAL = (
    *((name, kind) for name in ("run.json", "training.json", "summary.json") for kind in ("pipe", "folder")),
    *(("log.jsonl", kind) for kind in ("pipe", "folder", "device", "socket")),
    *(("run.lock", kind) for kind in ("pipe", "folder")),
    *((name, "pipe") for name in ("run.lock.json", "history.zarr", "checkpoints", "figures")),
    *((name, "pipe") for name in ("history.zarr/zarr.json", CHUNK, SAVED)),
    (SAVED, "device"),
)


def within_a_minute():
    """A test that waits for the other end of a pipe ends after a minute: a fixture."""

    def end(*_):
        raise TimeoutError

    before = signal.signal(signal.SIGALRM, end)
    signal.alarm(60)
    yield
    signal.alarm(0)
    signal.signal(signal.SIGALRM, before)


def content(folder):
    """Names, times and bytes of all files below a folder."""
    files = [path for path in sorted(folder.rglob("*")) if path.is_file()]
    return {path: (path.stat().st_mtime_ns, path.read_bytes()) for path in files}


def link_to(outside, path):
    """Put a link in the place of a file or folder, to where it is moved, or else to something of others."""
    outside.parent.mkdir()
    if path.exists():
        path.rename(outside)
    elif path.suffixes[-3:-2] == [".zarr"] or path.parent.name == "checkpoints":
        outside.mkdir()
        (outside / "zarr.json").write_text("theirs")
    else:
        outside.write_text("theirs")
    path.symlink_to(outside)
    return outside


def put(path, kind):
    """Put something else in the place of a file or folder.

    A device gives zeros for ever; where nobody may make one, there is a socket instead.
    """
    if path.is_dir():
        shutil.rmtree(path)
    path.unlink(missing_ok=True)
    if kind == "folder":
        path.mkdir()
    elif kind == "pipe":
        os.mkfifo(path)
    else:
        try:
            is_device = kind == "device"
            os.mknod(path, 0o600 | (stat.S_IFCHR if is_device else stat.S_IFSOCK), os.makedev(1, 5))
        except PermissionError:
            os.mknod(path, 0o600 | stat.S_IFSOCK)
