"""How the servers of a backend are reached: their addresses, and the sockets to them.

redis_address          one server, the primary that sentinels name, or the nodes of a Redis Cluster
redis_socket           a connection to Redis with one question under way
memcached_connection   a connection to memcached, and its commands
"""
