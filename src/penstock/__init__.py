"""Penstock: a durable message queue that speaks five documented APIs, three over HTTP and two as Python libraries."""

__version__ = "0.1.0"
