"""A backend that does nothing but what its options say, for the tests of the harness. Empty: host and worker import it."""
