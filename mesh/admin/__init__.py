"""The admin address: HTTP for operators and for holders of leases. Status, metrics, drain, reload, leases, a page."""
