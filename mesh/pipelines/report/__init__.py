"""The report: a page with figures and plots of how long records took, and which members got them."""
