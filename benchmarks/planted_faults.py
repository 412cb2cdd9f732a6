"""How many of 60 small planted faults the tests find.

    python benchmarks/planted_faults.py [--names NAME ...] [--write benchmarks/planted_faults.md]

Each fault is one slip of a line that computes: a sign, a time step, an axis, a missing fsync or check. It is
planted alone, in a worktree of HEAD in a temporary folder, and the tests that stand nearest are run until one
fails. Those that are not found are then planted together, for one run of each of the folders of their tests,
of `tests/training` and of `tests/core`; what fails there is run for each of them alone. A test that fails
without a fault, too, finds none, and is left out.

A fault is found by its text, which must stand in one place of its package: whoever changes that line plants
the fault anew, in the same sense. Results are kept in a JSON file beside the page, so that a measurement that
was interrupted continues; `--names` measures some alone, and anew.
"""

import argparse
import contextlib
import dataclasses
import json
import os
import re
import signal
import subprocess
import sys
import tempfile
import time
from collections.abc import Iterator
from pathlib import Path

REPOSITORY = Path(__file__).parents[1]
MOST_SECONDS = 3600  # of one run of tests; a fault that keeps them from ending is found


@dataclasses.dataclass(frozen=True)
class Fault:
    """A planted fault: `before` stands once in the files of `package`, and becomes `after`.

    `tests` is a folder of tests, and the modules that stand nearest in order, others as "folder/module".
    """

    name: str
    package: str
    before: str
    after: str
    tests: str

    def place(self, root: Path) -> Path | None:
        """Return the file with the text; None if it does not stand in exactly one place."""
        files = [path for path in (root / self.package).rglob("*.py") if self.before in path.read_text()]
        is_one = len(files) == 1 and files[0].read_text().count(self.before) == 1
        return files[0] if is_one else None

    def nearest(self, root: Path) -> list[str]:
        """Return the nearest test modules that are there; their folder if none is."""
        folder, *modules = self.tests.split()
        paths = [f"tests/{name if '/' in name else f'{folder}/{name}'}" for name in modules]
        paths = [f"{path.rpartition('/')[0]}/test_{path.rpartition('/')[2]}.py" for path in paths]
        return [path for path in paths if (root / path).exists()] or [f"tests/{folder}"]

    def folders(self, root: Path) -> set[str]:
        """Return the folders of its tests, and those whose tests run through all that is trained."""
        own = {path.rpartition("/")[0] if path.endswith(".py") else path for path in self.nearest(root)}
        return {*own, "tests/training", "tests/core"}


