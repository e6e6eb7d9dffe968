"""What past runs measured: a record a run, and what is drawn from them."""
