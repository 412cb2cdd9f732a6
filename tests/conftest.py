"""What all tests share: shapes checked at run time, strict dtype promotion, keys, counted compilations."""

import contextlib
import gc
import os
import pathlib
import shutil
import signal
import tempfile

import equinox
import jax
import jaxtyping
import matplotlib
import matplotlib.pyplot as plt
import pytest
from signature_checks import check_signatures

check_signatures("popsim")  # to the end: popsim imports its modules on first use

from bodies import ARMS, PLANTS  # noqa: E402
from short_form import mostly_in_full  # noqa: E402
from small_reaches import small_reach_setup  # noqa: E402

pytest_plugins = ["order_of_tests"]

matplotlib.use("agg")
jax.config.update("jax_numpy_dtype_promotion", "strict")

# Programs compile in a third of the time with the older emitters, in one part and without optimization.
# The XLA of JAX 0.12 has none, and ends at a flag that it does not know. Who sets a level compiles as usual.
_XLA_FLAGS = "--xla_backend_optimization_level=0 --xla_cpu_parallel_codegen_split_count=1"
if jax.__version_info__ < (0, 11):
    _XLA_FLAGS += " --xla_cpu_use_fusion_emitters=false"
if "xla_backend_optimization_level" not in os.environ.get("XLA_FLAGS", ""):
    os.environ["XLA_FLAGS"] = f"{_XLA_FLAGS} {os.environ.get('XLA_FLAGS', '')}".strip()

os.environ.pop("PYTHONDONTWRITEBYTECODE", None)  # or each process that tests start compiles popsim anew

# The processes of a run of the tests share the programs that take long to compile: they inherit the folder,
# so that commands write nothing into the user's cache folder.
_PROGRAMS = None if "JAX_COMPILATION_CACHE_DIR" in os.environ else tempfile.mkdtemp(prefix="programs-")
if _PROGRAMS:
    os.environ["JAX_COMPILATION_CACHE_DIR"] = _PROGRAMS
    os.environ.setdefault("JAX_PERSISTENT_CACHE_MIN_COMPILE_TIME_SECS", "0.1")
    jax.config.update("jax_compilation_cache_dir", _PROGRAMS)
    jax.config.update(
        "jax_persistent_cache_min_compile_time_secs",
        float(os.environ["JAX_PERSISTENT_CACHE_MIN_COMPILE_TIME_SECS"]),
    )

_MAPPINGS = pathlib.Path("/proc/self/maps")
_COMPILE_EVENT = "/jax/core/compile/backend_compile_duration"


def pytest_addoption(parser):
    parser.addoption(
        "--require-browser", action="store_true", help="fail where there is no Chromium to test pages with"
    )


def pytest_collection_finish():
    """Have the collector of garbage pass over what was imported, and seldom over what has lived for long."""
    gc.collect()
    gc.freeze()
    gc.set_threshold(700, 10, 100)


def pytest_unconfigure():
    if _PROGRAMS:
        shutil.rmtree(_PROGRAMS, ignore_errors=True)


@pytest.fixture(autouse=True, scope="module")
def forget_compiled_programs():
    """Between modules, before the mappings of compiled programs are more than a process may have."""
    yield
    if _MAPPINGS.exists() and _MAPPINGS.read_bytes().count(b"\n") > 25_000:  # of 65,530, where XLA crashes
        equinox.clear_caches()
        jax.clear_caches()
        gc.collect()


@pytest.fixture(autouse=True, scope="session")
def answer_signals():
    """As in a terminal, also where the tests run under `nohup` or in the background, which ignore some."""
    for name, usual in (("SIGINT", signal.default_int_handler), ("SIGHUP", signal.SIG_DFL)):
        number = getattr(signal, name, None)
        if number is not None and signal.getsignal(number) is signal.SIG_IGN:
            signal.signal(number, usual)


@pytest.fixture
def ax():
    """Axes of their own."""
    figure, axes = plt.subplots()
    yield axes
    plt.close(figure)


@pytest.fixture
def getkey():
    """Fresh keys: `getkey()` returns another one each time, the same ones in every run."""
    keys = iter(jax.random.split(jax.random.key(5678), 64))
    return lambda: next(keys)


@pytest.fixture
def float64():
    """Double precision for the time of the test."""
    with jax.enable_x64(True):
        yield


@pytest.fixture(params=mostly_in_full(ARMS, ("li_todorov",)))
def arm(request, float64):
    """An arm of each parameter set, in double precision."""
    return ARMS[request.param]()


@pytest.fixture(params=mostly_in_full(PLANTS, ("damped mass", "li_todorov")))
def plant(request, float64):
    """Every plant, in double precision."""
    return PLANTS[request.param]()


@pytest.fixture
def as_users_run():
    """Without the check of types and shapes, so that popsim's own errors are seen."""
    jaxtyping.config.update("jaxtyping_disable", True)
    yield
    jaxtyping.config.update("jaxtyping_disable", False)


@pytest.fixture
def count_compilations():
    """`with count_compilations() as compiled:` appends to `compiled` for every program XLA compiles."""

    @contextlib.contextmanager
    def counting():
        compiled = []

        def listen(event: str, duration: float, **_) -> None:
            if event == _COMPILE_EVENT:
                compiled.append(duration)

        jax.monitoring.register_event_duration_secs_listener(listen)
        try:
            yield compiled
        finally:
            jax.monitoring.unregister_event_duration_listener(listen)

    return counting


@pytest.fixture
def reach_setup():
    """A small model that reaches: `(task, build)`, `build(key)` makes a model."""
    return small_reach_setup()
