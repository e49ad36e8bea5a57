"""Why a frame is compiled again and again. Nothing here prints or parses arguments.

sources    what a guard is about, taken apart
proposals  which remedies are worth a try for a cause
remedies   what of it helps, by replaying the sequence
"""
