import os

import long_run
import numpy as np
import pytest
from short_form import mostly_in_full

from popsim.training import open_history


@pytest.mark.skipif(not os.path.exists("/proc/self/statm"), reason="memory is read from /proc")
@pytest.mark.slow
@pytest.mark.parametrize("n_batches", mostly_in_full([200, 5000], [200]))
def test_a_long_training_takes_no_more_memory_files_or_programs(tmp_path, n_batches):
    """Memory after five thousand batches; benchmarks/reliability/long_run.py makes more."""
    usages = long_run.run(tmp_path, n_batches, checkpoint_seconds=0.5)
    settled, last = usages[len(usages) // 2], usages[-1]
    assert n_batches < 5000 or last.memory < 1.01 * settled.memory
    assert max(usage.n_files for usage in usages) < min(usage.n_files for usage in usages) + 16
    assert {usage.n_compiled for usage in usages} == {settled.n_compiled}
    history = open_history(tmp_path / "history.zarr")
    np.testing.assert_array_equal(history.batch, np.arange(n_batches))
    assert len(list((tmp_path / "history.zarr").rglob("*"))) < 100
