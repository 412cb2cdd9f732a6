"""The code in the documents runs, and what they name exists."""

import re
from pathlib import Path

import jax
import pytest

import popsim

ROOT = Path(popsim.__file__).parents[1]
pytestmark = pytest.mark.skipif(
    not (ROOT / "README.md").exists(), reason="the documents are not part of the installed package"
)


def code_blocks(document: str) -> list[str]:
    return re.findall(r"```python\n(.*?)```", (ROOT / document).read_text(), re.DOTALL)


@pytest.mark.parametrize("document", ["README.md", "docs/extending.md"])
def test_the_code_runs(document):
    """As it stands, but for two batches only, and with smaller trials."""
    code = "\n".join(code_blocks(document))
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
