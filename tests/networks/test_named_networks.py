"""Networks by name: those of popsim, and those that a user's module adds."""

import functools
import json
import sys

import jax
import numpy as np
import pytest

from popsim.cli import main
from popsim.experiments import CenterOut, Cognitive, open_run
from popsim.networks import NETWORKS, GRUNetwork, LeakyRNN, build_network, register_network
from popsim.networks.registry import modules_of_networks, options_of_network
from popsim.sweeps import Sweep, make_sweep, open_sweep
from popsim.sweeps.slurm import SlurmOptions, slurm_script

KEY = jax.random.key(0)
MODULE = '''
from popsim.networks import LSTMNetwork, register_network

class Own(LSTMNetwork):
    """A network of the module."""

@register_network("lab-lstm")
def lstm(n_inputs, n_units, n_outputs, *, key):
    """Long short-term memory."""
    return Own(n_inputs, n_units, n_outputs, key=key)
'''
NAME = "lab_lstm"
SMALL = {"n_units": 4, "n_batches": 4, "batch_size": 4, "log_step": 2, "n_members": 2}
OPTIONS = [f"--{name.replace('n_members', 'members').replace('_', '-')}={n}" for name, n in SMALL.items()]
REACHES = ["center-out", "--plant", "point-mass", "--duration", "0.3", "--network", "lab-lstm", *OPTIONS]


def forget():
    NETWORKS.pop("lab-lstm", None)
    sys.modules.pop(NAME, None)


@pytest.fixture
def lab(tmp_path, monkeypatch):
    """A folder with the module of the user, which is not imported yet."""
    (tmp_path / f"{NAME}.py").write_text(MODULE)
    monkeypatch.chdir(tmp_path)
    monkeypatch.syspath_prepend(tmp_path)
    forget()
    yield tmp_path
    forget()


def with_module(*arguments):
    main(["--import", NAME, *map(str, arguments)])


@pytest.mark.slow
@pytest.mark.full
def test_a_run_of_a_network_of_the_user_is_trained_reported_and_read(lab, capsys):
    run = lab / "run"
    with_module("train", *REACHES, "--quiet", "--out", run)
    described = json.loads((run / "run.json").read_text())
    assert described["network_modules"] == [NAME] and described["settings"]["network"] == "lab-lstm"
    with_module("show", run)
    page = (run / "report.html").read_text()
    for title in ("Neural activity", "Comparison of members", "Hidden activity"):
        assert title in page
    assert "could not be drawn" not in page
    forget()
    capsys.readouterr()
    main(["info", str(run)])
    assert "lab-lstm" in capsys.readouterr().out
    with pytest.raises(ValueError, match=rf"must be registered, .*got 'lab-lstm'.* popsim --import {NAME} "):
        open_run(run)
    with_module("info", run)
    assert open_run(run).ensemble.network.cell.weight_hh.shape == (2, 16, 4)


def test_a_sweep_over_networks_imports_their_module(lab):
    __import__(NAME)
    experiment = Cognitive(**SMALL)
    made = make_sweep(Sweep(experiment, {"network": ("gru", "lab-lstm")}, range(2)), lab / "sweep")
    assert f"--import {NAME} resume" in made.folder.command("resume")
    script = slurm_script(made, SlurmOptions())
    assert f"popsim --import {NAME} sweep run" in script and f"PYTHONPATH={lab.resolve()}" in script
    forget()
    with pytest.raises(ValueError, match=rf"must be registered, .*got 'lab-lstm'.* popsim --import {NAME} "):
        open_sweep(lab / "sweep")


def test_a_network_that_is_not_registered_is_named(capsys):
    with pytest.raises(SystemExit) as end:
        main(["train", "cognitive", "--network", "transformer", "--out", "nowhere"])
    error = capsys.readouterr().err
    assert (
        end.value.code == 2 and f"--network must be one of {', '.join(NETWORKS)}, got 'transformer'" in error
    )


def test_settings_that_a_network_does_not_take_are_refused_by_name(lab):
    __import__(NAME)
    reaches = CenterOut(network="lab-lstm", hidden_noise=0.1, plant="point-mass")
    with pytest.raises(ValueError, match="`network` must be one that takes `noise_std`.*got 'lab-lstm'"):
        reaches.build_model(key=KEY)
    muscles = CenterOut(network="lab-lstm", plant="arm26", hidden_noise=0.0)
    with pytest.raises(ValueError, match="`network` must be one that takes `output_fn`.*got 'lab-lstm'"):
        muscles.build_model(key=KEY)
    with pytest.raises(ValueError, match="`tau` must be given with a network that has a time constant"):
        Cognitive(network="lab-lstm", tau=0.1)


def test_named_networks_are_those_that_are_built_by_class():
    leaky = functools.partial(LeakyRNN, tau=0.1, dt=0.02)
    for name, build in (("gru", GRUNetwork), ("tanh", leaky)):
        named, built = build_network(name, 2, 3, 1, dt=0.02, noise_std=0.0, key=KEY), build(2, 3, 1, key=KEY)
        assert jax.tree.structure(named) == jax.tree.structure(built)
        assert all(map(np.array_equal, jax.tree.leaves(named), jax.tree.leaves(built)))
    assert set(options_of_network("gru")) | {"dt", "tau"} == set(options_of_network("tanh"))
    assert options_of_network("tanh")["tau"] == 0.1 and not modules_of_networks(["gru", "none", None])
    assert (
        Cognitive(network="tanh").effective_value("tau") == 0.1 and Cognitive().effective_value("tau") is None
    )


def build_of_one_size(n_units, *, key):
    return None


def test_a_name_is_registered_once(as_users_run):
    with pytest.raises(ValueError, match="`name` .* 'gru' again"):
        register_network("gru")(build_of_one_size)
    assert [*NETWORKS] == ["gru", "tanh", "lstm", "vanilla", "low-rank", "two-areas", "short-term", "spiking"]
