"""What every demo needs besides its agent: a daemon, child processes, progress and a report."""
