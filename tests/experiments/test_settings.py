"""Settings that are scalars of NumPy and JAX, paths, enumerations, and what is no plain value."""

import dataclasses
import enum
import json
import pathlib

import jax
import jax.numpy as jnp
import numpy as np
import pytest
from small_experiment import Sum
from small_training import train
from swept_runs import Swept

from popsim.experiments import CenterOut, Cognitive, Recording
from popsim.experiments.registry import EXPERIMENTS, describe_experiment, rebuild_experiment
from popsim.store import read_model_details, save_model
from popsim.sweeps import Sweep, make_sweep, open_sweep, run_cell
from popsim.sweeps.folder import describe_sweep
from popsim.training import PopulationBasedTraining, TaskTrainer, adam

pytestmark = pytest.mark.usefixtures("as_users_run")  # which may give other scalars than are kept


class Kind(enum.Enum):
    FAST = "fast"


class Size(enum.IntEnum):
    LARGE = 7


@dataclasses.dataclass(frozen=True)
class Checked(Sum):
    """An experiment with a check of its own, that calls no other."""

    name = "checked"

    gain: float = np.float32(0.3)
    layers: list[int] = dataclasses.field(default_factory=lambda: [np.int64(3), np.int64(2)])
    shares: dict = dataclasses.field(default_factory=lambda: {"a": np.float32(0.1)})
    free: object = None

    def __post_init__(self):
        json.dumps(dataclasses.asdict(self))
        if type(self.gain) is not float:
            raise ValueError("the check sees what is not converted")


SCALARS = [
    ("n_units", np.int64(16), 16),
    ("n_units", np.uint8(16), 16),
    ("n_units", jnp.asarray(16), 16),
    ("n_units", np.array(16), 16),
    ("n_units", Size.LARGE, 7),
    ("seed", np.int64(3), 3),
    ("n_members", np.int32(4), 4),
    ("first_member", np.int64(2), 2),
    ("select_every", None, None),
    ("rate", np.float32(1e-3), 1e-3),
    ("rate", np.float64(1e-3), 1e-3),
    ("rate", np.float16(0.1), 0.1),
    ("rate", jnp.asarray(1e-3, jnp.float32), 1e-3),
    ("rate", jnp.asarray(0.5, jnp.bfloat16), 0.5),
    ("rate", 1, 1),
    ("noise", np.array([0.1, 0.2], np.float32), (0.1, 0.2)),
    ("noise", jnp.asarray([0.1, 0.2]), (0.1, 0.2)),
    ("noise", [np.float32(0.1), 0.2], (0.1, 0.2)),
    ("label", np.str_("a b"), "a b"),
    ("label", pathlib.PurePosixPath("runs/a"), "runs/a"),
    ("label", Kind.FAST, "fast"),
]


@pytest.mark.parametrize(("name", "value", "plain"), SCALARS)
def test_scalars_become_plain_values_of_python(name, value, plain):
    """In an experiment, where it is changed, on an axis of a sweep, and in `details`."""
    experiment = Swept(**{name: value})
    changed = dataclasses.replace(Swept(), **{name: value})
    for made in (getattr(experiment, name), getattr(changed, name)):
        assert made == plain and type(made) is type(plain)
    described = json.loads(json.dumps(describe_experiment(experiment)))
    assert rebuild_experiment(described, "run.json") == experiment == Swept(**{name: plain})
    if name in ("n_units", "rate", "noise", "label"):
        sweep = Sweep(Swept(), {name: [value]}, np.arange(2, 4))
        assert json.loads(json.dumps(describe_sweep(sweep)))["seeds"] == [2, 4]
        assert sweep.axes == {name: (plain,)} and type(sweep.axes[name][0]) is type(plain)


def test_details_recordings_and_seeds_take_scalars(tmp_path):
    details = {"rate": np.float32(1e-3), "n": np.int64(2), "path": tmp_path, "list": jnp.arange(2)}
    save_model(tmp_path / "m.safetensors", {}, details=details)
    assert read_model_details(tmp_path / "m.safetensors") == {
        **{"rate": 1e-3, "n": 2, "path": str(tmp_path), "list": [0, 1]}
    }
    recording = Recording(np.str_("every 2"), np.bool_(True))
    for seeds in (np.arange(3), jnp.arange(3), [np.int64(0), 1, 2], (0, 1, 2), range(3)):
        sweep = Sweep(Swept(n_members=np.int64(2)), {}, seeds, np.int64(2), jnp.asarray(1), recording)
        opened = make_sweep(sweep, tmp_path / "sw" / str(type(seeds)))
        assert opened.sweep == sweep and opened.sweep.seeds == range(3)
        assert opened.sweep.cell(np.int64(1)).experiment.n_members == 2


def test_an_experiment_of_a_user_sees_plain_values_in_its_own_check(monkeypatch):
    monkeypatch.setitem(EXPERIMENTS, "checked", Checked)
    made = Checked(seed=np.int64(1), free=(jnp.float32(0.1), {"a": [np.int64(1)]}))
    assert (made.gain, made.layers, made.shares) == (0.3, [3, 2], {"a": 0.1})
    assert made.free == (0.1, {"a": (1,)})
    described = json.loads(json.dumps(describe_experiment(made)))
    assert rebuild_experiment(described, "run.json") == made
    with pytest.raises(ValueError, match="`gain` must be a number, got 'a'"):
        Checked(gain="a")  # pyright: ignore[reportArgumentType]


