"""Watching the machine from the host while workers are measured: a process of its own, never part of a worker.

`python -P -m harness.monitor LOG INTERVAL_S DEVICE` reads sensors and writes one JSON line each time; `watcher` starts and stops it
for a block; `spans` cuts its log into rounds, and `numbers` makes the energy and the utilisation of a result of them. Nothing is
imported here: the process needs sensors only, and not what the host needs to read its log.
"""
