"""HTTP for operators and for holders of leases: status page, metrics, drain, leases."""
