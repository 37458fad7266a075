"""One round: what it starts from, the wire, and the parts that compute it."""
