"""MQ-Core's folders as a store, and the programs that move and destroy what is in them.

store     opening, units, failures            cursor    which message is next
unit      the verbs                           delays    what comes back, and when
round     writing, syncing, taking back       mover     delivery and redelivery
folders   the open folders and their queues   reaper    destruction
files     one message                         daemons   mover and reaper as programs
"""

from __future__ import annotations

from penstock.stores.mqcore.store import MqCoreOptions, MqCoreStore, open_mqcore

__all__ = ["MqCoreOptions", "MqCoreStore", "open_mqcore"]
