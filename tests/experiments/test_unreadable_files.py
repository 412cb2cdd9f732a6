"""Commands on unreadable files, without disk or file handles: one line, the right code."""

import contextlib
import os
import tracemalloc  # noqa: F401, as `warnings` would import it when no file can be opened any more

import jax
import pytest
from command_ends import ended
from interruptions import files_of_at_most
from jax.experimental.compilation_cache.compilation_cache import reset_cache
from kept_runs import SIZES, finished_run
from short_form import mostly_in_full

pytestmark = [
    pytest.mark.slow,
    pytest.mark.usefixtures("as_users_run"),
    pytest.mark.filterwarnings("ignore:there must be a file .*summary.json"),  # taken away: to be made again
]


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
def test_a_full_disk_gives_one_line_and_code_1(n_bytes, tmp_path_factory, tmp_path, capfd):
    sound = str(finished_run(tmp_path_factory))
    train = ["train", "sum", *SIZES, "--quiet", "--out", str(tmp_path / "run")]
    export = ["export", sound, "--history", str(tmp_path / "h.nc")]
    with without_compilation_cache(), files_of_at_most(n_bytes):
        trained, exported = ended(train, capfd), ended(export, capfd)
        shown = ended(["show", sound, "--out", str(tmp_path / "report")], capfd)
    assert trained in ((1, ""), (2, "")) and exported == shown == (1, "")


@pytest.mark.skipif(not os.path.exists("/dev/full"), reason="there is no /dev/full")
def test_a_full_standard_output_gives_one_line_and_code_1(tmp_path_factory, capfd, monkeypatch):
    for command in (["list"], ["info", str(finished_run(tmp_path_factory))]):
        with open("/dev/full", "w") as full:
            monkeypatch.setattr("sys.stdout", full)
            assert ended(command, capfd) == (1, "")
