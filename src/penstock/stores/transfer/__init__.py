"""`penstock migrate-store`: copy everything in one SQL store into another, of any kind.

Ids carry the origin of a store, and API keys are hashed with its secret. Both are copied too, so ids, receipts and keys
stay valid. The source is not changed, except for a mark that says it was copied: only one of the two is used from then
on.
"""
