"""What renews data in the tree that comes from public lists."""