class Inherits(Checked):
    """A subclass that is no dataclass of its own."""


def test_a_mixin_with_its_own_check_sees_plain_values():
    class Mixin:
        def __post_init__(self):
            assert type(self.n_members) is int  # pyright: ignore[reportAttributeAccessIssue]

    @dataclasses.dataclass(frozen=True)
    class Mixed(Mixin, Sum):
        name = "mixed"

    assert Mixed(n_members=np.int64(3)).n_members == 3 and Inherits(n_members=np.int64(3)).n_members == 3


@pytest.mark.parametrize("kind", [Swept, CenterOut, Cognitive])
@pytest.mark.parametrize(
    ("name", "value", "message"),
    [
        ("seed", 1.5, "`seed` must be a whole number, got 1.5"),
        ("seed", True, "`seed` must be a whole number, got True"),
        ("seed", np.bool_(True), "`seed` must be a whole number, got True"),
        ("seed", np.float64(1.0), "`seed` must be a whole number, got 1.0"),
        ("n_members", True, "`n_members` must be a whole number, got True"),
        ("n_units", jnp.asarray(2.0), "`n_units` must be a whole number, got 2.0"),
        ("n_units", np.arange(2), "`n_units` must be a whole number, got"),
        ("n_units", b"3", "`n_units` must be a plain value, .* got bytes"),
        ("n_units", object(), "`n_units` must be a plain value, .* got object"),
        ("n_units", jax.random.key(0), "`n_units` must be a plain value"),
        ("n_units", np.datetime64("2026"), "`n_units` must be a plain value"),
        ("n_units", 1j, "`n_units` must be a plain value, .* got complex"),
        ("n_units", 2**1025, "`n_units` must be a whole number of at most 1024 bits"),
        ("n_members", 10**7, "`n_members` must be at most 1000000, got 10000000"),
        ("n_batches", 10**9, "`log_step` must leave at most 1000000 log points"),
    ],
)
def test_what_is_no_plain_value_of_its_type_is_refused_by_name(kind, name, value, message):
    with pytest.raises(ValueError, match=message):
        kind(**{name: value})


def nested(depth):
    return [nested(depth - 1)] if depth else 1


@pytest.mark.parametrize(
    ("value", "message"),
    [
        (float("nan"), "`free` must be finite, got nan"),
        ((1, {"a": [jnp.inf]}), r"`free\['a'\]\[0\]|`free\[1\]\['a'\]\[0\]` must be finite, got inf"),
        ({1: 2}, "`free` must have text as keys, got 1"),
        (nested(50), "must be nested at most 32 deep"),
        (range(10**9), "`free` must have at most 1000000 values, got 1000000000"),
        ("\ud800", "`free` must be text in UTF-8"),
        ((1, {2}), r"`free\[1\]` must be a plain value, .* got set \{2\}"),
    ],
)
def test_what_json_cannot_hold_is_refused_by_its_place(value, message):
    class Free(Checked):
        pass

    with pytest.raises(ValueError, match=message):
        Free(free=value)


def test_a_traced_setting_is_refused_by_name():
    with pytest.raises(ValueError, match="`rate` must be a plain value"):
        jax.jit(lambda rate: Swept(rate=rate).rate)(1.0)


@pytest.mark.parametrize(
    "seeds", [[0.0, 1.0], [True], "01", 5, np.array(3), np.array([0.5]), [1, 3], [], {0: 1}]
)
def test_seeds_of_a_sweep_are_whole_numbers(seeds):
    with pytest.raises(ValueError, match="`seeds` must be whole numbers without gaps"):
        Sweep(Swept(), {}, seeds)


@pytest.mark.full
@pytest.mark.slow
def test_the_trainer_takes_scalars(tmp_path):
    """In memory and on disk, with a learning rate that the history has."""
    optimizer = adam(np.float32(1e-2), clip_norm=np.float64(1.0))
    trainer = TaskTrainer(
        optimizer,
        chkpt_dir=tmp_path / "run",
        member_batch_size=np.int64(1),
        checkpoint_seconds=np.float32(1.0),
    )
    options = {"n_members": np.int64(2), "log_step": np.int64(2), "start_batch": np.int64(0)}
    _, history = train(np.int64(4), batch_size=np.int32(4), trainer=trainer, **options)
    np.testing.assert_allclose(history.learning_rate, 1e-2, rtol=1e-6)
    assert PopulationBasedTraining(np.int64(3)).every == 3
    with pytest.raises(ValueError, match="`every` must be a positive whole number, got True"):
        PopulationBasedTraining(np.bool_(True))


@pytest.mark.slow
@pytest.mark.full
def test_a_sweep_of_scalars_is_trained_and_read_again(tmp_path):
    rates = np.array([1e-3, 1e-2], np.float32)
    make_sweep(
        Sweep(Swept(seed=np.int64(4), n_batches=np.int64(4)), {"rate": rates}, np.arange(2)), tmp_path / "sw"
    )
    for number in np.arange(1):
        run_cell(tmp_path / "sw", number)
    opened = open_sweep(tmp_path / "sw")
    assert opened.is_finished and opened.where(rate=np.float64(1e-3)).n_members == 2
