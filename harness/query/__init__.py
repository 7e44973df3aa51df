"""Questions to a history: which results, in which order. DuckDB reads the history itself, so a million results take seconds."""

from harness.query.asking import Answer, Question, ask, names_in
from harness.query.fields import FIELDS

__all__ = ["FIELDS", "Answer", "Question", "ask", "names_in"]
