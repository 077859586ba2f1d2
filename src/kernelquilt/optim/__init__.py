"""The numerical core. It knows arrays only: no stacks, no estimators, no labels but -1 and +1."""
