"""Every example in a docstring runs."""

import doctest
import importlib
import importlib.util
import pkgutil
from pathlib import Path

import jax
import pytest

import popsim


def modules_with_examples():
    names = [module.name for module in pkgutil.walk_packages(popsim.__path__, "popsim.")]
    return [name for name in names if n_examples(name)]


def n_examples(name):
    return Path(importlib.util.find_spec(name).origin).read_text().count(">>> ")


@pytest.mark.parametrize("name", modules_with_examples())
def test_examples(name):
    with jax.numpy_dtype_promotion("standard"):  # as it is for users
        result = doctest.testmod(importlib.import_module(name))
    assert result.failed == 0
    assert result.attempted == n_examples(name)
