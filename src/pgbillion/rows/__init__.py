"""Rows by the hundred million: load the source's table, aggregate it with and without vectors, see how it scales."""
