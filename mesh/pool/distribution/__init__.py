"""Distribution: which parked Fetch gets which records, in which order, and how many of them.

`distribution` is the way in. `fetch_queue` orders the Fetches that wait, `window_limits` and `shares` bound what one of
them gets, `reservations` keeps records for members between two Fetches, `quarantine` isolates suspected records.
"""
