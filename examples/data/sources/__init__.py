"""The kinds of data that there are, one module each, and what those of records share."""
