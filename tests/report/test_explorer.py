"""The charts that follow a choice: their numbers, their place in a page, and in a browser."""

import base64
import collections
import json
import re
from types import SimpleNamespace

import browser
import jaxtyping
import numpy as np
import pytest
import xarray

from popsim.report._explorer import MOST_BATCHES, explorer_elements, json_block, round_numbers
from popsim.report._html import Html
from popsim.report.report_folder import Charts, Page

N_MEMBERS, N_TRIALS, N_STEPS, N_UNITS, DT = 2, 3, 60, 40, 0.01
HOSTILE = "</script><script>document.title = 'broken'</script>"
KEPT = np.arange(9, 200, 10)


Trials = collections.namedtuple("Trials", "conditions targets timeline")


@pytest.fixture(scope="module")
def run():
    """A run whose path ends as many mm to the right as batches were trained; its last one is not finite."""
    x = np.broadcast_to(np.linspace(0, 1, N_STEPS), (N_MEMBERS, N_TRIALS, N_STEPS)).copy()
    x[1, 2] = np.nan

    def evaluate(n_batches):
        position = np.stack([1e-3 * n_batches * x, 0.01 * x], axis=-1)
        hidden = np.random.default_rng(n_batches).normal(size=(N_MEMBERS, N_TRIALS, N_STEPS, N_UNITS))
        cursor, hand = SimpleNamespace(position=position), SimpleNamespace(velocity=position)
        network = SimpleNamespace(hidden=hidden)
        return SimpleNamespace(states=SimpleNamespace(cursor=cursor, hand=hand, network=network))

    targets, timeline = np.full((N_TRIALS, N_STEPS, 2), 0.1), SimpleNamespace(dt=DT, n_steps=N_STEPS)
    directions = {"direction": np.arange(N_TRIALS) * np.pi / 2}
    trials = Trials(directions, SimpleNamespace(position=targets), timeline)
    return SimpleNamespace(
        ensemble=200,
        n_batches_trained=200,
        models=lambda *, batch: batch + 1,
        evaluate=evaluate,
        history=SimpleNamespace(dataset=xarray.Dataset(coords={"trainables_batch": KEPT})),
        task=SimpleNamespace(validation_trials=lambda: trials),
        experiment=SimpleNamespace(n_members=N_MEMBERS),
        member_labels=lambda: {"label": ["low", HOSTILE]},
    )


@pytest.fixture(scope="module")
def elements(run):
    stand_ins = {
        "without_noise": lambda n_batches: n_batches,
        "defines_activity": lambda ensemble, states: True,
        "unit_activity": lambda ensemble, states: states.network.hidden,
    }
    jaxtyping.config.update("jaxtyping_disable", True)  # as the fixture `as_users_run`
    with pytest.MonkeyPatch.context() as patch:
        for name, stand_in in stand_ins.items():
            patch.setattr(f"popsim.report._explorer.{name}", stand_in)
        yield explorer_elements(run)
    jaxtyping.config.update("jaxtyping_disable", False)


@pytest.fixture(scope="module")
def content(elements):
    (text,) = re.findall(r'id="explorer-data">(.*?)</script>', "".join(elements), re.DOTALL)
    return json.loads(text)


def numbers(chart):
    """The numbers of a chart (batch, member, condition, time, channel), NaN where they are not finite."""
    codes = np.frombuffer(base64.b64decode(chart["values"]), f"<u{chart['bytes']}").reshape(chart["shape"])
    low, step = (np.reshape(chart[name], (-1, 1, 1, 1, 1)) for name in ("low", "step"))
    return np.where(codes == np.iinfo(codes.dtype).max, np.nan, low + step * codes)


def test_choices_and_numbers_are_those_of_the_run(content):
    batches = content["choices"]["batch"]
    assert batches[0] == "before training" and batches[-1] == "after 200 batches"
    assert len(batches) == len(set(batches)) == MOST_BATCHES
    assert content["choices"]["condition"][1] == "trial 1, direction 90°"
    charts = {chart["name"]: chart for chart in content["charts"]}
    path = numbers(charts["path"])
    ends = [0.0, *(float(re.findall(r"\d+", name)[0]) for name in batches[1:])]
    np.testing.assert_allclose(path[:, 0, 0, -1, 0], 0.1 * np.array(ends), atol=1e-3)  # mm in cm
    assert np.isnan(path[:, 1, 2]).all() and np.isfinite(path[:, 0]).all()
    np.testing.assert_allclose(charts["path"]["times"][-1], N_STEPS * DT)
    assert charts["activity"]["shape"] == [MOST_BATCHES, N_MEMBERS, N_TRIALS, 25, 32]
    hidden = np.random.default_rng(200).normal(size=(N_MEMBERS, N_TRIALS, N_STEPS, N_UNITS))
    np.testing.assert_allclose(numbers(charts["activity"])[-1, 1, 1, -1, -1], hidden[1, 1, -1, -1], atol=0.02)


def test_rounded_numbers_are_within_half_a_step():
    values = np.array([-3.0, 0.1, 7.0, np.inf])
    for n_bytes in (1, 2):
        codes, low, step = round_numbers(values, n_bytes)
        found = low + step * np.frombuffer(codes, f"<u{n_bytes}")[:3]
        np.testing.assert_allclose(found, values[:3], atol=0.5001 * step)
    assert round_numbers(np.full(2, np.nan), 1)[0] == b"\xff\xff"


def test_text_cannot_end_the_element_of_numbers():
    block = json_block("data", {"name": HOSTILE})
    assert block.count("</script>") == 1 and json.loads(re.findall(">(.*)<", block)[0]) == {"name": HOSTILE}


@pytest.fixture(scope="module")
def page(elements, tmp_path_factory):
    written = Page(HOSTILE, [], {"Charts": Charts(lambda: elements), "More": [Html()]}, "")
    return written.write("report.html", tmp_path_factory.mktemp("explorer")).page


READ = """
const [choice, value, answer] = arguments;
document.getElementById("explorer-" + choice).value = value;
document.getElementById("explorer-" + choice).dispatchEvent(new Event("change"));
const read = () => document.getElementById("explorer").getAttribute("aria-busy") === "true"
  ? setTimeout(read, 20)
  : answer(["path", "speed", "activity"].map(name => document.getElementById("explorer-" + name).innerHTML));
read();
"""


@pytest.mark.parametrize("width", [360, 400, 1280])
def test_charts_follow_the_choice_in_a_browser(width, page, driver):
    look = browser.look_at(driver, page, width)
    assert look.complaints == [] and look.overflow <= 0 and look.outside == []
    assert [address for address in look.requests if not address.startswith(("file:", "data:"))] == []
    assert driver.title == HOSTILE
    before = driver.execute_async_script(READ, "member", 0)
    assert all("<svg" in chart for chart in before)
    for choice, value in (("batch", 1), ("condition", 1), ("member", 1)):
        after = driver.execute_async_script(READ, choice, value)
        changed = [one != other for one, other in zip(before, after, strict=True)]
        assert changed[2] and (changed[:2] == [True, True] or choice == "member"), choice
        before = after
    links = driver.execute_script(
        "return [...document.querySelectorAll('#explorer .files a')].map(a => decodeURIComponent(a.href))"
    )
    assert links[1].startswith("data:text/csv") and '"condition","chosen","step","time","x","y"' in links[1]
    assert driver.get_log("browser") == []
