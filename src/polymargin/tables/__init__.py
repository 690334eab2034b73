"""Tables whose columns are not all numbers: a plan of the columns, and the steps that encode it."""
