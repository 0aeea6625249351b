"""`report`: what the archived ledger tells, as one HTML page with plots, and as Parquet.

    axis        which stretches of time the page shows
    figures     the DataFrame transforms: from ledger rows to a few numbers per queue and stretch of time
    tables      those numbers as Python values, every stretch present
    live        what a server says of the queues beside that
    changes     how a day differs from the day before, in words
    scales, plots, strips, page    from values to a page, by the templates in templates/
    files       the same values as Parquet files
    publish     a file to its place, in one step
    job         all of it in order

It reads the lake, and of a server at most what it counts. It changes neither.
"""

from __future__ import annotations

from penstock.spark.report.job import ReportSummary, Scope, report

__all__ = ["ReportSummary", "Scope", "report"]
