"""Reports of a run, a sweep, or several runs side by side, as one HTML page that opens in any browser."""

from popsim.report.comparison import compare_runs
from popsim.report.report_folder import WrittenReport
from popsim.report.run_report import SECTIONS, Section, report_run
from popsim.report.sweep_report import report_sweep

__all__ = ["SECTIONS", "Section", "WrittenReport", "compare_runs", "report_run", "report_sweep"]
