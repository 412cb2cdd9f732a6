"""A training continues only if it computes what it computed: code, and all numbers that it reads."""

import contextlib
import importlib.util
import shutil
import sys

import jax
import pytest
from short_form import mostly_in_full

import popsim
from popsim.store import MismatchError
from popsim.training import TaskTrainer, adam

LAB = '''
"""A task of a lab, in which everything that may be changed stands once."""
import dataclasses
import functools
import equinox as eqx
import jax
import jax.numpy as jnp
import popsim
from popsim import losses
from popsim.environment import AbstractEnvironment, Discrete, Outcome
from popsim.policies import Categorical
from popsim.training import AbstractPopulationUpdate

PRICE = 0.25

@jax.jit
def paid(reward):
    return 1.5 * reward

def scaled(reward, factor):
    return factor * reward

doubled = functools.partial(scaled, factor=2.0)
LEAST = {"loss": [-1e6]}
level = lambda loss, times=1: loss < LEAST["loss"][0] * times

class Shop(AbstractEnvironment):
    stock: jax.Array
    actions = Discrete(2)
    gain = 1.25

    @property
    def tax(self):
        return PRICE * 3.0

    def init(self, *, key):
        return jnp.zeros(()), {"shown": jnp.zeros(1)}

    def step(self, state, action, *, key):
        count = state + 1  # of steps
        reward = doubled(paid(action.astype(float))) * self.gain - self.tax
        return count, Outcome({"shown": count[None]}, reward, jnp.asarray(False))

class Shopping(popsim.AbstractTask):
    loss: popsim.Loss
    stock: jax.Array
    numbers: jax.Array
    name: str = eqx.field(static=True, default="shop")

    def trial(self, *, batch, key):
        timeline = popsim.Timeline(dt=0.01, n_steps=4, epochs={"trial": jnp.array([0, 4])})
        stock = self.stock[0] + jnp.sum(self.numbers).astype(float)
        return popsim.Trial((), (), (), timeline, environment=Shop(stock))

    def validation_trials(self):
        return jax.vmap(lambda key: self.trial(batch=0, key=key))(jax.random.split(jax.random.key(0), 2))

class Patience(AbstractPopulationUpdate):
    """Stops nobody; runs on the host."""
    may_stop = True

    def __call__(self, population, results, state, *, batch, key):
        stopped = population.stopped | level(results.total_loss)
        return dataclasses.replace(population, stopped=stopped), state, {}

def build(key, first=1.0, last=1.0):
    policy = Categorical(2, critic=True)
    network = popsim.networks.LeakyRNN(1, 4, policy.n_outputs, tau=0.05, noise_std=0.1, key=key)
    return popsim.NetworkModel(network, policy=policy, dt=0.01)

def make(first=0.3, last=0.7, number=3):
    terms = losses.PolicyGradient() + 0.5 * losses.ValueRegression()
    return Shopping(terms, jnp.array([first, last]), jnp.array([1, number]))
'''

