"""Sets of kernel weights and the solvers over them."""
