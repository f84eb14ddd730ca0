"""The APIs that a pool serves, one file each: request, step of the pool, response."""
