"""Modal screens. Escape leaves each of them, each fits 80×24, and each returns the choice, or None."""
