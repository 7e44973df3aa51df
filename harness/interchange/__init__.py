"""Forms of other tools: their result files read, and our results written in their form."""
