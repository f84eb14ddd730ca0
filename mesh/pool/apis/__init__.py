"""The APIs that a pool serves, one file for each key. Each turns a request into a step of the pool, and the result into
a response. `table` lists them."""