# fmt: off
FAULTS = [Fault(*row) for row in [
    # core
    ("every time step has the same noise", "popsim",
     "state, key=jax.random.fold_in(step_key, t))", "state, key=step_key)",
     "core simulate randomness noise"),
    ("a member's own delay is a step too long", "popsim",
     "values[self.values.shape[0] - n_back]", "values[self.values.shape[0] - 1 - n_back]",
     "core senses values_of_members plants/sensorimotor_loop"),
    ("an exponential is truncated at the wrong share", "popsim",
     "-jnp.expm1(-(self.high - self.low) / self.scale)", "-jnp.expm1(-self.high / self.scale)",
     "core distributions randomness"),
    ("a window after an event is a step too long", "popsim",
     "(steps >= first) & (steps < end)", "(steps >= first) & (steps <= end)",
     "core windows properties"),
    ("the engine runs reversed loops forwards", "popsim/_compiled",
     'for name in ("length", "reverse", "unroll")', 'for name in ("length", "unroll")',
     "compiled trials_last transformations plain_jax"),
    ("noise shrinks where it should grow with dt", "popsim/networks",
     "(1 - moved / 2) / (1 - leak / 2)", "(1 - leak / 2) / (1 - moved / 2)",
     "core with_dt networks/leaky_rnn"),
    ("a factor of two of the Coriolis torque is lost", "popsim/plants",
     "h * (2 * shoulder_velocity + elbow_velocity)", "h * (shoulder_velocity + elbow_velocity)",
     "plants two_link_arm n_link_arm"),
    ("Hill's a changes on the wrong side of the optimum", "popsim/muscles",
     "jnp.where(length > 1, self.curvature * fraction", "jnp.where(length < 1, self.curvature * fraction",
     "muscles muscle_laws muscled_physics"),
    ("a delayed intervention comes early", "popsim/interventions",
     "source = jnp.arange(window.size) - n_steps", "source = jnp.arange(window.size) + n_steps",
     "interventions interventions random_loads tasks/task_wrappers"),
    ("all sensory channels share their noise", "popsim/models",
     'key=key_stream(key, f"channel {name}")', 'key=key_stream(key, "channel")',
     "plants sensorimotor_loop core/randomness"),
    # training
    ("rules of all members draw alike", "popsim/training",
     "jax.random.fold_in(jax.random.fold_in(state.root_rng, state.step), member_id)",
     "jax.random.fold_in(state.root_rng, state.step)",
     "training model_updates evolution_strategies perturbation_rules core/randomness"),
    ("a member is said to freeze a batch late", "popsim/training",
     "& ~was_inactive, before.step,", "& ~was_inactive, after.step,",
     "training nonfinite"),
    ("gradients of minibatches are summed", "popsim/training",
     "means = jax.tree.map(lambda leaf: leaf / self.n_minibatches, sums)", "means = sums",
     "training gradients train_steps task_trainer"),
    ("momentum of idle parameters decays", "popsim/training",
     "opt_state = _keep_where_idle(optimizer, trained, opt_state, state.opt_state)", "opt_state = opt_state",
     "training phases optimizers"),
    ("the last block of active members is left out", "popsim/training",
     "(jnp.sum(~is_inactive) + block - 1) // block", "jnp.sum(~is_inactive) // block",
     "training nonfinite population_updates core/invariance"),
    ("the plan of updates begins anew at each call", "popsim/training",
     "plan.batches.enabled[first : first + count]", "plan.batches.enabled[:count]",
     "training model_updates rules_in_training resume"),
    ("phases and resets begin a batch late", "popsim/training",
     "*(batch - 1 for batch in (*plan.batches.resets, *self.loops))",
     "*(batch for batch in (*plan.batches.resets, *self.loops))",
     "training phases task_trainer resume"),
    ("early stopping waits one call too long", "popsim/training",
     "count >= own.patience", "count > own.patience",
     "training population_updates selection"),
    ("a replaced member explores from its own rate", "popsim/training",
     "key=key))(inherited[name], keys)", "key=key))(own_values[name], keys)",
     "training selection hyperparams"),
    ("BCM compares with the threshold before", "popsim/training",
     "post * (post - threshold.value)", "post * (post - state.value)",
     "training local_rules rules_in_training"),
    ("the stored history lacks who froze", "popsim/training",
     "        self.arrays.attributes |= batches_of_ends(state.loss_fn_state.frozen_from, "
     "state.loss_fn_state.stops)\n", "",
     "training saved_history nonfinite resume store/history_blocks"),
    ("a resumed log keeps a line too many", "popsim/training",
     'line["batch"] < checkpoint.step', 'line["batch"] <= checkpoint.step',
     "training resume task_trainer"),
    ("other initial weights are resumed unseen", "popsim/training",
     '    differences.refused += _different_sums(stored["sums"], computation.sums)\n', "",
     "training resume resumed_code"),
    ("another constant of a program is resumed unseen", "popsim/training",
     "if is_same and all(_are_same(old, new).all() for old, new in constants):",
     "if is_same:",
     "training resume resumed_code"),
    # losses
    ("a late profile in a window lags by a step", "popsim/losses",
     "(steps - first + 1).astype(float)", "(steps - first).astype(float)",
     "losses time_profile losses"),
    ("the first jerk is lost", "popsim/losses",
     "jnp.zeros_like(acceleration[:1])", "acceleration[:1]",
     "losses losses"),
    ("returns look at the value of the same step", "popsim/losses",
     "else jnp.append(values[1:], 0.0)", "else values",
     "losses reinforcement"),
    ("weighted outputs: a mean for a sum", "popsim/losses",
     "jnp.sum(target.counts * squared", "jnp.mean(target.counts * squared",
     "losses output_terms"),
    ("a vanishing gradient is taken a step early", "popsim/losses",
     "later = jax.tree.map(lambda leaf: leaf[1:], gradients)",
     "later = jax.tree.map(lambda leaf: leaf[:-1], gradients)",
     "losses jacobian_terms"),
    ("steps after the end of a trial count", "popsim/losses",
     "return weights if is_active is None else jnp.where(is_active, weights, 0.0)", "return weights",
     "losses loss_contract reinforcement core/environment"),
    # tasks
    ("noise of stimuli grows with dt", "tasks",
     "stimulus + noise / dt**0.5 * random", "stimulus + noise * dt**0.5 * random",
     "tasks trial_parts choice_tasks"),
    ("errors count at once after the go cue", "tasks",
     "jnp.where(timeline.since(GO_CUE, self.grace), 1.0, 0.0)", "jnp.where(timeline.since(GO_CUE), 1.0, 0.0)",
     "tasks trial_parts"),
    ("motion and colour have one coherence", "tasks",
     'lambda name: jax.random.fold_in(key_stream(key, "coherence"), name)',
     'lambda name: key_stream(key, "coherence")',
     "tasks choice_tasks task_contract"),
    ("regret is that of the arms one choice later", "tasks",
     '"regret": jnp.max(means) - mean', '"regret": jnp.max(later) - mean',
     "tasks bandits"),
    ("stages also reverse at the second step", "tasks",
     'reverses = was_second & jax.random.bernoulli(key_stream(key, "reversal")',
     'reverses = jax.random.bernoulli(key_stream(key, "reversal")',
     "tasks bandits small_optima"),
    ("go is a step early in production of intervals", "tasks",
     "timeline.events[start] + n_production, NEVER", "timeline.events[start] + n_production - 1, NEVER",
     "tasks intervals"),
    ("a walk is slower than its speed", "tasks",
     "jnp.sqrt(1 - kept**2) * normal", "jnp.sqrt(1 - kept) * normal",
     "tasks dynamics"),
    ("the second ring has the strength of the first", "tasks",
     "shown[1] * draw.strengths[1, 1]", "shown[1] * draw.strengths[1, 0]",
     "tasks ring_suites"),
    ("a ramp of adaptation starts a batch late", "tasks",
     "1.0 - (since + 1.0) / self.ramp", "1.0 - since / self.ramp",
     "tasks adaptation_plan"),
    ("stored trials train on the first ones of all", "tasks",
     "return self._stored(self.train[place])", "return self._stored(place)",
     "tasks stored_trials"),
    # store
    ("a file is renamed before its bytes are on disk", "popsim/store",
     "os.fsync(written.fileno())", "pass",
     "store lost_power files"),
    ("the name of a finished file is not on disk", "popsim/store",
     "            partial.replace(path)\n            sync_folder(path.parent)\n",
     "            partial.replace(path)\n",
     "store lost_power files checkpoints"),
    ("a line of the log is not on disk", "popsim/store",
     "        os.fsync(file.fileno())\n", "",
     "store lost_power files"),
    ("a commit is recorded before its parts", "popsim/store",
     "        self._wait(0)\n        self._record_rows(", "        self._record_rows(",
     "store growing_arrays lost_power"),
    ("the hash of an array is not compared", "popsim/store",
     'if array is None or _digest(array) != form["sha256"]:', 'if array is None:',
     "store checkpoints damaged_files model_file"),
    ("the last row of a partly filled part is lost", "popsim/store",
     "return number, self._shard_rows()[:n_rows]", "return number, self._shard_rows()[: n_rows - 1]",
     "store growing_arrays history_blocks"),
    ("the lock of a training is not taken", "popsim/training",
     "with store.lock_folder(folder.path, without_lock=trainer.without_lock):",
     "with contextlib.nullcontext():",
     "store lock training/resume"),
    ("a checkpoint of another run is taken", "popsim/store",
     "            check_run_id(content.get(RUN_ID), self._run_id, path)\n", "",
     "store checkpoints damaged_files"),
    ("rows are removed before the record is cut", "popsim/store",
     "            self._record_rows(lengths, self._record.attributes)\n",
     "            remove_stale(self._record.folder, {name: layout.of_length(lengths[layout.axes[0]])\n"
     "                for name, layout in self._record.layouts.items() if layout.axes[0] in lengths})\n"
     "            self._record_rows(lengths, self._record.attributes)\n",
     "store growing_arrays lost_power"),
    # analysis
    ("movements end a step late", "analysis",
     "backwards.shape[-1] - 1 - step", "backwards.shape[-1] - step",
     "analysis movement_times"),
    ("slopes are in the wrong unit", "analysis",
     "np.stack(fits, axis=1) / units", "np.stack(fits, axis=1) * units",
     "analysis psychometric"),
    ("the frequency of a rotation is that of a slow one", "analysis",
     "frequency=2 * np.arctan(speed / 2) / (2 * np.pi * dt)", "frequency=speed / (2 * np.pi * dt)",
     "analysis rotations"),
    ("the variance of components is divided by units", "analysis",
     "variance = singular**2 / samples.shape[1]", "variance = singular**2 / samples.shape[2]",
     "analysis activity_components rotations analysis_contract"),
    ("a correction of CKA has the wrong sign", "analysis",
     "- n / (n - 2) * (a @ b)", "+ n / (n - 2) * (a @ b)",
     "analysis similarity_measures"),
    ("the spread over members has the wrong divisor", "analysis",
     "spread = members.std(axis=0, ddof=1)", "spread = members.std(axis=0, ddof=0)",
     "analysis member_statistics analysis_contract"),
    ("the dimension of an attractor adds an exponent", "analysis",
     "(sums, np.maximum(j - 1, 0)", "(sums, np.minimum(j, sums.shape[-1] - 1)",
     "analysis lyapunov"),
    ("a moving average takes a row too many", "analysis",
     "courses[max(end - n_rows, 0) : end]", "courses[max(end - n_rows - 1, 0) : end]",
     "analysis learning_analysis"),
    # experiments, sweeps
    ("all cells of a sweep have the same seeds", "popsim/sweeps",
     "first_member=seeds[0],", "first_member=self.seeds[0],",
     "sweeps sweep_plan sweep_runs"),
    ("members of a divided population have each other's scores", "popsim/sweeps",
     "scores[places] = own[n_batches]", "scores[places] = own[n_batches][::-1]",
     "sweeps sweep_selection"),
    ("exported states are a step early", "popsim/experiments",
     "times = (np.arange(timeline.n_steps) + 1)", "times = np.arange(timeline.n_steps)",
     "experiments exported_states"),
]]
# fmt: on


