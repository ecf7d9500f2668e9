"""Reports: what a run's folder holds, as figures, as charts, and as one HTML page that needs nothing else."""
