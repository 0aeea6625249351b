"""Penstock: one durable message queue that speaks five documented APIs over one core."""

__version__ = "0.1.0"