def git(*arguments: str) -> str:
    """Return what git says."""
    done = subprocess.run(["git", *arguments], cwd=REPOSITORY, check=True, capture_output=True, text=True)
    return done.stdout.strip()


@contextlib.contextmanager
def worktree() -> Iterator[Path]:
    """Make a worktree of HEAD in a temporary folder, and remove it."""
    with tempfile.TemporaryDirectory(prefix="planted-") as folder:
        root = Path(folder) / "popsim"
        git("worktree", "add", "--detach", str(root), "HEAD")
        try:
            yield root
        finally:
            git("worktree", "remove", "--force", str(root))


@contextlib.contextmanager
def planted(fault: Fault, root: Path) -> Iterator[None]:
    """Plant a fault, and restore its file."""
    path = fault.place(root)
    assert path is not None
    text = path.read_text()
    path.write_text(text.replace(fault.before, fault.after))
    try:
        yield
    finally:
        path.write_text(text)


def failures(root: Path, tests: list[str], ignored: list[str], *, until_one: bool = True) -> list[str]:
    """Return the tests that fail: the first one, or all."""
    options = ["-q", "-n", "0", "-m", "not full", "--tb=no", *(["-x"] if until_one else [])]
    process = subprocess.Popen(
        [sys.executable, "-m", "pytest", *options, *(f"--deselect={test}" for test in ignored), *tests],
        cwd=root,
        env={**os.environ, "PYTHONPATH": str(root / ".path"), "COLUMNS": "1000"},
        stdout=subprocess.PIPE,
        stderr=subprocess.STDOUT,
        text=True,
        start_new_session=True,
    )
    try:
        output, _ = process.communicate(timeout=MOST_SECONDS)
    except subprocess.TimeoutExpired:
        return ["the tests do not end"]
    finally:
        with contextlib.suppress(ProcessLookupError):
            os.killpg(process.pid, signal.SIGKILL)
    named = re.findall(r"^(?:FAILED|ERROR) (tests/.*?)(?: - .*)?$", output, re.MULTILINE)
    if process.returncode not in (0, 5) and not named:  # 5: all are left out
        return [f"pytest ends with {process.returncode}: {output.strip()[-200:]}"]
    return list(dict.fromkeys(named))


