"""A conversation with a model: its turns, what each of them costs, and the file that it is kept in."""
