"""The plots of ``diverse-mha analyze``, drawn with matplotlib."""
