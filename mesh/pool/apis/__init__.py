"""The APIs that a pool serves, one file for each key: a request, a step of the pool, a response. `table` lists them."""
