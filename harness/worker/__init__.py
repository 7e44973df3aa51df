"""The process inside a container or environment. Nothing is imported here: a runner imports `harness.worker.api` alone."""
