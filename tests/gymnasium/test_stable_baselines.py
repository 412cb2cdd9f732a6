"""An agent of Stable-Baselines3 that learns a task, by the code of a recipe in docs/how_to/recipes.

`pytest -m full tests/gymnasium/test_stable_baselines.py` makes an environment: it needs a package index.
"""

import subprocess
import sys
import sysconfig
from pathlib import Path

import pytest
from repository import HELPERS, ROOT

PINNED = ("torch==2.13.0", "stable-baselines3==2.9.2", "sb3-contrib==2.9.2")
RECIPE = ROOT / "docs" / "how_to" / "recipes" / "stable_baselines.md"
TRAIN = """
import gymnasium
import torch
from small_environments import AnsweringTask, Steering
from popsim.gymnasium import TaskVectorEnv
from sb3_contrib import RecurrentPPO
from stable_baselines3.common.vec_env import VecMonitor

torch.set_num_threads(1)
envs = VecMonitor(StableBaselinesEnv(TaskVectorEnv(AnsweringTask(Steering), num_envs=16, limits=(-0.5, 0.5))))


def mean_return(agent):
    observations, state, returns = envs.reset(), None, []
    begins = np.ones(envs.num_envs, bool)
    while len(returns) < 320:
        actions, state = agent.predict(observations, state=state, episode_start=begins, deterministic=True)
        observations, _, begins, infos = envs.step(actions)
        returns += [info["episode"]["r"] for info in infos if "episode" in info]
    return float(np.mean(returns))


options = {"n_steps": 96, "batch_size": 256, "learning_rate": 1e-3, "seed": 0, "device": "cpu"}
agent = RecurrentPPO("MlpLstmPolicy", envs, **options)
before = mean_return(agent)
agent.learn(50_000)
print(before, mean_return(agent))
"""
pytestmark = [pytest.mark.slow, pytest.mark.full]


def recipe() -> tuple[str, str]:
    """The code of the recipe: the adapter, and the training of an agent, here a short one."""
    adapter, training = (part.partition("```")[0] for part in RECIPE.read_text().split("```python\n")[1:])
    assert training.count("100_000") == 1
    return adapter, training.replace("100_000", "2_048")


def make_environment(folder: Path) -> Path:
    """An environment with the pinned packages that sees, after them, those of this interpreter."""
    subprocess.run([sys.executable, "-m", "venv", folder], check=True)
    python = folder / "bin" / "python"
    pip = [python, "-m", "pip", "install", "--quiet", "--no-compile", "--only-binary=:all:"]
    subprocess.run([*pip, *PINNED], check=True)
    asked = [python, "-c", "import sysconfig; print(sysconfig.get_path('purelib'))"]
    packages = subprocess.run(asked, check=True, capture_output=True, text=True).stdout.strip()
    Path(packages, "those_of_the_tests.pth").write_text(sysconfig.get_path("purelib") + "\n")
    return python


def test_recurrent_ppo_learns_to_steer(tmp_path):
    """Standing still costs about 2.7 a step; what is trained comes close to the goal within a few steps."""
    script = tmp_path / "train.py"
    adapter, training = recipe()
    script.write_text(adapter + training + TRAIN)
    python = make_environment(tmp_path / "environment")
    settings = {"PYTHONPATH": f"{ROOT}:{HELPERS}", "JAX_PLATFORMS": "cpu", "OMP_NUM_THREADS": "1"}
    ran = subprocess.run(
        [python, "-P", script], env=settings | {"HOME": str(tmp_path)}, capture_output=True, text=True
    )
    assert ran.returncode == 0, ran.stderr
    before, after = map(float, ran.stdout.split()[-2:])
    assert after > 0.5 * before and before < 0, (before, after)
