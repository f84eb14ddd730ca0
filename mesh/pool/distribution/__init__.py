"""Distribution: decides which parked Fetch gets which records, in which order, and how many.

`distribution` is the entry point. `fetch_queue` orders waiting Fetches. `window_limits` and `shares` bound what a
member gets. `reservations` reserves records for members between two Fetches. `quarantine` isolates suspected records.
"""
