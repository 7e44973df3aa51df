"""Executors start workers: the only rooms that know environments and containers."""
