"""Run the scripts of all published figures, and print one table of what they found.

Each runs in a process of its own, one after the other; what it prints goes to `run_all/SCRIPT-SEED.txt`.
Exits with 1 when a script does.
"""

import argparse
import dataclasses
import subprocess
import sys
import time
from collections.abc import Sequence
from pathlib import Path

FOLDER = Path(__file__).parent
SCRIPTS = (
    "lqr_reaching",
    "force_field",
    "weight_change",
    "speed_profiles",
    "deep_linear_learning",
    "perturbation_learning",
    "eligibility",
    "force_learning",
    "oja",
    "hopfield",
    "inertial_anisotropy",
    "flexible_feedback",
    "limb_dynamics",
    "expected_perturbation",
    "muscle_directions",
    "oblique_noise",
    "feedback_rotations",
    "savings",
    "context_integration",
    "flip_flop",
    "flip_flop_fixed_points",
    "chaos",
    "chaotic_dynamics",
    "held_out_neurons",
    "low_rank_dynamics",
    "balanced_spectrum",
    "fast_weights",
    "short_term_plasticity",
    "path_integration",
    "interval_timing",
    "yang2019",
    "bandit_regret",
    "optimal_stopping",
    "reversal",
    "two_step",
    "tiny_networks",
    "policy_gradient_lqr",
)


@dataclasses.dataclass(frozen=True)
class ScriptResult:
    """What came of one script.

    - `name`, `seed`: which one.
    - `passed`, `failed`: how many gates and negative controls did as they must, and how many did not.
    - `seconds`: how long it ran.
    - `code`: its exit code.
    """

    name: str
    seed: int
    passed: int
    failed: int
    seconds: float
    code: int


def run_script(script: Path, seed: int, out: Path, *, quick: bool) -> ScriptResult:
    """Run one script, and keep its figure and what it prints in the folder `out`.

    **Arguments:**

    - `script`: the file.
    - `seed`: of weights, trials and noise.
    - `out`: a folder, made if it is not there.
    - `quick`: whether in its short form, if it has one.
    """
    out.mkdir(parents=True, exist_ok=True)
    name = f"{script.stem}-{seed}"
    options = ["--seed", str(seed), "--out", str(out / name)]
    if quick and has_short_form(script):
        options.append("--quick")
    began = time.perf_counter()
    run = subprocess.run(
        [sys.executable, str(script), *options], stdout=subprocess.PIPE, stderr=subprocess.STDOUT
    )
    seconds = time.perf_counter() - began
    printed = run.stdout.decode(errors="replace")
    (out / f"{name}.txt").write_text(printed)
    passed, failed = count_gates(printed)
    return ScriptResult(script.stem, seed, passed, failed, seconds, run.returncode)


def has_short_form(script: Path) -> bool:
    """Whether a script says of itself that it can be run with `--quick`."""
    process = subprocess.run([sys.executable, str(script), "--help"], capture_output=True, text=True)
    return "--quick" in process.stdout


def count_gates(printed: str) -> tuple[int, int]:
    """How many rows of a printed table did as they must, and how many did not: see `gates.Row.verdict`."""
    lines = [line.rstrip() for line in printed.splitlines()]
    passed = sum(line.endswith((" pass", " fail, as it must")) for line in lines)
    return passed, sum(line.endswith((" FAIL", " pass, but must FAIL")) for line in lines)


def table_line(result: ScriptResult) -> str:
    """A line of the table."""
    return (
        f"{result.name:<24}{result.seed:>5}{result.passed:>8}{result.failed:>8}"
        f"{result.seconds:>10.0f}{result.code:>6}"
    )


def run_all(scripts: Sequence[Path], seeds: Sequence[int], out: Path, *, quick: bool) -> int:
    """Run all scripts with all seeds, and print the table as it grows; 0 if all exit with 0, else 1."""
    print(f"{'script':<24}{'seed':>5}{'passed':>8}{'failed':>8}{'seconds':>10}{'exit':>6}", flush=True)
    codes = []
    for seed in seeds:
        for script in scripts:
            result = run_script(script, seed, out, quick=quick)
            print(table_line(result), flush=True)
            codes.append(result.code)
    return 1 if any(codes) else 0


def main() -> int:
    """Run all scripts."""
    parser = argparse.ArgumentParser(description=(__doc__ or "").splitlines()[0])
    parser.add_argument("--quick", action="store_true", help="short forms, of the scripts that have one")
    parser.add_argument("--seeds", type=int, nargs="+", default=[0], help="run all with each of these")
    parser.add_argument("--out", type=Path, default=Path("run_all"), help="folder of figures and reports")
    options = parser.parse_args()
    scripts = [FOLDER / f"{name}.py" for name in SCRIPTS]
    return run_all(scripts, options.seeds, options.out, quick=options.quick)


if __name__ == "__main__":
    sys.exit(main())
