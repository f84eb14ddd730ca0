"""A page with figures and plots of how long records took, and where they went."""