class Measurement:
    """The results so far, in a JSON file, of one state of the code and its tests."""

    def __init__(self, path: Path, root: Path):
        self.path, self.root = path, root
        code = [git("rev-parse", f"HEAD:{name}") for name in ("popsim", "tasks", "analysis", "tests")]
        stored = json.loads(path.read_text()) if path.exists() else {}
        is_same = stored.get("code") == code
        self.content = stored if is_same else {"code": code, "results": {}, "ignored": []}
        self.results, self.ignored = self.content["results"], self.content["ignored"]

    def save(self) -> None:
        """Write the results so far."""
        self.path.write_text(json.dumps(self.content, indent=1) + "\n")

    def run(self, fault: Fault, stage: str, tests: list[str]) -> None:
        """Run tests with a fault, in the stage "nearest" or "wider"."""
        began, seconds = time.monotonic(), self.results.get(fault.name, {}).get("seconds", 0)
        if fault.place(self.root) is None:
            stage, found = "lost", ["lost: plant it anew"]
        else:
            with planted(fault, self.root):
                found = failures(self.root, tests, self.ignored) if tests else []
        seconds += round(time.monotonic() - began)
        self.results[fault.name] = {"stage": stage, "test": "".join(found[:1]), "seconds": seconds}
        self.save()
        print(f"{fault.name}: {''.join(found[:1]) or 'not found'} ({stage}, {seconds} s)", flush=True)

    def drop_unsound(self, tests: set[str]) -> set[str]:
        """Return those of some tests that pass without a fault; forget what the others found."""
        known = sorted(test for test in tests if test.startswith("tests/"))
        unsound = set(failures(self.root, known, [], until_one=False)) if known else set()
        self.ignored += sorted(unsound - {*self.ignored})
        for name in [name for name, result in self.results.items() if result["test"] in unsound]:
            del self.results[name]
        self.save()
        return {*known} - unsound

    def measure(self, faults: list[Fault]) -> None:
        """Make what is not made yet of both stages."""
        while missing := [fault for fault in faults if fault.name not in self.results]:
            for fault in missing:
                self.run(fault, "nearest", fault.nearest(self.root))
            self.drop_unsound({self.results[fault.name]["test"] for fault in missing})
        results = {fault: self.results[fault.name] for fault in faults}
        left = [
            fault for fault in faults if results[fault]["stage"] == "nearest" and not results[fault]["test"]
        ]
        candidates = self.content.setdefault("candidates", {})
        folders = {
            folder: [fault for fault in left if folder in fault.folders(self.root)]
            for folder in sorted(set().union(*(fault.folders(self.root) for fault in left)))
        }
        for folder, of_folder in folders.items():
            if folder not in candidates:
                with contextlib.ExitStack() as stack:
                    for fault in of_folder:
                        stack.enter_context(planted(fault, self.root))
                    found = failures(self.root, [folder], self.ignored, until_one=False)
                candidates[folder] = sorted(self.drop_unsound({*found}))
                self.save()
                print(f"{folder} with {len(of_folder)} faults: {candidates[folder]}", flush=True)
        for fault in left:
            own = [
                test
                for folder, tests in candidates.items()
                if fault in folders.get(folder, [])
                for test in tests
            ]
            self.run(fault, "wider", own)


