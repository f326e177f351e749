"""Lists of what can be asked about: links, or groups, by their hits or page by page in the order of their names."""
