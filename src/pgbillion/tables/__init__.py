"""Tables by the million: plan, estimate, create, watch, resume, verify."""
