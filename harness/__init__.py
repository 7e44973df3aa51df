"""The harness: compares execution backends for Transformers models.

Holds nothing but this text: the worker, in an environment without the host's dependencies, imports it too.
"""
