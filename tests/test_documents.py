"""The code in the documents runs, and what they name exists."""

import os
import re
import subprocess
import sys
from pathlib import Path

import jax
import pytest

import popsim
from popsim.experiments import CenterOut, run_experiment

ROOT = Path(popsim.__file__).parents[1]
pytestmark = pytest.mark.skipif(
    not (ROOT / "README.md").exists(), reason="the documents are not part of the installed package"
)


def code_blocks(document: str) -> list[str]:
    return re.findall(r"```python\n(.*?)```", (ROOT / document).read_text(), re.DOTALL)


@pytest.mark.parametrize("document", ["README.md", "docs/extending.md"])
def test_the_code_runs(document):
    """As it stands, but for two batches only, and with smaller trials."""
    blocks = [block for block in code_blocks(document) if "open_run" not in block]
    code = "\n".join(blocks)
    short = re.sub(r"n_batches=\d+", "n_batches=2", code)
    short = re.sub(r"batch_size=\d+", "batch_size=4", short)
    assert short != code
    scope = {}
    with jax.numpy_dtype_promotion("standard"):  # as users have it
        exec(compile(short, document, "exec"), scope)
    assert scope["history"].loss.total.shape[0] == 2


@pytest.mark.parametrize("document", ["README.md", "docs/extending.md", "CONTRIBUTING.md"])
def test_the_files_and_names_exist(document):
    text = (ROOT / document).read_text()
    for path in re.findall(r"`((?:popsim|tasks|analysis|examples|tests|docs)/[\w/.]*)`", text):
        assert (ROOT / path).exists(), path
    for path in re.findall(r"\]\(([\w/.]+)\)", text):
        assert (ROOT / path).exists(), path


def test_the_code_about_a_saved_run_runs(tmp_path, monkeypatch):
    """On a small run that has a batch 99."""
    small = CenterOut(n_members=3, n_batches=100, batch_size=2, n_units=4, duration=0.1, plant="point-mass")
    run_experiment(small, tmp_path / "runs" / "center-out-0", quiet=True)
    monkeypatch.chdir(tmp_path)
    (block,) = (block for block in code_blocks("README.md") if "open_run" in block)
    scope = {}
    exec(compile(block, "README.md", "exec"), scope)
    assert scope["curve"].shape == (100,) and scope["weights"].shape == (3, 12, 4)
    assert scope["ax"].lines


def test_the_code_about_devices_runs_on_several():
    (block,) = (block for block in code_blocks("docs/extending.md") if "make_mesh" in block)
    code = block + "\nassert len(outputs.devices()) == len(state.params.layers[0].weight.devices()) == 4"
    code += "\nassert {shard.data.shape for shard in outputs.addressable_shards} == {(16, 1)}"
    environment = os.environ | {"XLA_FLAGS": "--xla_force_host_platform_device_count=4"}
    subprocess.run([sys.executable, "-c", code], check=True, cwd=ROOT, env=environment)
