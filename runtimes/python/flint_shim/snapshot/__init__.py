"""`start: fork`: a process that loads the code once, is warmed up and frozen, and then forks a copy of itself for each call.

Only imported where FLINT_ZYGOTE=1 asks for it.
"""
