"""A session and its directory: rounds committed one after the other, steered, switched, forked, resumed."""
