"""Pure rendering: results in, text out. Nothing here reads a disk or prints."""
