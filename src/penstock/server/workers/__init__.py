"""A server of several processes: edges that speak HTTP, a committer that writes, and a supervisor of all."""
