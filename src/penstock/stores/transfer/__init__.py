"""`penstock migrate-store`: everything of one SQL store copied into another, of whatever kind the two are.

Ids carry the origin of a store and API keys are hashed with its secret. Both are copied as well, so that ids, receipts
and keys stay good. In the store that is copied nothing is changed, but for a mark that says so: only one of the two is
to be used from then on.
"""
