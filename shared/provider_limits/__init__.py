"""What all processes that call one provider share: its rate limit, its number of calls in progress, and whether it is
available.
"""
