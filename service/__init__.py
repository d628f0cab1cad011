"""The service of a fleet of clusters: takes in what is measured, and gives out winners, pages and a queue.

It uses the tuner and the database; nothing uses it.
"""
