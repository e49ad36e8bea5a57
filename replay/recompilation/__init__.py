"""Why a recorded frame is compiled again and again: its calls, repeated.

grid         the sequence under a grid of settings

Nothing here prints or parses arguments.
"""
