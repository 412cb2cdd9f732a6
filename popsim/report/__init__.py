"""Reports: a run, or several beside each other, as one page of HTML that opens offline in any browser."""

from popsim.report.compare_runs import compare_runs as compare_runs
from popsim.report.run_report import report_run as report_run
from popsim.report.section import Section as Section
from popsim.report.sections import SECTIONS as SECTIONS
from popsim.report.written_report import WrittenReport as WrittenReport
