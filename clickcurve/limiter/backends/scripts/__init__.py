"""What runs inside Redis: `common.lua` precedes each of the others; `redis_scripts` encodes for them."""
