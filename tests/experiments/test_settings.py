"""Settings as plain values: from Python, and through text, YAML and JSON."""

import dataclasses
import enum
import functools
import json
import pathlib
import types
import typing
from typing import Any, Literal

import jax
import jax.numpy as jnp
import numpy as np
import pytest
import yaml
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st
from small_experiment import Sum
from swept_runs import Swept

from popsim.experiments import EXPERIMENTS, CenterOut, register_experiment
from popsim.experiments.registry import describe_experiment, rebuild_experiment, setting_text
from popsim.experiments.settings import as_setting, parse_setting, setting, setting_types
from popsim.store.yaml_files import read_yaml
from popsim.sweeps import Sweep
from popsim.sweeps.folder import parse_axes

pytestmark = pytest.mark.usefixtures("as_users_run")  # which may give other scalars than are kept


Kind = enum.Enum("Kind", {"FAST": "fast"})


@dataclasses.dataclass(frozen=True)
class Varied(Sum):
    """An experiment with settings of all types, and a check of its own that calls no other."""

    name = "varied"

    gain: float = np.float32(0.3)
    layers: list[int] = dataclasses.field(default_factory=lambda: [np.int64(3), np.int64(2)])
    shares: dict[str, float] = dataclasses.field(default_factory=lambda: {"a": np.float32(0.1)})
    mapping: dict[str, tuple[str, ...]] | None = None
    rows: tuple[tuple[str, float], ...] = ()
    maybe: str | None = None
    flag: bool | None = None
    choice: Literal["a b", "-x", "1e3"] | None = None
    count: Literal[1, 2] = 1

    def __post_init__(self):
        json.dumps(dataclasses.asdict(self))
        if type(self.gain) is not float:
            raise ValueError("the check sees what is not converted")


@functools.cache
def types_of_settings():
    """The types of all settings of all experiments, each once."""
    kinds = [*(EXPERIMENTS[name] for name in EXPERIMENTS), Varied]
    hints = [hint for kind in kinds for name, hint in setting_types(kind).items() if name != "grid"]
    return {str(hint): hint for hint in hints}


def values_of(hint):
    """A strategy for the values of a type."""
    origin, parts = typing.get_origin(hint), typing.get_args(hint)
    if origin in (typing.Union, types.UnionType):
        return st.one_of(map(values_of, parts))
    if origin is dict:
        return st.dictionaries(TEXTS, values_of(parts[1]), max_size=3)
    if origin is list or ... in parts:
        return st.lists(values_of(parts[0]), max_size=3).map(origin)
    if origin is tuple:
        return st.tuples(*map(values_of, parts))
    numbers = st.floats(allow_nan=False, allow_infinity=False)
    return {float: numbers, str: TEXTS}.get(hint, st.from_type(hint))


STRANGE = ["", "null", "~", "None", "nan", "1e3", "yes", "a: b", "# a", "- a", "'", "\\", "<<", "\r\n"]
TEXTS = st.sampled_from(STRANGE) | st.text(st.characters(exclude_categories=["Cs"]))


def same(value, expected):
    """Whether two plain values are the same, with the types of all numbers."""
    return value == expected and repr(value) == repr(expected)


def as_yaml(value):
    """A plain value as YAML, with texts in quotes."""
    if isinstance(value, dict):
        return f"{{{', '.join(f'{as_yaml(name)}: {as_yaml(entry)}' for name, entry in value.items())}}}"
    if isinstance(value, list | tuple):
        return f"[{', '.join(map(as_yaml, value))}]"
    if isinstance(value, str):
        return yaml.safe_dump(value, default_style='"', width=10**9, allow_unicode=True).strip()
    return json.dumps(value)


@given(data=st.data())
@settings(deadline=None, max_examples=300, suppress_health_check=list(HealthCheck))
def test_a_setting_is_the_same_through_python_json_yaml_and_text(data, tmp_path_factory):
    hints = types_of_settings()
    hint = hints[data.draw(st.sampled_from(sorted(hints)), "type")]
    value = data.draw(values_of(hint), "value")
    assert same(as_setting("s", value, hint), value)
    assert same(as_setting("s", json.loads(json.dumps(value)), hint), value)
    file = tmp_path_factory.getbasetemp() / "settings.yaml"
    file.write_text(f"s: {as_yaml(value)}\n", encoding="utf-8")
    assert same(parse_setting("s", read_yaml(file)["s"], hint), value)
    words = list(value) if isinstance(value, list | tuple) else [value]
    if words and all(isinstance(word, int | float) for word in words):  # as on the command line
        assert same(parse_setting("s", " ".join(map(repr, words)), hint), value)


def test_axes_on_the_command_line_are_texts_words_and_none():
    axes = parse_axes(Varied, ["maybe=a b,-c,1e3,None", "noise=0.1 1e-3,0.3 4", "flag=true,False"])
    assert axes.pop("maybe") == ("a b", "-c", "1e3", None)
    assert axes == {"noise": ((0.1, 1e-3), (0.3, 4.0)), "flag": (True, False)}


