"""Sets of kernel weights, the solvers over them, and what they return."""
