"""Property tests over shapes, masks, dtypes and combinations of options."""

from hypothesis import settings

# Examples are the same in every run, so failures can be repeated.
PROPERTY = settings(max_examples=25, deadline=None, derandomize=True, database=None)
