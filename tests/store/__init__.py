"""A package, so that the tests of the store and of the reports share `factories`."""
