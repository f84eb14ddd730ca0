"""The demo: shows the main job on embedded clusters, in processes of their own, with a live screen and a judge."""
