"""Durability windows: settings relaxed while loading, put back afterwards, data on disk before it is called durable."""
