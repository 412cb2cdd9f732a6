"""Runs on disk: checkpoints, histories, models and JSON. Knows nothing of training or tasks."""

from popsim.store import array_group, exported_files, growing_arrays, model_file, run_folder
from popsim.store.array_group import *
from popsim.store.checkpoints import *
from popsim.store.exported_files import *
from popsim.store.files import CorruptDataError, MismatchError, SaveError
from popsim.store.growing_arrays import *
from popsim.store.identity import *
from popsim.store.json_files import *
from popsim.store.model_file import *
from popsim.store.run_folder import *

__all__ = ["CorruptDataError", "MismatchError", "SaveError"]
__all__ += array_group.__all__
__all__ += exported_files.__all__
__all__ += growing_arrays.__all__
__all__ += model_file.__all__
__all__ += run_folder.__all__
