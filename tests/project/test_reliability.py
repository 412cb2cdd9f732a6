"""The promises of reliability in full size: the scripts of `benchmarks/reliability`, and what they count."""

import json
import os
import subprocess
import sys

import pytest
from repository import ROOT

SCRIPTS = {path.stem: path for path in (ROOT / "benchmarks" / "reliability").glob("*.py")}


@pytest.mark.full  # in short: test_faults, test_long_run, test_growing_arrays and test_sweep_damage
@pytest.mark.parametrize("name", sorted(SCRIPTS.keys() - {"fault_table"}))
def test_no_promise_is_broken(name, record_property):
    """With programs as users have them."""
    environment = {key: value for key, value in os.environ.items() if key != "XLA_FLAGS"}
    ran = subprocess.run(
        [sys.executable, SCRIPTS[name]], cwd=ROOT, env=environment, capture_output=True, text=True
    )
    assert ran.returncode == 0, ran.stdout + ran.stderr
    for fault, counts in json.loads(ran.stdout.splitlines()[-1]).items():
        record_property(f"{name}, {fault}", ", ".join(f"{what} {n}" for what, n in counts.items()))
