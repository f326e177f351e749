"""Makes what the page shows and what is shown of it: the map, and the pictures for readers."""
