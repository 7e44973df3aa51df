"""The backend newcomer. Empty: host and worker both import it, one for `plugin`, the other for `runner`."""
