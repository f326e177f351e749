"""What tests and benches share: real servers, nodes and clients as objects. It imports neither of the two."""
