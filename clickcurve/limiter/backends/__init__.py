"""Where a limiter's counts are kept; each backend keeps the promises of `clickcurve.limiter.backend`.

memory           in process; meter, meters and bucket_series are its parts
redis            on Redis; redis_scripts encodes questions for its scripts (scripts/*.lua), and decodes their answers
redis_cluster    on a Redis Cluster: a redis backend for each node
memcached        on memcached; memcached_items and packed_meters are its parts
forms            a backend of one form, for threads or for event loops, made of one of the other
connections      how Redis and memcached are reached
guard            what is decided when a backend does not answer; breaker says when it is asked again
"""