SCALARS = [
    ("n_units", np.uint8(16), 16),
    ("rate", np.float32(1e-3), 1e-3),
    ("rate", jnp.asarray(0.5, jnp.bfloat16), 0.5),
    ("rate", 1, 1.0),
    ("noise", np.array([0.1, 0.2], np.float32), (0.1, 0.2)),
    ("label", pathlib.PurePosixPath("runs/a"), "runs/a"),
    ("label", Kind.FAST, "fast"),
]


@pytest.mark.parametrize(("name", "value", "plain"), SCALARS)
def test_scalars_become_plain_values_of_python(name, value, plain):
    """In an experiment, where it is changed, and on an axis of a sweep."""
    experiment, changed = Swept(**{name: value}), dataclasses.replace(Swept(), **{name: value})
    axis = Sweep(Swept(), {name: [value]}, np.arange(2, 4)).axes[name][0]
    assert all(same(made, plain) for made in (getattr(experiment, name), getattr(changed, name), axis))
    described = json.loads(json.dumps(describe_experiment(experiment)))
    assert rebuild_experiment(described, "run.json") == experiment == Swept(**{name: plain})


def test_an_experiment_of_a_user_sees_plain_values_in_its_own_check(monkeypatch):
    monkeypatch.setitem(EXPERIMENTS, "varied", Varied)
    made = Varied(seed=np.int64(1), rows=(["a", jnp.float32(0.1)],))
    assert (made.gain, made.layers, made.shares, made.rows) == (0.3, [3, 2], {"a": 0.1}, (("a", 0.1),))
    described = json.loads(json.dumps(describe_experiment(made)))
    assert rebuild_experiment(described, "run.json") == made

    class Mixin:
        def __post_init__(self):
            assert type(self.n_members) is int  # pyright: ignore[reportAttributeAccessIssue]

    @dataclasses.dataclass(frozen=True)
    class Mixed(Mixin, Sum):
        name = "mixed"

    class Inherits(Varied):
        """A subclass that is no dataclass of its own."""

    assert Mixed(n_members=np.int64(3)).n_members == 3 and Inherits(n_members=np.int64(3)).n_members == 3


@pytest.mark.parametrize(
    ("name", "value", "message"),
    [
        ("seed", 1.5, "`seed` must be a value of its type, got 1.5: Expected `int`"),
        ("gain", True, "`gain` must be a value of its type, got True"),
        ("gain", float("nan"), "`gain` must be finite, got nan"),
        ("noise", (0.1, jnp.inf), r"`noise\[1\]` must be finite, got inf"),
        ("choice", "A B", "`choice` must be one of a b, .* got 'A B': .* Perhaps you meant a b."),
        ("rows", (("a", {2}),), r"`rows\[0\]\[1\]` must be a plain value, .* got set"),
        ("layers", jax.random.key(0), "`layers` must be a plain value"),
        ("n_members", 10**7, "`n_members` must be at most 1000000, got 10000000"),
    ],
)
def test_what_is_no_plain_value_of_its_type_is_refused_by_name(name, value, message):
    class Checked(Varied):
        __post_init__ = Sum.__post_init__

    with pytest.raises(ValueError, match=message):
        Checked(**{name: value})


@pytest.mark.parametrize("hint", [Any, str | float, np.ndarray])
def test_an_annotation_in_which_a_text_may_be_several_things_is_refused(hint):
    options = {"bases": (Sum,), "namespace": {"name": "unclear"}, "frozen": True}
    kind = dataclasses.make_dataclass("Unclear", [("unclear", hint, None)], **options)
    with pytest.raises(ValueError, match="`unclear` of Unclear must be annotated with int, float"):
        register_experiment(kind)
    assert "unclear" not in EXPERIMENTS


def test_units_and_help_are_those_of_the_fields():
    @dataclasses.dataclass(frozen=True)
    class Described(Sum):
        name = "described"
        delay: float = setting(0.1, "delay of vision", "s")

    assert Described().units() == {"delay": ("s",)}
    assert describe_experiment(Described())["in_force"]["delay"] == "0.1 s"
    assert setting_text((1, 2), ("m", "m/s")) == "1 m, 2 m/s" and setting_text((1, 2), ("m",)) == "1 m, 2 m"
    for value in (0.1, (1, 2, 3)):
        with pytest.raises(ValueError, match="`units` must be one, or one for each number of "):
            setting_text(value, ("m", "m/s"))
    assert Described.__dataclass_fields__["delay"].metadata["help"] == "delay of vision, s"
    for kind in [EXPERIMENTS[name] for name in EXPERIMENTS]:
        if kind.__module__.startswith("popsim."):
            assert all(field.metadata["help"] for field in dataclasses.fields(kind)), kind
    reaches = CenterOut(plant="arm26")
    assert reaches.units().keys() <= {field.name for field in dataclasses.fields(reaches)}
