"""Why a frame is compiled again and again: its recorded calls, repeated. No printing, no argument parsing."""
