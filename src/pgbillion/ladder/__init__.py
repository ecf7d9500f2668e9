"""Ever more tables in a server of their own, up to a hundred million: measured at each rung, verified at the last."""
