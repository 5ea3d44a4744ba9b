"""Properties that must hold for every shape, mask, dtype and combination of options."""

from hypothesis import settings

# The same examples in every run: a failure can be repeated, and no run is lucky.
PROPERTY = settings(max_examples=25, deadline=None, derandomize=True, database=None)
