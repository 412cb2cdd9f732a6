"""What `popsim export --states` writes."""

from pathlib import Path

from popsim.experiments import Run
from popsim.experiments.exported_states import states_dataset
from popsim.store import check_mat_path, check_netcdf_path, write_mat, write_netcdf

FORMATS = {".nc": (check_netcdf_path, write_netcdf), ".mat": (check_mat_path, write_mat)}


def check_states_path(path: Path, *, overwrite: bool) -> None:
    """Check that states can be written to a path, whose ending says the format."""
    if path.suffix not in FORMATS:
        raise ValueError(f"`states` must end in {' or '.join(FORMATS)}, got {path}.")
    check, _ = FORMATS[path.suffix]
    check(path, overwrite=overwrite, name="states")


def export_states(run: Run, path: Path, *, overwrite: bool) -> None:
    """Write the states of a run's networks on the validation trials."""
    _, write = FORMATS[path.suffix]
    write(states_dataset(run), path, overwrite=overwrite)
