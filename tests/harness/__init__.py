"""Helpers of the tests: catalogue comparison, the oracle (how core makes the same table), invariants, servers."""