CHANGES = {
    "sign of the reward": ("self.gain - self.tax", "-self.gain - self.tax", "`Shop.step`"),
    "size of the reward": ("reward = doubled", "reward = 100 * doubled", "`Shop.step`"),
    "number of a class": ("gain = 1.25", "gain = 2.5", "`Shop`"),
    "property": ("PRICE * 3.0", "PRICE * 6.0", "`Shop.tax`"),
    "number of a property": ("PRICE = 0.25", "PRICE = 0.5", "`PRICE`"),
    "function under jit": ("1.5 * reward", "-1.5 * reward", "`paid`"),
    "partial": ("factor=2.0", "factor=4.0", "`doubled`"),
    "function of a partial": ("return factor * reward", "return -factor * reward", "`scaled`"),
    "setting": ('default="shop"', 'default="store"', "`task.name`, shop then and store now"),
    "host": ("loss < LEAST", "loss <= LEAST", "`level`"),
    "default argument of the host": ("times=1", "times=2", "the code of `level`"),
    "table of the host": ("-1e6", "-1e5", "the code of `LEAST`"),
    "first number": ("first=0.3", "first=0.6", r"`task.stock\[0\]`, 0.3.* then and 0.6"),
    "last number": ("last=0.7", "last=0.7003", r"`task.stock\[1\]`"),
    "whole number": ("number=3", "number=4", r"`task.numbers\[1\]`, 3 then and 4 now"),
    "constant of the model": ("tau=0.05", "tau=0.06", r"`model.network.tau\[0\]`, 0.05.* then and 0.06 now"),
    "noise": ("noise_std=0.1", "noise_std=10.0", r"`model.network.noise.std\[0\]`"),
}
SAME = {
    "comment": ("# of steps", "# of what is bought"),
    "docstring": ("Stops nobody", "Stops no one"),
    "variable": ("count", "n_steps"),
    "rounding": ("last=0.7", "last=0.700001"),
    "nothing": ("", ""),
}


def lab(folder, old="", new=""):
    """The module of the lab, written with one thing changed, and imported."""
    source = LAB.replace(old, new) if old else LAB
    for name in [name for name in sys.modules if name.startswith("lab_")]:
        del sys.modules[name]
    folder.mkdir(exist_ok=True)
    path = folder / "lab.py"
    path.write_text(source)
    spec = importlib.util.spec_from_file_location(f"lab_{abs(hash((old, new)))}", path)
    module = importlib.util.module_from_spec(spec)
    sys.modules[spec.name] = module
    spec.loader.exec_module(module)
    return module


class Accepted(Exception):
    """A checkpoint was, and nothing is compiled yet."""


def accept(n_done):
    raise Accepted


def train(module, folder, n_batches, on_begin=None):
    ensemble = popsim.make_ensemble(module.build, 2, key=jax.random.key(0))
    trainer = TaskTrainer(adam(1e-2), chkpt_dir=folder, population_updates=[module.Patience()])
    return trainer(
        module.make(),
        ensemble,
        n_batches,
        2,
        lambda model: model.network,
        ensembled=True,
        restore_checkpoint=True,
        log_step=1,
        disable_tqdm=True,
        on_begin=on_begin,
        key=jax.random.key(1),
    )


@pytest.fixture(scope="module")
def begun(tmp_path_factory):
    """The folder of a training of one batch."""
    folder = tmp_path_factory.mktemp("begun")
    train(lab(folder / "code"), folder / "run", 1)
    return folder / "run"


@pytest.mark.parametrize(
    "name", mostly_in_full(CHANGES, ("sign of the reward", "table of the host", "first number"))
)
def test_what_computes_other_numbers_is_refused_by_name(name, begun, tmp_path):
    old, new, named = CHANGES[name]
    assert old in LAB
    folder = shutil.copytree(begun, tmp_path / "run")
    with pytest.raises(MismatchError, match=named):
        train(lab(tmp_path / "code", old, new), folder, 2)


@pytest.mark.parametrize("name", mostly_in_full(SAME, ("variable",)))
def test_what_computes_the_same_continues(name, begun, tmp_path):
    folder = shutil.copytree(begun, tmp_path / "run")
    with pytest.raises(Accepted):
        train(lab(tmp_path / "code", *SAME[name]), folder, 2, accept)


@pytest.mark.full
@pytest.mark.filterwarnings("ignore:popsim's engine does not know:UserWarning")
def test_what_calls_python_is_told_and_continues(tmp_path):
    """What a callback computes stands in no program."""
    calling = "count = state + 1\n        jax.debug.callback(lambda number: None, count)\n"
    for n_batches, expected in (
        (1, contextlib.nullcontext()),
        (2, pytest.warns(UserWarning, match="cannot be compared")),
    ):
        with expected:
            train(lab(tmp_path / "code", "count = state + 1", calling), tmp_path / "run", n_batches)
