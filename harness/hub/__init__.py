"""Results shared through a dataset of the Hub: rows in the layout of transformers' benchmark_v2, with all of ours beside them."""
