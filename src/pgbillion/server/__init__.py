"""Servers on this machine: installations, clusters, the embedded one; and the two extensions."""
