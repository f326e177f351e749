"""Made-up traffic, to look around in.

traffic   a year of hits of some links, by kept buckets: pure, the same for the same moment
audience  what such hits say: referrers, countries, devices, sources
year      both as rows of links, groups and all links together, put into a store
bots      which bots come, and of which kind
shop      what comes of some hits: leads and sales, with amounts
visitors  hits of now, one after the other, that a thread sends while the server runs, at the rate of the year
"""
