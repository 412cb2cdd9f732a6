"""Commands on unreadable files, without disk or file handles: one line, the right code."""

import contextlib
import os
import resource
import shutil
import tracemalloc  # noqa: F401, as `warnings` would import it when no file can be opened any more
from pathlib import Path

import jax
import pytest
from command_ends import ended
from jax.experimental.compilation_cache.compilation_cache import reset_cache
from short_form import mostly_in_full
from small_experiment import Sum

from popsim.experiments import EXPERIMENTS, run_experiment

pytestmark = [
    pytest.mark.slow,
    pytest.mark.usefixtures("as_users_run"),
    pytest.mark.filterwarnings("ignore:there must be a file .*summary.json"),  # taken away: to be made again
]

SETTINGS = ["--members", "2", "--n-batches", "6", "--batch-size", "2", "--log-step", "2", "--quiet"]


@pytest.fixture(scope="module")
def sound(tmp_path_factory):
    """A run that is finished."""
    with pytest.MonkeyPatch.context() as patch:
        patch.setitem(EXPERIMENTS, "sum", Sum)
        small = Sum(n_members=2, n_batches=6, batch_size=2, log_step=2)
        yield run_experiment(small, tmp_path_factory.mktemp("sound") / "run", quiet=True).folder.path


def commands(run: Path, sound: Path, out: Path) -> dict[str, list[str]]:
    """Every command that looks at a run; `resume` last, as it makes an unfinished one whole."""
    given = {
        "info": ["info", run],
        "verify": ["info", run, "--verify"],
        "train": ["train", "sum", *SETTINGS, "--out", run, "--resume"],
        "export": ["export", run, "--history", out / "h.nc", "--model", out / "m.safetensors"],
        "show": ["show", run, "--out", out / "report"],
        "compare": ["compare", run, sound, "--out", out / "comparison"],
        "resume": ["resume", run, "--quiet"],
    }
    return {name: [str(word) for word in words] for name, words in given.items()}


@pytest.mark.parametrize("file", ["run.json", "log.jsonl", "history.zarr/zarr.json", "summary.json"])
def test_a_file_that_may_not_be_read_is_said(file, sound, tmp_path, capfd, monkeypatch):
    """Whoever is root may read all: so opening it is refused here."""
    run = tmp_path / "run"
    shutil.copytree(sound, run)
    opened = os.open

    def refusing(path, *arguments, **keywords):
        if Path(os.fsdecode(path)) == run / file:
            raise PermissionError(13, "Permission denied", str(path))
        return opened(path, *arguments, **keywords)

    monkeypatch.setattr(os, "open", refusing)
    read = Path.open

    def refusing_too(self, *arguments, **keywords):
        if self == run / file:
            raise PermissionError(13, "Permission denied", str(self))
        return read(self, *arguments, **keywords)

    monkeypatch.setattr(Path, "open", refusing_too)
    codes = {name: ended(command, capfd) for name, command in commands(run, sound, tmp_path).items()}
    partly = "could not be drawn: PermissionError"  # of a report, which has the rest
    assert all((code in (0, 1, 2) and not said) or partly in said for code, said in codes.values()), codes
    assert codes["verify"][0] == 2


@pytest.mark.parametrize(
    "command", [["info"], ["show"], ["resume"], ["export", "--model", "m"], ["compare", "."]]
)
def test_names_of_300_letters_are_refused(command, capfd, tmp_path, monkeypatch):
    monkeypatch.chdir(tmp_path)
    code, said = ended([*command, "x" * 300], capfd)
    assert code == 2 and not said
    assert ended(["train", "sum", *SETTINGS, "--out", "x" * 300], capfd) == (2, "")


@contextlib.contextmanager
def limited(kind: int, value: int):
    """Less than the process may otherwise have."""
    before = resource.getrlimit(kind)
    resource.setrlimit(kind, (value, before[1]))
    try:
        yield
    finally:
        resource.setrlimit(kind, before)


@contextlib.contextmanager
def without_compilation_cache():
    """So that no compiled program is kept that was cut short."""
    before = jax.config.jax_enable_compilation_cache
    jax.config.update("jax_enable_compilation_cache", False)
    reset_cache()
    try:
        yield
    finally:
        jax.config.update("jax_enable_compilation_cache", before)
        reset_cache()


@pytest.mark.parametrize("n_bytes", mostly_in_full([300, 1500, 4000], short=[1500]))
def test_a_full_disk_gives_one_line_and_code_1(n_bytes, sound, tmp_path, capfd):
    train = ["train", "sum", *SETTINGS, "--out", str(tmp_path / "run")]
    export = ["export", str(sound), "--history", str(tmp_path / "h.nc")]
    with without_compilation_cache(), limited(resource.RLIMIT_FSIZE, n_bytes):
        trained, exported = ended(train, capfd), ended(export, capfd)
        shown = ended(["show", str(sound), "--out", str(tmp_path / "report")], capfd)
    assert trained in ((1, ""), (2, "")) and exported == shown == (1, "")


@pytest.mark.filterwarnings("ignore::pytest.PytestUnraisableExceptionWarning")  # of loops that get no handle
@pytest.mark.filterwarnings("ignore:.*could not be drawn")  # for want of handles
@pytest.mark.parametrize("n_more", mostly_in_full([0, 2, 8], short=[0, 8]))
@pytest.mark.full
def test_few_file_handles_give_one_line(n_more, sound, tmp_path, capfd):
    run = tmp_path / "run"
    shutil.copytree(sound, run)
    (run / "summary.json").unlink()
    ends = {}
    for name, command in commands(run, sound, tmp_path).items():
        n_open = max(int(name) for name in os.listdir("/dev/fd")) + 1
        with without_compilation_cache(), limited(resource.RLIMIT_NOFILE, n_open + n_more):
            ends[name] = ended(command, capfd)
    wrong = {name: end for name, end in ends.items() if end[0] not in (0, 1, 2) or end[1]}
    assert not wrong


@pytest.mark.skipif(not os.path.exists("/dev/full"), reason="there is no /dev/full")
def test_a_full_standard_output_gives_one_line_and_code_1(sound, capfd, monkeypatch):
    for command in (["list"], ["info", str(sound)]):
        with open("/dev/full", "w") as full:
            monkeypatch.setattr("sys.stdout", full)
            assert ended(command, capfd) == (1, "")
