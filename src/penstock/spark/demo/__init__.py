"""`demo`: a day of a small shop, from its orders to the report on it, in one command and one folder.

orders      the orders, invented from a seed
server      a private server for the time of the demo
workers     the programs that claim messages, and sometimes fail
day         all of it in order, with the pipeline's own jobs
"""

from __future__ import annotations

from penstock.spark.demo.day import DemoSummary, demo

__all__ = ["DemoSummary", "demo"]
