"""Made-up traffic, to look around in.

traffic   a year of hits of some links, as lines of history: pure, the same for the same moment
visitors  hits of now, one after the other, that a thread sends while the server runs
"""