def page(results: dict[str, dict], commit: str) -> str:
    """Return the results as a page."""
    rows = [(fault, results[fault.name]) for fault in FAULTS if fault.name in results]
    here = [result for _, result in rows if result["stage"] != "lost"]
    n_found = sum(bool(result["test"]) for result in here)
    n_nearest = sum(bool(result["test"]) and result["stage"] == "nearest" for result in here)
    text = (
        "# Planted faults\n\n`python benchmarks/planted_faults.py` makes this page: of small faults, planted "
        "one at a time, how many the tests find that stand nearest, or else a wider choice of them.\n\n"
        f"At {commit} the tests find {n_found} of {len(here)}, {n_nearest} of them by the nearest.\n\n"
        "| fault | package | found by | stage | seconds |\n| --- | --- | --- | --- | --- |\n"
    )
    for fault, result in rows:
        test = result["test"].removeprefix("tests/").replace("|", "\\|") or "not found"
        text += f"| {fault.name} | {fault.package} | {test} | {result['stage']} | {result['seconds']} |\n"
    return text


def main() -> None:
    """Measure, and write the page."""
    parser = argparse.ArgumentParser(
        description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter
    )
    parser.add_argument("--names", nargs="*", default=[], help="measure these alone, and anew")
    parser.add_argument("--write", type=Path, default=REPOSITORY / "benchmarks" / "planted_faults.md")
    arguments = parser.parse_args()
    if unknown := {*arguments.names} - {fault.name for fault in FAULTS}:
        parser.error(f"--names must be of the table, got {sorted(unknown)}")
    with worktree() as root:
        measurement = Measurement(arguments.write.with_suffix(".json"), root)
        for name in arguments.names:
            measurement.results.pop(name, None)
            measurement.content.pop("candidates", None)
        measurement.measure(
            [fault for fault in FAULTS if not arguments.names or fault.name in arguments.names]
        )
    arguments.write.write_text(page(measurement.results, git("rev-parse", "--short=8", "HEAD")))


if __name__ == "__main__":
    main()
