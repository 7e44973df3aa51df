"""Posts the progress of a run to a file of JSON lines."""
